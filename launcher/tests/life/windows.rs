//! What a Windows guest is given, as QEMU itself tells: its TPM and its enlightenments.
//!
//! QEMU is asked on a monitor of the test's, which a hook writes into the domain beside libvirt's. The VMs stand before their
//! first instruction: no guest is needed.

use crate::vm::{Vm, ended, node_info, vmi};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

/// Adds the monitor, and changes the domain otherwise as `CHANGE` says to sed.
const HOOK: &str = r#"#!/bin/sh
monitor="<qemu:arg value='-qmp'/><qemu:arg value='unix:SOCKET,server=on,wait=off'/>"
case $4 in
*"</qemu:commandline>"*) add="s|</qemu:commandline>|$monitor&|" ;;
*) add="s|</domain>|<qemu:commandline>$monitor</qemu:commandline>&|" ;;
esac
printf %s "$4" | sed -e "$add" -e "CHANGE"
"#;

/// The domain stays as it is.
const AS_IT_IS: &str = "";
/// A domain for KVM is emulated. Nested virtualization is then not there to be required, and of the enlightenments QEMU has
/// `vpindex` set by KVM itself.
const EMULATED: &str = "s/<domain type='kvm'/<domain type='qemu'/; /name='vmx'/d; /<vpindex /d";

/// The field of `features.hyperv`, the property of a CPU in QEMU, and its value.
fn enlightenments() -> Vec<(&'static str, &'static str, Value)> {
    let on = |field, property| (field, property, json!(true));
    vec![
        on("relaxed", "hv-relaxed"),
        on("vapic", "hv-vapic"),
        ("spinlocks", "hv-spinlocks", json!(8191)),
        on("vpindex", "hv-vpindex"),
        on("runtime", "hv-runtime"),
        on("synic", "hv-synic"),
        on("synictimer", "hv-stimer"),
        on("synictimer", "hv-stimer-direct"),
        // The timer `hyperv` of the clock, which synthetic timers count by.
        on("synictimer", "hv-time"),
        on("reset", "hv-reset"),
        ("vendorid", "hv-vendor-id", json!("CoracleHv123")),
        on("frequencies", "hv-frequencies"),
        on("reenlightenment", "hv-reenlightenment"),
        on("tlbflush", "hv-tlbflush"),
        on("tlbflush", "hv-tlbflush-direct"),
        on("tlbflush", "hv-tlbflush-ext"),
        on("ipi", "hv-ipi"),
        on("evmcs", "hv-evmcs"),
    ]
}

/// A guest with a TPM and these enlightenments.
fn windows(is_wanted: impl Fn(&str) -> bool, persistent: bool) -> Value {
    let mut vmi = vmi("windows");
    vmi["spec"]["startStrategy"] = json!("Paused");
    let domain = &mut vmi["spec"]["domain"];
    domain["devices"]["tpm"] = json!({"persistent": persistent});
    domain["cpu"] = json!({"model": "kvm64"});
    if is_wanted("synictimer") {
        domain["clock"] = json!({"utc": {}, "timer": {"hyperv": {}}});
    }
    if is_wanted("evmcs") {
        domain["cpu"]["features"] = json!([{"name": "vmx", "policy": "require"}]);
    }
    let mut features = json!({});
    for (field, ..) in enlightenments().into_iter().filter(|(field, ..)| is_wanted(field)) {
        features[field] = match field {
            "spinlocks" => json!({"spinlocks": 8191}),
            "vendorid" => json!({"vendorid": "CoracleHv123"}),
            "synictimer" => json!({"direct": {}}),
            "tlbflush" => json!({"direct": {}, "extended": {}}),
            _ => json!({}),
        };
    }
    domain["features"] = json!({"hyperv": features});
    vmi
}

/// A paused VM, and QEMU's own monitor of it.
struct Qemu {
    _vm: Vm,
    monitor: BufReader<UnixStream>,
}

