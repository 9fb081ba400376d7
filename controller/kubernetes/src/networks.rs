//! Networks of Multus: what a launcher pod asks for, how its cards are called, and what Multus says of them.
//!
//! | annotation of the pod | written by | says |
//! |---|---|---|
//! | [`WANTED`] | virt-controller | which NetworkAttachmentDefinitions, and the name of the pod's card on each |
//! | [`DEFAULT`] | virt-controller | which one takes the place of the cluster's network, as `eth0` |
//! | [`ATTACHED`] | Multus | which cards there are |
//!
//! **Nothing is decided by [`ATTACHED`]**: whoever may edit the pod may write it. It is shown in the status of the VMI, and it is
//! the reason that is given while a card lacks. virt-handler looks for the card itself, in the network of the pod's process,
//! by the name that follows from the name of the network.

use api::meta::ObjectMeta;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// The annotation by which a pod asks for networks beside its own.
pub const WANTED: &str = "k8s.v1.cni.cncf.io/networks";
/// The annotation by which a pod asks for another network in place of its own.
pub const DEFAULT: &str = "v1.multus-cni.io/default-network";
/// The annotation in which Multus says what a pod has.
pub const ATTACHED: &str = "k8s.v1.cni.cncf.io/network-status";

/// The source of an interface's entry in the status of a VMI: Multus says that the card is there.
const SOURCE: &str = "multus-status";
/// What stands between two sources.
const BETWEEN: &str = ", ";
/// The longest name of a link.
const LONGEST: usize = 15;

/// The pod's card on a network, by the network's name in the spec of the VMI.
pub fn card(network: &str) -> String {
    let sum = Sha256::digest(network.as_bytes());
    let digits: String = sum.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("pod{}", digits.chars().take(11).collect::<String>())
}

/// The namespace and the name of the NetworkAttachmentDefinition that `NAME` or `NAMESPACE/NAME` names in a VMI of a namespace.
pub fn definition<'a>(name: &'a str, own: &'a str) -> (&'a str, &'a str) {
    name.split_once('/').unwrap_or((own, name))
}

/// The cards beside `eth0` that Multus says a pod has; nothing where it says none of it.
pub fn attached(pod: &ObjectMeta) -> Option<BTreeSet<String>> {
    let list: Value = serde_json::from_str(pod.annotations.get(ATTACHED)?).ok()?;
    let is_default = |one: &&Value| one.get("default").and_then(Value::as_bool) == Some(true);
    let cards = list.as_array()?.iter().filter(|one| !is_default(one));
    let cards = cards.filter_map(|one| one.get("interface")?.as_str()).filter(|card| card.len() <= LONGEST);
    Some(cards.map(str::to_owned).collect())
}

/// Whether Multus is a source of an interface's entry.
pub fn is_source(sources: Option<&str>) -> bool {
    sources.is_some_and(|sources| sources.split(BETWEEN).any(|source| source == SOURCE))
}

/// The sources of an interface's entry, with Multus or without.
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
        attached(&meta).map(|cards| cards.into_iter().collect())
    }

    /// Others know these names: dashboards, manuals, a pod that an older program made.
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
        assert_eq!(attached(&ObjectMeta::default()), None);
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
