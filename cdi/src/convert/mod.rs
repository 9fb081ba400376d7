//! Names and wishes → facts → plan → run → report: the engine as one call.
//!
//! ```text
//!  Request ──prepare──► Prepared { facts, plan }  (nothing is written yet; `--plan` stops here)
//!                           │ run
//!                           ▼
//!                        Report
//! ```

mod again;
mod carry;
mod ends;
mod facts;
mod report;
mod shown;
mod verify;

pub use report::Report;
pub use shown::PlanJson;

use crate::filter::verify::Digest;
use crate::plan::{self, Output, Plan, Wishes};
use crate::run::watch::{Phase, Watch};
use crate::source::{self, Named, Options, Source};
use crate::target::Target;
use crate::{Error, Kind, Result};
use again::Again;
use disk_format::Format;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Request {
    /// The source.
    pub source: Named,
    /// Name of the target.
    pub target: String,
    /// The source's format where the user said it; a disk said to be raw is not looked into.
    pub source_format: Option<Format>,
    /// Whether the image file inside its layers stays as it is.
    pub keep: Keep,
    /// How the source is reached.
    pub options: Options,
    /// What is written.
    pub output: Output,
    /// The digest the source's bytes must have.
    pub checksum: Option<Digest>,
    /// Everything the plan weighs.
    pub wishes: Wishes,
    /// Time between journal entries; `None`: as often as they cost next to nothing.
    pub journal_every: Option<Duration>,
}

/// Whether an image file stays as it is: its tables are checked, and it is not taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Its disk is converted.
    No,
    /// It stays, whatever its format.
    Yes,
    /// A raw disk becomes this; anything else (also an ISO) stays.
    UnlessRaw(Output),
}

/// A conversion that has been planned.
pub struct Prepared {
    request: Request,
    opened: facts::Opened,
    plan: Plan,
}

/// Opens the source, finds out what it is and plans. The target is looked at, not touched.
pub fn prepare(request: Request, watch: &Watch) -> Result<Prepared> {
    let target = facts::place(&request.target)?;
    if is_source(&request) {
        let what = format!(
            "the target {} is the source itself, which the disk would replace; write it to another name",
            request.target
        );
        return Err(Error::new(Kind::Usage, what));
    }
    prepare_for(request, target, watch)
}

/// Whether the target's name leads to the file that is to be read, by whatever other name.
fn is_source(request: &Request) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // A target that is a link is refused as such.
    let ends = (std::fs::metadata(request.source.text()), std::fs::symlink_metadata(&request.target));
    match ends {
        (Ok(source), Ok(target)) if source.is_file() => {
            (source.dev(), source.ino()) == (target.dev(), target.ino())
        }
        _ => false,
    }
}

/// The same for a layer of the image `name`; [`Prepared::run_into`] is given its target.
pub fn prepare_layer(request: Request, name: &str, watch: &Watch) -> Result<Prepared> {
    prepare_for(request, plan::Place::Image(name.to_owned()), watch)
}

/// The same for a disk that is only read, every byte of it.
pub fn prepare_check(request: Request, watch: &Watch) -> Result<Prepared> {
    prepare_for(request, plan::Place::Nowhere, watch)
}

fn prepare_for(request: Request, target: plan::Place, watch: &Watch) -> Result<Prepared> {
    watch.enter(Phase::Opening, 0);
    let source = source::open(&request.source, &request.options)?;
    let again = Again::new(&request, &source, &target);
    planned(request, source, target).or_else(|e| again.after(e, watch))
}

fn planned(request: Request, source: Arc<dyn Source>, target: plan::Place) -> Result<Prepared> {
    let opened = facts::gather(&request, source, target)?;
    let plan = plan::plan(&opened.facts, &request.wishes)?;
    Ok(Prepared { request, opened, plan })
}

impl Prepared {
    /// The plan for people.
    pub fn plan_text(&self) -> String {
        shown::text(&self.opened.facts, &self.plan)
    }

    /// The plan for programs.
    pub fn plan_json(&self) -> PlanJson {
        shown::json(&self.opened.facts, &self.plan)
    }

    /// Moves the bytes into a layer of an image, which `layer` makes; what must wait does so in `folder`.
    pub fn run_into<'t>(
        self,
        layer: impl Fn() -> Box<dyn Target + 't>,
        folder: &Path,
        watch: &Watch,
    ) -> Result<Report> {
        let again = self.again();
        let done = self.once(Some((layer(), folder)), watch);
        done.or_else(|e| again.after(e, watch)?.once(Some((layer(), folder)), watch))
    }

    /// Moves the bytes. On failure nothing stands under the target's name; what was written stays where a later run
    /// can go on, unless the input itself is to blame.
    pub fn run(self, watch: &Watch) -> Result<Report> {
        let again = self.again();
        self.once(None, watch).or_else(|e| again.after(e, watch)?.once(None, watch))
    }

    fn once(self, layer: Option<(Box<dyn Target + '_>, &Path)>, watch: &Watch) -> Result<Report> {
        let partial = ends::Partial::of(&self);
        carry::carry(self, layer, &partial, watch).map_err(|e| partial.after(e, watch))
    }

    fn again(&self) -> Again {
        Again::new(&self.request, &self.opened.source, &self.opened.facts.target)
    }
}

/// The error that a watch keeps is the first one; what a producer or worker returned is an echo of it.
fn first(watch: &Watch, e: Error) -> Error {
    watch.outcome().err().unwrap_or(e)
}
