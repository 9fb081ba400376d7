//! Networks of Multus: annotations of launcher pods, names of their network interfaces, and the status
//! written by Multus.
//!
//! | annotation of the pod | written by | content |
//! |---|---|---|
//! | [`WANTED`] | virt-controller | NetworkAttachmentDefinitions, and the name of the pod's interface on each |
//! | [`DEFAULT`] | virt-controller | the one that replaces the cluster's network as `eth0` |
//! | [`ATTACHED`] | Multus | the attached interfaces |
//!
//! The network info for hook sidecars ([`info`]) is derived from [`ATTACHED`], too.
//!
//! **No decision depends on [`ATTACHED`]**: any user who may edit the pod may write it. It is shown in the
//! status of the VMI, and as the reason while an interface is missing. virt-handler looks for the interface
//! itself, in the pod's network namespace, by the name derived from the name of the network.

use api::meta::ObjectMeta;
use api::quantity::Quantity;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// The annotation that requests additional networks for a pod.
pub const WANTED: &str = "k8s.v1.cni.cncf.io/networks";
/// The annotation that requests another network in place of the cluster's.
pub const DEFAULT: &str = "v1.multus-cni.io/default-network";
/// The annotation in which Multus reports the networks of a pod.
pub const ATTACHED: &str = "k8s.v1.cni.cncf.io/network-status";

/// The annotation of a NetworkAttachmentDefinition that names the extended resource of its devices.
pub const RESOURCE: &str = "k8s.v1.cni.cncf.io/resourceName";
/// Prefix of the environment variable that tells a launcher the resource of a network. The network's name
/// follows.
pub const RESOURCE_OF: &str = "KUBEVIRT_RESOURCE_NAME_";

/// The source in an interface's status entry: Multus reports the interface.
const SOURCE: &str = "multus-status";
/// Separator between the sources of one interface.
const BETWEEN: &str = ", ";
/// The pod's interface on the cluster's network.
pub const PRIMARY: &str = "eth0";
/// Maximum length of an interface's name.
const LONGEST: usize = 15;

/// Name of the pod's interface on a network, derived from the network's name in the spec of the VMI.
pub fn card(network: &str) -> String {
    let sum = Sha256::digest(network.as_bytes());
    let digits: String = sum.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("pod{}", digits.chars().take(11).collect::<String>())
}

/// The namespace and the name of the NetworkAttachmentDefinition that `NAME` or `NAMESPACE/NAME` names in a
/// VMI of a namespace.
pub fn definition<'a>(name: &'a str, own: &'a str) -> (&'a str, &'a str) {
    name.split_once('/').unwrap_or((own, name))
}

/// The interfaces other than `eth0` that Multus reports for a pod; `None` without a readable annotation.
pub fn attached_interfaces(pod: &ObjectMeta) -> Option<BTreeSet<String>> {
    let list: Value = serde_json::from_str(pod.annotations.get(ATTACHED)?).ok()?;
    let is_default = |one: &&Value| one.get("default").and_then(Value::as_bool) == Some(true);
    let cards = list.as_array()?.iter().filter(|one| !is_default(one));
    let cards = cards.filter_map(|one| one.get("interface")?.as_str()).filter(|card| card.len() <= LONGEST);
    Some(cards.map(str::to_owned).collect())
}

/// Status by Multus of the devices behind these interfaces, in the format for hook sidecars (`network-info`).
/// `cards` has the names of networks and of the pod's interfaces on them.
pub fn info<'a>(said: Option<&str>, cards: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let list: Value = said.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let each = cards.into_iter().filter_map(|(network, card)| {
        let said = entry(&list, &card)?;
        let mut one = Map::from_iter([("network".to_owned(), json!(network))]);
        for (name, theirs) in [("deviceInfo", "device-info"), ("mac", "mac"), ("mtu", "mtu")] {
            one.extend(said.get(theirs).map(|value| (name.to_owned(), value.clone())));
        }
        Some(Value::Object(one))
    });
    json!({"interfaces": each.collect::<Vec<_>>()}).to_string()
}

/// The entry of an interface in the status by Multus.
fn entry<'l>(list: &'l Value, card: &str) -> Option<&'l Value> {
    let is_default = |one: &Value| one.get("default").and_then(Value::as_bool) == Some(true);
    list.as_array().into_iter().flatten().find(|one| match card {
        PRIMARY => is_default(one),
        card => !is_default(one) && one.get("interface").and_then(Value::as_str) == Some(card),
    })
}