impl Qemu {
    fn paused(vmi: &Value, accelerator: &str, change: &str) -> Qemu {
        let mut vm = Vm::new();
        let (socket, hook) = (vm.place.path().join("qmp"), vm.place.path().join("hook"));
        let text = HOOK.replace("SOCKET", socket.to_str().unwrap()).replace("CHANGE", change);
        fs::write(&hook, text).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        vm.launch();
        let hooks = json!([{"kind": "script", "path": hook}]);
        vm.put_resolved(vmi, &json!({"accelerator": accelerator, "hooks": hooks}));
        let state = vm.until("a pause", |state| state["life"] == "Paused" || ended(state));
        assert_eq!(state["reason"], "PausedByUser", "{state}: {}", vm.log());
        let monitor = BufReader::new(UnixStream::connect(socket).unwrap());
        let mut qemu = Qemu { _vm: vm, monitor };
        qemu.asks("qmp_capabilities", &json!({}));
        qemu
    }

    fn asks(&mut self, command: &str, arguments: &Value) -> Value {
        let question = json!({"execute": command, "arguments": arguments});
        writeln!(self.monitor.get_mut(), "{question}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.monitor.read_line(&mut line).unwrap(), 0, "QEMU went at {question}");
            let mut told: Value = serde_json::from_str(&line).unwrap();
            assert!(told.get("error").is_none(), "{question}: {told}");
            // Its greeting and its events come in between.
            if told.get("return").is_some() {
                return told["return"].take();
            }
        }
    }

    /// A property of the first CPU.
    fn cpu(&mut self, property: &str) -> Value {
        let cpus = self.asks("query-cpus-fast", &json!({}));
        self.asks("qom-get", &json!({"path": cpus[0]["qom-path"], "property": property}))
    }

    /// It has the enlightenments that are wanted, and no others.
    fn has(&mut self, is_wanted: impl Fn(&str) -> bool) {
        for (field, property, value) in enlightenments() {
            let found = self.cpu(property);
            assert_eq!(found == value, is_wanted(field), "{field}: {property} is {found}");
        }
    }

    fn has_tpm(&mut self, model: &str) {
        let found = self.asks("query-tpm", &json!({}));
        let all = found.as_array().unwrap();
        assert_eq!((all.len(), &all[0]["model"]), (1, &json!(model)), "{found}");
        assert_eq!(all[0]["options"]["type"], "emulator", "{found}");
    }
}

/// A CPU has these properties under emulation, too, where its guest sees nothing of them.
#[test]
fn qemu_is_asked_for_the_enlightenments_of_the_spec() {
    let some = |field: &str| ["vpindex", "synic", "spinlocks"].contains(&field);
    for is_wanted in [|_: &str| true, some] {
        let mut qemu = Qemu::paused(&windows(is_wanted, true), "kvm", EMULATED);
        qemu.has(|field| is_wanted(field) && field != "vpindex");
    }
}

#[test]
fn an_emulated_windows_guest_has_a_tpm_and_no_enlightenments() {
    for (persistent, model) in [(true, "tpm-crb"), (false, "tpm-tis")] {
        let mut qemu = Qemu::paused(&windows(|_| true, persistent), "emulation", AS_IT_IS);
        qemu.has_tpm(model);
        qemu.has(|_| false);
    }
}

#[test]
fn kvm_gives_a_windows_guest_the_enlightenments_that_the_node_names() {
    let node = match fs::File::options().read(true).write(true).open("/dev/kvm") {
        Ok(_) => node_info(),
        Err(_) => Value::Null,
    };
    let named = |field: &str| node["cpu"]["hyperv"].as_array().is_some_and(|all| all.contains(&json!(field)));
    if !named("relaxed") {
        eprintln!(
            "skipped: this host has no KVM with enlightenments. What QEMU is asked for is shown under emulation, all but \
             vpindex; that KVM gives it to a guest is not shown here"
        );
        return;
    }
    // Nested virtualization is not every host's, and of a flush libvirt names no more than that there is one.
    let is_wanted = |field: &str| named(field) && !["evmcs", "tlbflush"].contains(&field);
    let mut qemu = Qemu::paused(&windows(is_wanted, true), "kvm", AS_IT_IS);
    qemu.has(is_wanted);
    qemu.has_tpm("tpm-crb");
}
