//! Interfaces of a VMI's status: those of its spec, merged with the report of the guest agent. Pure.
//!
//! | interface | addresses | `infoSource` |
//! |---|---|---|
//! | of the spec, behind a masquerade | the pod's: the guest's own are not reachable from outside | `domain` |
//! | of the spec, on a bridge | the pod's, which the guest has, followed by others of the guest | `domain` |
//! | the same, reported by the agent (by its MAC) | as above; its name in the guest | `domain, guest-agent` |
//! | created by the guest | the agent's | `guest-agent` |
//! | on a network of Multus | as on a bridge, without the pod's | also `multus-status`, if virt-controller has set it |
//!
//! `ipAddress` of an interface of the spec is one of the pod's, or unset: virt-api and other programs connect
//! to it, and the guest controls what its agent reports.

use api::launcher::{GuestInfo, GuestInterface};
use api::vmi::{InterfaceStatus, VirtualMachineInstance};
use cluster_model::networks::{is_source, sources};

/// Sources of an interface: the domain, …
const DOMAIN: &str = "domain";
/// … the guest agent, …
const AGENT: &str = "guest-agent";
/// … or both.
const BOTH: &str = "domain, guest-agent";

/// Interfaces of the new status. `spec`: those of the spec, as the node made them; `guest`: report of the
/// guest agent, if it answers.
pub(super) fn interfaces(
    old: &[InterfaceStatus],
    spec: &[InterfaceStatus],
    guest: Option<&GuestInfo>,
    vmi: &VirtualMachineInstance,
) -> Vec<InterfaceStatus> {
    let seen: Vec<&GuestInterface> =
        guest.iter().flat_map(|guest| &guest.interfaces).filter(|interface| interface.name != "lo").collect();
    let by_mac = |mac: &Option<String>| {
        let same = |interface: &&&GuestInterface| {
            interface
                .mac
                .as_ref()
                .zip(mac.as_ref())
                .is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
        };
        seen.iter().find(same).copied()
    };
    let mut all: Vec<InterfaceStatus> = spec
        .iter()
        .map(|wanted| {
            let mut one = wanted.clone();
            let before = old.iter().find(|known| known.name.is_some() && known.name == one.name);
            // Values from before the start of this program, or from the pod when it was last seen, are still
            // true.
            if let Some(before) = before {
                one.mac = one.mac.or_else(|| before.mac.clone());
                let is_known = before.ip_address.is_some();
                if one.ip_addresses.is_empty() && one.ip_address.is_none() && is_known {
                    one.ip_address.clone_from(&before.ip_address);
                    one.ip_addresses.clone_from(&before.ip_addresses);
                }
                one.other.clone_from(&before.other);
            }
            match by_mac(&one.mac) {
                Some(found) => {
                    one.interface_name = Some(found.name.clone());
                    one.info_source = Some(BOTH.into());
                    if !is_masqueraded(vmi, one.name.as_deref()) {
                        let more = found.ips.iter().filter(|ip| !one.ip_addresses.contains(ip));
                        let more: Vec<String> = more.cloned().collect();
                        one.ip_addresses.extend(more);
                    }
                }
                None => one.info_source = Some(DOMAIN.into()),
            }
            if before.is_some_and(|before| is_source(before.info_source.as_deref())) {
                one.info_source = sources(one.info_source.as_deref(), true);
            }
            one
        })
        .collect();
    // Interfaces from other sources stay.
    let ours = |known: &&InterfaceStatus| {
        let source = known.info_source.as_deref();
        source == Some(AGENT) || spec.iter().any(|wanted| wanted.name == known.name)
    };
    all.extend(old.iter().filter(|known| !ours(known)).cloned());
    let is_new = |interface: &&&GuestInterface| {
        interface.mac.is_none() || !all.iter().any(|known| by_mac(&known.mac) == Some(**interface))
    };
    let own: Vec<InterfaceStatus> = seen.iter().filter(is_new).map(|interface| of_agent(interface)).collect();
    all.extend(own);
    all
}

fn is_masqueraded(vmi: &VirtualMachineInstance, name: Option<&str>) -> bool {
    let all = &vmi.spec.domain.devices.interfaces;
    all.iter().any(|interface| Some(interface.name.as_str()) == name && interface.masquerade.is_some())
}

