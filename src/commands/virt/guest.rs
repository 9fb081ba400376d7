//! The verbs that ask the guest agent: `guestosinfo`, `userlist`, `fslist`.

use super::args::{VmiArg, doing};
use crate::error::Result;
use crate::ui;
use crate::virt::client::Cluster;
use cluster_model::objects::Kind;

/// Print the guest's operating system, users and filesystems (JSON)
#[derive(Debug, clap::Args)]
pub(super) struct OsInfoArgs {
    #[command(flatten)]
    vmi: VmiArg,
}

/// Print the users that are logged in to the guest (JSON)
#[derive(Debug, clap::Args)]
pub(super) struct UserListArgs {
    #[command(flatten)]
    vmi: VmiArg,
}

/// Print the filesystems of the guest (JSON)
#[derive(Debug, clap::Args)]
pub(super) struct FsListArgs {
    #[command(flatten)]
    vmi: VmiArg,
}

pub(super) async fn os_info(args: &OsInfoArgs, cluster: &Cluster) -> Result<()> {
    print(&args.vmi, "guestosinfo", "read the operating system of", cluster).await
}

pub(super) async fn user_list(args: &UserListArgs, cluster: &Cluster) -> Result<()> {
    print(&args.vmi, "userlist", "list the users of", cluster).await
}

pub(super) async fn fs_list(args: &FsListArgs, cluster: &Cluster) -> Result<()> {
    print(&args.vmi, "filesystemlist", "list the filesystems of", cluster).await
}

async fn print(vmi: &VmiArg, part: &str, verb: &str, cluster: &Cluster) -> Result<()> {
    let kind = Kind::VirtualMachineInstance;
    let told = cluster.get(&kind.part(cluster.namespace(), &vmi.name, part)).await;
    ui::json(&told.map_err(|e| e.into_error(&doing(verb, kind, &vmi.name, cluster)))?)
}
