//! The verbs `why` and `events`.

use super::args::VmArg;
use crate::error::{ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::json::text;
use crate::virt::target::{is_replica_set, name};
use crate::virt::why::{event, fetch, fetch_disk, fetch_group, page};
use cluster_model::objects::Kind;
use jiff::Timestamp;
use serde_json::Value;
use std::str::FromStr;

/// Explain what a VM, a pool or a disk waits for, on one page
///
/// The page names the object that the VM waits for, since when, in whose
/// words, and what to do; below are the objects on the way from the VM to its
/// guest, and their newest events. Of a pool and a replica set it says how many
/// of their VMs or VMIs are there, and which are not ready; of a DataVolume, a
/// PVC and a DataImportCron how they stand.
#[derive(Debug, clap::Args)]
pub(super) struct WhyArgs {
    /// Name of the VM, pool or replica set, or TYPE/NAME: vm, vmi, vmim, pool,
    /// rs, dv, pvc or dataimportcron
    #[arg(value_name = "VM")]
    what: Subject,
}

/// The object that the page is about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subject {
    /// `None` without a type: a VM, or else a pool or a replica set.
    kind: Option<Kind>,
    name: String,
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Subject, String> {
        let Some((word, rest)) = text.split_once('/') else {
            return Ok(Subject { kind: None, name: name(text)? });
        };
        let kind = match word.to_lowercase().as_str() {
            "dv" | "dvs" | "datavolume" | "datavolumes" => Kind::DataVolume,
            "pvc" | "pvcs" | "persistentvolumeclaim" | "persistentvolumeclaims" => {
                Kind::PersistentVolumeClaim
            }
            "pool" | "vmpool" | "vmpools" | "virtualmachinepool" | "virtualmachinepools" => {
                Kind::VirtualMachinePool
            }
            word if word == "rs" || is_replica_set(word) => Kind::VirtualMachineInstanceReplicaSet,
            "vmim" | "vmims" | "virtualmachineinstancemigration" | "virtualmachineinstancemigrations" => {
                Kind::VirtualMachineInstanceMigration
            }
            "dic" | "dics" | "dataimportcron" | "dataimportcrons" => Kind::DataImportCron,
            word => crate::virt::target::kind(word).map_err(|_| {
                format!(
                    "unsupported resource type '{word}': say vm, vmi, vmim, pool, rs, dv, pvc or dataimportcron"
                )
            })?,
        };
        Ok(Subject { kind: Some(kind), name: name(rest)? })
    }
}

/// List the events of a VM, and of its VMI, pods and volumes, newest first
#[derive(Debug, clap::Args)]
pub(super) struct EventsArgs {
    #[command(flatten)]
    vm: VmArg,
}

pub(super) async fn why(args: &WhyArgs, cluster: &Cluster) -> Result<()> {
    let Subject { kind, name } = &args.what;
    let text = match kind {
        Some(kind) => about(*kind, name, cluster).await?,
        None => about_any(name, cluster).await?,
    };
    ui::out(&text)
}

/// The page about a VM, or about the pool or the replica set of this name.
async fn about_any(name: &str, cluster: &Cluster) -> Result<String> {
    let no_vm = match about(Kind::VirtualMachine, name, cluster).await {
        Err(e) if e.kind() == ErrorKind::NotFound => e,
        found => return found,
    };
    for kind in [Kind::VirtualMachinePool, Kind::VirtualMachineInstanceReplicaSet] {
        // The error about the VM says enough where these cannot be read.
        if let Ok(page) = about(kind, name, cluster).await {
            return Ok(page);
        }
    }
    Err(no_vm.with_hint("no VMI, pool or replica set has the name either; disks are dv/NAME and pvc/NAME"))
}

async fn about(kind: Kind, name: &str, cluster: &Cluster) -> Result<String> {
    Ok(match kind {
        // The page about a VM includes its VMI.
        Kind::VirtualMachine | Kind::VirtualMachineInstance => {
            page(&fetch(cluster, name).await?, &super::prefix(), Timestamp::now())
        }
        Kind::VirtualMachinePool | Kind::VirtualMachineInstanceReplicaSet => {
            fetch_group(cluster, kind, name).await?.page(&super::prefix(), Timestamp::now())
        }
        Kind::VirtualMachineInstanceMigration => about_migration(name, cluster).await?,
        kind => fetch_disk(cluster, kind, name).await?.page(&super::prefix(), Timestamp::now()),
    })
}

/// The page about the VM of a migration, below how far that migration is.
async fn about_migration(name: &str, cluster: &Cluster) -> Result<String> {
    let kind = Kind::VirtualMachineInstanceMigration;
    let doing = format!("cannot read {kind} {name} in namespace {}", cluster.namespace());
    let migration = cluster.object(kind, name, &doing).await?;
    let page = match text(&migration, "/spec/vmiName") {
        Some(vm) if crate::virt::target::name(vm).is_ok() => match fetch(cluster, vm).await {
            Ok(facts) => page(&facts, &super::prefix(), Timestamp::now()),
            Err(e) => format!("{e}\n"),
        },
        _ => String::new(),
    };
    Ok(format!("{}\n\n{page}", head_of_migration(name, &migration)))
}

/// How far a migration is, and why it failed.
fn head_of_migration(name: &str, migration: &Value) -> String {
    let vm = text(migration, "/spec/vmiName").unwrap_or("(none)");
    let phase = text(migration, "/status/phase").unwrap_or("new");
    let why = text(migration, "/status/migrationState/failureReason");
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    printable::line(&format!("Migration {name} of VM {vm} is {phase}{why}. The page of the VM:"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_asked_about_has_the_type_that_is_said() {
        for (text, kind, name) in [
            ("VMI/web", Kind::VirtualMachineInstance, "web"),
            ("dv/os.1", Kind::DataVolume, "os.1"),
            ("persistentvolumeclaims/a", Kind::PersistentVolumeClaim, "a"),
            ("dic/a", Kind::DataImportCron, "a"),
            ("pool/web", Kind::VirtualMachinePool, "web"),
            ("VMPools/web", Kind::VirtualMachinePool, "web"),
            ("virtualmachinepool/web", Kind::VirtualMachinePool, "web"),
            ("vmim/move-1", Kind::VirtualMachineInstanceMigration, "move-1"),
            ("rs/front", Kind::VirtualMachineInstanceReplicaSet, "front"),
            ("vmirs/front", Kind::VirtualMachineInstanceReplicaSet, "front"),
        ] {
            assert_eq!(text.parse(), Ok(Subject { kind: Some(kind), name: name.to_owned() }));
        }
        assert_eq!("web".parse(), Ok(Subject { kind: None, name: "web".to_owned() }));
        for bad in ["pod/a", "dv/", "dv/../a", "dv/a/b", "/a", ""] {
            assert!(bad.parse::<Subject>().is_err(), "{bad}");
        }
        let error = "pod/a".parse::<Subject>().unwrap_err();
        assert!(error.ends_with("'pod': say vm, vmi, vmim, pool, rs, dv, pvc or dataimportcron"), "{error}");
    }

    #[test]
    fn a_migration_says_how_far_it_is() {
        let mut migration = json!({"spec": {"vmiName": "web"}});
        assert_eq!(head_of_migration("m", &migration), "Migration m of VM web is new. The page of the VM:");
        migration["status"] = json!({"phase": "Failed", "migrationState": {"failureReason": "no\u{1b}room"}});
        assert_eq!(
            head_of_migration("m", &migration),
            "Migration m of VM web is Failed: no room. The page of the VM:"
        );
    }
}
