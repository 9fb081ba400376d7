//! A conversion in one call: source, target and options → facts → plan → run → report.
//!
//! ```text
//!  Request ──prepare──► Prepared: the plan, which holds the open source  (nothing is written yet; `--plan` stops here)
//!                           │ run
//!                           ▼
//!                        Report
//! ```
//!
//! The meaning of names is decided before, by the caller: [`Named::of`], [`Destination::of`], or a job
//! ([`crate::import`]).

mod again;
mod carry;
mod ends;
mod facts;
mod overlap;
mod report;
mod shown;
mod size;
mod verify;

pub use report::Report;
pub use shown::PlanJson;

use crate::plan::{self, Output, Plan, Wishes};
use crate::reach::Reach;
use crate::run::two_passes::Layout;
use crate::run::watch::{Phase, Watch};
use crate::source::{self, FileSource, Named, Options, Source};
use crate::target::{Destination, Target};
use crate::{Error, ErrorKind, Result};
use again::Again;
use container_disk::open::Places;
use disk_format::Format;
use facts::{Seek, Stream};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Input of a conversion.
#[derive(Debug, Clone)]
pub struct Request {
    pub source: Named,
    pub target: Destination,
    /// The source's format if the user stated it; a disk stated to be raw is not inspected.
    pub source_format: Option<Format>,
    /// Treatment of an image file inside its layers.
    pub keep: Keep,
    /// Options for opening the source.
    pub options: Options,
    /// The format that is written.
    pub output: Output,
    /// Options for the plan.
    pub wishes: Wishes,
    /// Time between journal entries; `None`: as often as they cost next to nothing.
    pub journal_every: Option<Duration>,
    /// The layout of the qcow2, if the disk is read several times. Clones of the request share it.
    pub layout: Known,
}

/// The layout that a first reading of the disk found, once there was one.
#[derive(Debug, Clone, Default)]
pub struct Known(Arc<OnceLock<Layout>>);

/// Treatment of an image file: kept as it is, with its tables checked, or converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Its disk is converted.
    No,
    /// It is kept, whatever its format.
    Yes,
    /// A raw disk is written in this format; any other file (also an ISO) is kept.
    UnlessRaw(Output),
}

impl Request {
    /// A conversion of this source to a raw disk at this target.
    pub fn new(source: Named, target: Destination, options: Options, wishes: Wishes) -> Request {
        Request {
            source,
            target,
            source_format: None,
            keep: Keep::No,
            options,
            output: Output::Raw,
            wishes,
            journal_every: None,
            layout: Known::default(),
        }
    }

    /// Files and programs of the host that the conversion uses. An image that is written is not included: it
    /// has names beside the target's.
    pub fn reach(&self) -> Result<Reach> {
        let reach = Reach::new().source(&self.source, &self.options)?.target(&self.target);
        Ok(match (&self.target, &self.wishes.journals) {
            (Destination::Device(_), Some(journals)) => reach.folder(journals),
            _ => reach,
        })
    }
}

/// A conversion that has been planned, with its open source.
pub struct Prepared {
    request: Request,
    plan: Plan<Seek, Stream>,
}

/// Opens the source, gathers the facts and plans. The target is inspected, not changed.
pub fn prepare(request: Request, watch: &Watch) -> Result<Prepared> {
    if is_source(&request) {
        let what = format!(
            "the target {} is the source itself, which the disk would replace; write it to another name",
            request.target
        );
        return Err(Error::new(ErrorKind::Usage, what));
    }
    watch.enter(Phase::Opening, 0);
    let source = source::open(&request.source, &request.options)?;
    let again = Again::new(&request, &source);
    planned(request, &source).or_else(|e| again.after(e, watch))
}

/// True if the target's name leads to the source file, by whatever path.
fn is_source(request: &Request) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (Some(source), Some(target)) = (request.source.path(), request.target.path()) else { return false };
    // A target that is a link is refused as such.
    match (std::fs::metadata(source), std::fs::symlink_metadata(target)) {
        (Ok(source), Ok(target)) if source.is_file() => {
            (source.dev(), source.ino()) == (target.dev(), target.ino())
        }
        _ => false,
    }
}

fn planned(request: Request, source: &Arc<dyn Source>) -> Result<Prepared> {
    let room = match &request.target {
        Destination::Device(path) => Some(FileSource::open(path)?.facts().size.unwrap_or(0)),
        _ => None,
    };
    let (facts, way) = facts::gather(&request, source, room).map_err(|e| e.of(&source.facts().name))?;
    let plan = plan::plan(facts, way, &request.wishes)?;
    Ok(Prepared { request, plan })
}

impl Prepared {
    /// The places of images, with all that was looked up in them.
    pub fn places(&self) -> &Arc<Places> {
        &self.request.options.places
    }

    /// The plan as text.
    pub fn plan_text(&self) -> String {
        shown::text(&self.plan)
    }

    /// The plan as JSON.
    pub fn plan_json(&self) -> PlanJson {
        shown::json(&self.plan)
    }

    /// Moves the bytes into a layer of an image, which `layer` makes; temporary files go into `folder`.
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

    /// Moves the bytes. On failure there is no file of the target's name. The written bytes stay if a later
    /// run can continue, unless the input itself is to blame.
    pub fn run(self, watch: &Watch) -> Result<Report> {
        let again = self.again();
        self.once(None, watch).or_else(|e| again.after(e, watch)?.once(None, watch))
    }

    fn once(self, layer: Option<(Box<dyn Target + '_>, &Path)>, watch: &Watch) -> Result<Report> {
        let (partial, name) = (ends::Partial::of(&self), self.plan.facts.source.name.clone());
        carry::carry(self, layer, &partial, watch).map_err(|e| partial.after(e, watch).of(&name))
    }

    fn again(&self) -> Again {
        Again::new(&self.request, self.plan.flow.source())
    }
}

/// The first error, which a watch keeps; the error of a producer or worker follows from it.
fn first(watch: &Watch, e: Error) -> Error {
    watch.outcome().err().unwrap_or(e)
}