/// The PCI address of the device behind an interface, and the interface's MAC address, as Multus reports
/// them. The caller must check that the kubelet has assigned the device: this only maps the pod's devices to
/// networks.
pub fn device(said: &str, card: &str) -> Option<(String, Option<String>)> {
    let list: Value = serde_json::from_str(said).ok()?;
    let entry = entry(&list, card)?;
    let address = entry.get("device-info")?.get("pci")?.get("pci-address")?.as_str()?;
    let is_mac = |mac: &&str| mac.len() == 17 && mac.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
    let mac = entry.get("mac").and_then(Value::as_str).filter(is_mac);
    Some((api::machine::PciAddress::parse(address)?.to_string(), mac.map(str::to_owned)))
}

/// The resource named in a NetworkAttachmentDefinition. It must be one of a device plugin, not of Kubernetes
/// or of VMIs. The error is the invalid name.
pub fn resource(definition: &Value) -> Result<Option<&str>, String> {
    let said = definition["metadata"]["annotations"][RESOURCE].as_str().filter(|said| !said.is_empty());
    match said {
        Some(said) if !api::machine::permitted::is_resource(said) => {
            Err(said.chars().filter(|c| !c.is_control()).take(64).collect())
        }
        said => Ok(said),
    }
}

/// Adds one more device of a resource, for a network, to the launcher container, which is the first one.
pub fn add_device(pod: &mut Value, network: &str, resource: &str) {
    let Some(launcher) = pod.pointer_mut("/spec/containers/0").and_then(Value::as_object_mut) else { return };
    let resources = launcher.entry("resources").or_insert_with(|| json!({}));
    let known =
        |list: &str| Quantity::parse(resources[list][resource].as_str()?).ok().map(|count| count.nanos());
    let known = u128::try_from(known("requests").max(known("limits")).unwrap_or(0)).unwrap_or(0);
    // Limits equal requests, as extended resources require.
    let all = known.div_ceil(1_000_000_000).saturating_add(1).to_string();
    for list in ["requests", "limits"] {
        resources[list][resource] = json!(all);
    }
    let variable = json!({"name": format!("{RESOURCE_OF}{network}"), "value": resource});
    match launcher.entry("env").or_insert_with(|| json!([])) {
        Value::Array(variables) => variables.push(variable),
        other => *other = json!([variable]),
    }
}

/// True if Multus is a source in an interface's status entry.
pub fn is_source(sources: Option<&str>) -> bool {
    sources.is_some_and(|sources| sources.split(BETWEEN).any(|source| source == SOURCE))
}

