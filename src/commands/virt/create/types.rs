//! The verbs `create instancetype` and `create preference`.

use super::params::{Params, fault};
use super::{object, unused, usage};
use crate::error::Result;
use crate::virt::target::name;
use api::quantity::Quantity;
use serde_json::{Value, json};

/// Print the manifest of an instance type
#[derive(Debug, clap::Args)]
pub(super) struct InstanceTypeArgs {
    /// Name of the instance type [default: a new one]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,

    /// Number of the guest's vCPUs
    #[arg(long, value_name = "NUMBER")]
    cpu: u32,

    /// Memory of the guest
    #[arg(long, value_name = "SIZE")]
    memory: String,

    /// IOThreads policy: auto or shared
    #[arg(long = "iothreadspolicy", value_name = "POLICY")]
    io_threads_policy: Option<String>,

    /// VirtualMachineInstancetype of a namespace, in place of one of the
    /// cluster
    #[arg(long)]
    namespaced: bool,

    /// GPU to pass through; repeat for several: name:NAME,devicename:DEVICE
    #[arg(long, value_name = "PARAMS")]
    gpu: Vec<String>,

    /// Host device to pass through; repeat for several:
    /// name:NAME,devicename:DEVICE
    #[arg(long = "hostdevice", value_name = "PARAMS")]
    host_device: Vec<String>,
}

/// Print the manifest of a preference
#[derive(Debug, clap::Args)]
pub(super) struct PreferenceArgs {
    /// VirtualMachinePreference of a namespace, in place of one of the cluster
    #[arg(long)]
    namespaced: bool,

    /// Name of the preference [default: a new one]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,

    /// Storage class of volumes
    #[arg(long, value_name = "NAME", value_parser = name)]
    volume_storage_class: Option<String>,

    /// Preferred machine type of VMs
    #[arg(long, value_name = "TYPE")]
    machine_type: Option<String>,

    /// Topology of vCPUs: sockets, cores, threads, spread or any
    #[arg(long, value_name = "TOPOLOGY")]
    cpu_topology: Option<String>,
}

const GROUP: &str = "instancetype.kubevirt.io/v1beta1";
/// CPU topologies, by their names and their deprecated names.
const TOPOLOGIES: [&str; 10] = [
    "sockets",
    "cores",
    "threads",
    "spread",
    "any",
    "preferSockets",
    "preferCores",
    "preferThreads",
    "preferSpread",
    "preferAny",
];

pub(super) fn instance_type(args: &InstanceTypeArgs, namespace: Option<&str>) -> Result<Value> {
    if args.cpu == 0 {
        return Err(usage("cpu value must be greater than zero"));
    }
    if Quantity::parse(&args.memory).is_err() {
        return Err(fault("memory", &format!("{} is not a quantity: say 512Mi or 2Gi", args.memory)));
    }
    let mut spec = json!({"cpu": {"guest": args.cpu}, "memory": {"guest": args.memory}});
    for (flag, field, texts) in [("gpu", "gpus", &args.gpu), ("hostdevice", "hostDevices", &args.host_device)]
    {
        let devices: Vec<Value> = texts.iter().map(|text| device(flag, text)).collect::<Result<_>>()?;
        if !devices.is_empty() {
            spec[field] = json!(devices);
        }
    }
    match args.io_threads_policy.as_deref() {
        None => {}
        Some(policy @ ("auto" | "shared")) => spec["ioThreadsPolicy"] = json!(policy),
        Some(_) => return Err(fault("iothreadspolicy", "IOThread must be of value auto or shared")),
    }
    of_kind("Instancetype", args.namespaced, args.name.as_deref(), namespace, spec)
}

