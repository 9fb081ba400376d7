//! Minimum requirements of a preference, and the faults of a VM that does not meet them.

use crate::instancetype::{InstancetypeSpec, PreferenceSpec, SpreadAcross, Topology};
use crate::quantity::Quantity;
use crate::vmi::{Cpu, Domain, Spec};

/// A requirement that is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The fields with too small values.
    pub fields: Vec<String>,
    /// Human-readable message, in the words of upstream.
    pub message: String,
}

/// Field at fault if the VM has an instance type.
const INSTANCETYPE: &str = "spec.instancetype";
/// Field at fault if the VM sets its resources itself.
const DOMAIN: &str = "spec.template.spec.domain";

/// Checks the requirements; an error is the first one that is not met. `spec`: the spec of the VM before
/// defaults and expansion.
pub fn requirements(
    instancetype: Option<&InstancetypeSpec>,
    preference: &PreferenceSpec,
    spec: &Spec,
) -> Result<(), Requirement> {
    let Some(wanted) = &preference.requirements else { return Ok(()) };
    if let Some(least) = wanted.cpu.as_ref().map(|cpu| cpu.guest) {
        match instancetype {
            Some(given) if given.cpu.guest < least => {
                let has = given.cpu.guest;
                return Err(Requirement {
                    fields: vec![INSTANCETYPE.to_owned()],
                    message: format!(
                        "insufficient CPU resources of {has} vCPU provided by instance type, preference requires {least} vCPU"
                    ),
                });
            }
            Some(_) => {}
            None => of_topology(preference, spec.domain.cpu.as_ref(), least)?,
        }
    }
    if let Some(least) = wanted.memory.as_ref().map(|memory| &memory.guest) {
        of_memory(instancetype, &spec.domain, least)?;
    }
    let wants = wanted.architecture.as_deref().filter(|wants| !wants.is_empty());
    let has = spec.architecture.as_deref().unwrap_or_default();
    match wants {
        Some(wants) if wants != has => Err(Requirement {
            fields: vec!["spec.template.spec.architecture".to_owned()],
            message: format!("preference requires architecture {wants} but {has} is being requested"),
        }),
        _ => Ok(()),
    }
}

/// Checks the vCPUs of a VM without an instance type, at the levels of the preferred topology.
fn of_topology(preference: &PreferenceSpec, cpu: Option<&Cpu>, least: u32) -> Result<(), Requirement> {
    let Some(cpu) = cpu else {
        return Err(Requirement {
            fields: vec![format!("{DOMAIN}.cpu")],
            message: format!("no CPU resources provided by VirtualMachine, preference requires {least} vCPU"),
        });
    };
    let said = |count: Option<u32>| count.unwrap_or(0);
    let all = [("cores", said(cpu.cores)), ("sockets", said(cpu.sockets)), ("threads", said(cpu.threads))];
    let (names, told): (&[&str], String) = match preference.topology() {
        Topology::Threads => (&["threads"], "threads".to_owned()),
        Topology::Cores => (&["cores"], "cores".to_owned()),
        Topology::Spread => {
            let across = preference.spread().1;
            let names: &[&str] = match across {
                SpreadAcross::CoresThreads => &["cores", "threads"],
                SpreadAcross::SocketsCoresThreads => &["sockets", "cores", "threads"],
                _ => &["sockets", "cores"],
            };
            (names, across.to_string())
        }
        Topology::Any => (&["cores", "sockets", "threads"], "cores, sockets and threads".to_owned()),
        _ => (&["sockets"], "sockets".to_owned()),
    };
    let counts = names.iter().filter_map(|name| all.iter().find(|(known, _)| known == name));
    let has = counts.fold(1_u32, |product, (_, count)| product.saturating_mul(*count));
    if has >= least {
        return Ok(());
    }
    Err(Requirement {
        fields: names.iter().map(|name| format!("{DOMAIN}.cpu.{name}")).collect(),
        message: format!(
            "insufficient CPU resources of {has} vCPU provided by VirtualMachine, preference requires {least} vCPU \
             provided as {told}"
        ),
    })
}

