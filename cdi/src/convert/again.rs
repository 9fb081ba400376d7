//! A run whose bytes were not those that were promised, once more from elsewhere.
//!
//! That a large blob is wrong is known at its end, when its bytes have been written. They have no final name then, so
//! they are dropped, and the run begins anew, once; the source remembers who gave them, and asks others first.

use super::{Prepared, Request, planned};
use crate::run::watch::{Phase, Watch};
use crate::source::Source;
use crate::target::Destination;
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;

/// What it takes to begin anew.
pub(super) struct Again {
    request: Request,
    source: Arc<dyn Source>,
}

impl Again {
    pub(super) fn new(request: &Request, source: &Arc<dyn Source>) -> Again {
        Again { request: request.clone(), source: source.clone() }
    }

    /// The run that may succeed where one ended with `e`; or `e` itself.
    pub(super) fn after(self, e: Error, watch: &Watch) -> Result<Prepared> {
        if e.kind() != ErrorKind::Refused || !self.source.is_elsewhere() {
            return Err(e);
        }
        if self.request.target == Destination::Stdout && watch.written() > 0 {
            let hint = "what went to standard output cannot be taken back; to a file, it is begun anew from elsewhere";
            return Err(e.with_hint(hint));
        }
        tracing::info!(error = %e, "{} is read again", self.source.facts().name);
        watch.begin_anew();
        watch.enter(Phase::Opening, 0);
        planned(self.request, &self.source)
    }
}
