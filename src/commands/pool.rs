//! The verb `coracle pool`: disks that outlive VMs.

use super::json_args::JsonArgs;
use super::vm_args::HomeArgs;
use super::vms::complete_names;
use crate::error::Result;
use crate::relative_time::ago;
use crate::ui;
use cdi::size::human;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use local_vm::kept_disks::{self, KeptDisk};
use serde::Serialize;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::PathBuf;

/// List and remove the disks of PersistentVolumeClaims and DataVolumes
///
/// The pool keeps these disks when their VMs are removed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  coracle pool ls\n  coracle pool rm web-root")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List the disks, with their VMs
    #[command(visible_alias = "list")]
    Ls(LsArgs),
    /// Remove disks, and all data on them
    Rm(RmArgs),
    /// Forget a home that is gone for good, whose VMs had disks here
    Forget(ForgetArgs),
}

#[derive(Debug, clap::Args)]
struct LsArgs {
    #[command(flatten)]
    output: JsonArgs,

    /// Print the names only
    #[arg(short, long, conflicts_with_all = ["json", "output"])]
    quiet: bool,

    #[command(flatten)]
    home: HomeArgs,
}

#[derive(Debug, clap::Args)]
struct RmArgs {
    /// Names of the disks
    #[arg(value_name = "NAME", required = true, add = ArgValueCompleter::new(complete))]
    names: Vec<String>,

    /// Remove disks of stopped VMs, too
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    home: HomeArgs,
}

#[derive(Debug, clap::Args)]
struct ForgetArgs {
    /// Folder of the home's VMs, or its root
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    #[command(flatten)]
    home: HomeArgs,
}

#[derive(Debug, Serialize)]
struct Disks {
    schema: &'static str,
    pool: String,
    disks: Vec<KeptDisk>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.verb {
        Verb::Ls(args) => ls(args),
        Verb::Rm(args) => rm(args),
        Verb::Forget(args) => Ok(kept_disks::forget_home(&args.home.home()?, &args.folder)?),
    }
}

fn ls(args: &LsArgs) -> Result<()> {
    let home = args.home.home()?;
    let disks = kept_disks::list(&home)?;
    for fault in disks.iter().filter_map(|disk| disk.fault.as_ref()) {
        ui::say(&format!("coracle: warning: {fault}"));
    }
    if args.output.is_json() {
        let pool = home.pool().display().to_string();
        return ui::json(&Disks { schema: "coracle.pool/v1", pool, disks });
    }
    if args.quiet {
        return ui::out(&disks.iter().map(|disk| format!("{}\n", disk.name)).collect::<String>());
    }
    ui::out(&table(&disks))
}

fn rm(args: &RmArgs) -> Result<()> {
    let home = args.home.home()?;
    args.names.iter().try_for_each(|name| {
        let freed = kept_disks::remove(&home, name, args.force)?;
        ui::out(&format!("{name} removed, {} freed\n", human(freed)))
    })
}

/// Completes names of disks.
fn complete(begin: &OsStr) -> Vec<CompletionCandidate> {
    complete_names(begin, |home| Ok(kept_disks::list(home)?.into_iter().map(|disk| disk.name).collect()))
}

fn table(disks: &[KeptDisk]) -> String {
    let widest = disks.iter().map(|disk| disk.name.len()).max().unwrap_or(0).max(4);
    let vms = |disk: &KeptDisk| {
        let all: Vec<&str> = disk.vms.iter().chain(&disk.vms_of_other_homes).map(String::as_str).collect();
        if all.is_empty() { "-".to_owned() } else { all.join(",") }
    };
    let widest_vm = disks.iter().map(|disk| vms(disk).len()).max().unwrap_or(0).max(3);
    let mut text = format!(
        "{:widest$}  {:>9}  {:>9}  {:widest_vm$}  {:12}  FROM\n",
        "NAME", "SIZE", "ALLOCATED", "VMS", "CREATED"
    );
    for disk in disks {
        let size = match (disk.size, &disk.fault) {
            (Some(size), _) => human(size),
            (None, Some(_)) => "damaged".to_owned(),
            (None, None) => "partial".to_owned(),
        };
        let created = disk.created.as_deref().map_or_else(|| "-".to_owned(), ago);
        let from = disk.from.as_deref().map_or_else(|| "-".to_owned(), printable::line);
        let _ = writeln!(
            text,
            "{:widest$}  {size:>9}  {:>9}  {:widest_vm$}  {created:12}  {from}",
            disk.name,
            human(disk.allocated),
            vms(disk)
        );
    }
    text
}
