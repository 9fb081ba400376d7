//! Network interfaces.

use super::super::hook::HookSidecar;
use super::super::network::{Dhcp, MOST_NETWORKS, MOST_PORTS, NO_LINK_STATE, Network, Plugin};
use super::super::{Binding, Interface, Nic, Port, Protocol};
use super::disk::UniqueFields;
use super::network::Networks;
use super::{Check, Site, text};
use crate::fault::{Fault, Reason};
use crate::vmi;
use crate::wire::Path;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

const NO_SRIOV: &str =
    "virtual functions are given out by Multus and a device plugin of a cluster; here, write masquerade: {}";
const NO_PASST: &str = "passt needs libvirt 11, which the image of launcher pods has; here, write masquerade: {}, which is \
                        QEMU's own network of the same kind";
/// Hint for manifests of older versions of KubeVirt.
const PASST: &str = "write passtBinding: {}";
/// Longest name of an interface with passt, which is a part of its socket's name.
const LONGEST_OF_PASST: usize = 20;
/// MAC address of the bridge in the pod.
const RESERVED: &str = "02:00:00:00:00:00";

pub(super) fn interfaces(
    interfaces: &[vmi::Interface],
    networks: &Networks<'_>,
    taken: &mut UniqueFields,
    devices: &Path,
    check: &mut Check<'_>,
) -> Vec<Interface> {
    if interfaces.len() > MOST_NETWORKS {
        let list = devices.child("interfaces");
        check.invalid(&list, format!("{list} must have no more than {MOST_NETWORKS} entries"));
        return Vec::new();
    }
    let mut names = BTreeSet::new();
    let mut indices = BTreeSet::new();
    let mut result = Vec::new();
    for (i, interface) in interfaces.iter().enumerate() {
        let at = devices.child("interfaces").index(i);
        let (name, name_at) = (interface.name.as_str(), at.child("name"));
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || !name.chars().all(letter) {
            let message = "Network interface name can only contain alphabetical characters, numbers, dashes (-) or \
                           underscores (_)";
            check.invalid(&name_at, message);
        }
        if !networks.contains_key(name) {
            check.invalid(&name_at, format!("{name_at} '{name}' not found."));
        }
        if !names.insert(name) {
            check.duplicate(&name_at, "Only one interface can be connected to one specific network");
        }
        let network = networks.get(name).cloned().flatten();
        if let Some(interface) = interface_of(interface, network, taken, &at, check) {
            if interface.acpi_index.is_some_and(|index| !indices.insert(index)) {
                check.duplicate(at.child("acpiIndex"), "this index is already used by a different interface");
            }
            result.push(interface);
        }
        if interface.state == Some(vmi::InterfaceState::Absent) {
            check_absent(interface, networks.get(name).and_then(Option::as_ref), &at.child("state"), check);
            // Skips the interface, and its network.
            result.retain(|known: &Interface| known.name != interface.name);
        }
    }
    result
}

