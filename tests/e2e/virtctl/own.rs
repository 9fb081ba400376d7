//! Verbs of `coracle virt` that virtctl has not, or that print what others read: their effect in the cluster.

use super::{STATUS, Virtctl, begin, login::Key, same};
use crate::tiny;
use serde_json::Value;
use tests::cluster::{Space, until};

/// Its disk is empty, so that nothing in it would end by itself.
const FLAGS: &[&str] = &["create", "vm", "--name=web", "--memory=128Mi", "--termination-grace-period=0"];

/// The manifest that `create` prints with these flags, too.
fn created(virtctl: &Virtctl, args: &[&str]) -> String {
    let ran = same::coracle(virtctl, &[FLAGS, args].concat()).ok();
    String::from_utf8(ran.out).unwrap()
}

#[test]
fn what_create_prints_is_applied_and_top_shows_what_it_uses() {
    let Some((space, virtctl)) = begin("top") else { return };
    let idle = same::coracle(&virtctl, &["top", "--once"]).ok();
    assert!(!String::from_utf8_lossy(&idle.out).contains("web"), "{idle:?}");
    same::coracle(&virtctl, &["top", "web", "--once"]).refused(4, "not found");
    space.apply(&created(&virtctl, &["--volume-containerdisk=src:registry:5000/disk:1"]));
    space.says("vm/web", STATUS, "Running");
    assert_eq!(space.get("vm/web", ".spec.template.spec.domain.memory.guest"), "128Mi");
    let top = || same::coracle(&virtctl, &["top", "-o", "json", "--interval", "0.1"]).ok().json();
    let uses = |top: &Value| {
        let vmi = &top["items"][0];
        vmi["name"] == "web" && vmi["error"].is_null() && vmi["memoryBytes"].as_u64() > Some(1 << 20)
    };
    until(|| uses(&top()), || format!("top shows {}", top()));
    let shown = top();
    let vmi = &shown["items"][0];
    assert_eq!((&vmi["phase"], &vmi["vcpus"]), (&"Running".into(), &1.into()), "{shown}");
    assert_eq!(vmi["memoryLimitBytes"], 128 << 20, "{shown}");
    assert_eq!(vmi["node"], space.get("vmi/web", ".status.nodeName"), "{shown}");
    let table = same::coracle(&virtctl, &["top", "web", "--once", "--interval", "0.1"]).ok();
    let table = String::from_utf8_lossy(&table.out).into_owned();
    let row = table.lines().nth(1).unwrap_or_else(|| panic!("{table}"));
    assert!(table.starts_with("NAME") && row.starts_with("web ") && row.contains("128 MiB"), "{table}");
    // Who may not view the namespace is told so.
    space.run(&["create", "serviceaccount", "somebody"]);
    let user = format!("--as=system:serviceaccount:{}:somebody", space.name);
    same::coracle(&virtctl, &[&user, "top", "--once"]).refused(5, "cannot list the VMIs of namespace");
}

/// The lines of all keys in a Secret.
fn keys(space: &Space) -> Vec<String> {
    let secret: Value = serde_json::from_str(&space.run(&["get", "secret", "keys", "-o", "json"])).unwrap();
    let values = secret["data"].as_object().into_iter().flat_map(|data| data.values());
    let text = |value: &Value| {
        use base64::Engine as _;
        base64::prelude::BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap()
    };
    values.map(|value| String::from_utf8(text(value)).unwrap().trim().to_owned()).collect()
}

#[test]
fn keys_of_a_guest_are_changed_in_the_secret_that_its_vm_names() {
    let Some((space, virtctl)) = begin("credentials") else { return };
    let (first, second) = (Key::new(), Key::new());
    let literal = format!("--from-literal=first={}", first.public());
    space.run(&["create", "secret", "generic", "keys", &literal]);
    let disk = "--volume-containerdisk=src:registry:5000/disk:1";
    let keys_of = "--access-cred=src:keys,method:nocloud";
    space.apply(&created(&virtctl, &["--run-strategy=Halted", disk, keys_of, "--cloud-init=nocloud"]));
    let (value, user) = (second.public(), ["--user", "debian"]);
    let does = |verb: &str, vm: &str, more: &[&str]| {
        same::coracle(&virtctl, &[&["credentials", verb, vm], &user[..], more].concat())
    };
    // The VM does not own it: others may use it, too.
    let of_keys = ["--secret", "keys", "--value", &value];
    does("add-ssh-key", "web", &of_keys).refused(1, "--force changes it all the same");
    assert_eq!(keys(&space), [first.public()]);
    let by_force = [&of_keys[..], &["--force"]].concat();
    does("add-ssh-key", "web", &by_force).ok();
    let has = keys(&space);
    assert!(has.len() == 2 && has.contains(&first.public()) && has.contains(&value), "{has:?}");
    does("remove-ssh-key", "web", &by_force).ok();
    assert_eq!(keys(&space), [first.public()]);
    // What the guest agent writes gets a Secret that the VM owns.
    space.apply(&tiny("other", "Halted"));
    does("add-ssh-key", "other", &["--value", &value]).ok();
    let named = ".spec.template.spec.accessCredentials[0].sshPublicKey.source.secret.secretName";
    let named = space.get("vm/other", named);
    let owner = space.get(&format!("secret/{named}"), ".metadata.ownerReferences[0].name");
    assert_eq!(owner, "other");
    does("set-password", "web", &["--password", "secret"]).refused(4, "set the password with cloud-init");
}
