//! Programs of others, written against KubeVirt's API with its own clients and run unmodified: `kubevirt.io/client-go`, as
//! controllers use it, `openshift-python-wrapper` and `kubernetes`, as test suites do, and kubectl. What they do is in
//! `tests/cluster/clients/`; each says a line for each step, and ends with the first that fails.

mod kubectl;

use crate::tiny;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use tests::cluster::Space;
use tests::coracle::Ran;

/// Longer than such a program waits for all its steps.
const PATIENCE: &str = "1200";

const BY_GO: &str = "\
version: the server tells its own
create: listed 1 VM, 0 VMIs
watch: VM Stopped
update: a label, and the spec as it was
start: VM Running, VMI Running; a second start is a conflict
console: login:
vnc: RFB 003.008; a PNG
port-forward: 200 OK by VM and VMI
pause: Paused, and no more
errors: no guest agent; not found
stop: VM Stopped, no VMI
delete: no VM
";

const BY_PYTHON: &str = "\
create: Stopped, listed
watch: MODIFIED
start: Running, ready; a second start is a conflict
status: node, pod, virt-handler, address, condition; no guest agent
pause: Paused, Running
restart: another VMI, Running
stop: Stopped, no VMI
delete: no VM
";

#[test]
fn a_controller_in_go_drives_a_vm() {
    let Some(space) = Space::new("client-go") else { return };
    let program = info(&space, "client-go");
    drives(&space, &[&program, &space.name, "80"], &[], BY_GO);
}

#[test]
fn a_test_suite_in_python_drives_a_vm() {
    let Some(space) = Space::new("client-python") else { return };
    let packages = space.cluster.tool("clients/python", &[]);
    if packages.code != 0 {
        eprintln!("skipped: {}", packages.err);
        return;
    }
    let packages = String::from_utf8_lossy(&packages.out).trim().to_owned();
    let program = space.cluster.path("clients/wrapper.py").display().to_string();
    drives(&space, &["python3", &program, &space.name], &[("PYTHONPATH", &packages)], BY_PYTHON);
}

/// Runs such a program with a VM that is halted: it does all of its steps.
#[track_caller]
fn drives(space: &Space, words: &[&str], settings: &[(&str, &str)], steps: &str) {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE).args(words).env("KUBECONFIG", info(space, "kubeconfig"));
    command.envs(settings.iter().copied());
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // Who ends before it has read says why.
    let _ = child.stdin.take().unwrap().write_all(tiny("web", "Halted").as_bytes());
    let ran = Ran::of(child.wait_with_output().unwrap());
    let said = String::from_utf8_lossy(&ran.out);
    assert!(ran.code == 0 && said == steps, "{words:?}: {} {said}{}", ran.code, ran.err);
}

/// Where something of the cluster is.
#[track_caller]
fn info(space: &Space, word: &str) -> String {
    space.cluster.info(word)
}

/// docs/reference/clients.md says the versions that are run.
#[test]
fn the_document_has_the_versions_that_are_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let document = read("docs/reference/clients.md");
    for (client, file, before) in [
        ("`virtctl`", "tests/cluster/virtctl/go.mod", "\tkubevirt.io/kubevirt v"),
        ("`kubevirt.io/client-go`", "tests/cluster/clients/go.mod", "\tkubevirt.io/client-go v"),
        (
            "`openshift-python-wrapper`",
            "tests/cluster/clients/requirements.txt",
            "openshift-python-wrapper==",
        ),
        ("Python `kubernetes`", "tests/cluster/clients/requirements.txt", "kubernetes=="),
        ("`kubectl`", "tests/cluster/go.mod", "\tk8s.io/kubernetes v"),
    ] {
        let text = read(file);
        let version = text.lines().find_map(|line| line.strip_prefix(before)?.split(' ').next());
        let version = version.unwrap_or_else(|| panic!("{file} has no {before}"));
        let begin = format!("| {client}");
        let row =
            document.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no {client}"));
        assert!(row.contains(&format!(" | {version} | ")), "{version} of {file} is not in {row}");
    }
}
