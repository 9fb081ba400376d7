//! The verbs `migrate`, `migrate-cancel` and `evacuate-cancel`.

use super::args::{DryRunArg, TypedArg, VmArg, ask, doing};
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use cluster_model::objects::{Kind, MIGRATED_VMI, escaped, names};
use http::Method;
use serde_json::{Map, Value, json};

/// Live-migrate a VM to another node, or move the disks of a stopped one
///
/// The guest runs on meanwhile. The scheduler chooses the node. The progress is
/// on the page of the verb why. With --offline a VM that is stopped stays so:
/// its disks that are on one node alone are copied to another one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle virt migrate web\n  \
    coracle virt migrate web --addedNodeSelector topology.kubernetes.io/zone=a\n  \
    coracle virt migrate web --offline\n  \
    coracle virt why web")]
pub(super) struct MigrateArgs {
    #[command(flatten)]
    vm: VmArg,

    /// Labels of the node to migrate to, in addition to the selectors of the
    /// VM: KEY=VALUE, separated by commas
    #[arg(long = "addedNodeSelector", alias = "added-node-selector", value_name = "LABELS")]
    #[arg(value_delimiter = ',', value_parser = label)]
    added_node_selector: Vec<(String, String)>,

    /// Move the disks of a stopped VM, without a guest
    #[arg(long)]
    offline: bool,

    #[command(flatten)]
    dry_run: DryRunArg,
}

/// Cancel the live migration of a VM
///
/// The guest runs on at its node. A migration that has gone too far ends by
/// itself.
#[derive(Debug, clap::Args)]
pub(super) struct CancelArgs {
    #[command(flatten)]
    vm: VmArg,

    #[command(flatten)]
    dry_run: DryRunArg,
}

/// Cancel the evacuation of a VM from its node
#[derive(Debug, clap::Args)]
pub(super) struct EvacuateCancelArgs {
    #[command(flatten)]
    object: TypedArg,

    #[command(flatten)]
    dry_run: DryRunArg,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is KEY=VALUE".to_owned()),
    }
}

pub(super) async fn migrate(args: &MigrateArgs, cluster: &Cluster) -> Result<()> {
    let labels: Map<String, Value> =
        args.added_node_selector.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    if args.offline {
        return migrate_offline(args, &labels, cluster).await;
    }
    let labels = (!labels.is_empty()).then_some(labels);
    let options = args.dry_run.options(json!({"addedNodeSelector": labels}))?;
    let name = &args.vm.name;
    ask(cluster, "migrate", (Kind::VirtualMachine, name), "migrate", Some(&options)).await?;
    ui::out(&format!("VM {name} was scheduled to migrate\n"))
}

/// Creates the migration of a stopped VM. Upstream has no subresource for it.
async fn migrate_offline(args: &MigrateArgs, labels: &Map<String, Value>, cluster: &Cluster) -> Result<()> {
    let name = &args.vm.name;
    let what = doing("move the disks of", Kind::VirtualMachine, name, cluster);
    let kind = Kind::VirtualMachineInstanceMigration;
    let mut object = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {"generateName": "offline-migration-"},
        "spec": {"vmiName": name, "offline": true},
    });
    if !labels.is_empty() {
        object["spec"]["addedNodeSelector"] = json!(labels);
    }
    let options = args.dry_run.options(json!({}))?;
    let query = if options["dryRun"].is_null() { "" } else { "?dryRun=All" };
    let path = format!("{}{query}", kind.collection(cluster.namespace()));
    let created = cluster.answer(Method::POST, &path, &object).await.map_err(|e| e.into_error(&what))?;
    let migration = created["metadata"]["name"].as_str().unwrap_or_default();
    ui::out(&offline_message(name, migration, &super::prefix(), !query.is_empty()))
}

/// Whether the disks can be moved is known later, for example when their sizes are: the message does not promise it.
fn offline_message(name: &str, migration: &str, program: &str, is_dry_run: bool) -> String {
    if is_dry_run {
        return format!("The migration of the disks of VM {name} would be created (dry run)\n");
    }
    format!(
        "The migration {migration} of the disks of VM {name} was created. Watch it: {program} why {name}\n"
    )
}

pub(super) async fn cancel(args: &CancelArgs, cluster: &Cluster) -> Result<()> {
    let name = &args.vm.name;
    let what = doing("cancel the migration of", Kind::VirtualMachine, name, cluster);
    let options = args.dry_run.options(json!({}))?;
    let selector = escaped(&format!("{MIGRATED_VMI}={}", names::label(name)));
    let path = format!(
        "{}?labelSelector={selector}",
        Kind::VirtualMachineInstanceMigration.collection(cluster.namespace())
    );
    let migrations = match cluster.list_whole(&path).await {
        // A cluster without live migration may not have the kind.
        Err(failure) if failure.code() == 404 => Vec::new(),
        found => found.map_err(|e| e.into_error(&what))?,
    };
    let Some(active) = active(&migrations) else {
        return Err(Error::new(ErrorKind::NotFound, format!("Found no migration to cancel for {name}")));
    };
    let path = Kind::VirtualMachineInstanceMigration.object(cluster.namespace(), active);
    cluster.delete(&path, &options).await.map_err(|e| e.into_error(&what))?;
    ui::out(&format!("VM {name} was scheduled to migrate-cancel\n"))
}

/// Name of the migration that has not ended.
fn active(migrations: &[Value]) -> Option<&str> {
    let goes_on = |one: &&Value| !matches!(one["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    migrations.iter().find(goes_on)?["metadata"]["name"].as_str()
}

pub(super) async fn evacuate_cancel(args: &EvacuateCancelArgs, cluster: &Cluster) -> Result<()> {
    let TypedArg { kind, name } = &args.object;
    let verb = "cancel the evacuation of";
    let what = doing(verb, *kind, name, cluster);
    let vmi = cluster.object(Kind::VirtualMachineInstance, name, &what).await?;
    let Some(node) = vmi["status"]["nodeName"].as_str().filter(|node| !node.is_empty()) else {
        return Err(Error::failed(format!("{what}: it is on no node yet")));
    };
    let options = args.dry_run.options(json!({"evacuationNodeName": node}))?;
    ask(cluster, verb, (*kind, name), "evacuate/cancel", Some(&options)).await?;
    ui::out(&format!("{kind} {}/{name} was canceled evacuation\n", cluster.namespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_migration_that_goes_on_is_found_among_those_that_have_ended() {
        let one = |name: &str, phase: &str| json!({"metadata": {"name": name}, "status": {"phase": phase}});
        let all = [one("a", "Failed"), one("b", "Succeeded"), one("c", "Running"), one("d", "Pending")];
        assert_eq!(active(&all), Some("c"));
        assert_eq!(active(&all[..2]), None);
        assert_eq!(active(&[json!({"metadata": {"name": "new"}})]), Some("new"));
    }

    #[test]
    fn an_offline_migration_that_was_created_is_not_told_as_one_that_moves_the_disks() {
        let said = offline_message("web", "move-1", "coracle virt", false);
        assert_eq!(
            said,
            "The migration move-1 of the disks of VM web was created. Watch it: coracle virt why web\n"
        );
        assert!(offline_message("web", "move-1", "coracle virt", true).ends_with("(dry run)\n"));
    }

    #[test]
    fn labels_have_a_key() {
        assert_eq!(label("a/b=c=d"), Ok(("a/b".to_owned(), "c=d".to_owned())));
        assert!(label("=b").is_err() && label("a").is_err());
    }
}