fn interface_of(
    interface: &vmi::Interface,
    network: Option<Network>,
    taken: &mut UniqueFields,
    at: &Path,
    check: &mut Check<'_>,
) -> Option<Interface> {
    let vmi::Interface {
        name,
        model,
        bridge,
        slirp,
        masquerade,
        sriov,
        macvtap,
        passt,
        passt_binding,
        binding,
        ports,
        port_ranges,
        mac_address,
        boot_order,
        pci_address,
        dhcp_options,
        tag,
        acpi_index,
        state,
        other: _,
    } = interface;
    let gone = [
        (slirp, "slirp", "Slirp interface support has been discontinued since v1.3"),
        (macvtap, "macvtap", "Macvtap network binding has been discontinued since v1.3"),
        (passt, "passt", "Passt network binding has been discontinued since v1.3"),
    ];
    for (binding, field, message) in gone {
        if binding.is_some() {
            check.invalid(at.child(field), message);
        }
    }
    if sriov.is_some() {
        check.not_yet_at(&[Site::Laptop], at.child("sriov"), NO_SRIOV);
    }
    if passt_binding.is_some() {
        check.not_yet_at(&[Site::Laptop], at.child("passtBinding"), NO_PASST);
    }
    let methods = [bridge, slirp, masquerade, sriov, macvtap, passt, passt_binding];
    let count = methods.iter().filter(|method| method.is_some()).count() + usize::from(binding.is_some());
    if count != 1 {
        let message =
            format!("logical {name} interface must have exactly one binding method or binding plugin");
        check.invalid(at, message);
        return None;
    }
    let (binding, plugin) = match (bridge, masquerade, binding) {
        (Some(_), _, _) => (Binding::Bridge, None),
        (_, Some(_), _) => (Binding::Masquerade, None),
        _ if passt_binding.is_some() => (Binding::Passt, None),
        _ if sriov.is_some() => (Binding::Sriov, None),
        (_, _, Some(said)) => {
            let plugin = plugin(&said.name, &at.child("binding"), check)?;
            if dhcp_options.is_some() {
                let message = "DHCP options are served with the bindings bridge and masquerade alone";
                check.invalid(at.child("dhcpOptions"), message);
            }
            (plugin.attachment.unwrap_or(Binding::Sidecar), Some(plugin))
        }
        // Refused above.
        (None, None, None) => return None,
    };
    let on_pod = matches!(network, None | Some(Network::Pod { .. }));
    if masquerade.is_some() && !on_pod {
        check.invalid(at.child("name"), "Masquerade interface only implemented with pod network");
    }
    if bridge.is_some()
        && matches!(network, Some(Network::Pod { .. }))
        && !check.settings.bridge_on_pod_network
    {
        check.invalid(
            at.child("name"),
            "Bridge on pod network configuration is not enabled under kubevirt-config",
        );
    }
    if binding == Binding::Passt && check.settings.site != Site::Checked {
        check_passt(interface, network.as_ref(), at, check);
    }
    if binding == Binding::Sriov && check.settings.site != Site::Checked {
        check_sriov(interface, network.as_ref(), at, check);
    }
    if *state == Some(vmi::InterfaceState::Down) {
        check.not_yet_at(&[Site::Laptop], at.child("state"), NO_LINK_STATE);
    }
    // Named ports are for Services elsewhere. A range has no single port, so a name would have no effect.
    let is_new = check.settings.site != Site::Checked;
    if is_new && binding != Binding::Masquerade && !port_ranges.is_empty() {
        check.invalid(at.child("name"), "portRanges are only supported on masquerade interfaces");
    }
    let named = ports.len().saturating_add(port_ranges.len());
    if named > MOST_PORTS {
        let field = if ports.len() > MOST_PORTS { "ports" } else { "portRanges" };
        let message = format!(
            "{at}.ports and {at}.portRanges have {named} entries, and at most {MOST_PORTS} are served; write ports that \
             follow each other as one of portRanges"
        );
        check.invalid(at.child(field), message);
    }
    let tag = text::tag(tag, at, check);
    let acpi_index = acpi_index.filter(|&index| index != 0).and_then(|index| {
        let right = u32::try_from(index).ok().filter(|index| *index <= 16_383);
        if right.is_none() {
            check.invalid(at.child("acpiIndex"), format!("{at}.acpiIndex must be from 1 to 16383"));
        }
        right
    });
    Some(Interface {
        name: name.clone(),
        tag,
        model: model_of(text::non_empty(model), at, check),
        binding,
        plugin,
        // An interface without a network has a fault, so this value is never seen.
        network: network.unwrap_or(Network::Pod { cidr: None, cidr6: None }),
        mac: mac(text::non_empty(mac_address), at, check),
        boot_order: taken.boot_order(*boot_order, at, check),
        pci_address: text::non_empty(pci_address).and_then(|written| {
            let interface = format!("interface {at}.name");
            taken.pci_address(written, &interface, &at.child("pciAddress"), check)
        }),
        acpi_index,
        ports: [
            ports_of(ports, &at.child("ports"), check),
            ranges_of(port_ranges, &at.child("portRanges"), check),
        ]
        .concat(),
        up: is_up(state.as_ref(), at, check),
        dhcp: dhcp_options.as_ref().map(|options| dhcp(options, &at.child("dhcpOptions"), check)),
    })
}

