//! Cards of the pod that Multus reports: `multus-status` among the sources of an interface of the VMI, and a reason while a card is
//! missing.
//!
//! A client that may edit the pod may write the report of Multus, so it is shown and used for nothing else: a VMI is handed over without
//! it (another program may have made the cards), and virt-handler looks for the cards themselves.

use super::outcome::{Change, Outcome};
use super::{VmiReconcile, pod_state};
use api::vmi::{InterfaceStatus, VirtualMachineInstance};
use cluster_model::networks::{ATTACHED, attached_interfaces, card, definition, is_source, sources};
use cluster_model::objects::Pod;
use std::collections::BTreeMap;

/// The reason of the condition, and of the event.
const REASON: &str = "NetworkNotAttached";
/// Networks that one message names.
const NAMED: usize = 5;

/// The interfaces of a VMI on networks of Multus, each with the source `multus-status` where Multus has made its card.
pub(super) fn interfaces(input: &VmiReconcile<'_>, pod: &Pod) -> Outcome {
    let vmi = input.vmi;
    let there = secondary(vmi).next().map(|_| attached_interfaces(&pod.meta).unwrap_or_default());
    let Some(there) = there else { return Outcome::default() };
    // Names of the networks without an entry, with their interfaces; true if Multus has created these.
    let mut missing: BTreeMap<&str, (String, bool)> = secondary(vmi)
        .map(|name| {
            let card = card(name);
            let is_there = there.contains(&card);
            (name, (card, is_there))
        })
        .collect();
    let mut interfaces = vmi.status.as_ref().map(|status| status.interfaces.clone()).unwrap_or_default();
    interfaces.retain_mut(|known| {
        let Some((_, is_there)) = known.name.as_deref().and_then(|name| missing.remove(name)) else {
            return true;
        };
        if is_source(known.info_source.as_deref()) != is_there {
            known.info_source = sources(known.info_source.as_deref(), is_there);
        }
        // Without another source the entry goes.
        known.info_source.is_some()
    });
    for name in secondary(vmi) {
        let Some((card, true)) = missing.remove(name) else { continue };
        interfaces.push(InterfaceStatus {
            name: Some(name.to_owned()),
            pod_interface_name: Some(card),
            info_source: sources(None, true),
            ..InterfaceStatus::default()
        });
    }
    Outcome::default().change(Change::Interfaces(interfaces))
}

/// Reason and message of a pod that runs without a card of a network.
pub(super) fn unattached(input: &VmiReconcile<'_>, pod: &Pod) -> Option<(String, String)> {
    if !pod_state::is_up(pod) {
        return None;
    }
    let own = input.vmi.metadata.namespace.as_deref().unwrap_or_default();
    let there = attached_interfaces(&pod.meta);
    let is_there = |name: &str| there.as_ref().is_some_and(|there| there.contains(&card(name)));
    // For the default network Multus reports only that it was called.
    let lacks = |network: &&api::vmi::Network| match &network.multus {
        Some(multus) if multus.default == Some(true) => there.is_none(),
        Some(_) => !is_there(&network.name),
        None => false,
    };
    let lacking: Vec<String> = input
        .vmi
        .spec
        .networks
        .iter()
        .filter(lacks)
        .map(|network| {
            let written =
                network.multus.as_ref().map(|multus| multus.network_name.as_str()).unwrap_or_default();
            let (namespace, name) = definition(written, own);
            format!("{} (NetworkAttachmentDefinition {namespace}/{name})", network.name)
        })
        .collect();
    if lacking.is_empty() {
        return None;
    }
    let more = lacking.len().saturating_sub(NAMED);
    let mut named = lacking.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        named += &format!(" and {more} more");
    }
    let node = pod.node.as_deref().unwrap_or_default();
    let message = format!(
        "the launcher pod runs on {node} without {named}: its annotation {ATTACHED}, which Multus writes, does not list \
         them. Install Multus on that node, or remove the networks from the VMI"
    );
    Some((REASON.to_owned(), message))
}