/// The sources in an interface's status entry, with Multus or without.
pub fn sources(known: Option<&str>, with: bool) -> Option<String> {
    let known = known.unwrap_or_default().split(BETWEEN);
    let mut all: Vec<&str> = known.filter(|source| !source.is_empty() && *source != SOURCE).collect();
    all.extend(with.then_some(SOURCE));
    (!all.is_empty()).then(|| all.join(BETWEEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Option<Vec<String>> {
        let annotations = [(ATTACHED.to_owned(), text.to_owned())].into();
        let meta = ObjectMeta { annotations, ..ObjectMeta::default() };
        attached_interfaces(&meta).map(|cards| cards.into_iter().collect())
    }

    /// Dashboards, manuals and running pods depend on these names.
    #[test]
    fn a_card_has_the_name_that_follows_from_its_network() {
        assert_eq!((card("blue"), card("red")), ("pod16477688c0e".into(), "podb1f51a511f1".into()));
        assert!(card(&"n".repeat(300)).len() <= LONGEST);
    }

    #[test]
    fn a_definition_is_of_the_vmis_namespace_unless_it_says_another() {
        assert_eq!(definition("lan", "n"), ("n", "lan"));
        assert_eq!(definition("shared/lan", "n"), ("shared", "lan"));
    }

    #[test]
    fn cards_are_those_that_multus_lists_beside_the_pods_own() {
        let text = r#"[{"name": "cluster", "interface": "eth0", "default": true, "ips": ["10.1.0.7"]},
            {"name": "n/lan", "interface": "pod16477688c0e", "mac": "02:00:00:00:00:01", "dns": {}}]"#;
        assert_eq!(told(text), Some(vec!["pod16477688c0e".to_owned()]));
        assert_eq!(told("[]"), Some(vec![]));
        assert_eq!(attached_interfaces(&ObjectMeta::default()), None);
    }

    #[test]
    fn what_is_no_list_of_cards_says_nothing() {
        for text in ["", "{", "{}", "7", &"[".repeat(100_000)] {
            assert_eq!(told(text), None, "{text:.20}");
        }
        let odd = format!(r#"[7, {{}}, {{"interface": 7}}, {{"interface": "{}"}}]"#, "x".repeat(1000));
        assert_eq!(told(&odd), Some(vec![]));
    }

    #[test]
    fn a_sidecar_is_told_the_devices_of_the_vmis_networks() {
        let said = r#"[{"name": "cluster", "interface": "eth0", "default": true, "mac": "02:00:00:00:00:09"},
            {"name": "n/lan", "interface": "pod16477688c0e", "ips": ["10.0.0.1"], "mtu": 9000,
             "device-info": {"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:65:00.2"}}},
            {"name": "n/other", "interface": "podffffffffffe"}]"#;
        let cards = || [("blue", card("blue")), ("red", card("red")), ("default", PRIMARY.to_owned())];
        let told: Value = serde_json::from_str(&info(Some(said), cards())).unwrap();
        let function = json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:65:00.2"}});
        let blue = json!({"network": "blue", "deviceInfo": function, "mtu": 9000});
        let own = json!({"network": "default", "mac": "02:00:00:00:00:09"});
        assert_eq!(told, json!({"interfaces": [blue, own]}));
        assert_eq!(device(said, &card("blue")), Some(("0000:65:00.2".to_owned(), None)));
        for (said, card) in [(said, card("red")), (said, "eth0".to_owned()), ("{", card("blue"))] {
            assert_eq!(device(said, &card), None);
        }
        for said in [None, Some("{"), Some("7"), Some("[7, {}]")] {
            assert_eq!(info(said, cards()), r#"{"interfaces":[]}"#, "{said:?}");
        }
    }

    #[test]
    fn a_launcher_gets_a_device_for_each_network_of_a_resource() {
        let mut pod = json!({"spec": {"containers": [{"name": "compute", "resources": {"requests": {"cpu": "1"}}}, {}]}});
        for network in ["blue", "red"] {
            add_device(&mut pod, network, "intel.com/vf");
        }
        let of = |network: &str| json!({"name": format!("KUBEVIRT_RESOURCE_NAME_{network}"), "value": "intel.com/vf"});
        let resources =
            json!({"requests": {"cpu": "1", "intel.com/vf": "2"}, "limits": {"intel.com/vf": "2"}});
        let compute = json!({"name": "compute", "resources": resources, "env": [of("blue"), of("red")]});
        assert_eq!(pod, json!({"spec": {"containers": [compute, {}]}}));
        // The VMI may request such devices itself.
        for (said, all) in [("2", "3"), ("1k", "1001")] {
            let mut pod =
                json!({"spec": {"containers": [{"resources": {"limits": {"intel.com/vf": said}}}]}});
            add_device(&mut pod, "blue", "intel.com/vf");
            let resources = &pod["spec"]["containers"][0]["resources"];
            assert_eq!(
                (&resources["requests"]["intel.com/vf"], &resources["limits"]["intel.com/vf"]),
                (&json!(all), &json!(all))
            );
        }
        let definition = |said: &str| json!({"metadata": {"annotations": {RESOURCE: said}}});
        assert_eq!(resource(&definition("intel.com/vf")), Ok(Some("intel.com/vf")));
        assert_eq!((resource(&json!({})), resource(&definition(""))), (Ok(None), Ok(None)));
        // A name without a domain could be memory.
        for odd in ["memory", "devices.kubevirt.io/vhost-vsock"] {
            assert_eq!(resource(&definition(odd)), Err(odd.to_owned()));
        }
    }

    #[test]
    fn sources_keep_what_others_said() {
        assert_eq!(sources(None, true).as_deref(), Some("multus-status"));
        assert_eq!(sources(None, false), None);
        let all = sources(Some("domain, guest-agent"), true);
        assert_eq!(all.as_deref(), Some("domain, guest-agent, multus-status"));
        assert!(is_source(all.as_deref()) && !is_source(Some("domain")) && !is_source(None));
        assert_eq!(sources(all.as_deref(), true), all);
        assert_eq!(sources(all.as_deref(), false).as_deref(), Some("domain, guest-agent"));
    }
}
