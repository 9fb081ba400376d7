//! The verbs `addvolume`, `removevolume` and `memory-dump`.

use super::args::{DryRunArg, VmArg, VmiArg, ask, doing};
use crate::error::{Error, ErrorKind, Result};
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::failure::Failure;
use crate::virt::target::name;
use cluster_model::objects::Kind;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// Hotplug a volume into a running VM
///
/// Clusters of this version refuse this.
#[derive(Debug, clap::Args)]
pub(super) struct AddArgs {
    #[command(flatten)]
    vmi: VmiArg,

    /// Name of the DataVolume or PVC to add
    #[arg(long, value_name = "NAME", value_parser = name)]
    volume_name: String,

    /// Name of the disk and volume in the spec [default: that of the volume]
    #[arg(long, value_name = "NAME", value_parser = name)]
    disk_name: Option<String>,

    /// Serial number of the disk [default: its name]
    #[arg(long, value_name = "SERIAL")]
    serial: Option<String>,

    /// Cache mode of the disk: none, writethrough or writeback
    #[arg(long, value_name = "MODE", value_parser = ["none", "writethrough", "writeback"])]
    cache: Option<String>,

    /// Type of the device: disk or lun
    #[arg(long, value_name = "TYPE", default_value = "disk", value_parser = ["disk", "lun"])]
    disk_type: String,

    /// Bus of the device: scsi or virtio
    #[arg(long, value_name = "BUS", default_value = "scsi", value_parser = ["scsi", "virtio"])]
    bus: String,

    /// Deprecated: volumes are always kept in the spec of the VM
    #[arg(long)]
    persist: bool,

    #[command(flatten)]
    dry_run: DryRunArg,
}

/// Unplug a hotplugged volume from a running VM
///
/// Clusters of this version refuse this.
#[derive(Debug, clap::Args)]
pub(super) struct RemoveArgs {
    #[command(flatten)]
    vmi: VmiArg,

    /// Name of the volume in the spec, or of its DataVolume or PVC
    #[arg(long, value_name = "NAME", value_parser = name)]
    volume_name: String,

    /// Deprecated: volumes are always removed from the spec of the VM
    #[arg(long)]
    persist: bool,

    #[command(flatten)]
    dry_run: DryRunArg,
}

/// Dump the memory of a running VM to a PVC
///
/// Clusters of this version refuse this.
#[derive(Debug, clap::Args)]
pub(super) struct MemoryDumpArgs {
    #[command(subcommand)]
    what: MemoryDump,
}

#[derive(Debug, clap::Subcommand)]
enum MemoryDump {
    /// Dump the memory of a VM to a PVC
    ///
    /// Clusters of this version refuse this.
    Get {
        #[command(flatten)]
        vm: VmArg,

        /// Name of the PVC for the dump [default: that of the last dump]
        #[arg(long, value_name = "NAME", value_parser = name)]
        claim_name: Option<String>,
    },
    /// Detach the PVC with the memory dump from a VM
    ///
    /// Clusters of this version refuse this.
    Remove {
        #[command(flatten)]
        vm: VmArg,
    },
}

const VM: Kind = Kind::VirtualMachine;
const VMI: Kind = Kind::VirtualMachineInstance;
/// Maximum length of a disk's name, which becomes a DNS label.
const LABEL: usize = 63;
/// Message of the API server after a concurrent change of the VM.
const CONCURRENT: &str = "the server rejected our request due to an error in our request";
const TRIES: u32 = 15;

pub(super) async fn add(args: &AddArgs, cluster: &Cluster) -> Result<()> {
    if args.persist {
        ui::say("coracle: --persist is deprecated, and has no effect");
    }
    let what = doing(&format!("add volume {} to", args.volume_name), VM, &args.vmi.name, cluster);
    // Usage errors come before the first request.
    let mut request = request(args)?;
    request["volumeSource"] = source(&args.volume_name, cluster, &what).await?;
    let options = args.dry_run.options(request)?;
    twice(cluster, &args.vmi.name, "addvolume", &options).await.map_err(|e| e.into_error(&what))?;
    let (vm, volume) = (&args.vmi.name, &args.volume_name);
    ui::out(&format!("Successfully submitted add volume request to VM {vm} for volume {volume}\n"))
}

pub(super) async fn remove(args: &RemoveArgs, cluster: &Cluster) -> Result<()> {
    if args.persist {
        ui::say("coracle: --persist is deprecated, and has no effect");
    }
    let (vm, volume) = (&args.vmi.name, &args.volume_name);
    let what = doing(&format!("remove volume {volume} from"), VM, vm, cluster);
    let options = args.dry_run.options(json!({"name": volume}))?;
    twice(cluster, vm, "removevolume", &options).await.map_err(|e| e.into_error(&what))?;
    ui::out(&format!("Successfully submitted remove volume request to VM {vm} for volume {volume}\n"))
}