fn of_memory(
    instancetype: Option<&InstancetypeSpec>,
    domain: &Domain,
    least: &Quantity,
) -> Result<(), Requirement> {
    let told = |whose: &str, has: &Quantity| {
        format!("insufficient Memory resources of {has} provided by {whose}, preference requires {least}")
    };
    let is_less = |has: &Quantity| has.nanos() < least.nanos();
    if let Some(given) = instancetype {
        let has = &given.memory.guest;
        return match is_less(has) {
            true => Err(Requirement {
                fields: vec![INSTANCETYPE.to_owned()],
                message: told("instance type", has),
            }),
            false => Ok(()),
        };
    }
    // Upstream reads memory.guest alone. Here requests and hugepages count too, since they size the guest as
    // well.
    match crate::machine::guest_memory(domain) {
        Some((_, has)) if is_less(&has) => Err(Requirement {
            fields: vec![format!("{DOMAIN}.memory")],
            message: told("VirtualMachine", &has),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;
    use serde_json::{Value, json};

    fn told(instancetype: Option<Value>, preference: Value, domain: &Value) -> Option<(String, String)> {
        let given = instancetype.map(|given| wire::read::<InstancetypeSpec>(given).unwrap());
        let preference = wire::read(preference).unwrap();
        let spec = wire::read(json!({"architecture": "amd64", "domain": domain})).unwrap();
        let found = requirements(given.as_ref(), &preference, &spec);
        found.err().map(|found| (found.fields.join(" "), found.message))
    }

    fn some(field: &str, message: &str) -> Option<(String, String)> {
        Some((field.to_owned(), message.to_owned()))
    }

    #[test]
    fn an_instance_type_that_is_too_small_is_told_in_the_words_of_upstream() {
        let given = || Some(json!({"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}}));
        let wants = |cpu: u32, memory: &str| json!({"requirements": {"cpu": {"guest": cpu}, "memory": {"guest": memory}}});
        assert_eq!(told(given(), wants(1, "1024Mi"), &json!({"devices": {}})), None);
        assert_eq!(
            told(given(), wants(2, "1Gi"), &json!({"devices": {}})),
            some(
                "spec.instancetype",
                "insufficient CPU resources of 1 vCPU provided by instance type, preference requires 2 vCPU"
            )
        );
        assert_eq!(
            told(given(), wants(1, "2Gi"), &json!({"devices": {}})),
            some(
                "spec.instancetype",
                "insufficient Memory resources of 1Gi provided by instance type, preference requires 2Gi"
            )
        );
    }

    #[test]
    fn a_vm_that_is_too_small_is_told_where_its_vcpus_are_missed() {
        let wants = |topology: &str| json!({"cpu": {"preferredCPUTopology": topology}, "requirements": {"cpu": {"guest": 4}}});
        let domain = |cpu: Value| json!({"cpu": cpu, "devices": {}});
        assert_eq!(
            told(None, wants("sockets"), &json!({"devices": {}})),
            some(
                "spec.template.spec.domain.cpu",
                "no CPU resources provided by VirtualMachine, preference requires 4 vCPU"
            )
        );
        assert_eq!(
            told(None, wants("cores"), &domain(json!({"cores": 2, "sockets": 8}))),
            some(
                "spec.template.spec.domain.cpu.cores",
                "insufficient CPU resources of 2 vCPU provided by VirtualMachine, preference requires 4 vCPU provided as cores"
            )
        );
        assert_eq!(told(None, wants("spread"), &domain(json!({"cores": 2, "sockets": 2}))), None);
        assert_eq!(
            told(None, wants("spread"), &domain(json!({"cores": 3, "sockets": 1}))).unwrap().0,
            "spec.template.spec.domain.cpu.sockets spec.template.spec.domain.cpu.cores"
        );
        assert_eq!(told(None, wants("any"), &domain(json!({"cores": 2, "sockets": 2, "threads": 1}))), None);
    }

    #[test]
    fn memory_and_architecture_are_looked_at_too() {
        let memory = json!({"requirements": {"memory": {"guest": "2Gi"}}});
        assert_eq!(
            told(None, memory, &json!({"memory": {"guest": "1Gi"}, "devices": {}})),
            some(
                "spec.template.spec.domain.memory",
                "insufficient Memory resources of 1Gi provided by VirtualMachine, preference requires 2Gi"
            )
        );
        assert_eq!(
            told(None, json!({"requirements": {"architecture": "arm64"}}), &json!({"devices": {}})),
            some(
                "spec.template.spec.architecture",
                "preference requires architecture arm64 but amd64 is being requested"
            )
        );
    }
}