pub(super) fn preference(args: &PreferenceArgs, namespace: Option<&str>) -> Result<Value> {
    let mut spec = json!({});
    if let Some(class) = &args.volume_storage_class {
        spec["volumes"] = json!({"preferredStorageClassName": class});
    }
    if let Some(machine) = &args.machine_type {
        spec["machine"] = json!({"preferredMachineType": machine});
    }
    if let Some(topology) = &args.cpu_topology {
        if !TOPOLOGIES.contains(&topology.as_str()) {
            let what = "CPU topology must have a value of sockets, cores, threads or spread";
            return Err(fault("cpu-topology", what));
        }
        spec["cpu"] = json!({"preferredCPUTopology": topology});
    }
    of_kind("Preference", args.namespaced, args.name.as_deref(), namespace, spec)
}

fn device(flag: &'static str, text: &str) -> Result<Value> {
    let params = Params::parse(flag, text, &["name", "devicename"])?;
    let name = params.must("name")?;
    let device = params.get("devicename").ok_or_else(|| params.fault("deviceName must be specified"))?;
    Ok(json!({"name": name, "deviceName": device}))
}

/// An object of the namespaced kind if a flag asks for it, else of the cluster-wide kind.
fn of_kind(
    kind: &str,
    namespaced: bool,
    name: Option<&str>,
    namespace: Option<&str>,
    spec: Value,
) -> Result<Value> {
    let of_cluster = if namespaced || namespace.is_some() { "" } else { "Cluster" };
    let name = match name {
        Some(name) => name.to_owned(),
        None => unused(&format!("{of_cluster}{kind}-").to_lowercase())?,
    };
    let mut object = object(GROUP, &format!("VirtualMachine{of_cluster}{kind}"), &name, namespace);
    object["spec"] = spec;
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn args<T: Args + FromArgMatches>(line: &str) -> T {
        let command = T::augment_args(clap::Command::new("x").no_binary_name(true));
        T::from_arg_matches(&command.try_get_matches_from(line.split_whitespace()).unwrap()).unwrap()
    }

    #[test]
    fn an_instance_type_is_of_the_cluster_or_of_a_namespace() {
        let of = |line: &str, namespace| instance_type(&args(line), namespace).unwrap();
        let wide = of("--cpu=2 --memory=256Mi", None);
        assert_eq!(wide["kind"], "VirtualMachineClusterInstancetype");
        assert!(wide["metadata"]["name"].as_str().unwrap().starts_with("clusterinstancetype-"));
        let line = "--cpu=2 --memory=1Gi --name=t --iothreadspolicy=auto --gpu=name:g,devicename:nvidia/a --hostdevice=name:h,devicename:d";
        let wanted = json!({
            "apiVersion": GROUP, "kind": "VirtualMachineInstancetype",
            "metadata": {"name": "t", "namespace": "blue"},
            "spec": {
                "cpu": {"guest": 2}, "memory": {"guest": "1Gi"}, "ioThreadsPolicy": "auto",
                "gpus": [{"name": "g", "deviceName": "nvidia/a"}],
                "hostDevices": [{"name": "h", "deviceName": "d"}],
            },
        });
        assert_eq!(of(line, Some("blue")), wanted);
        assert_eq!(of("--cpu=1 --memory=1Gi --namespaced", None)["kind"], "VirtualMachineInstancetype");
        for line in [
            "--cpu=0 --memory=1Gi",
            "--cpu=1 --memory=x",
            "--cpu=1 --memory=1Gi --iothreadspolicy=none",
            "--cpu=1 --memory=1Gi --gpu=name:g",
        ] {
            assert!(instance_type(&args(line), None).is_err(), "{line}");
        }
    }

    #[test]
    fn a_preference_has_what_is_said() {
        let line = "--name=p --volume-storage-class=fast --machine-type=q35 --cpu-topology=cores";
        let spec = json!({
            "cpu": {"preferredCPUTopology": "cores"},
            "machine": {"preferredMachineType": "q35"},
            "volumes": {"preferredStorageClassName": "fast"},
        });
        let made = preference(&args(line), None).unwrap();
        assert_eq!((&made["kind"], &made["spec"]), (&json!("VirtualMachineClusterPreference"), &spec));
        assert!(preference(&args("--cpu-topology=round"), None).is_err());
    }
}