/// The network binding plugin of that name, as the cluster registers it. It must have an attachment or a
/// sidecar.
fn plugin(name: &str, at: &Path, check: &mut Check<'_>) -> Option<Plugin> {
    let plugin = match check.settings.site {
        // The link that virt-handler created has the attachment.
        Site::Checked => {
            let attachment = Some(Binding::Tap);
            return Some(Plugin { name: name.to_owned(), attachment, ..Plugin::default() });
        }
        Site::Laptop => {
            let hint = "network binding plugins are registered in a cluster; here, write masquerade: {}";
            check.not_yet_or(at, hint);
            return None;
        }
        Site::Cluster => check.settings.plugins.get(name).cloned(),
    };
    let registered = format!("configuration.network.binding[{name:?}] of the KubeVirt object");
    match plugin {
        None => {
            let message =
                format!("unable to find the network binding plugin '{name}' in Kubevirt configuration");
            let fault = Fault::new(at.child("name"), Reason::NotFound, message);
            check.faults.push(if name == "passt" { fault.hint(PASST) } else { fault });
            None
        }
        Some(plugin) if plugin.attachment.is_none() && plugin.sidecar.is_none() => {
            let message = format!(
                "the network binding plugin '{name}' would give the guest no interface: {registered} has no \
                 domainAttachmentType of tap or managedTap, and no sidecarImage"
            );
            check.invalid(at, message);
            None
        }
        Some(plugin) => Some(plugin),
    }
}

/// Sidecars of the plugins of these interfaces, each once.
pub(super) fn sidecars(interfaces: &[Interface]) -> Vec<HookSidecar> {
    let mut known = BTreeSet::new();
    let plugins = interfaces.iter().filter_map(|interface| interface.plugin.as_ref());
    let plugins = plugins.filter(|plugin| known.insert(plugin.name.as_str()));
    plugins
        .filter_map(|plugin| {
            Some(HookSidecar {
                image: plugin.sidecar.clone()?,
                plugin: Some(plugin.name.clone()),
                device_info: plugin.device_info,
                ..HookSidecar::default()
            })
        })
        .collect()
}

fn model_of(model: Option<&str>, at: &Path, check: &mut Check<'_>) -> Nic {
    match model {
        None | Some("virtio") => Nic::Virtio,
        Some("e1000") => Nic::E1000,
        Some("e1000e") => Nic::E1000e,
        Some("igb") => Nic::Igb,
        Some("ne2k_pci") => Nic::Ne2kPci,
        Some("pcnet") => Nic::Pcnet,
        Some("rtl8139") => Nic::Rtl8139,
        Some(other) => {
            let message = format!("interface {at}.name uses model {other} that is not supported.");
            check.not_supported(at.child("model"), message);
            Nic::Virtio
        }
    }
}

fn mac(written: Option<&str>, at: &Path, check: &mut Check<'_>) -> Option<String> {
    let written = written?;
    let mac_at = at.child("macAddress");
    let Some(mac) = text::mac(written) else {
        let what = if text::is_long_mac(written) { "too long" } else { "malformed" };
        check.invalid(&mac_at, format!("interface {at}.name has {what} MAC address ({written})."));
        return None;
    };
    let is_group = u8::from_str_radix(&mac[..2], 16).is_ok_and(|first| first % 2 == 1);
    if mac == RESERVED {
        let message =
            "The requested MAC address is reserved for the in-pod bridge. Please choose another one.";
        check.invalid(&mac_at, message);
    } else if is_group || mac == "00:00:00:00:00:00" {
        check.invalid(
            &mac_at,
            format!("interface {at}.name has a MAC address that is not of one device ({written})."),
        );
    }
    Some(mac)
}

