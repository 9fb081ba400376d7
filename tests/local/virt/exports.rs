//! `coracle build -t docker://… pvc/NAME` against an API server: its request, its progress, and its end.

use super::Cluster;
use super::server::status;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tests::coracle::Ran;

const PVC: &str = "/api/v1/namespaces/blue/persistentvolumeclaims/golden";
const DV: &str = "/apis/cdi.kubevirt.io/v1beta1/namespaces/blue/datavolumes/golden";
const TARGET: &str = "docker://registry.example/os/golden:1";

fn digest() -> String {
    format!("sha256:{}", "0a".repeat(32))
}

/// A PVC with these annotations of exports.
fn pvc(notes: &[(&str, &str)]) -> Value {
    let notes: serde_json::Map<String, Value> = notes
        .iter()
        .map(|(name, value)| (format!("cdi.kubevirt.io/storage.export.{name}"), json!(value)))
        .collect();
    json!({
        "metadata": {"name": "golden", "annotations": notes},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    })
}

fn done() -> Value {
    pvc(&[("request", "2"), ("phase", "Succeeded"), ("digest", &digest())])
}

fn failed(reason: &str, message: &str) -> Value {
    pvc(&[("request", "2"), ("phase", "Failed"), ("reason", reason), ("message", message)])
}

struct Story(Cluster);

impl Story {
    /// A PVC without an earlier export, and its states at the next reads.
    fn new(looks: &[Value]) -> Story {
        let cluster = Cluster::new();
        cluster.server.answers_once(&format!("GET {PVC}"), 200, pvc(&[]).to_string());
        for look in looks {
            cluster.server.answers_once(&format!("GET {PVC}"), 200, look.to_string());
        }
        cluster.server.has(PVC, looks.last().unwrap_or(&done()));
        cluster.server.answers(&format!("PATCH {PVC}"), 200, "{}");
        cluster.server.answers(&format!("PATCH {DV}"), 200, "{}");
        Story(cluster)
    }

    fn command(&self, line: &str) -> std::process::Command {
        let args: Vec<&str> = ["build"].into_iter().chain(line.split_whitespace()).collect();
        let mut command = self.0.place.command(&args);
        command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
        command
    }

    fn run(&self, line: &str) -> Ran {
        Ran::of(self.command(line).output().unwrap())
    }

