//! A conversion in one call: source, target and options → facts → plan → run → report.
//!
//! ```text
//!  Request ──prepare──► Prepared: the plan, which holds the open source  (nothing is written yet; `--plan` stops here)
//!                           │ run
//!                           ▼
//!                        Report
//! ```
//!
//! The meaning of names is decided before, by the caller: [`SourceSpec::resolve`], [`Destination::from_name`], or a job
//! ([`crate::import`]).

mod boundaries;
mod execute;
mod facts;
mod overlap;
mod partial;
mod plan_output;
mod report;
mod second_attempt;
mod size;
mod verify;

pub use plan_output::PlanJson;
pub use report::Report;

use crate::permissions::Permissions;
use crate::plan::{self, ConvertOptions, Output, Plan};
use crate::run::two_passes::Layout;
use crate::run::watch::{Phase, Watch};
use crate::source::{self, FileSource, Options, Source, SourceSpec};
use crate::target::{Destination, Target};
use crate::{Error, ErrorKind, Result};
use container_disk::inputs::Inputs;
use container_disk::open::Places;
use disk_format::Format;
use facts::{Seek, Stream};
use second_attempt::SecondAttempt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Input of a conversion.
#[derive(Debug, Clone)]
pub struct Request {
    pub source: SourceSpec,
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
    pub convert_options: ConvertOptions,
    /// Time between journal entries; `None`: as often as they cost next to nothing.
    pub journal_every: Option<Duration>,
    /// The layout of the qcow2, if the disk is read several times. Clones of the request share it.
    pub layout: SharedLayout,
}

/// The layout that a first reading of the disk found, once there was one.
#[derive(Debug, Clone, Default)]
pub struct SharedLayout(Arc<OnceLock<Layout>>);

/// Treatment of an image file: kept as it is, with its tables checked, or converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The disk in the image is converted.
    No,
    /// The image file is kept, in any format.
    Yes,
    /// A raw disk is written in this format, and the disk of an image file with bytes that are not of the disk; any other file
    /// (also an ISO) is kept.
    UnlessRaw(Output),
}

impl Request {
    /// A conversion of this source to a raw disk at this target.
    pub fn new(
        source: SourceSpec,
        target: Destination,
        options: Options,
        convert_options: ConvertOptions,
    ) -> Request {
        Request {
            source,
            target,
            source_format: None,
            keep: Keep::No,
            options,
            output: Output::Raw,
            convert_options,
            journal_every: None,
            layout: SharedLayout::default(),
        }
    }

    /// Files and programs of the host that the conversion uses. An image that is written is not included: it
    /// has names beside the target's.
    pub fn permissions(&self) -> Result<Permissions> {
        let permissions = Permissions::new().source(&self.source, &self.options)?.target(&self.target);
        Ok(match (&self.target, &self.convert_options.journals) {
            (Destination::Device(_), Some(journals)) => permissions.folder(journals),
            _ => permissions,
        })
    }
}

/// A conversion that has been planned, with its open source.
pub struct Prepared {
    request: Request,
    plan: Plan<Seek, Stream>,
}

/// Opens the source, gathers the facts and plans. The target is inspected, not changed. Of several errors the one about the
/// command comes first: it stays when a source that is in use is free.
pub fn prepare(request: Request, watch: &Watch) -> Result<Prepared> {
    watch.enter(Phase::Opening, 0);
    let source = source::open_used(&request.source, &request.options)?;
    if let Destination::File(path) = &request.target {
        overlap::inputs(&request, &*source)?.refuse_target(path)?;
    }
    let again = SecondAttempt::new(&request, &source);
    // Looked at on both sides: a user that came or went while the tables were read may have written half of them.
    let before = source.check_unused();
    let planned = planned(request, &source);
    match (planned, before.and_then(|()| source.check_unused())) {
        (planned, Ok(())) => planned.or_else(|e| again.after(e, watch)),
        (Err(e), Err(_)) if e.kind() == ErrorKind::Usage => Err(e),
        // What was read may have been half written, so no other error of it counts.
        (_, Err(in_use)) => Err(in_use),
    }
}

fn planned(request: Request, source: &Arc<dyn Source>) -> Result<Prepared> {
    let room = match &request.target {
        Destination::Device(path) => Some(FileSource::size_of_device(path)?),
        _ => None,
    };
    let (facts, access) = facts::gather(&request, source, room).map_err(|e| e.of(&source.facts().name))?;
    let plan = plan::plan(facts, access, &request.convert_options)?;
    Ok(Prepared { request, plan })
}

impl Prepared {
    /// The places of images, with all that was looked up in them.
    pub fn places(&self) -> &Arc<Places> {
        &self.request.options.places
    }

    /// Files that are read for the disk.
    pub fn inputs(&self) -> Result<Inputs> {
        overlap::inputs(&self.request, &**self.plan.flow.source())
    }

    /// True if the bytes of a raw disk are written, and no image file.
    pub(crate) fn writes_raw(&self) -> bool {
        self.plan.facts.kept.is_none() && self.plan.facts.output == Output::Raw
    }

    /// Warning about bytes of the source file that are not of its disk.
    pub fn leftover_warning(&self) -> Option<String> {
        self.plan.facts.leftover_warning()
    }

    /// The plan as text.
    pub fn plan_text(&self) -> String {
        plan_output::text(&self.plan)
    }

    /// The plan as JSON.
    pub fn plan_json(&self) -> PlanJson {
        plan_output::json(&self.plan)
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
        let (partial, name) = (partial::Partial::of(&self), self.plan.facts.source.name.clone());
        execute::execute(self, layer, &partial, watch).map_err(|e| partial.after(e, watch).of(&name))
    }

    fn again(&self) -> SecondAttempt {
        SecondAttempt::new(&self.request, self.plan.flow.source())
    }
}

/// The first error, which a watch keeps; the error of a producer or worker follows from it.
fn first(watch: &Watch, e: Error) -> Error {
    watch.outcome().err().unwrap_or(e)
}
