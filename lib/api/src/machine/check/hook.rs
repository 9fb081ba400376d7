//! Hook sidecars of an annotation, which lists them in JSON.

use super::{Check, Site, text};
use crate::fault::{Fault, Reason};
use crate::machine::hook::{
    DEVICE_INFO, HookClaim, HookScript, HookSidecar, MOST, OF_POD, POD_INFO, POD_METADATA, SOCKETS,
};
use crate::wire::Path;
use serde::Deserialize;
use serde_json::Value;

/// Folders of the launcher's container that a tenant must not mount over: programs, files of Kubernetes and
/// virt-handler, and files of the launcher.
const OURS: [&str; 18] = [
    "/bin",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/tmp",
    "/usr",
    "/var/run/kubevirt",
    SOCKETS,
    "/var/run/kubevirt-image-volume",
    "/var/run/kubevirt-kernel-boot",
    "/var/run/kubevirt-private",
    "/var/run/secrets",
];

/// An entry of the annotation.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    image: Option<String>,
    image_pull_policy: Option<String>,
    command: Option<Vec<String>>,
    args: Option<Vec<String>>,
    config_map: Option<ConfigMap>,
    pvc: Option<Pvc>,
    #[serde(rename = "downwardAPI", default)]
    downward_api: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigMap {
    #[serde(default)]
    name: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    hook_path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Pvc {
    #[serde(default)]
    name: String,
    #[serde(default)]
    volume_path: String,
    #[serde(default)]
    shared_compute_path: String,
}

/// Checks the sidecars of the annotation at the path `at`.
pub(super) fn sidecars(listed: &str, at: &Path, check: &mut Check<'_>) -> Vec<HookSidecar> {
    if check.settings.site == Site::Laptop {
        let message = "hook sidecars are containers of a launcher pod, which only a cluster has";
        let hint = "take the annotation out, and name a program that changes the domain by 'coracle run --hook FILE'";
        check.faults.push(Fault::new(at, Reason::NotSupported, message).hint(hint));
        return Vec::new();
    }
    let entries = match serde_json::from_str::<Vec<Entry>>(listed) {
        Ok(entries) => entries,
        Err(e) => {
            let why: String = e.to_string().chars().filter(|c| !c.is_control()).take(300).collect();
            check.invalid(at, format!("{at} must be a JSON list of hook sidecars: {why}"));
            return Vec::new();
        }
    };
    if entries.len() > MOST {
        check.invalid(at, format!("{at} lists {} hook sidecars; at most {MOST} are run", entries.len()));
        return Vec::new();
    }
    let mut shared = Vec::new();
    entries
        .into_iter()
        .enumerate()
        .map(|(n, entry)| sidecar(entry, &at.index(n), &mut shared, check))
        .collect()
}

/// `shared`: paths in the launcher that earlier sidecars mount.
fn sidecar(entry: Entry, at: &Path, shared: &mut Vec<String>, check: &mut Check<'_>) -> HookSidecar {
    let Entry { image, image_pull_policy, command, args, config_map, pvc, downward_api } = entry;
    let image = image.unwrap_or_default();
    if image.trim().is_empty() {
        let message = format!("{at} has no image, and there is no default image");
        let hint = "name one, such as sidecar-shim of KubeVirt, which runs the script of a configMap";
        check.faults.push(Fault::new(at.child("image"), Reason::Required, message).hint(hint));
    } else if image.contains(|c: char| c.is_whitespace() || c.is_control()) || image.len() > 1024 {
        let at = at.child("image");
        check.invalid(&at, format!("{at} is not the name of an image"));
    }
    let pull_policy = image_pull_policy.filter(|policy| !policy.is_empty());
    if let Some(policy) = &pull_policy
        && !["Always", "IfNotPresent", "Never"].contains(&policy.as_str())
    {
        let at = at.child("imagePullPolicy");
        check.not_supported(&at, format!("{at} must be Always, IfNotPresent or Never"));
    }
    let told = downward_words(&downward_api, &at.child("downwardAPI"), check);
    let (device_info, pod_info) = (told.contains(&DEVICE_INFO), told.contains(&OF_POD));
    let folders = [(true, SOCKETS), (device_info, POD_INFO), (pod_info, POD_METADATA)];
    let taken: Vec<&str> = folders.into_iter().filter(|(is_there, _)| *is_there).map(|(_, at)| at).collect();
    let script = config_map.map(|said| script(said, &at.child("configMap"), &taken, check));
    let claim = pvc.map(|said| claim(said, &at.child("pvc"), &taken, shared, check));
    if let (Some(script), Some(claim)) = (&script, &claim)
        && script.path == claim.path
    {
        let at = at.child("pvc").child("volumePath");
        check.duplicate(&at, format!("{at} is the hookPath of the configMap, too"));
    }
    let (command, args) = (command.unwrap_or_default(), args.unwrap_or_default());
    HookSidecar { image, pull_policy, command, args, script, claim, plugin: None, device_info, pod_info }
}

/// Words of `downwardAPI`: one, or a list of them.
fn downward_words<'v>(said: &'v Value, at: &Path, check: &mut Check<'_>) -> Vec<&'v str> {
    let all: &[Value] = match said {
        Value::Null => &[],
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    let words: Vec<&str> = all.iter().map(|word| word.as_str().unwrap_or("?")).collect();
    if words.iter().any(|word| ![DEVICE_INFO, OF_POD, ""].contains(word)) {
        check.not_supported(at, format!("{at} must be {DEVICE_INFO} or {OF_POD}, or a list of them"));
    }
    words
}

fn script(said: ConfigMap, at: &Path, taken: &[&str], check: &mut Check<'_>) -> HookScript {
    let ConfigMap { name, key, hook_path } = said;
    check_name(&name, "ConfigMap", at, check);
    let letters = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if key.is_empty() || key.len() > 253 || key.starts_with("..") || key == "." || !key.chars().all(letters) {
        let at = at.child("key");
        check.invalid(&at, format!("{at} is not a key of a ConfigMap"));
    }
    path(&hook_path, &at.child("hookPath"), taken, check);
    HookScript { config_map: name, key, path: hook_path }
}

fn claim(said: Pvc, at: &Path, taken: &[&str], shared: &mut Vec<String>, check: &mut Check<'_>) -> HookClaim {
    let Pvc { name, volume_path, shared_compute_path } = said;
    check_name(&name, "PVC", at, check);
    path(&volume_path, &at.child("volumePath"), taken, check);
    let shown = Some(shared_compute_path).filter(|path| !path.is_empty());
    if let Some(shown) = &shown {
        let at = at.child("sharedComputePath");
        path(shown, &at, &OURS, check);
        if shared.iter().any(|other| overlap(other, shown)) {
            check.duplicate(&at, format!("{at} is in the way of that of another hook sidecar"));
        }
        shared.push(shown.clone());
    }
    HookClaim { name, path: volume_path, shared: shown }
}

fn check_name(name: &str, kind: &str, at: &Path, check: &mut Check<'_>) {
    let at = at.child("name");
    if name.is_empty() {
        check.required(&at, format!("{at} must name a {kind}"));
    } else if let Some(why) = text::not_a_subdomain(name) {
        check.invalid(&at, format!("{at} is not the name of a {kind}: {why}"));
    }
}

/// Checks a mount path: it must not be in one of these folders, or above one.
fn path(path: &str, at: &Path, taken: &[&str], check: &mut Check<'_>) {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let odd = |c: char| c == ':' || c.is_control();
    let parts = path.strip_prefix('/');
    if path.len() > 4096 || path.contains(odd) || !parts.is_some_and(|parts| parts.split('/').all(plain)) {
        check.invalid(at, format!("{at} must be an absolute path of plain names, without ':'"));
    } else if let Some(folder) = taken.iter().find(|folder| overlap(folder, path)) {
        check.invalid(
            at,
            format!("{at} is in the way of {folder}; choose another path, such as /var/run/NAME"),
        );
    }
}

/// True if the paths are equal, or one lies below the other.
fn overlap(one: &str, other: &str) -> bool {
    let below = |path: &str, folder: &str| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    below(one, other) || below(other, one)
}

#[cfg(test)]
mod tests {
    use crate::machine::{Gates, Machine, Settings};
    use serde_json::{Value, json};

    /// The sidecars of an annotation, or the fields of all faults and the first message.
    fn judged(listed: &Value, settings: &Settings) -> Result<usize, (Vec<String>, String)> {
        let vmi = json!({
            "metadata": {"name": "a", "annotations": {crate::machine::hook::ANNOTATION: listed.to_string()}},
            "spec": {"domain": {
                "memory": {"guest": "64Mi"}, "devices": {},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
            }},
        });
        let faults = match Machine::check(&read(vmi), settings) {
            Ok(machine) => return Ok(machine.hooks.len()),
            Err(faults) => faults,
        };
        let at = "metadata.annotations.hooks.kubevirt.io/hookSidecars";
        let field = |field: &str| field.strip_prefix(at).unwrap_or(field).to_owned();
        Err((faults.iter().map(|fault| field(&fault.field)).collect(), faults[0].message.clone()))
    }

    fn read(vmi: Value) -> crate::vmi::VirtualMachineInstance {
        crate::wire::read(vmi).unwrap()
    }

    fn open() -> Settings {
        Settings { gates: Gates::All, ..Settings::of_cluster(&json!({})) }
    }

    #[test]
    fn sidecars_are_read_as_upstream_writes_them() {
        let listed = json!([
            {"image": "example/smbios", "imagePullPolicy": "", "args": ["--version", "v1alpha2"], "command": null},
            {"image": "example/shim", "configMap": {"name": "script", "key": "hook.sh", "hookPath": "/usr/bin/onDefineDomain"},
             "pvc": {"name": "tools", "volumePath": "/debug", "sharedComputePath": "/var/run/debug"}},
            {"image": "example/card", "downwardAPI": "device-info"},
            {"image": "example/pod", "downwardAPI": ["pod-info", "device-info"]},
            {"image": "example/none", "downwardAPI": null},
        ]);
        assert_eq!(judged(&listed, &open()), Ok(5));
        assert_eq!(judged(&json!([]), &open()), Ok(0));
    }

    #[test]
    fn what_cannot_be_run_is_refused_by_its_field() {
        let claim = |path: &str, shared: &str| json!([{"image": "a", "pvc": {"name": "p", "volumePath": path, "sharedComputePath": shared}}]);
        for (listed, field, said) in [
            (json!({}), "", "must be a JSON list"),
            (json!([{"image": "a", "privileged": true}]), "", "unknown field `privileged`"),
            (
                json!([{"configMap": {"name": "c", "key": "k", "hookPath": "/h"}}]),
                "[0].image",
                "has no image",
            ),
            (json!([{"image": "a b"}]), "[0].image", "not the name of an image"),
            (json!([{"image": "a", "imagePullPolicy": "Often"}]), "[0].imagePullPolicy", "IfNotPresent"),
            (
                json!([{"image": "a", "downwardAPI": "all"}]),
                "[0].downwardAPI",
                "must be device-info or pod-info",
            ),
            (
                json!([{"image": "a", "downwardAPI": ["pod-info", 1]}]),
                "[0].downwardAPI",
                "must be device-info",
            ),
            // Fields of a container that no sidecar of KubeVirt has.
            (json!([{"image": "a", "resources": {"limits": {"cpu": "1"}}}]), "", "unknown field `resources`"),
            (json!([{"image": "a", "env": []}]), "", "unknown field `env`"),
            (
                json!([{"image": "a", "downwardAPI": "device-info", "pvc": {"name": "p", "volumePath": "/etc/podinfo"}}]),
                "[0].pvc.volumePath",
                "in the way of /etc/podinfo",
            ),
            (
                json!([{"image": "a", "configMap": {"name": "c", "key": "../k", "hookPath": "/h"}}]),
                "[0].configMap.key",
                "key",
            ),
            (
                json!([{"image": "a", "configMap": {"name": "c", "key": "k", "hookPath": "h"}}]),
                "[0].configMap.hookPath",
                "absolute",
            ),
            (claim("/a/../b", ""), "[0].pvc.volumePath", "absolute"),
            (claim("/var/run/kubevirt-hooks/other", ""), "[0].pvc.volumePath", "in the way of"),
            // Paths by which a tenant could replace virt-launcher, or stand between it and
            // virt-handler.
            (claim("/a", "/usr/bin"), "[0].pvc.sharedComputePath", "in the way of /usr"),
            (claim("/a", "/var"), "[0].pvc.sharedComputePath", "in the way of /var/run/kubevirt"),
            (claim("/a", "/var/run/kubevirt/sockets"), "[0].pvc.sharedComputePath", "in the way of"),
            (json!(vec![json!({"image": "a"}); 17]), "", "at most 16"),
        ] {
            let (fields, message) = judged(&listed, &open()).unwrap_err();
            assert_eq!(fields, [field], "{listed}");
            assert!(message.contains(said), "{listed}: {message}");
        }
    }

    #[test]
    fn a_path_that_two_sidecars_show_the_launcher_is_refused() {
        let one = |shared: &str| json!({"image": "a", "pvc": {"name": "p", "volumePath": "/p", "sharedComputePath": shared}});
        assert_eq!(judged(&json!([one("/data/one"), one("/data/two")]), &open()), Ok(2));
        let (fields, _) = judged(&json!([one("/data/one"), one("/data")]), &open()).unwrap_err();
        assert_eq!(fields, ["[1].pvc.sharedComputePath"]);
    }

    #[test]
    fn a_laptop_has_no_sidecars_and_says_what_it_has() {
        let (fields, message) = judged(&json!([{"image": "a"}]), &Settings::of_laptop()).unwrap_err();
        assert_eq!(fields, [""]);
        assert!(message.contains("only a cluster has"), "{message}");
    }
}