/// The names of the networks that have cards of their own, beside `eth0`.
fn secondary(vmi: &VirtualMachineInstance) -> impl Iterator<Item = &str> {
    let is_secondary = |network: &&api::vmi::Network| {
        network.multus.as_ref().is_some_and(|multus| multus.default != Some(true))
    };
    vmi.spec.networks.iter().filter(is_secondary).map(|network| network.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::door::carry_out;
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::{Attempt, Key, Kind, StoredObject as _};
    use cluster_model::plan::Step;
    use serde_json::{Value, json};

    /// The cards of the networks `blue` and `red`.
    const CARDS: [&str; 2] = ["pod16477688c0e", "podb1f51a511f1"];

    /// A VMI on two networks of Multus, whose pod is there.
    fn begin() -> (Sim, Key, Key) {
        let mut sim = Sim::new();
        let mut object = vmi("web");
        let interfaces = json!([{"name": "blue", "bridge": {}}, {"name": "red", "bridge": {}}]);
        object["spec"]["domain"]["devices"]["interfaces"] = interfaces;
        object["spec"]["networks"] = json!([
            {"name": "blue", "multus": {"networkName": "lan"}}, {"name": "red", "multus": {"networkName": "shared/wan"}},
        ]);
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        let pod = sim.pod_of(&key).unwrap();
        (sim, key, pod)
    }

    /// What Multus writes.
    fn attach(sim: &mut Sim, pod: &Key, cards: &[&str]) {
        let mut list = vec![json!({"name": "cluster", "interface": "eth0", "default": true})];
        list.extend(cards.iter().map(|card| json!({"name": "n/any", "interface": card, "dns": {}})));
        let text = Value::Array(list).to_string();
        sim.change(pod, json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/network-status": text}}}));
    }

    fn told(sim: &Sim, key: &Key) -> Vec<String> {
        let list = sim.get(key)["status"]["interfaces"].as_array().cloned().unwrap_or_default();
        let text = |one: &Value, name: &str| one[name].as_str().unwrap_or("-").to_owned();
        list.iter()
            .map(|one| ["name", "podInterfaceName", "infoSource"].map(|name| text(one, name)).join(" "))
            .collect()
    }

    #[test]
    fn a_pod_asks_for_the_devices_that_the_definitions_of_its_networks_name() {
        let mut sim = Sim::new();
        let mut object = vmi("web");
        let interfaces = json!([{"name": "blue", "bridge": {}}, {"name": "red", "sriov": {}}]);
        object["spec"]["domain"]["devices"]["interfaces"] = interfaces;
        object["spec"]["networks"] = json!([
            {"name": "blue", "multus": {"networkName": "lan"}}, {"name": "red", "multus": {"networkName": "shared/vf"}},
        ]);
        let key = sim.put(Kind::VirtualMachineInstance, object);
        // The one without a device waits for nothing; the other has no use without.
        let refused = |sim: &mut Sim| {
            let mut plans = (0..10).map(|_| {
                let plan = crate::decide(&sim.world, &key, sim.now);
                let makes = |step: &Step| matches!(step, Step::CreateOnNetworks { .. });
                let is_last = plan.steps.iter().any(makes);
                (is_last, carry_out(sim, plan).failed)
            });
            let (_, failed) = plans.find(|(is_last, _)| *is_last).expect("a pod is to be made");
            let (about, error) = failed.expect("it cannot be");
            assert_eq!(about, Some(Attempt::Make(Kind::Pod)), "it is said of the VMI");
            error.to_string()
        };
        let said = refused(&mut sim);
        assert!(said.contains("network red: NetworkAttachmentDefinition shared/vf is not there"), "{said}");
        let definition =
            |notes: Value| json!({"metadata": {"namespace": "shared", "name": "vf", "annotations": notes}});
        sim.put(Kind::NetworkAttachmentDefinition, definition(json!({})));
        let said = refused(&mut sim);
        assert!(said.contains("has no annotation k8s.v1.cni.cncf.io/resourceName"), "{said}");
        let notes = json!({"k8s.v1.cni.cncf.io/resourceName": "intel.com/vf"});
        sim.put(Kind::NetworkAttachmentDefinition, definition(notes));
        sim.settle();
        let pod = sim.pod_of(&key).expect("it is made now");
        let compute = sim.get(&pod)["spec"]["containers"][0].clone();
        for list in ["requests", "limits"] {
            assert_eq!(compute["resources"][list]["intel.com/vf"], "1", "{compute}");
        }
        let variable = json!({"name": "KUBEVIRT_RESOURCE_NAME_red", "value": "intel.com/vf"});
        assert!(compute["env"].as_array().unwrap().contains(&variable), "{compute}");
    }

    /// A VMI with many networks asks the API server no more often than it has definitions.
    #[test]
    fn a_definition_is_read_once_for_a_pod() {
        let mut sim = Sim::new();
        let mut object = vmi("web");
        let names: Vec<String> = (0..5).map(|n| format!("n{n}")).collect();
        let each = |of: fn(&str) -> Value| Value::Array(names.iter().map(|name| of(name)).collect());
        object["spec"]["domain"]["devices"]["interfaces"] = each(|name| json!({"name": name, "bridge": {}}));
        object["spec"]["networks"] = each(|name| json!({"name": name, "multus": {"networkName": "lan"}}));
        let notes = json!({"k8s.v1.cni.cncf.io/resourceName": "v.io/lan"});
        let definition = json!({"metadata": {"namespace": "n", "name": "lan", "annotations": notes}});
        let definition = sim.put(Kind::NetworkAttachmentDefinition, definition);
        let key = sim.put(Kind::VirtualMachineInstance, object.clone());
        sim.settle();
        let pod = sim.pod_of(&key).expect("it is made");
        assert_eq!(sim.get(&pod)["spec"]["containers"][0]["resources"]["limits"]["v.io/lan"], "5");
        assert_eq!(sim.wire.got.iter().filter(|got| **got == definition).count(), 1);
        // What is none of a device plugin is named, though a bridge needs none.
        let odd = json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "devices.kubevirt.io/vhost-vsock"}}});
        sim.change(&definition, odd);
        object["metadata"]["name"] = json!("other");
        object["metadata"]["uid"] = json!("other");
        let other = sim.put(Kind::VirtualMachineInstance, object);
        let mut failures = (0..10).filter_map(|_| {
            let plan = crate::decide(&sim.world, &other, sim.now);
            carry_out(&mut sim, plan).failed
        });
        let (_, error) = failures.next().expect("a pod with it cannot be made");
        assert!(error.to_string().contains("vhost-vsock\" in its annotation"), "{error}");
    }

    #[test]
    fn what_multus_made_is_shown_and_what_it_takes_back_is_not() {
        let (mut sim, key, pod) = begin();
        assert_eq!(told(&sim, &key), [""; 0]);
        attach(&mut sim, &pod, &CARDS);
        sim.settle();
        let both = ["blue pod16477688c0e multus-status", "red podb1f51a511f1 multus-status"];
        assert_eq!(told(&sim, &key), both);
        sim.pod_runs(&pod, "node1");
        sim.settle();
        assert_eq!(
            (sim.condition(&key, "Synchronized"), told(&sim, &key)),
            (None, both.map(str::to_owned).to_vec())
        );
        // What virt-handler tells stays.
        sim.agent_says(&key, "Running");
        let of_handler =
            json!([{"name": "blue", "infoSource": "domain, multus-status", "mac": "02:00:00:00:00:01"}]);
        sim.change(&key, json!({"status": {"interfaces": of_handler}}));
        sim.settle();
        assert_eq!(told(&sim, &key), ["blue - domain, multus-status", both[1]]);
        attach(&mut sim, &pod, &[]);
        sim.settle();
        assert_eq!(told(&sim, &key), ["blue - domain"]);
        assert_eq!(sim.get(&key)["status"]["interfaces"][0]["mac"], "02:00:00:00:00:01");
    }

    #[test]
    fn a_pod_that_runs_without_a_card_is_a_reason_and_is_handed_over_all_the_same() {
        let (mut sim, key, pod) = begin();
        attach(&mut sim, &pod, &CARDS[..1]);
        sim.pod_runs(&pod, "node1");
        sim.settle();
        let (status, reason, message) = sim.condition(&key, "Synchronized").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "NetworkNotAttached"));
        assert!(
            message.contains("on node1 without red (NetworkAttachmentDefinition shared/wan): "),
            "{message}"
        );
        assert_eq!(sim.get(&key)["status"]["phase"], "Scheduled");
        assert_eq!(sim.reasons(), ["SuccessfulCreate", "FailedStart"]);
    }

    #[test]
    fn a_cluster_without_multus_is_a_reason() {
        let (mut sim, key, pod) = begin();
        sim.pod_runs(&pod, "node1");
        sim.settle();
        let (_, reason, message) = sim.condition(&key, "Synchronized").unwrap();
        assert_eq!(reason, "NetworkNotAttached");
        let wanted =
            "blue (NetworkAttachmentDefinition n/lan), red (NetworkAttachmentDefinition shared/wan): ";
        assert!(message.contains(wanted) && message.contains("Install Multus"), "{message}");
        assert_eq!(told(&sim, &key), [""; 0]);
    }

    /// Whoever may edit the pod may write there what they like.
    #[test]
    fn a_status_that_somebody_made_up_names_no_network_that_the_vmi_has_not() {
        let (mut sim, key, pod) = begin();
        attach(&mut sim, &pod, &["eth0", "k6t-eth0", "podb1f51a511f1"]);
        sim.settle();
        assert_eq!(told(&sim, &key), ["red podb1f51a511f1 multus-status"]);
    }

    /// The cards of these networks that a pod lacks, and the interfaces that its VMI gets by what Multus wrote.
    fn seen(networks: &Value, cards: Option<&[&str]>, is_up: bool) -> (Option<String>, Vec<String>) {
        let sim = Sim::new();
        let mut object = vmi("web");
        object["spec"]["networks"] = networks.clone();
        let vmi = api::wire::read(object).unwrap();
        let list = cards.map(|cards| cards.iter().map(|card| json!({"interface": card})).collect::<Value>());
        let notes = list.map(|list| json!({ATTACHED: list.to_string()}));
        let compute = json!([{"name": "compute", "state": {"running": {}}}]);
        let phase = if is_up { "Running" } else { "Pending" };
        let pod = Pod::parse(json!({
            "metadata": {"namespace": "n", "name": "p", "annotations": notes},
            "status": {"phase": phase, "containerStatuses": compute},
        }));
        let (pod, input) = (pod.unwrap(), VmiReconcile::new(&sim.world, &vmi, sim.now));
        let told = interfaces(&input, &pod).apply(&input).status.unwrap_or_default().interfaces;
        let told = told.into_iter().filter_map(|one| one.name).collect();
        let lacking = unattached(&input, &pod).map(|(_, message)| message);
        (lacking.map(|text| text.split(": its annotation").next().unwrap_or_default().to_owned()), told)
    }

    /// A guest that begins without its network says nothing of it.
    #[test]
    fn each_network_of_multus_has_its_card_and_the_default_one_its_report() {
        let lan = |name: &str| json!({"name": name, "multus": {"networkName": "lan"}});
        let first = json!({"name": "first", "multus": {"networkName": "lan", "default": true}});
        let of_pod = json!({"name": "default", "pod": {}});
        let many: Value = (0..6).map(|n| lan(&format!("n{n}"))).collect();
        let (blue, of_first) = (CARDS[0], card("first"));
        for (networks, cards, is_up, lacking, told) in [
            (json!([of_pod]), None, true, None, vec![]),
            (json!([of_pod, lan("blue")]), Some(&[blue][..]), true, None, vec!["blue"]),
            (json!([lan("blue")]), Some(&[][..]), true, Some("without blue (…)"), vec![]),
            (json!([lan("blue")]), Some(&[][..]), false, None, vec![]),
            (json!([first]), None, true, Some("without first (…)"), vec![]),
            (json!([first]), Some(&[][..]), true, None, vec![]),
            (json!([first]), Some(&[of_first.as_str()][..]), true, None, vec![]),
            (many, None, true, Some("without n0 (…), n1 (…), n2 (…), n3 (…), n4 (…) and 1 more"), vec![]),
        ] {
            let (is_lacking, is_told) = seen(&networks, cards, is_up);
            let short = is_lacking.map(|text| text.replace("NetworkAttachmentDefinition n/lan", "…"));
            let short = short.map(|text| text.replace("the launcher pod runs on  ", ""));
            assert_eq!(
                (short.as_deref(), is_told),
                (lacking, told.into_iter().map(str::to_owned).collect()),
                "{networks}"
            );
        }
    }
}