fn ports_of(ports: &[vmi::Port], at: &Path, check: &mut Check<'_>) -> Vec<Port> {
    let mut names = BTreeSet::new();
    let mut result = Vec::new();
    for (i, vmi::Port { name, protocol, port, other: _ }) in ports.iter().enumerate() {
        let at = at.index(i);
        let number = u16::try_from(*port).unwrap_or(0);
        if *port == 0 {
            check.required(at.child("port"), "Port field is mandatory.");
        } else if number == 0 {
            check.invalid(at.child("port"), "Port field must be in range 0 < x < 65536.");
        }
        if let Some(name) = text::non_empty(name) {
            if !names.insert(name) {
                check.duplicate(at.child("name"), format!("Duplicate name of the port: {name}"));
            }
            if !text::is_port_name(name) {
                check.invalid(at.child("name"), format!("Invalid name of the port: {name}"));
            }
        }
        let protocol = protocol_of(text::non_empty(protocol), &at, check);
        result.push(Port { name: text::non_empty(name).map(str::to_owned), number, last: number, protocol });
    }
    result
}

fn ranges_of(ranges: &[vmi::PortRange], at: &Path, check: &mut Check<'_>) -> Vec<Port> {
    let mut result = Vec::new();
    for (i, vmi::PortRange { protocol, start, end, other: _ }) in ranges.iter().enumerate() {
        let at = at.index(i);
        let protocol = protocol_of(Some(protocol.as_str()).filter(|word| !word.is_empty()), &at, check);
        let port = |number: &i64| u16::try_from(*number).ok().filter(|number| *number > 0);
        let (Some(number), Some(last)) = (port(start), port(end)) else {
            let field = if port(start).is_none() { "start" } else { "end" };
            check.invalid(at.child(field), "Port field must be in range 0 < x < 65536.");
            continue;
        };
        if number > last {
            let at = at.child("end");
            check.invalid(&at, format!("{at} {last} must not be less than the start of the range, {number}"));
        }
        result.push(Port { name: None, number, last, protocol });
    }
    result
}

fn protocol_of(protocol: Option<&str>, at: &Path, check: &mut Check<'_>) -> Protocol {
    match protocol {
        None | Some("TCP") => Protocol::Tcp,
        Some("UDP") => Protocol::Udp,
        Some(_) => {
            check.invalid(at.child("protocol"), "Unknown protocol, only TCP or UDP allowed");
            Protocol::Tcp
        }
    }
}

fn is_up(state: Option<&vmi::InterfaceState>, at: &Path, check: &mut Check<'_>) -> bool {
    let at = at.child("state");
    match state {
        None | Some(vmi::InterfaceState::Up) => true,
        Some(vmi::InterfaceState::Down | vmi::InterfaceState::Absent) => false,
        Some(vmi::InterfaceState::Other(word)) => {
            check.invalid(
                &at,
                format!("{at} is set with an unrecognized option: {word}, must be one of: [up down absent]"),
            );
            true
        }
    }
}

/// Checks the limits of passt, and of passt in a launcher pod.
fn check_passt(interface: &vmi::Interface, network: Option<&Network>, at: &Path, check: &mut Check<'_>) {
    if !check.settings.gate("PasstBinding") {
        check.invalid(at.child("name"), "PasstBinding feature gate is not enabled");
    }
    match network {
        Some(Network::Multus { .. }) => {
            check.invalid(at.child("name"), "PasstBinding interface only implemented with pod network");
        }
        Some(Network::Pod { cidr, cidr6 }) if cidr.is_some() || cidr6.is_some() => {
            let message = "passtBinding lends the guest the addresses of the pod: remove vmNetworkCIDR and \
                           vmIPv6NetworkCIDR of its network, or use masquerade: {}";
            check.invalid(at.child("passtBinding"), message);
        }
        None | Some(Network::Pod { .. }) => {}
    }
    if interface.dhcp_options.is_some() {
        let message = "DHCP options are served with the bindings bridge and masquerade alone";
        check.invalid(at.child("dhcpOptions"), message);
    }
    if interface.state == Some(vmi::InterfaceState::Down) {
        let message = "the link of an interface with passtBinding is always up; use masquerade: {}";
        check.invalid(at.child("state"), message);
    }
    if interface.name.len() > LONGEST_OF_PASST {
        let message = format!(
            "the name of an interface with passtBinding has at most {LONGEST_OF_PASST} letters: passt has a socket of that name"
        );
        check.invalid(at.child("name"), message);
    }
}