    /// The requested annotations, by the ends of their names; removed ones are `null`.
    fn asked(&self, object: &str) -> Value {
        let begins = format!("PATCH {object} ");
        let asked = self.0.server.asked();
        let patch = asked.iter().find_map(|one| one.strip_prefix(&begins));
        let patch: Value =
            serde_json::from_str(patch.unwrap_or_else(|| panic!("no patch: {asked:?}"))).unwrap();
        let notes = patch["metadata"]["annotations"].as_object().unwrap();
        let ends = |name: &String| name.strip_prefix("cdi.kubevirt.io/storage.export.").unwrap().to_owned();
        notes
            .iter()
            .map(|(name, value)| (ends(name), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

#[test]
fn a_pvc_is_asked_for_followed_and_its_digest_told() {
    let running = pvc(&[("request", "2"), ("phase", "Running"), ("progress", "42%")]);
    let waits = pvc(&[
        ("request", "2"),
        ("phase", "Pending"),
        ("reason", "InUse"),
        ("message", "VMI web uses PVC golden"),
    ]);
    let story = Story::new(&[waits, running, done()]);
    let ran = story.run(&format!("-t {TARGET} pvc/golden")).ok();
    assert_eq!(String::from_utf8(ran.out).unwrap(), format!("{TARGET}@{}\n", digest()));
    assert!(ran.err.contains("coracle: waits: VMI web uses PVC golden\n"), "{}", ran.err);
    let asked = story.asked(PVC);
    assert_eq!(asked["target"], TARGET);
    assert!(asked["id"].as_str().is_some_and(|id| !id.is_empty()));
    for name in ["secretRef", "certConfigMap", "format", "layer", "architecture", "labels"] {
        assert!(asked[name].is_null(), "what an earlier request said of {name} goes: {asked}");
    }
}

#[test]
fn flags_become_annotations_also_of_a_data_volume() {
    let story = Story::new(&[pvc(&[]), done()]);
    story.0.server.has(DV, &json!({"metadata": {"name": "golden"}}));
    let line = format!(
        "-t {TARGET} dv/golden -n blue --secret login --cert-config-map ca --format raw --layer gzip --arch arm64 \
         --label a=b --instancetype u1.small --json -q"
    );
    let ran = story.run(&line).ok();
    assert_eq!(ran.json()["digest"], digest());
    assert_eq!(ran.json()["names"], json!([TARGET]));
    let asked = story.asked(DV);
    let labels = "a=b\ninstancetype.kubevirt.io/default-instancetype=u1.small";
    for (name, value) in [
        ("secretRef", "login"),
        ("certConfigMap", "ca"),
        ("format", "raw"),
        ("layer", "gzip"),
        ("architecture", "arm64"),
        ("labels", labels),
    ] {
        assert_eq!(asked[name], value, "{name}");
    }
}

#[test]
fn the_end_of_an_export_is_the_end_of_the_command() {
    for (reason, message, code) in [
        ("Forbidden", "the registry wants another login (401)", 5),
        ("InvalidRequest", "no such thing", 3),
        ("NotFound", "there is no disk", 4),
        ("Error", "it broke", 1),
    ] {
        let story = Story::new(&[failed(reason, message)]);
        let said = format!("cannot export PVC golden of namespace blue: {message}");
        story.run(&format!("-t {TARGET} pvc/golden")).refused(code, &said);
    }
    // An answer to an earlier request does not count for this one.
    let before = pvc(&[("request", "1"), ("phase", "Failed"), ("reason", "Error"), ("message", "long ago")]);
    let cluster = Cluster::new();
    cluster.server.answers_once(&format!("GET {PVC}"), 200, before.to_string());
    cluster.server.answers_once(&format!("GET {PVC}"), 200, before.to_string());
    cluster.server.has(PVC, &done());
    cluster.server.answers(&format!("PATCH {PVC}"), 200, "{}");
    Story(cluster).run(&format!("-t {TARGET} pvc/golden")).ok();
}

#[test]
fn what_is_not_there_or_not_permitted_is_told() {
    let story = Story::new(&[]);
    let ran = story.run(&format!("-t {TARGET} pvc/other"));
    ran.refused(4, "there is no PVC other");
    let words =
        status(403, r#"persistentvolumeclaims "golden" is forbidden: User "u" cannot patch resource"#);
    story.0.server.answers(&format!("PATCH {PVC}"), 403, words);
    story.run(&format!("-t {TARGET} pvc/golden")).refused(5, "cannot patch resource");
    let own = Story::new(&[]);
    own.0.server.has(PVC, &pvc(&[("target", TARGET)]));
    own.0.server.has(DV, &json!({"metadata": {"name": "golden"}}));
    own.run(&format!("-t {TARGET} pvc/golden --no-wait"));
    own.run(&format!("-t {TARGET} dv/golden")).refused(3, "its PVC has an export request of its own");
}

#[test]
fn what_makes_no_sense_asks_nobody() {
    let story = Story::new(&[]);
    for (line, said) in [
        ("-t os:1 pvc/golden", "becomes an image in a registry"),
        ("-t docker://h/os:1 -t docker://h/os:2 pvc/golden", "give -t once"),
        ("-t docker://h/os@sha256:00 pvc/golden", "must be docker://HOST/REPO:TAG"),
        ("-t docker://h/os:1 --push pvc/golden", "--push is for builds on this computer"),
        ("-t docker://h/os:1 --format keep pvc/golden", "--format keep is for builds on this computer"),
        ("-t docker://h/os:1 --plan pvc/golden", "--plan is for builds on this computer"),
        ("-t docker://h/os:1 --registries x pvc/golden", "the ConfigMap coracle-registries"),
        ("-t docker://h/os:1 --header a:b pvc/golden", "--header is for builds on this computer"),
        ("-t docker://h/os:1 --insecure pvc/golden", "insecureRegistries of the CDIConfig"),
        ("-t docker://h/os:1 --cacert x pvc/golden", "name it by --cert-config-map"),
        ("-t docker://h/os:1 --threads 2 pvc/golden", "podResourceRequirements of the CDIConfig"),
        ("-t docker://h/os:1 --memory 1GiB dv/golden", "--memory is for builds on this computer"),
        ("-t docker://h/os:1 --retries 9 pvc/golden", "--retries is for builds on this computer"),
        ("-t docker://h/os:1 --path x pvc/golden", "--path is for builds on this computer"),
        ("-t docker://h/os:1 --secret login golden.img", "--secret is for a build in the cluster"),
        ("-t docker://h/os:1 -n blue ./pvc/golden", "--namespace is for a build in the cluster"),
        ("-t docker://h/os:1 pvc/", "is not the name of a volume"),
        ("-t docker://h/os:1 pvc/../secrets", "is not the name of a volume"),
    ] {
        story.run(line).refused(2, said);
    }
    assert!(story.0.server.asked().is_empty());
}

#[test]
fn a_shell_completes_the_names_of_volumes() {
    let story = Story::new(&[]);
    let named = |name: &str| json!({"metadata": {"name": name}});
    let all = ["golden", "gold", "silver"].map(named);
    story.0.server.has("/api/v1/namespaces/blue/persistentvolumeclaims?limit=1000", &json!({"items": all}));
    let complete = |begin: &str| {
        let mut command = story.0.place.command(&["--", "coracle", "build", begin]);
        command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
        command.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2").env("_CLAP_COMPLETE_COMP_TYPE", "9");
        let asked = command.env("_CLAP_COMPLETE_SPACE", "true").env("_CLAP_IFS", "\n").output().unwrap();
        let names = String::from_utf8(asked.stdout).unwrap();
        names.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(complete("pvc/go"), ["pvc/gold", "pvc/golden"].map(str::to_owned).into());
    assert!(complete("dv/go").is_empty(), "an API server that says no is no answer");
    assert!(complete("go").is_empty());
}

#[test]
fn who_does_not_wait_is_told_that_it_is_asked_for_and_who_asks_again_follows() {
    let story = Story::new(&[]);
    let ran = story.run(&format!("-t {TARGET} --no-wait pvc/golden")).ok();
    assert_eq!(String::from_utf8(ran.out).unwrap(), format!("Export of PVC golden to {TARGET} asked for\n"));
    let asked = story.0.server.asked();
    assert!(asked.iter().any(|one| one.starts_with("PATCH ")), "{asked:?}");
    let runs = [("target", TARGET), ("id", "7"), ("request", "2"), ("phase", "Running"), ("progress", "1%")];
    let story = Story::new(&[]);
    let server = &story.0.server;
    story.run(&format!("-t {TARGET} --no-wait pvc/golden"));
    server.asked();
    server.answers_once(&format!("GET {PVC}"), 200, pvc(&runs).to_string());
    server.has(PVC, &done());
    let ran = story.run(&format!("-t {TARGET} pvc/golden")).ok();
    assert!(ran.err.contains("the same export is running already"), "{}", ran.err);
    assert!(!story.0.server.asked().iter().any(|one| one.starts_with("PATCH ")), "nothing is asked anew");
}

#[test]
fn who_presses_ctrl_c_is_told_how_to_go_on_and_how_to_stop() {
    let story = Story::new(&[pvc(&[("request", "2"), ("phase", "Running"), ("progress", "1%")])]);
    let mut command = story.command(&format!("-t {TARGET} pvc/golden"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let mut looks = 0;
    while looks < 3 {
        assert!(Instant::now() < until, "it does not look");
        looks += story.0.server.asked().iter().filter(|one| one.starts_with("GET ")).count();
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.err);
    let stop = "kubectl annotate pvc golden -n blue cdi.kubevirt.io/storage.export.target-";
    assert!(ran.err.contains("the same command follows it again") && ran.err.contains(stop), "{}", ran.err);
}
