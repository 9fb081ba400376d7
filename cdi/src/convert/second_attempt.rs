//! A second attempt of a run whose source sent wrong bytes, from another server.
//!
//! A large blob is found to be wrong only at its end, when its bytes have been written. They have no final
//! name then, so they are dropped, and the run begins anew, once. The source remembers the server that sent
//! them, and tries others first.

use super::{Prepared, Request, planned};
use crate::run::watch::{Phase, Watch};
use crate::source::Source;
use crate::target::Destination;
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The request and the source for a second attempt.
pub(super) struct SecondAttempt {
    request: Request,
    source: Arc<dyn Source>,
}

impl SecondAttempt {
    pub(super) fn new(request: &Request, source: &Arc<dyn Source>) -> SecondAttempt {
        SecondAttempt { request: request.clone(), source: source.clone() }
    }

    /// The second attempt, if the source may do better after the error `e`; otherwise `e` itself.
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
