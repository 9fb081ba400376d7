//! kubectl's own verbs on our kinds: what people see, what they change, what they wait for.

use crate::{replicas, tiny};
use serde_json::Value;
use tests::cluster::{Space, until};

/// A DataVolume, which is shown and described like any other object.
const VOLUME: &str = "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata: {name: data}
spec:
  source: {blank: {}}
  storage: {resources: {requests: {storage: 16Mi}}}
";

/// What `kubectl get -o wide` shows of an object: heads of columns, and what stands below each. Times are told by others.
#[track_caller]
fn shown(space: &Space, args: &[&str]) -> Vec<(String, String)> {
    let text = space.run(&[&["get"], args, &["-o", "wide"]].concat());
    let [heads, row] = text.lines().collect::<Vec<_>>()[..] else { panic!("{args:?}: {text}") };
    let mut ends: Vec<usize> = heads.split_whitespace().map(|head| begin(heads, head)).skip(1).collect();
    ends.push(heads.len().max(row.len()));
    let cells = heads.split_whitespace().zip(ends).map(|(head, end)| {
        let cell = row.get(begin(heads, head)..end.min(row.len())).unwrap_or_default();
        (head.to_owned(), cell.trim().to_owned())
    });
    cells.filter(|(head, _)| head != "AGE").collect()
}

/// Where the column of this name begins.
fn begin(heads: &str, head: &str) -> usize {
    let is_word = |at: &usize| *at == 0 || heads.as_bytes()[at - 1] == b' ';
    let found = heads.match_indices(head).map(|(at, _)| at).find(|at| is_word(at));
    found.unwrap_or_else(|| panic!("{head} is no column of {heads}"))
}

#[track_caller]
fn shows(space: &Space, args: &[&str], wanted: &[(&str, &str)]) {
    let wanted: Vec<_> = wanted.iter().map(|(head, cell)| ((*head).to_owned(), (*cell).to_owned())).collect();
    let look = || shown(space, args);
    until(|| look() == wanted, || format!("{args:?} shows {:?}, not {wanted:?}", look()));
}

#[test]
fn people_see_what_they_have() {
    let Some(space) = Space::new("seen") else { return };
    space.apply(&tiny("web", "Always"));
    space.apply(&replicas::set(1));
    space.apply(VOLUME);
    space.has("vmi/web", "Ready", "True");
    let vmi = |path: &str| space.get("vmi/web", path);
    let (ip, node) = (vmi(".status.interfaces[0].ipAddress"), vmi(".status.nodeName"));
    assert!(!ip.is_empty() && node.starts_with("node"), "{ip} {node}");
    // By each of their names.
    for name in ["vm", "vms", "virtualmachine", "virtualmachines.v1.kubevirt.io"] {
        shows(&space, &[name, "web"], &[("NAME", "web"), ("STATUS", "Running"), ("READY", "True")]);
    }
    let running = [
        ("NAME", "web"),
        ("PHASE", "Running"),
        ("IP", ip.as_str()),
        ("NODENAME", node.as_str()),
        ("READY", "True"),
        ("LIVE-MIGRATABLE", "False"),
        ("PAUSED", ""),
    ];
    for name in ["vmi", "vmis", "virtualmachineinstance"] {
        shows(&space, &[name, "web"], &running);
    }
    let set = [("NAME", "many"), ("DESIRED", "1"), ("CURRENT", "1"), ("READY", "1")];
    for name in ["vmirs", "vmirss", "virtualmachineinstancereplicasets"] {
        shows(&space, &[name, "many"], &set);
    }
    for name in ["kv", "kvs", "kubevirt"] {
        shows(&space, &[name, "-n", "kubevirt"], &[("NAME", "kubevirt"), ("PHASE", "Deployed")]);
    }
    for name in ["dv", "dvs", "datavolume"] {
        let heads: Vec<String> = shown(&space, &[name, "data"]).into_iter().map(|(head, _)| head).collect();
        assert_eq!(heads, ["NAME", "PHASE", "PROGRESS", "RESTARTS"], "{name}");
    }
    // All of them, with what belongs to them.
    let all = space.run(&["get", "all", "-o", "name"]);
    for object in
        ["virtualmachine.kubevirt.io/web", "virtualmachineinstance.kubevirt.io/web", "pod/virt-launcher-web"]
    {
        assert!(all.lines().any(|line| line.starts_with(object)), "{object} is not in {all}");
    }
    described(&space);
}

