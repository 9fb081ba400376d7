//! Faults of an instance type or a preference by itself. virt-api checks when one is written, and
//! virt-controller when one is used, since a webhook may have been absent at the writing. Bounds on the size
//! are a part of it ([`bounds`]).

use crate::fault::{Fault, Reason};
use crate::instancetype::{InstancetypeSpec, PreferenceSpec, SpreadAcross, Topology, bounds};
use crate::wire::Wire;

/// All faults of the spec of an instance type.
pub fn of_instancetype(spec: &InstancetypeSpec) -> Vec<Fault> {
    let mut faults = bounds::faults(&spec.write());
    if spec.cpu.guest == 0 {
        faults.push(Fault::new("spec.cpu.guest", Reason::Invalid, "must be at least 1"));
    }
    if spec.memory.guest.nanos() <= 0 {
        faults.push(Fault::new("spec.memory.guest", Reason::Invalid, "must be larger than 0"));
    }
    let at = "spec.memory.overcommitPercent";
    let percent = spec.memory.overcommit_percent.unwrap_or(0);
    if !(0..=100).contains(&percent) {
        let what = format!("{at} '{percent}': must be in range between 0 and 100.");
        faults.push(Fault::new(at, Reason::Invalid, what));
    }
    if percent != 0 && spec.memory.hugepages.is_some() {
        let what = format!("{at} and spec.memory.hugepages should not be requested together.");
        faults.push(Fault::new(at, Reason::Invalid, what));
    }
    faults
}

/// Warnings for the author of an instance type.
pub fn warnings_of_instancetype(spec: &InstancetypeSpec) -> Vec<String> {
    let old = spec.launch_security.as_ref().map(|_| {
        "launchSecurity is deprecated and will be removed in a future release. Use preference instead."
            .to_owned()
    });
    old.into_iter().collect()
}

/// All faults of the spec of a preference.
pub fn of_preference(spec: &PreferenceSpec) -> Vec<Fault> {
    let mut faults = bounds::faults(&spec.write());
    if let Topology::Other(word) = spec.topology() {
        let what = format!("unknown preferredCPUTopology {word}");
        faults.push(Fault::new("spec.cpu.preferredCPUTopology", Reason::Invalid, what));
    }
    if spec.topology() != Topology::Spread {
        return faults;
    }
    let (ratio, across) = spec.spread();
    let at = "spec.cpu.spreadOptions.ratio";
    match across {
        SpreadAcross::Other(word) => {
            let what = format!("across {word} is not supported");
            faults.push(Fault::new("spec.cpu.spreadOptions.across", Reason::Invalid, what));
        }
        SpreadAcross::CoresThreads if ratio != 2 => {
            let what =
                "only a ratio of 2 (1 core 2 threads) is allowed when spreading vCPUs over cores and threads";
            faults.push(Fault::new(at, Reason::Invalid, what));
        }
        _ if ratio == 0 => faults.push(Fault::new(at, Reason::Invalid, "must be at least 1")),
        _ => {}
    }
    faults
}

/// Warnings for the author of a preference.
pub fn warnings_of_preference(spec: &PreferenceSpec) -> Vec<String> {
    let said = spec.cpu.as_ref().and_then(|cpu| cpu.preferred_cpu_topology.as_ref());
    let old = said.filter(|said| said.current() != **said).map(|said| {
        let new = said.current();
        format!(
            "PreferredCPUTopology {said} is deprecated for removal in a future release, please use {new} instead"
        )
    });
    old.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;
    use serde_json::{Value, json};

    #[test]
    fn an_instance_type_has_a_size_and_overcommits_in_percent() {
        let told = |memory: Value| {
            let spec = wire::read(json!({"cpu": {"guest": 1}, "memory": memory})).unwrap();
            of_instancetype(&spec).into_iter().map(|fault| fault.message).collect::<Vec<_>>()
        };
        assert_eq!(told(json!({"guest": "1Gi", "overcommitPercent": 100})), [""; 0]);
        assert_eq!(
            told(json!({"guest": "1Gi", "overcommitPercent": 101})),
            ["spec.memory.overcommitPercent '101': must be in range between 0 and 100."]
        );
        assert_eq!(
            told(json!({"guest": "1Gi", "overcommitPercent": 1, "hugepages": {}})),
            ["spec.memory.overcommitPercent and spec.memory.hugepages should not be requested together."]
        );
        assert_eq!(told(json!({"guest": "0"})), ["must be larger than 0"]);
        let none = of_instancetype(&InstancetypeSpec::default());
        assert_eq!(none.len(), 2);
    }

    #[test]
    fn a_topology_is_one_that_is_known() {
        let spec = |cpu: Value| wire::read::<PreferenceSpec>(json!({"cpu": cpu})).unwrap();
        let told = |cpu: Value| {
            of_preference(&spec(cpu))
                .into_iter()
                .map(|fault| (fault.field, fault.message))
                .collect::<Vec<_>>()
        };
        let one = |field: &str, message: &str| vec![(field.to_owned(), message.to_owned())];
        assert_eq!(told(json!({"preferredCPUTopology": "preferSpread"})), []);
        assert_eq!(
            told(json!({"preferredCPUTopology": "round"})),
            one("spec.cpu.preferredCPUTopology", "unknown preferredCPUTopology round")
        );
        let spread = |options: Value| json!({"preferredCPUTopology": "spread", "spreadOptions": options});
        assert_eq!(
            told(spread(json!({"across": "Nodes"}))),
            one("spec.cpu.spreadOptions.across", "across Nodes is not supported")
        );
        assert_eq!(
            told(spread(json!({"across": "CoresThreads", "ratio": 3}))),
            one(
                "spec.cpu.spreadOptions.ratio",
                "only a ratio of 2 (1 core 2 threads) is allowed when spreading vCPUs over cores and threads"
            )
        );
        assert_eq!(
            told(spread(json!({"ratio": 0}))),
            one("spec.cpu.spreadOptions.ratio", "must be at least 1")
        );
        assert_eq!(
            warnings_of_preference(&spec(json!({"preferredCPUTopology": "preferCores"}))),
            [
                "PreferredCPUTopology preferCores is deprecated for removal in a future release, please use cores instead"
            ]
        );
    }
}