/// Checks the limits of a virtual function.
fn check_sriov(interface: &vmi::Interface, network: Option<&Network>, at: &Path, check: &mut Check<'_>) {
    if matches!(network, Some(Network::Pod { .. } | Network::Multus { default: true, .. })) {
        let message = "an interface with sriov needs a network of Multus that is not the default one: its \
                       NetworkAttachmentDefinition says which devices of nodes are meant";
        check.invalid(at.child("name"), message);
    }
    let state = match interface.state {
        Some(vmi::InterfaceState::Up) => Some("up"),
        Some(vmi::InterfaceState::Down) => Some("down"),
        Some(vmi::InterfaceState::Absent | vmi::InterfaceState::Other(_)) | None => None,
    };
    if let Some(state) = state {
        let name = &interface.name;
        let message = format!("{name:?} interface's state {state:?} is not supported for SR-IOV NICs");
        check.invalid(at.child("state"), message);
    }
    if interface.dhcp_options.is_some() {
        let message = "DHCP options are served with the bindings bridge and masquerade alone";
        check.invalid(at.child("dhcpOptions"), message);
    }
    if interface.acpi_index.is_some_and(|index| index != 0) {
        let message = "a virtual function has no ACPI index; remove the field";
        check.invalid(at.child("acpiIndex"), message);
    }
}

fn check_absent(interface: &vmi::Interface, network: Option<&Network>, at: &Path, check: &mut Check<'_>) {
    let name = &interface.name;
    if interface.bridge.is_none() {
        let message = format!("{name:?} interface's state \"absent\" is supported only for bridge binding");
        check.invalid(at, message);
    }
    if matches!(network, Some(Network::Pod { .. } | Network::Multus { default: true, .. })) {
        let message = format!("{name:?} interface's state \"absent\" is not supported on default networks");
        check.invalid(at, message);
    }
}

fn dhcp(options: &vmi::DhcpOptions, at: &Path, check: &mut Check<'_>) -> Dhcp {
    let vmi::DhcpOptions { boot_file_name, tftp_server_name, ntp_servers, private_options, other: _ } =
        options;
    let fields = [("bootFileName", boot_file_name), ("tftpServerName", tftp_server_name)];
    for (field, value) in fields {
        // A DHCP option has at most 255 bytes.
        if text::non_empty(value).is_some_and(|value| value.len() > 255 || text::not_plain(value).is_some()) {
            let at = at.child(field);
            check.invalid(&at, format!("{at} must be no more than 255 bytes without control characters"));
        }
    }
    for (i, server) in ntp_servers.iter().enumerate() {
        if server.parse::<Ipv4Addr>().is_err() {
            let at = at.child("ntpServers").index(i);
            check.invalid(at, "NTP servers must be a list of valid IPv4 addresses.");
        }
    }
    let numbers: BTreeSet<i64> = private_options.iter().map(|one| one.option).collect();
    if numbers.len() < private_options.len() {
        let message = "Found Duplicates: you have provided duplicate DHCPPrivateOptions";
        check.invalid(at.child("privateOptions"), message);
    }
    let mut private = Vec::new();
    for (i, vmi::DhcpPrivateOption { option, value, other: _ }) in private_options.iter().enumerate() {
        let at = at.child("privateOptions").index(i);
        let Some(number) = u8::try_from(*option).ok().filter(|number| (224..=254).contains(number)) else {
            let message = "provided DHCPPrivateOptions are out of range, must be in range 224 to 254";
            check.invalid(at.child("option"), message);
            continue;
        };
        if value.len() > 255 {
            check.invalid(at.child("value"), format!("{at}.value must be no more than 255 bytes"));
        }
        private.push((number, value.clone()));
    }
    Dhcp {
        boot_file: text::non_empty(boot_file_name).map(str::to_owned),
        tftp_server: text::non_empty(tftp_server_name).map(str::to_owned),
        ntp_servers: ntp_servers.clone(),
        private,
    }
}
