//! Debug settings of a VMI for its launcher: more log messages, and a launcher that stays after a failure.
//!
//! | label or annotation | effect |
//! |---|---|
//! | label `logVerbosity` | from 0 to 9, instead of `logVerbosity.virtLauncher` of the settings |
//! | label `debugLogs: "true"` | the launcher and libvirt log at debug level |
//! | annotation `kubevirt.io/libvirt-log-filters` | log filters of libvirt, in its own format |
//! | annotation `kubevirt.io/keep-launcher-alive-after-failure: "true"` | a launcher whose VM has failed stays, and so does its pod, until the VMI goes |
//! | annotation `kubevirt.io/func-test-virt-launcher-fail-fast` | the launcher fails at once: for tests |

use api::meta::ObjectMeta;
use cluster_model::config::Config;
use cluster_model::config::program::log_level;
use serde_json::{Value, json};

const VERBOSITY: &str = "logVerbosity";
const DEBUG: &str = "debugLogs";
const FILTERS: &str = "kubevirt.io/libvirt-log-filters";
const KEEP: &str = "kubevirt.io/keep-launcher-alive-after-failure";
const FAIL: &str = "kubevirt.io/func-test-virt-launcher-fail-fast";
/// Log filters without the commands to the guest agent, which contain passwords.
const NO_PASSWORDS: &str = "3:qemu.qemu_agent 3:libvirt-qemu 3:util.json";
/// Default log filters of libvirt: all messages except those that repeat many times a second.
const USUAL: &str =
    "3:remote 4:event 3:util.json 3:util.object 3:util.dbus 3:util.netlink 3:rpc 3:access 1:*";

/// True if the launcher and its pod stay when the VM has failed.
pub(crate) fn keeps_failed_pod(meta: &ObjectMeta) -> bool {
    meta.annotations.get(KEEP).is_some_and(|keep| keep == "true")
}

/// Further flags of the launcher.
pub(super) fn flags(meta: &ObjectMeta) -> Vec<&'static str> {
    let mut flags = Vec::new();
    if keeps_failed_pod(meta) {
        flags.push("--keep-after-failure");
    }
    if meta.annotations.contains_key(FAIL) {
        flags.push("--simulate-crash");
    }
    flags
}

/// The environment of the launcher.
pub(super) fn environment(meta: &ObjectMeta, config: &Config) -> Vec<Value> {
    let mut env =
        vec![json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})];
    let mut say = |name: &str, value: &str| env.push(json!({"name": name, "value": value}));
    let own = meta.labels.get(VERBOSITY).and_then(|said| said.parse().ok());
    let own = own.filter(|verbosity| (0..=9).contains(verbosity));
    let debug = meta.labels.get(DEBUG).is_some_and(|debug| debug == "true");
    let level = own.or(config.launcher_verbosity).map(log_level);
    let level = if debug && level != Some("trace") { Some("debug") } else { level };
    if let Some(level) = level {
        say("CORACLE_LOG", level);
    }
    let filters = meta.annotations.get(FILTERS).map(String::as_str).filter(|filters| !filters.is_empty());
    if let Some(filters) = filters.or(debug.then_some(USUAL)) {
        // The first that fits counts.
        say("LIBVIRT_LOG_FILTERS", &format!("{NO_PASSWORDS} {filters}"));
        say("LIBVIRT_LOG_OUTPUTS", "1:stderr");
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn meta(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> ObjectMeta {
        let map = |list: &[(&str, &str)]| -> BTreeMap<String, String> {
            list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        ObjectMeta { labels: map(labels), annotations: map(annotations), ..ObjectMeta::default() }
    }

    /// The variables, by name, without the pod's name.
    fn said(meta: &ObjectMeta, config: &Config) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = environment(meta, config);
        all.iter().skip(1).map(|one| (text(&one["name"]), text(&one["value"]))).collect()
    }

    #[test]
    fn a_vmi_says_how_much_its_launcher_says() {
        let settings = Config { launcher_verbosity: Some(3), ..Config::default() };
        let level = |labels: &[(&str, &str)], config: &Config| {
            said(&meta(labels, &[]), config).get("CORACLE_LOG").cloned().unwrap_or_default()
        };
        assert_eq!(level(&[], &Config::default()), "");
        assert_eq!(level(&[], &settings), "debug");
        assert_eq!(level(&[(VERBOSITY, "9")], &settings), "trace");
        assert_eq!(level(&[(VERBOSITY, "0")], &settings), "info");
        for nonsense in ["10", "-1", "much"] {
            assert_eq!(level(&[(VERBOSITY, nonsense)], &settings), "debug", "{nonsense}");
        }
        assert_eq!(level(&[(DEBUG, "true")], &Config::default()), "debug");
        assert_eq!(level(&[(DEBUG, "false")], &Config::default()), "");
    }

    #[test]
    fn libvirt_says_what_is_asked_for() {
        let of = |labels: &[(&str, &str)], annotations: &[(&str, &str)]| {
            said(&meta(labels, annotations), &Config::default()).get("LIBVIRT_LOG_FILTERS").cloned()
        };
        assert_eq!(of(&[], &[]), None);
        // In these words of libvirt's, and before all others: commands to the guest agent have passwords in them.
        let quiet = "3:qemu.qemu_agent 3:libvirt-qemu 3:util.json";
        let with = |filters: &str| Some(format!("{quiet} {filters}"));
        assert_eq!(of(&[(DEBUG, "true")], &[]), with(USUAL));
        assert_eq!(of(&[(DEBUG, "true")], &[(FILTERS, "1:qemu")]), with("1:qemu"));
        assert_eq!(of(&[], &[(FILTERS, "1:qemu")]), with("1:qemu"));
    }

    #[test]
    fn a_launcher_stays_or_fails_where_an_annotation_says_so() {
        assert_eq!(flags(&meta(&[], &[(KEEP, "true")])), ["--keep-after-failure"]);
        assert_eq!(flags(&meta(&[], &[(FAIL, "")])), ["--simulate-crash"]);
        assert_eq!(flags(&meta(&[], &[(KEEP, "false")])), [""; 0]);
    }
}
