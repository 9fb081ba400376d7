//! Check of the guest agent: does it support all that its VMI asks for? Pure.
//!
//! The lists of commands and the messages are upstream's: tools look for them in the reason of
//! `AgentVersionNotSupported`.

use api::launcher::GuestCommand;
use api::vmi::{Probe, VirtualMachineInstance};

const BASIC: [&str; 10] = [
    "guest-ping",
    "guest-get-time",
    "guest-info",
    "guest-shutdown",
    "guest-network-get-interfaces",
    "guest-get-fsinfo",
    "guest-get-host-name",
    "guest-get-users",
    "guest-get-timezone",
    "guest-get-osinfo",
];
const KEYS: [&str; 3] =
    ["guest-ssh-get-authorized-keys", "guest-ssh-add-authorized-keys", "guest-ssh-remove-authorized-keys"];
const PASSWORDS: [&str; 1] = ["guest-set-user-password"];
const EXEC: [&str; 2] = ["guest-exec-status", "guest-exec"];

/// All commands that are checked.
pub(crate) const JUDGED: [&str; 16] = {
    let lists: [&[&str]; 4] = [&BASIC, &KEYS, &PASSWORDS, &EXEC];
    let mut all = [""; 16];
    let (mut list, mut at) = (0, 0);
    while list < lists.len() {
        let mut one = 0;
        while one < lists[list].len() {
            all[at] = lists[list][one];
            at += 1;
            one += 1;
        }
        list += 1;
    }
    all
};

/// Upstream's message about a guest agent that lacks commands that the VMI needs, and the missing or disabled
/// commands. `None` if nothing is missing, or if the agent reports no commands at all.
pub(crate) fn unsupported(
    vmi: &VirtualMachineInstance,
    commands: &[GuestCommand],
) -> Option<(&'static str, String)> {
    if commands.is_empty() {
        return None;
    }
    let has = |name: &str| commands.iter().any(|command| command.name == name && command.enabled);
    let of_agent =
        |wanted: fn(&api::vmi::AccessCredential) -> bool| vmi.spec.access_credentials.iter().any(wanted);
    let keys = of_agent(|one| {
        one.ssh_public_key.as_ref().is_some_and(|keys| keys.propagation_method.qemu_guest_agent.is_some())
    });
    let passwords = of_agent(|one| one.user_password.is_some());
    let runs = |probe: &Option<Probe>| probe.as_ref().is_some_and(|probe| probe.exec.is_some());
    let probes = runs(&vmi.spec.readiness_probe) || runs(&vmi.spec.liveness_probe);
    let lists: [(bool, &[&str], &'static str); 4] = [
        (true, &BASIC, "This guest agent doesn't support required basic commands"),
        // Without these commands, keys are written by a program that the agent runs.
        (
            keys && !EXEC.iter().all(|name| has(name)),
            &KEYS,
            "This guest agent doesn't support required public key commands",
        ),
        (passwords, &PASSWORDS, "This guest agent doesn't support required password commands"),
        (probes, &EXEC, "This guest agent doesn't support required exec probe commands"),
    ];
    lists.into_iter().filter(|(is_asked, ..)| *is_asked).find_map(|(_, list, sentence)| {
        let missing: Vec<&str> = list.iter().copied().filter(|name| !has(name)).collect();
        let message =
            || format!("the guest agent in the guest lacks, or does not permit: {}", missing.join(", "));
        (!missing.is_empty()).then(|| (sentence, message()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn vmi(spec: &Value) -> VirtualMachineInstance {
        let mut object = json!({"metadata": {"name": "a"}, "spec": {"domain": {"devices": {}}}});
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        api::wire::read(object).unwrap()
    }

    fn all_but(missing: &[&str], disabled: &[&str]) -> Vec<GuestCommand> {
        let there = JUDGED.iter().filter(|name| !missing.contains(name));
        there
            .map(|name| GuestCommand { name: (*name).to_owned(), enabled: !disabled.contains(name) })
            .collect()
    }

    #[test]
    fn a_guest_agent_is_judged_by_what_its_vmi_asks_for() {
        let source = json!({"secret": {"secretName": "s"}});
        let way = json!({"qemuGuestAgent": {"users": ["me"]}});
        let keys =
            json!({"accessCredentials": [{"sshPublicKey": {"source": source, "propagationMethod": way}}]});
        let by_seed = json!({"accessCredentials": [{"sshPublicKey": {"source": source, "propagationMethod": {"noCloud": {}}}}]});
        let word = json!({"accessCredentials": [{"userPassword": {"source": source, "propagationMethod": {"qemuGuestAgent": {}}}}]});
        let probe = json!({"readinessProbe": {"exec": {"command": ["true"]}}});
        let (add, exec) = ("guest-ssh-add-authorized-keys", "guest-exec");
        for (spec, missing, sentence) in [
            (json!({}), &["guest-get-time"][..], "required basic commands"),
            (keys.clone(), &[add, exec], "required public key commands"),
            (word, &["guest-set-user-password"], "required password commands"),
            (probe, &[exec], "required exec probe commands"),
        ] {
            let vmi = vmi(&spec);
            assert_eq!(unsupported(&vmi, &all_but(&[], &[])), None);
            for commands in [all_but(missing, &[]), all_but(&[], missing)] {
                let (reason, message) = unsupported(&vmi, &commands).unwrap();
                assert_eq!(reason, format!("This guest agent doesn't support {sentence}"));
                assert!(message.ends_with(&format!(": {}", missing[0])), "{message}");
            }
        }
        assert_eq!(unsupported(&vmi(&keys), &all_but(&[add], &[])), None, "a program writes them");
        let others = ["guest-ssh-add-authorized-keys", "guest-set-user-password", "guest-exec"];
        for spec in [json!({}), by_seed] {
            assert_eq!(unsupported(&vmi(&spec), &all_but(&others, &[])), None, "nobody asks for them");
        }
        assert_eq!(unsupported(&vmi(&keys), &[]), None, "it tells no commands");
    }
}
