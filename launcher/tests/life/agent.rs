//! The guest agent inside a Debian guest: every request to it, in one boot.

use crate::vm::{BOOT, Vm, ended, vmi};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A Debian disk; the VM writes to an overlay over it.
fn debian() -> PathBuf {
    let built = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../images/guests/debian/build"))
        .arg("demo")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    PathBuf::from(String::from_utf8(built.stdout).unwrap().trim_end())
}

#[test]
fn the_agent_answers_runs_programs_and_freezes() {
    let mut vmi = vmi("agent");
    vmi["spec"]["domain"]["memory"]["guest"] = json!("512Mi");
    vmi["spec"]["volumes"] =
        json!([{"name": "data", "containerDisk": {"image": "registry.example/debian:1"}}]);
    let source = |name: &str| json!({"secret": {"secretName": name}});
    let way = json!({"qemuGuestAgent": {"users": ["root"]}});
    vmi["spec"]["accessCredentials"] = json!([
        {"sshPublicKey": {"source": source("keys"), "propagationMethod": way}},
        {"userPassword": {"source": source("words"), "propagationMethod": {"qemuGuestAgent": {}}}},
    ]);
    let secrets = tempfile::tempdir().unwrap();
    let secret = |name: &str| secrets.path().join(name);
    let put = |name: &str, key: &str, text: &str| {
        std::fs::create_dir_all(secret(name)).unwrap();
        std::fs::write(secret(name).join(key), text).unwrap();
    };
    put("keys", "first", "ssh-rsa AAAA first\n");
    put("words", "root", "by its agent\n");
    let folders = json!({"keys": secret("keys"), "words": secret("words")});
    let volumes = json!({"data": {"kind": "image", "path": debian(), "format": "raw"}});
    let mut vm = Vm::new();
    vm.launch();
    vm.put_resolved(&vmi, &json!({"accelerator": "emulation", "volumes": volumes, "secrets": folders}));
    let offline = vm.until("that there is no guest agent yet", |state| state["credentials"].is_object());
    assert_eq!(offline["credentials"]["reason"], "GuestAgentOffline", "{offline}");
    vm.until_within(BOOT, "the guest agent", |state| state["agent"] == true || ended(state));
    vm.until_within(BOOT, "keys and passwords in the guest", |state| {
        state["credentials"]["synchronized"] == true || ended(state)
    });
    vm.get_well("POST", "/v1/guest/ping", &Value::Null);

    let info = vm.get_well("GET", "/v1/guest/info", &Value::Null);
    assert_eq!((&info["hostname"], &info["os"]["id"]), (&json!("coracle"), &json!("debian")), "{info}");
    let filesystems = vm.get_well("GET", "/v1/guest/filesystems", &Value::Null);
    let root = filesystems.as_array().unwrap().iter().find(|found| found["mountpoint"] == "/").unwrap();
    assert_eq!(root["type"], "ext4", "{filesystems}");

    let exec = |command: &str, args: Value, more: Value| {
        let mut exec = json!({"command": command, "args": args});
        exec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        vm.ask("POST", "/v1/guest/exec", &exec)
    };
    let (status, answer) =
        exec("/bin/sh", json!(["-c", "cat; echo no >&2; exit 7"]), json!({"input": "what came in"}));
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer, json!({"exitCode": 7, "stdout": "what came in", "stderr": "no\n"}));
    let (status, answer) = exec("/bin/sleep", json!(["600"]), json!({"timeout": 1}));
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(status == 504 && answer.contains("still runs after 1 s"), "{status}: {answer}");
    let (status, answer) = exec("/no/such/program", json!([]), json!({}));
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(status == 500 && answer.contains("/no/such/program"), "{status}: {answer}");

    // A key that goes from its Secret goes from the guest, and so does one that somebody else put there.
    let keys = || {
        let (status, answer) = exec("/bin/cat", json!(["/root/.ssh/authorized_keys"]), json!({}));
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        assert_eq!(status, 200, "{answer}");
        answer["stdout"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(keys().trim(), "ssh-rsa AAAA first");
    exec("/bin/sh", json!(["-c", "echo ssh-rsa AAAA other >>/root/.ssh/authorized_keys"]), json!({}));
    put("keys", "first", "ssh-rsa AAAA second\n");
    let began = std::time::Instant::now();
    while keys().trim() != "ssh-rsa AAAA second" {
        assert!(began.elapsed() < BOOT, "the guest still has: {}", keys());
        std::thread::sleep(std::time::Duration::from_secs(1));
    }

    let frozen = vm.get_well("POST", "/v1/guest/freeze", &json!({}));
    assert!(frozen["frozen"].as_u64().unwrap() >= 1, "{frozen}");
    let (status, _) = exec("/bin/true", json!([]), json!({}));
    assert_ne!(status, 200, "an agent with frozen file systems starts no program");
    vm.until("that its file systems are frozen", |state| state["frozen"] == true);
    // Once more is done already.
    assert_eq!(vm.get_well("POST", "/v1/guest/freeze", &json!({})), json!({"frozen": 0}));
    assert_eq!(vm.get_well("POST", "/v1/guest/thaw", &Value::Null), json!({"thawed": frozen["frozen"]}));
    assert_eq!(vm.get_well("POST", "/v1/guest/thaw", &Value::Null), json!({"thawed": 0}));
    vm.until("that they are not", |state| state["frozen"].is_null());

    let mut console = vm.console();
    console.says("login:");
    console.types("root");
    console.says("Password:");
    console.types("by its agent");
    console.says("root@coracle:~#");
    let users = vm.get_well("GET", "/v1/guest/users", &Value::Null);
    assert_eq!(users[0]["name"], "root", "{users}");

    // The guest agent ends before the guest does.
    exec("/bin/sh", json!(["-c", "systemctl stop qemu-guest-agent &"]), json!({"timeout": 1}));
    vm.until("the guest agent's end", |state| state["agent"] == false);
    let (status, answer) = vm.ask("POST", "/v1/guest/ping", &Value::Null);
    assert_eq!(status, 503, "{}", String::from_utf8_lossy(&answer));
    vm.request(&json!({"request": "shutdown"}));
    let state = vm.until("an end", ended);
    assert_eq!((&state["life"], &state["reason"]), (&json!("Succeeded"), &json!("Shutdown")), "{state}");
}
