//! Preconditions of operations on a VMI. Pure. Messages are upstream's, which scripts look for.

use crate::refusal::{Refusal, Result, Subject};
use api::launcher::PAUSED_BY_DISK_PRESSURE;
use api::vmi::{ConditionType, InterfaceStatus, Phase, VirtualMachineInstance};
use cluster_model::subresources::Action;

/// The VMI in messages.
pub(crate) fn subject(vmi: &VirtualMachineInstance) -> Subject<'_> {
    Subject { kind: "virtualmachineinstance", name: vmi.metadata.name.as_deref().unwrap_or_default() }
}

/// Phase of a VMI; empty before virt-controller has seen it.
pub(crate) fn phase(vmi: &VirtualMachineInstance) -> Phase {
    vmi.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}

fn is(vmi: &VirtualMachineInstance, wanted: &ConditionType) -> bool {
    let conditions = vmi.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions.iter().any(|condition| condition.r#type == *wanted && condition.status == "True")
}

/// True if the VMI is paused until there is room on the disk of its node.
fn is_paused_for_disk(vmi: &VirtualMachineInstance) -> bool {
    let conditions = vmi.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let is_that = |reason: &String| reason == PAUSED_BY_DISK_PRESSURE;
    conditions.iter().any(|condition| {
        condition.r#type == ConditionType::Paused && condition.reason.as_ref().is_some_and(is_that)
    })
}

/// Checks that the operation is possible in the VMI's present state.
pub(crate) fn permits(vmi: &VirtualMachineInstance, action: Action) -> Result<()> {
    let devices = &vmi.spec.domain.devices;
    match action {
        Action::Console => {
            if devices.autoattach_serial_console == Some(false) {
                return Err(Refusal::bad_request("No serial consoles are present."));
            }
            if phase(vmi) == Phase::Failed {
                return Err(Refusal::conflict(subject(vmi), "VMI is in failed status"));
            }
            check_running_or(vmi, || Refusal::bad_request("VMI is not running"))
        }
        Action::Vnc | Action::Screenshot => {
            if devices.autoattach_graphics_device == Some(false) {
                return Err(Refusal::bad_request("No graphics devices are present."));
            }
            check_running_or(vmi, || Refusal::bad_request("VMI is not running"))
        }
        Action::UsbRedir => {
            if devices.client_passthrough.is_none() {
                return Err(Refusal::conflict(subject(vmi), "Not configured with USB Redirection"));
            }
            check_running_or(vmi, || Refusal::bad_request("VMI is not running"))
        }
        Action::PortForward => {
            if is(vmi, &ConditionType::Paused) {
                return Err(Refusal::conflict(subject(vmi), "VMI is paused"));
            }
            check_running(vmi, "VMI is not running")
        }
        Action::Pause => {
            check_running(vmi, "VM is not running")?;
            let probe = vmi.spec.liveness_probe.as_ref();
            if probe.is_some_and(|probe| probe.guest_agent_ping.is_none()) {
                let why = "Pausing VMIs with a non-GuestAgentPing LivenessProbe is not supported";
                return Err(Refusal::forbidden(subject(vmi), why));
            }
            // A pause for disk pressure ends by itself. The launcher makes it one that lasts until the user ends it.
            match is(vmi, &ConditionType::Paused) && !is_paused_for_disk(vmi) {
                true => Err(Refusal::conflict(subject(vmi), "VMI is already paused")),
                false => Ok(()),
            }
        }
        Action::Unpause => {
            check_running(vmi, "VMI is not running")?;
            match is(vmi, &ConditionType::Paused) {
                true => Ok(()),
                false => Err(Refusal::conflict(subject(vmi), "VMI is not paused")),
            }
        }
        Action::SoftReboot => {
            check_running(vmi, "VMI is not running")?;
            if is(vmi, &ConditionType::Paused) {
                return Err(Refusal::conflict(subject(vmi), "VMI is paused"));
            }
            let acpi = vmi.spec.domain.features.as_ref().and_then(|features| features.acpi.as_ref());
            let has_acpi = acpi.is_none_or(|acpi| acpi.enabled != Some(false));
            match has_acpi || is(vmi, &ConditionType::AgentConnected) {
                true => Ok(()),
                false => {
                    let why = "VMI neither have the agent connected nor the ACPI feature enabled";
                    Err(Refusal::conflict(subject(vmi), why))
                }
            }
        }
        Action::Reset => {
            let why = format!("Failed to reset non-running VMI with phase {}", phase(vmi));
            check_running(vmi, &why)
        }
        Action::Freeze => check_running(vmi, "VM is not running"),
        Action::Unfreeze | Action::Stats => check_running(vmi, "VMI is not running"),
        Action::GuestOsInfo | Action::UserList | Action::FilesystemList => {
            check_running(vmi, "VMI is not running").map_err(Refusal::into_guest_text)?;
            match is(vmi, &ConditionType::AgentConnected) {
                true => Ok(()),
                false => {
                    let why = "VMI does not have guest agent connected";
                    Err(Refusal::conflict(subject(vmi), why).into_guest_text())
                }
            }
        }
        _ => Ok(()),
    }
}

fn check_running(vmi: &VirtualMachineInstance, why: &str) -> Result<()> {
    check_running_or(vmi, || Refusal::conflict(subject(vmi), why))
}

fn check_running_or(vmi: &VirtualMachineInstance, refused: impl FnOnce() -> Refusal) -> Result<()> {
    if phase(vmi) == Phase::Running { Ok(()) } else { Err(refused()) }
}

/// Address of the guest in the pod network, from the status of an interface whose address virt-handler reads
/// from the pod. An address reported by the guest agent could point anywhere, so it is not used. Addresses of
/// virt-api itself, of its node or of the cloud's metadata service are refused, since no pod has them.
/// Interfaces on networks of Multus are not dialled, since tenants define their addresses.
pub(crate) fn address(vmi: &VirtualMachineInstance) -> Result<std::net::IpAddr> {
    let interfaces = vmi.status.as_ref().map(|status| status.interfaces.as_slice()).unwrap_or_default();
    let is_of_spec = |name: &Option<String>| {
        vmi.spec.domain.devices.interfaces.iter().any(|interface| Some(&interface.name) == name.as_ref())
    };
    let is_of_multus = |name: &Option<String>| {
        vmi.spec
            .networks
            .iter()
            .any(|network| Some(&network.name) == name.as_ref() && network.multus.is_some())
    };
    let is_pods =
        |interface: &&InterfaceStatus| is_of_spec(&interface.name) && !is_of_multus(&interface.name);
    let first = interfaces.iter().find(is_pods);
    let text = first.and_then(|interface| interface.ip_address.as_deref()).filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Refusal::bad_request("no network interfaces are present"))?;
    let address: std::net::IpAddr =
        text.parse().map_err(|_| Refusal::internal(&format!("dialing VM: {text:?} is not an IP address")))?;
    // The kernel treats `::ffff:127.0.0.1` as 127.0.0.1.
    let address = address.to_canonical();
    let is_of_link = match address {
        std::net::IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        std::net::IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    if is_of_link || address.is_loopback() || address.is_unspecified() || address.is_multicast() {
        return Err(Refusal::internal(&format!("dialing VM: {address} is not an address of a VM")));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn vmi(spec: &Value, phase: &str, conditions: &[&str]) -> VirtualMachineInstance {
        let conditions: Vec<Value> =
            conditions.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        api::wire::read(json!({
            "metadata": {"name": "web"},
            "spec": spec,
            "status": {"phase": phase, "conditions": conditions},
        }))
        .unwrap()
    }

    /// It would go on by itself in the middle of what the user paused it for.
    #[test]
    fn a_vmi_that_is_paused_for_disk_pressure_may_be_paused() {
        for (reason, may) in
            [("PausedByDiskPressure", true), ("PausedByUser", false), ("PausedIOError", false)]
        {
            let mut vmi = vmi(&json!({"domain": {"devices": {}}}), "Running", &["Paused"]);
            vmi.status.as_mut().unwrap().conditions[0].reason = Some(reason.to_owned());
            assert_eq!(permits(&vmi, Action::Pause).is_ok(), may, "{reason}");
            assert!(permits(&vmi, Action::Unpause).is_ok(), "{reason}");
        }
    }

    #[test]
    fn what_may_be_done_follows_from_the_status() {
        let none = json!({"domain": {"devices": {}}});
        let bare = json!({"domain": {
            "devices": {"autoattachSerialConsole": false, "autoattachGraphicsDevice": false},
            "features": {"acpi": {"enabled": false}},
        }});
        let usb = json!({"domain": {"devices": {"clientPassthrough": {}}}});
        let probed = json!({"domain": {"devices": {}}, "livenessProbe": {"tcpSocket": {"port": 22}}});
        for (action, spec, phase, conditions, wanted) in [
            (Action::Console, &none, "Running", &[][..], "ok"),
            (Action::Console, &bare, "Running", &[], "400 No serial consoles are present."),
            (Action::Console, &none, "Failed", &[], "409 VMI is in failed status"),
            (Action::Console, &none, "Scheduled", &[], "400 VMI is not running"),
            (Action::Vnc, &bare, "Running", &[], "400 No graphics devices are present."),
            (Action::Vnc, &none, "Pending", &[], "400 VMI is not running"),
            (Action::UsbRedir, &none, "Running", &[], "409 Not configured with USB Redirection"),
            (Action::UsbRedir, &usb, "Scheduled", &[], "400 VMI is not running"),
            (Action::UsbRedir, &usb, "Running", &[], "ok"),
            (Action::Pause, &none, "Running", &[], "ok"),
            (Action::Pause, &none, "Scheduled", &[], "409 VM is not running"),
            (Action::Pause, &none, "Running", &["Paused"], "409 VMI is already paused"),
            (
                Action::Pause,
                &probed,
                "Running",
                &[],
                "403 Pausing VMIs with a non-GuestAgentPing LivenessProbe is not supported",
            ),
            (Action::Unpause, &none, "Running", &[], "409 VMI is not paused"),
            (Action::Unpause, &none, "Running", &["Paused"], "ok"),
            (Action::SoftReboot, &none, "Running", &["Paused"], "409 VMI is paused"),
            (
                Action::SoftReboot,
                &bare,
                "Running",
                &[],
                "409 VMI neither have the agent connected nor the ACPI feature enabled",
            ),
            (Action::SoftReboot, &bare, "Running", &["AgentConnected"], "ok"),
            (
                Action::Reset,
                &none,
                "Succeeded",
                &[],
                "409 Failed to reset non-running VMI with phase Succeeded",
            ),
            (Action::PortForward, &none, "Running", &["Paused"], "409 VMI is paused"),
            (Action::GuestOsInfo, &none, "Running", &[], "500 VMI does not have guest agent connected"),
            (Action::Stats, &bare, "Running", &["Paused"], "ok"),
            (Action::Stats, &none, "Scheduled", &[], "409 VMI is not running"),
            (Action::UserList, &none, "Scheduled", &["AgentConnected"], "500 VMI is not running"),
            (Action::FilesystemList, &none, "Running", &["AgentConnected"], "ok"),
        ] {
            let is = match permits(&vmi(spec, phase, conditions), action) {
                Ok(()) => "ok".to_owned(),
                Err(refused) => {
                    let message =
                        refused.message.rsplit_once("\": ").map_or(&*refused.message, |(_, why)| why);
                    let message = message.rsplit_once("forbidden: ").map_or(message, |(_, why)| why);
                    format!("{} {message}", refused.status.as_u16())
                }
            };
            assert_eq!(is, wanted, "{action:?} {phase} {conditions:?}");
        }
    }

    #[test]
    fn the_address_is_one_of_the_pod_and_never_the_guests_word() {
        let with = |interfaces: Value| -> VirtualMachineInstance {
            api::wire::read(json!({
                "metadata": {"name": "web"},
                "spec": {"domain": {"devices": {"interfaces": [{"name": "default", "masquerade": {}}]}}},
                "status": {"interfaces": interfaces},
            }))
            .unwrap()
        };
        let of = |interfaces| address(&with(interfaces)).map_err(|refused| refused.status.as_u16());
        assert_eq!(of(json!([{"name": "default", "ipAddress": "10.1.0.7"}])), Ok([10, 1, 0, 7].into()));
        assert_eq!(of(json!([{"ipAddress": "10.96.0.1", "infoSource": "guest-agent"}])), Err(400));
        assert_eq!(of(json!([{"name": "default"}])), Err(400));
        for refused in [
            "127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
        ] {
            assert_eq!(of(json!([{"name": "default", "ipAddress": refused}])), Err(500), "{refused}");
        }
        assert_eq!(of(json!([{"name": "default", "ipAddress": "fd00::7"}])), Ok("fd00::7".parse().unwrap()));
        let mapped = of(json!([{"name": "default", "ipAddress": "::ffff:10.1.0.7"}]));
        assert_eq!(mapped, Ok([10, 1, 0, 7].into()));
        assert_eq!(of(json!([{"name": "default", "ipAddress": "web"}])), Err(500));
    }

    #[test]
    fn an_address_of_a_network_that_a_tenant_defines_is_not_dialled() {
        let of = |networks: Value, interfaces: Value| {
            let spec = json!([{"name": "lan", "bridge": {}}, {"name": "default", "masquerade": {}}]);
            let vmi: VirtualMachineInstance = api::wire::read(json!({
                "metadata": {"name": "web"},
                "spec": {"domain": {"devices": {"interfaces": spec}}, "networks": networks},
                "status": {"interfaces": interfaces},
            }))
            .unwrap();
            address(&vmi).map_err(|refused| refused.status.as_u16())
        };
        let lan = json!({"name": "lan", "multus": {"networkName": "lan"}});
        let told =
            json!([{"name": "lan", "ipAddress": "10.96.0.1"}, {"name": "default", "ipAddress": "10.1.0.7"}]);
        assert_eq!(of(json!([lan, {"name": "default", "pod": {}}]), told.clone()), Ok([10, 1, 0, 7].into()));
        let in_place = json!({"name": "default", "multus": {"networkName": "any", "default": true}});
        assert_eq!(of(json!([lan, in_place]), told), Err(400));
    }
}
