//! Copies of images from one place to another, shared by push, pull and copy.

use super::json_args::JsonArgs;
use super::registry_args::RegistryArgs;
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use cdi::permissions::Permissions;
use cdi::size::human;
use container_disk::Name;
use container_disk::inputs::Inputs;
use container_disk::open::Places;
use container_disk::registry::TransferCounts;
use container_disk::registry::copy::{Copied, Options, Progress, copy};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Arguments of a copy.
#[derive(Debug, clap::Args)]
pub(crate) struct TransferArgs {
    /// Maximum number of concurrent blob transfers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    parallel: u16,

    #[command(flatten)]
    output: JsonArgs,

    /// Hide the progress bar
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    places: RegistryArgs,
}

/// JSON report of a copy.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: &'static str,
    source: &'a str,
    target: &'a str,
    digest: String,
    moved: usize,
    there: usize,
    bytes: u64,
    resumed_at: Option<u64>,
    registries: TransferCounts,
}

impl TransferArgs {
    /// The places that names can refer to.
    pub(crate) fn places(&self) -> Arc<Places> {
        self.places.open()
    }

    /// Copies `from` to `to`: the image for `arch`, or all images of the name.
    pub(crate) fn run(&self, from: &Name, to: &Name, arch: Option<String>, places: &Places) -> Result<()> {
        Permissions::new().image(from, places)?.goal(to, places)?.enter();
        ui::on_interrupt_go_on()?;
        let found = places.find(from).map_err(|e| missing(from, e.into()))?;
        let goal = places.goal(to, &Inputs::default().with_image(from)?)?;
        if let (Name::Registry(from), Some(registry)) = (from, &goal.registry) {
            registry.mount_from(from);
        }
        let judge = matches!(to, Name::Store(_));
        let options = Options { arch, parallel: usize::from(self.parallel), judge };
        let progress = Arc::new(Progress::default());
        let bar = self.show(&progress);
        let done =
            copy(&*found.place, &found.reference, &*goal.sink, goal.tag.as_deref(), &options, &progress)
                .and_then(|copied| goal.sink.close().map(|()| copied));
        drop(bar);
        self.report(from, to, &done.map_err(|e| missing(from, e.into()))?, places)
    }

    fn show(&self, progress: &Arc<Progress>) -> ui::Progress {
        let show = if self.quiet { ui::Show::Quiet } else { ui::Show::Auto };
        ui::Progress::of_blobs("copying", progress, show)
    }

    fn report(&self, from: &Name, to: &Name, copied: &Copied, places: &Places) -> Result<()> {
        let (source, target) = (from.to_string(), to.to_string());
        let registries = places.transfer_counts();
        if !self.output.is_json() {
            if !self.quiet {
                ui::say(&sentence(&source, &target, copied, &registries));
            }
            return Ok(());
        }
        ui::json(&Report {
            schema: "coracle.copy/v1",
            source: &source,
            target: &target,
            digest: copied.digest.to_string(),
            moved: copied.moved,
            there: copied.there,
            bytes: copied.bytes,
            resumed_at: (copied.resumed_at > 0).then_some(copied.resumed_at),
            registries,
        })
    }
}

/// Adds a hint if an image is not in the store: the name may be meant for a registry, or a disk file.
fn missing(from: &Name, e: Error) -> Error {
    let Name::Store(local) = from else { return e };
    if e.kind() != ErrorKind::NotFound {
        return e;
    }
    let local = local.to_string();
    let file = local.strip_suffix(":latest").unwrap_or(&local);
    match Path::new(file).exists() {
        true => e.with_hint(format!(
            "{file} is a file here: coracle build -t NAME {file} makes an image of a disk"
        )),
        false => e.with_hint("an image in a registry is called docker://HOST/REPO:TAG"),
    }
}

/// The result of a copy in one line.
pub(super) fn sentence(source: &str, target: &str, copied: &Copied, registries: &TransferCounts) -> String {
    let resumed = match copied.resumed_at {
        0 => String::new(),
        at => format!(", resumed at {}", human(at)),
    };
    let there = match copied.there {
        0 => String::new(),
        n => format!(", {n} of its blobs were there already"),
    };
    let switches = match registries.switches {
        0 => String::new(),
        1 => ", another registry carried on once".to_owned(),
        n => format!(", another registry carried on {n} times"),
    };
    format!("{source} → {target}: {}, {} moved{resumed}{there}{switches}", copied.digest, human(copied.bytes))
}
