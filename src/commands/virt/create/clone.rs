//! The verb `create clone`.

use super::{object, unused, usage};
use crate::error::Result;
use crate::virt::target::name;
use serde_json::{Map, Value, json};

/// Print the manifest of the clone of a VM
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the clone object [default: clone- and five letters]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,

    /// Name of the VM or snapshot to clone
    #[arg(long, value_name = "NAME", value_parser = name)]
    source_name: String,

    /// Name of the new VM [default: chosen by the cluster]
    #[arg(long, value_name = "NAME", value_parser = name)]
    target_name: Option<String>,

    /// Type of the source: vm or vmsnapshot
    #[arg(long, value_name = "TYPE", default_value = "vm")]
    source_type: String,

    /// Type of the target: vm
    #[arg(long, value_name = "TYPE", default_value = "vm")]
    target_type: String,

    /// Labels to keep; repeat for several: '*', or '!KEY' for one to leave out
    #[arg(long, value_name = "FILTER")]
    label_filter: Vec<String>,

    /// Annotations to keep; repeat for several
    #[arg(long, value_name = "FILTER")]
    annotation_filter: Vec<String>,

    /// Labels of the template to keep; repeat for several
    #[arg(long, value_name = "FILTER")]
    template_label_filter: Vec<String>,

    /// Annotations of the template to keep; repeat for several
    #[arg(long, value_name = "FILTER")]
    template_annotation_filter: Vec<String>,

    /// MAC address of an interface; repeat for several: INTERFACE:ADDRESS,
    /// with dashes in the address
    #[arg(long, value_name = "MAC")]
    new_mac_address: Vec<String>,

    /// Serial number of the new VM in its SMBIOS
    #[arg(long = "new-smbios-serial", value_name = "SERIAL")]
    new_smbios_serial: Option<String>,
}

pub(super) fn manifest(args: &Args, namespace: Option<&str>) -> Result<Value> {
    let name = args.name.clone().map_or_else(|| unused("clone-"), Ok)?;
    let mut clone = object("clone.kubevirt.io/v1beta1", "VirtualMachineClone", &name, namespace);
    let mut source = reference("source", &args.source_type, &["vm", "vmsnapshot"])?;
    source["name"] = json!(args.source_name);
    let mut target = reference("target", &args.target_type, &["vm"])?;
    target["name"] = json!(args.target_name.as_deref().unwrap_or_default());
    let mut spec = json!({"source": source, "target": target, "template": {}});
    for (field, filters) in
        [("labelFilters", &args.label_filter), ("annotationFilters", &args.annotation_filter)]
    {
        fill(&mut spec, field, filters);
    }
    for (field, filters) in [
        ("labelFilters", &args.template_label_filter),
        ("annotationFilters", &args.template_annotation_filter),
    ] {
        fill(&mut spec["template"], field, filters);
    }
    let addresses: Map<String, Value> =
        args.new_mac_address.iter().map(|text| address(text)).collect::<Result<_>>()?;
    if !addresses.is_empty() {
        spec["newMacAddresses"] = Value::from(addresses);
    }
    if let Some(serial) = &args.new_smbios_serial {
        spec["newSMBiosSerial"] = json!(serial);
    }
    clone["spec"] = spec;
    Ok(clone)
}

fn fill(object: &mut Value, field: &str, filters: &[String]) {
    if !filters.is_empty() {
        object[field] = json!(filters);
    }
}

fn reference(side: &str, kind: &str, supported: &[&str]) -> Result<Value> {
    let (group, word, kind) = match kind {
        "vm" | "VM" | "VirtualMachine" | "virtualmachine" => ("kubevirt.io", "vm", "VirtualMachine"),
        "snapshot" | "vmsnapshot" | "VMSnapshot" | "VirtualMachineSnapshot" => {
            ("snapshot.kubevirt.io", "vmsnapshot", "VirtualMachineSnapshot")
        }
        other => ("", "", other),
    };
    match supported.contains(&word) {
        true => Ok(json!({"apiGroup": group, "kind": kind})),
        false => {
            let what =
                format!("{side} type {kind} is not supported. Supported types: {}", supported.join(", "));
            Err(usage(what))
        }
    }
}

fn address(text: &str) -> Result<(String, Value)> {
    match text.split(':').collect::<Vec<_>>().as_slice() {
        [interface, address] if !interface.is_empty() && !address.is_empty() => {
            Ok(((*interface).to_owned(), json!(address)))
        }
        _ => {
            let what = format!(
                "newMacAddress parameter {text} is invalid: exactly one ':' is expected. For example: 'interface0:address0'"
            );
            Err(usage(what).with_hint("write the address with dashes: 02-00-00-00-00-01"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches as _};

    fn made(line: &str) -> Result<Value> {
        let command = Args::augment_args(clap::Command::new("clone").no_binary_name(true));
        let matches = command.try_get_matches_from(line.split_whitespace()).unwrap();
        manifest(&Args::from_arg_matches(&matches).unwrap(), None)
    }

    #[test]
    fn a_clone_is_described_as_virtctl_describes_it() {
        let line = "--source-name=s --source-type=snapshot --target-name=t --label-filter=* --label-filter=!a/b \
                    --template-annotation-filter=c --new-mac-address=default:02-00-00-00-00-01 --new-smbios-serial=7 --name=c";
        let wanted = json!({
            "apiVersion": "clone.kubevirt.io/v1beta1", "kind": "VirtualMachineClone", "metadata": {"name": "c"},
            "spec": {
                "source": {"apiGroup": "snapshot.kubevirt.io", "kind": "VirtualMachineSnapshot", "name": "s"},
                "target": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "t"},
                "labelFilters": ["*", "!a/b"],
                "template": {"annotationFilters": ["c"]},
                "newMacAddresses": {"default": "02-00-00-00-00-01"},
                "newSMBiosSerial": "7",
            },
        });
        assert_eq!(made(line).unwrap(), wanted);
        for line in [
            "--source-name=s --source-type=pod",
            "--source-name=s --target-type=snapshot",
            "--source-name=s --new-mac-address=default:02:00",
            "--source-name=s --new-mac-address=:02",
        ] {
            assert_eq!(made(line).unwrap_err().kind(), crate::error::ErrorKind::Usage, "{line}");
        }
    }
}
