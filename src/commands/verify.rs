//! The verb `coracle verify`.

use super::complete;
use super::disk::DiskArgs;
use super::image_name::names_help;
use super::source::SourceArgs;
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use cdi::convert::{Request, prepare};
use cdi::permissions::Permissions;
use cdi::run::watch::Watch;
use cdi::size::human;
use cdi::source::SourceSpec;
use cdi::target::Destination;
use clap_complete::engine::ArgValueCompleter;
use container_disk::Name;
use container_disk::progress::{CountingPlace, Progress};
use container_disk::verify::{self, Check, Outcome};
use serde::Serialize;
use std::sync::Arc;

/// Verify every claim of an image, or every byte of a disk
///
/// The claims of an image are recomputed from its bytes: digests, sizes,
/// types, one disk in its place with the right owner, a bootable format,
/// no reference to files outside the image. All architectures are verified,
/// or the one of --arch. A disk is read to its last byte. Exit code 3 means
/// a wrong claim.
#[derive(Debug, clap::Args)]
#[command(after_help = names_help!("Examples:\n  \
    coracle verify os:12\n  \
    coracle verify docker://registry.example/os:12\n  \
    coracle verify disk.qcow2"))]
pub(crate) struct Args {
    /// Image or disk to verify
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::source))]
    name: String,

    #[command(flatten)]
    work: DiskArgs,

    #[command(flatten)]
    from: SourceArgs,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: &'static str,
    name: &'a str,
    passed: bool,
    checks: Vec<CheckReport<'a>>,
}

#[derive(Debug, Serialize)]
struct CheckReport<'a> {
    name: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

/// The checks of an image or a disk.
struct Verified {
    checks: Vec<Check>,
    /// Description of the disk for the last line; unset for an image.
    facts: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let options = args.from.options()?;
    let (wishes, named) = (args.work.wishes(&args.from), SourceSpec::resolve(&args.name, &options)?);
    // The records of VMs, which tell the format of a raw disk, are not readable after the confinement.
    let source_format = match named.image() {
        Some(_) => args.work.source_format(),
        None => args.work.source_format_of(&named)?,
    };
    Permissions::new().source(&named, &options)?.spool().enter();
    let Verified { checks, facts } = match named.image() {
        Some(name) => Verified { checks: image(args, name, &options)?, facts: None },
        None => match disk(
            args,
            Request { source_format, ..Request::new(named, Destination::Null, options, wishes) },
        )? {
            Some(verified) => verified,
            None => return Ok(()),
        },
    };
    show(args, &checks)?;
    let failed = checks.iter().filter(|check| matches!(check.outcome, Outcome::Failed(_))).count();
    let passed = checks.iter().filter(|check| check.passed()).count();
    match (failed, checks.len()) {
        (0, all) if passed == all => {
            if !args.work.output.is_json() && !args.work.quiet {
                let what = facts.unwrap_or_else(|| format!("{all} claims of the image"));
                ui::say(&format!("{}: verified: {what}", args.name));
            }
            Ok(())
        }
        (0, all) => {
            Err(Error::refused(format!("{}: only {passed} of {all} claims could be checked", args.name)))
        }
        (failed, all) => Err(Error::refused(format!("{}: {failed} of {all} claims are wrong", args.name))),
    }
}

fn image(args: &Args, name: &Name, options: &cdi::source::Options) -> Result<Vec<Check>> {
    if args.work.checksum.is_some() || args.work.plan || args.work.source_format().is_some() {
        let what = format!("{name} is an image; --checksum, --plan and --source-format are for disks");
        return Err(Error::new(ErrorKind::Usage, what));
    }
    ui::on_interrupt_go_on()?;
    let found = options.places.find(name)?;
    let how = verify::Options {
        architecture: args.from.arch(),
        path: options.image.path.clone(),
        limit: args.work.max_size,
    };
    let progress = Arc::new(Progress::default());
    let bar = ui::Progress::of_blobs("verifying", &progress, args.work.show());
    let checks = verify::verify(&CountingPlace::new(&*found.place, progress), &found.reference, &how);
    drop(bar);
    Ok(checks?)
}

/// Verifies a disk by reading it. `None` if only the plan was printed.
fn disk(args: &Args, request: Request) -> Result<Option<Verified>> {
    let watch = Arc::new(Watch::default());
    ui::on_interrupt(watch.clone())?;
    let check = |name: &str, outcome| Check { name: name.to_owned(), outcome };
    let prepared = match prepare(request, &watch).map_err(Error::from) {
        Ok(prepared) => prepared,
        Err(e) if e.kind() == ErrorKind::Refused => {
            return Ok(Some(Verified { checks: vec![check("format", failed(&e))], facts: None }));
        }
        Err(e) => return Err(e),
    };
    if args.work.plan {
        let shown = if args.work.output.is_json() {
            ui::json(&prepared.plan_json())
        } else {
            ui::out(&prepared.plan_text())
        };
        return shown.map(|()| None);
    }
    let progress = ui::Progress::of_reading("verifying", &watch, args.work.show());
    let read = prepared.run(&watch).map_err(Error::from);
    drop(progress);
    let mut facts = None;
    let whole = match read {
        Ok(read) => {
            let (disk, bytes) = (human(read.virtual_size), human(read.bytes_read));
            facts = Some(format!("a {} disk of {disk}, {bytes} read", read.source_format));
            Outcome::Passed
        }
        Err(e) if e.kind() == ErrorKind::Refused => failed(&e),
        Err(e) => return Err(e),
    };
    let checks = vec![check("format", Outcome::Passed), check("every byte can be read", whole)];
    Ok(Some(Verified { checks, facts }))
}

fn failed(e: &Error) -> Outcome {
    let cause = std::error::Error::source(e).map(|cause| format!(": {cause}")).unwrap_or_default();
    Outcome::Failed(format!("{e}{cause}"))
}

fn show(args: &Args, checks: &[Check]) -> Result<()> {
    let lines = checks.iter().map(|Check { name, outcome }| {
        let (outcome, why) = match outcome {
            Outcome::Passed => ("passed", None),
            Outcome::Failed(why) => ("failed", Some(why.as_str())),
            Outcome::NotChecked(why) => ("not checked", Some(why.as_str())),
        };
        CheckReport { name, outcome, why }
    });
    if args.work.output.is_json() {
        let passed = checks.iter().all(Check::passed);
        let report =
            Report { schema: "coracle.verify/v1", name: &args.name, passed, checks: lines.collect() };
        return ui::json(&report);
    }
    let text = lines.map(|CheckReport { name, outcome, why }| {
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        format!("{outcome:11}  {name}{why}\n")
    });
    ui::out(&text.collect::<String>())
}