fn of_agent(interface: &GuestInterface) -> InterfaceStatus {
    InterfaceStatus {
        ip_address: interface.ips.first().cloned(),
        ip_addresses: interface.ips.clone(),
        mac: interface.mac.clone(),
        interface_name: Some(interface.name.clone()),
        info_source: Some(AGENT.into()),
        ..InterfaceStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn vmi() -> VirtualMachineInstance {
        api::wire::read(json!({
            "metadata": {"name": "a"},
            "spec": {"domain": {"devices": {"interfaces": [
                {"name": "pod", "masquerade": {}}, {"name": "lan", "bridge": {}}
            ]}}}
        }))
        .unwrap()
    }

    fn told(name: &str, mac: Option<&str>, ips: &[&str]) -> InterfaceStatus {
        InterfaceStatus {
            name: Some(name.into()),
            mac: mac.map(str::to_owned),
            ip_address: ips.first().map(|ip| (*ip).to_owned()),
            ip_addresses: ips.iter().map(|ip| (*ip).to_owned()).collect(),
            info_source: Some("domain".into()),
            ..InterfaceStatus::default()
        }
    }

    fn seen(name: &str, mac: &str, ips: &[&str]) -> GuestInterface {
        let ips = ips.iter().map(|ip| (*ip).to_owned()).collect();
        GuestInterface { name: name.into(), mac: Some(mac.into()), ips }
    }

    fn line(one: &InterfaceStatus) -> String {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        format!(
            "{} {} {} [{}]",
            text(&one.name),
            text(&one.interface_name),
            one.ip_addresses.join(" "),
            text(&one.info_source)
        )
    }

    #[test]
    fn what_the_agent_sees_is_joined_by_mac_and_its_own_come_behind() {
        let spec = [
            told("pod", Some("02:00:00:00:00:01"), &["10.1.0.7", "fd00::7"]),
            told("lan", Some("02:00:00:00:00:02"), &["10.1.0.8"]),
        ];
        let guest = GuestInfo {
            interfaces: vec![
                GuestInterface { name: "lo".into(), mac: None, ips: vec!["127.0.0.1".into()] },
                seen("docker0", "02:42:00:00:00:01", &["172.17.0.1"]),
                seen("eth0", "02:00:00:00:00:01", &["10.0.2.2"]),
                seen("eth1", "02:00:00:00:00:02", &["10.1.0.8", "192.0.2.9"]),
            ],
            ..GuestInfo::default()
        };
        let all = interfaces(&[], &spec, Some(&guest), &vmi());
        let lines: Vec<String> = all.iter().map(line).collect();
        assert_eq!(
            lines,
            [
                "pod eth0 10.1.0.7 fd00::7 [domain, guest-agent]",
                "lan eth1 10.1.0.8 192.0.2.9 [domain, guest-agent]",
                "- docker0 172.17.0.1 [guest-agent]",
            ]
        );
        assert_eq!(interfaces(&all, &spec, Some(&guest), &vmi()), all, "again, nothing changes");
        let without: Vec<String> = interfaces(&all, &spec, None, &vmi()).iter().map(line).collect();
        assert_eq!(without, ["pod - 10.1.0.7 fd00::7 [domain]", "lan - 10.1.0.8 [domain]"]);
    }

    /// A bridge in a pod with IPv6 only: there is no address of the pod to report.
    #[test]
    fn what_the_agent_sees_is_never_the_address_that_is_dialled() {
        let (mac, none) = ("02:00:00:00:00:02", told("lan", Some("02:00:00:00:00:02"), &[]));
        let guest = GuestInfo {
            interfaces: vec![seen("eth1", mac, &["169.254.169.254", "10.96.0.1"])],
            ..GuestInfo::default()
        };
        let all = interfaces(&[], std::slice::from_ref(&none), Some(&guest), &vmi());
        assert_eq!(all[0].ip_address, None);
        assert_eq!(line(&all[0]), "lan eth1 169.254.169.254 10.96.0.1 [domain, guest-agent]");
        assert_eq!(interfaces(&all, std::slice::from_ref(&none), Some(&guest), &vmi()), all);
        let without = interfaces(&all, std::slice::from_ref(&none), None, &vmi());
        assert_eq!((&without[0].ip_address, line(&without[0])), (&None, "lan -  [domain]".into()));
        // An address of the pod comes first, whatever the guest reports.
        let of_pod = told("lan", Some(mac), &["10.1.0.8"]);
        let all = interfaces(&all, &[of_pod], Some(&guest), &vmi());
        assert_eq!(all[0].ip_address.as_deref(), Some("10.1.0.8"));
        assert_eq!(all[0].ip_addresses, ["10.1.0.8", "169.254.169.254", "10.96.0.1"]);
    }

    #[test]
    fn what_was_known_before_us_stays_known() {
        let before = [told("pod", Some("02:00:00:00:00:01"), &["10.1.0.7"])];
        let now = interfaces(&before, &[told("pod", None, &[])], None, &vmi());
        assert_eq!(now, before);
        let attached =
            [InterfaceStatus { info_source: Some("multus-status".into()), ..told("pod", None, &[]) }];
        let now = interfaces(&attached, &before, None, &vmi());
        assert_eq!(line(&now[0]), "pod - 10.1.0.7 [domain, multus-status]");
        assert_eq!(interfaces(&now, &before, None, &vmi()), now, "again, nothing changes");
        let of_another = [InterfaceStatus {
            name: Some("x".into()),
            info_source: Some("multus-status".into()),
            ..told("x", None, &[])
        }];
        assert_eq!(interfaces(&of_another, &[], None, &vmi()), of_another);
    }
    #[test]
    fn each_interface_keeps_what_was_known_of_it_alone() {
        let known = |name: &str, mac: &str, ip: &str| {
            let mut one = told(name, Some(mac), &[ip]);
            one.other.insert("of".into(), json!(name));
            one
        };
        let before =
            [known("pod", "02:00:00:00:00:01", "10.1.0.7"), known("lan", "02:00:00:00:00:02", "10.1.0.8")];
        let spec = [told("pod", None, &[]), told("lan", None, &[])];
        assert_eq!(interfaces(&before, &spec, None, &vmi()), before);
        // An address in either field is newer than the earlier ones.
        let first = InterfaceStatus { ip_address: Some("10.1.0.9".into()), ..told("pod", None, &[]) };
        let listed = InterfaceStatus { ip_address: None, ..told("lan", None, &["10.1.0.10"]) };
        let now = interfaces(&before, &[first, listed], None, &vmi());
        assert_eq!((now[0].ip_address.as_deref(), now[0].ip_addresses.len()), (Some("10.1.0.9"), 0));
        assert_eq!((&now[1].ip_address, &now[1].ip_addresses[..]), (&None, &["10.1.0.10".to_owned()][..]));
    }
}