/// `kubectl describe` tells of each its kind, its fields as lines, and its events.
#[track_caller]
fn described(space: &Space) {
    let vm: &[&str] = &["Kind: VirtualMachine", "Printable Status: Running", "SuccessfulCreate"];
    let vmi: &[&str] =
        &["Kind: VirtualMachineInstance", "Phase: Running", "Started", "VirtualMachineInstance started."];
    let set: &[&str] = &["Kind: VirtualMachineInstanceReplicaSet", "Ready Replicas: 1", "SuccessfulCreate"];
    let volume: &[&str] = &["Kind: DataVolume", "Storage: 16Mi"];
    let kubevirt: &[&str] = &["Kind: KubeVirt", "Phase: Deployed", "Type: Available"];
    let all = [
        ("vm web", vm),
        ("vmi web", vmi),
        ("vmirs many", set),
        ("dv data", volume),
        ("kv kubevirt -n kubevirt", kubevirt),
    ];
    for (object, wanted) in all {
        let words: Vec<&str> = ["describe"].into_iter().chain(object.split(' ')).collect();
        // Events are told in their own time; columns are as wide as their content.
        let look = || space.run(&words).split_whitespace().collect::<Vec<_>>().join(" ");
        let missing = || wanted.iter().find(|wanted| !look().contains(**wanted));
        until(
            || missing().is_none(),
            || format!("{object} is described without {:?}: {}", missing(), look()),
        );
    }
    let events = || space.run(&["events", "--for", "vmi/web"]);
    until(|| events().contains("VirtualMachineInstance started."), events);
}

#[test]
fn every_field_is_explained() {
    let Some(space) = Space::new("explain") else { return };
    let mut kinds = Vec::new();
    for group in ["kubevirt.io", "cdi.kubevirt.io"] {
        let names = space.run(&["api-resources", &format!("--api-group={group}"), "-o", "name"]);
        kinds.extend(names.lines().map(str::to_owned));
    }
    assert!(kinds.len() >= 5, "{kinds:?}");
    for kind in &kinds {
        for path in [kind.clone(), format!("{kind}.spec")] {
            let text = space.run(&["explain", &path]);
            let (_, description) =
                text.split_once("DESCRIPTION:\n").unwrap_or_else(|| panic!("{path}: {text}"));
            assert!(description.trim_start().starts_with(char::is_alphabetic), "{path}: {text}");
        }
        // All of its fields in one list, down to the last.
        let all = space.run(&["explain", kind, "--recursive"]);
        assert!(all.contains("  spec\t<Object>"), "{kind}: {all}");
    }
    let strategy = space.run(&["explain", "vm.spec.runStrategy"]);
    assert!(strategy.contains("runStrategy <string>") && strategy.contains("Halted"), "{strategy}");
    let disks = space.run(&["explain", "vmi.spec.domain.devices.disks.disk.bus"]);
    assert!(disks.contains("bus <string>"), "{disks}");
}

