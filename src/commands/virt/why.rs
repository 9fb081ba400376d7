//! `why` and `events`.

use super::args::VmArg;
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::why::{event, fetch, page};
use cdi::Result;
use jiff::Timestamp;

/// Explain why a VM does not run, on one page
///
/// The page names the object that the VM waits for, since when, in whose
/// words, and what to do; below are the objects on the way from the VM to its
/// guest, and their newest events.
#[derive(Debug, clap::Args)]
pub(super) struct WhyArgs {
    #[command(flatten)]
    vm: VmArg,
}

/// List the events of a VM, and of its VMI, pods and volumes, newest first
#[derive(Debug, clap::Args)]
pub(super) struct EventsArgs {
    #[command(flatten)]
    vm: VmArg,
}

pub(super) async fn why(args: &WhyArgs, cluster: &Cluster) -> Result<()> {
    let facts = fetch(cluster, &args.vm.name).await?;
    ui::out(&page(&facts, &super::prefix(), Timestamp::now()))
}

pub(super) async fn events(args: &EventsArgs, cluster: &Cluster) -> Result<()> {
    let facts = fetch(cluster, &args.vm.name).await?;
    for unread in &facts.unread {
        ui::say(&format!("coracle: not read: {unread}"));
    }
    match facts.events.is_empty() {
        true => {
            ui::say(&format!("No events of VM {} in namespace {}", facts.name, facts.namespace));
            Ok(())
        }
        false => ui::out(&event::table(&facts.events, usize::MAX, Timestamp::now())),
    }
}
