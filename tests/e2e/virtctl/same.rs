//! The verbs that only read, by virtctl and by `coracle virt`: what the one prints, the other prints too.

use super::{STATUS, Virtctl, begin};
use crate::tiny;
use serde_json::Value;
use std::process::{Command, Stdio};
use tests::cluster::PATIENCE;
use tests::coracle::Ran;

/// `coracle virt` with these words, as whoever runs virtctl.
pub(super) fn coracle(virtctl: &Virtctl, args: &[&str]) -> Ran {
    let patience = PATIENCE.as_secs().to_string();
    Ran::of(behind(virtctl, &["timeout", &patience], args).output().unwrap())
}

/// The same, to be run.
pub(super) fn command(virtctl: &Virtctl, args: &[&str]) -> Command {
    behind(virtctl, &[], args)
}

fn behind(virtctl: &Virtctl, runner: &[&str], args: &[&str]) -> Command {
    let words = [runner, &[env!("CARGO_BIN_EXE_coracle"), "virt", "-n", &virtctl.namespace], args].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("KUBECONFIG", &virtctl.kubeconfig).stdin(Stdio::null());
    command
}

/// What virtctl prints of the guest stands in what ours prints.
#[track_caller]
pub(super) fn tells(virtctl: &Virtctl, args: &[&str], told: &Value) {
    let ours = coracle(virtctl, args).ok().json();
    if let Some(path) = missing(told, &ours) {
        panic!("{args:?}: {path} differs: virtctl prints {told}, coracle virt prints {ours}");
    }
}

/// Where a value is not in another, if it is not. virtctl writes fields that are empty; the guest's disk fills meanwhile.
fn missing(part: &Value, whole: &Value) -> Option<String> {
    let at = |name: &str, (part, whole): (&Value, &Value)| {
        missing(part, whole).map(|path| format!("/{name}{path}"))
    };
    match (part, whole) {
        (Value::Object(part), _) => part
            .iter()
            .filter(|(name, value)| !is_empty(value) && *name != "usedBytes")
            .find_map(|(name, value)| at(name, (value, &whole[name.as_str()]))),
        (Value::Array(part), Value::Array(whole)) if part.len() == whole.len() => {
            let mut pairs = part.iter().zip(whole).enumerate();
            pairs.find_map(|(number, pair)| at(&number.to_string(), pair))
        }
        (Value::Number(part), Value::Number(whole)) if part.as_f64() == whole.as_f64() => None,
        _ => (part != whole).then(String::new),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

/// Both streams.
fn printed(ran: &Ran) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.out), ran.err)
}

/// The line of a version, and the names of its fields.
fn version(printed: &str, whose: &str) -> (String, Vec<String>) {
    let line = printed.lines().find(|line| line.starts_with(whose)).unwrap_or_else(|| panic!("{printed}"));
    let fields = line
        .split(['{', ' ', '}'])
        .filter_map(|word| word.split_once(":\""))
        .map(|(name, _)| name.to_owned());
    (line.to_owned(), fields.collect())
}

#[test]
fn what_both_clients_read_is_the_same() {
    let Some((space, mut virtctl)) = begin("same") else { return };
    let theirs = printed(&virtctl.try_run(&["version"]).ok());
    let ours = printed(&coracle(&virtctl, &["version"]).ok());
    assert_eq!(version(&theirs, "Server Version: "), version(&ours, "Server Version: "));
    let (_, names) = version(&theirs, "Client Version: ");
    assert!(names.len() == 7 && names == version(&ours, "Client Version: ").1, "{theirs}{ours}");
    // The KubeVirt object, in its namespace.
    let devices = ["permitted-devices", "-n", "kubevirt"];
    virtctl.does(&devices, "");
    let theirs = printed(&virtctl.try_run(&devices));
    assert!(theirs.contains("Host Devices: "), "{theirs}");
    assert_eq!(theirs, printed(&coracle(&virtctl, &devices).ok()));
    // What cannot be read: both say what virt-api says.
    space.apply(&tiny("web", "Always"));
    space.says("vm/web", STATUS, "Running");
    for (verb, vmi, why) in [
        ("guestosinfo", "web", WITHOUT_AGENT),
        ("userlist", "web", WITHOUT_AGENT),
        ("fslist", "web", WITHOUT_AGENT),
        ("guestosinfo", "nothing", ABSENT),
        ("userlist", "nothing", ABSENT),
        ("fslist", "nothing", ABSENT),
    ] {
        let (theirs, ours) = (virtctl.try_run(&[verb, vmi]), coracle(&virtctl, &[verb, vmi]));
        assert!(theirs.code == 1 && theirs.err.contains(why), "{verb} {vmi}: {} {}", theirs.code, theirs.err);
        let (code, says) = if vmi == "nothing" { (4, "\"nothing\" not found") } else { (1, why) };
        assert!(ours.code == code && ours.err.contains(says), "{verb} {vmi}: {} {}", ours.code, ours.err);
    }
    virtctl.refuses(&["guestosinfo", "nothing"], ABSENT);
}

/// In the words of an error of Kubernetes' client library, which has ours between quotes.
const ABSENT: &str = "virtualmachineinstance.kubevirt.io \\\"nothing\\\" not found";
const WITHOUT_AGENT: &str = "VMI does not have guest agent connected";

#[test]
fn a_value_that_differs_is_found() {
    let whole = serde_json::json!({"os": {"id": "debian", "n": 2}, "list": [{"usedBytes": 1, "name": "a"}]});
    let found = |part: Value| missing(&part, &whole);
    assert_eq!(
        found(serde_json::json!({"os": {"n": 2.0}, "metadata": {}, "list": [{"usedBytes": 9, "name": "a"}]})),
        None
    );
    assert_eq!(found(serde_json::json!({"os": {"id": "fedora"}})).as_deref(), Some("/os/id"));
    assert_eq!(found(serde_json::json!({"list": [{"name": "b"}]})).as_deref(), Some("/list/0/name"));
    assert_eq!(found(serde_json::json!({"list": [{}, {"name": "a"}]})).as_deref(), Some("/list"));
    assert_eq!(found(serde_json::json!({"new": 1})).as_deref(), Some("/new"));
    let line = "Client Version: version.Info{GitVersion:\"v1\", GitCommit:\"\"}";
    assert_eq!(version(line, "Client Version: ").1, ["GitVersion", "GitCommit"]);
}