/// The disk, without its source.
fn request(args: &AddArgs) -> Result<Value> {
    let usage = |what: String| Error::new(ErrorKind::Usage, what);
    let disk = args.disk_name.as_ref().unwrap_or(&args.volume_name);
    if disk.len() > LABEL {
        let what = format!("the name of disk {disk} is longer than {LABEL} characters");
        return Err(usage(what).with_hint("say a shorter one by --disk-name"));
    }
    if args.disk_type == "lun" && args.bus != "scsi" {
        let what = format!("Invalid bus type '{}' for LUN disk. Only 'scsi' bus is supported.", args.bus);
        return Err(usage(what));
    }
    let mut device = json!({"serial": args.serial.as_ref().unwrap_or(disk)});
    device[args.disk_type.as_str()] = json!({"bus": args.bus});
    if let Some(cache) = &args.cache {
        device["cache"] = json!(cache);
    }
    Ok(json!({"name": disk, "disk": device}))
}

/// Source of a volume: a DataVolume or a PVC of this name.
async fn source(volume: &str, cluster: &Cluster, what: &str) -> Result<Value> {
    let find = async |kind: Kind| cluster.find(&kind.object(cluster.namespace(), volume)).await;
    // A user without permission to read DataVolumes may still use a PVC.
    if let Ok(Some(_)) = find(Kind::DataVolume).await {
        return Ok(json!({"dataVolume": {"name": volume, "hotpluggable": true}}));
    }
    match find(Kind::PersistentVolumeClaim).await.map_err(|e| e.into_error(what))? {
        Some(_) => Ok(json!({"persistentVolumeClaim": {"claimName": volume, "hotpluggable": true}})),
        None => Err(Error::new(
            ErrorKind::NotFound,
            format!("{what}: Volume {volume} is not a DataVolume or PersistentVolumeClaim"),
        )),
    }
}

/// Sends the request to the VM, which persists the change, or to a VMI without a VM.
async fn twice(cluster: &Cluster, name: &str, part: &str, options: &Value) -> Result<(), Failure> {
    let mut tried = 0;
    loop {
        let path = |kind: Kind| kind.part(cluster.namespace(), name, part);
        let done = match cluster.put(&path(VM), Some(options)).await {
            Err(failure) if failure.code() == 404 => cluster.put(&path(VMI), Some(options)).await,
            done => done,
        };
        match done {
            Err(failure) if failure.message().starts_with(CONCURRENT) && tried < TRIES => {
                tried += 1;
                sleep(Duration::from_millis(u64::from(tried) * 5)).await;
            }
            done => return done,
        }
    }
}

pub(super) async fn memory_dump(args: &MemoryDumpArgs, cluster: &Cluster) -> Result<()> {
    match &args.what {
        MemoryDump::Get { vm, claim_name } => {
            let options = json!({"claimName": claim_name.as_deref().unwrap_or_default(), "phase": ""});
            ask(cluster, "dump the memory of", (VM, &vm.name), "memorydump", Some(&options)).await?;
            ui::out(&format!("Successfully submitted memory dump request of VM {}\n", vm.name))
        }
        MemoryDump::Remove { vm } => {
            let verb = "remove the memory dump of";
            ask(cluster, verb, (VM, &vm.name), "removememorydump", None).await?;
            ui::out(&format!("Successfully submitted remove memory dump association of VM {}\n", vm.name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches as _};

    fn args(line: &str) -> AddArgs {
        let command = AddArgs::augment_args(clap::Command::new("addvolume"));
        let matches = command.get_matches_from(line.split_whitespace());
        AddArgs::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn a_disk_is_described_as_upstream_does() {
        let plain = request(&args("addvolume web --volume-name=d")).unwrap();
        assert_eq!(plain, json!({"name": "d", "disk": {"serial": "d", "disk": {"bus": "scsi"}}}));
        let all = "addvolume web --volume-name=d --disk-name=e --serial=1 --cache=none --disk-type=disk --bus=virtio";
        let all = request(&args(all)).unwrap();
        let wanted =
            json!({"name": "e", "disk": {"serial": "1", "cache": "none", "disk": {"bus": "virtio"}}});
        assert_eq!(all, wanted);
        let lun = request(&args("addvolume web --volume-name=d --disk-type=lun")).unwrap();
        assert_eq!(lun["disk"], json!({"serial": "d", "lun": {"bus": "scsi"}}));
    }

    #[test]
    fn a_disk_that_cannot_be_is_refused_before_anything_is_asked() {
        let virtio = request(&args("addvolume web --volume-name=d --disk-type=lun --bus=virtio"));
        assert!(virtio.unwrap_err().to_string().contains("Only 'scsi' bus is supported"));
        let long = format!("addvolume web --volume-name={}", "d".repeat(64));
        assert!(request(&args(&long)).unwrap_err().to_string().contains("--disk-name"));
    }
}