#[test]
fn people_change_what_they_have_and_wait_for_it() {
    let Some(space) = Space::new("changed") else { return };
    space.apply(&tiny("web", "Halted"));
    let waits = |object: &str, what: &str| space.run(&["wait", object, what, "--timeout=300s"]);
    waits("vm/web", "--for=jsonpath={.status.printableStatus}=Stopped");
    let patch =
        |kind: &str, change: &str| space.try_run(&["patch", "vm", "web", "--type", kind, "-p", change]);
    // A field, as most change one.
    patch("merge", r#"{"spec":{"runStrategy":"Always"}}"#).ok();
    waits("vm/web", "--for=condition=Ready");
    waits("vmi/web", "--for=condition=Ready");
    waits("vmi/web", "--for=jsonpath={.status.phase}=Running");
    // A list of changes, which holds only together.
    let test = r#"[{"op":"test","path":"/spec/runStrategy","value":"Halted"},{"op":"replace","path":"/spec/runStrategy","value":"Manual"}]"#;
    let refused = patch("json", test);
    assert!(refused.code != 0, "{}", String::from_utf8_lossy(&refused.out));
    assert_eq!(space.get("vm/web", ".spec.runStrategy"), "Always");
    // What makes no sense is refused, whichever way it comes.
    for (kind, change) in [
        ("merge", r#"{"spec":{"runStrategy":"Sometimes"}}"#),
        ("json", r#"[{"op":"replace","path":"/spec/runStrategy","value":"Sometimes"}]"#),
    ] {
        let refused = patch(kind, change);
        assert!(refused.code != 0 && refused.err.contains("spec.runStrategy"), "{change}: {}", refused.err);
    }
    // Labels and annotations are everybody's.
    space.run(&["label", "vm", "web", "tier=front"]);
    space.run(&["annotate", "vm", "web", "note=kept"]);
    assert_eq!(space.run(&["get", "vm", "-l", "tier=front", "-o", "name"]), "virtualmachine.kubevirt.io/web");
    // Whoever applies on the server's side has the fields of the manifest, and no others.
    owns_its_fields(&space);
    patch("json", r#"[{"op":"replace","path":"/spec/runStrategy","value":"Halted"}]"#).ok();
    waits("vmi/web", "--for=delete");
    waits("vm/web", "--for=jsonpath={.status.printableStatus}=Stopped");
    assert_eq!(space.get("vm/web", ".metadata.annotations.note"), "kept");
    space.run(&["delete", "vm", "web", "--wait=true"]);
    space.gone("vm/web");
}

/// An applied field is refused to another owner until that one forces it; what nobody applied is left alone.
#[track_caller]
fn owns_its_fields(space: &Space) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let manifest = |tier: &str| {
        format!(
            "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {{name: web, labels: {{tier: {tier}}}}}\n"
        )
    };
    let apply = |who: &str, tier: &str, more: &[&str]| {
        std::fs::write(file.path(), manifest(tier)).unwrap();
        let path = file.path().display().to_string();
        let manager = format!("--field-manager={who}");
        space.try_run(&[&["apply", "--server-side", &manager, "-f", &path], more].concat())
    };
    let conflict = apply("somebody", "back", &[]);
    assert!(conflict.code != 0 && conflict.err.contains("conflict"), "{}", conflict.err);
    apply("somebody", "back", &["--force-conflicts"]).ok();
    assert_eq!(space.get("vm/web", ".metadata.labels.tier"), "back");
    assert_eq!(space.get("vm/web", ".spec.runStrategy"), "Always");
}

#[test]
fn a_set_is_scaled_by_those_who_know_its_size() {
    let Some(space) = Space::new("scaled") else { return };
    space.apply(&replicas::set(1));
    space.run(&["wait", "vmirs/many", "--for=jsonpath={.status.readyReplicas}=1", "--timeout=300s"]);
    let refused = space.try_run(&["scale", "vmirs/many", "--replicas=3", "--current-replicas=2"]);
    assert!(refused.code != 0 && refused.err.contains("Expected replicas to be 2, was 1"), "{}", refused.err);
    space.run(&["scale", "vmirs/many", "--replicas=2", "--current-replicas=1", "--timeout=300s"]);
    // kubectl has waited until as many are there.
    let scale = space.run(&["get", "vmirs", "many", "--subresource=scale", "-o", "json"]);
    let scale: Value = serde_json::from_str(&scale).unwrap();
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&2.into(), &2.into()), "{scale}");
    space.run(&["delete", "vmirs/many", "--wait=true"]);
    space.gone("vmi");
}
