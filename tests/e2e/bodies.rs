//! Requests to virt-api with bodies in YAML, as `kubectl replace --raw` sends them: upstream reads JSON and YAML alike.

use crate::tiny;
use std::io::Write as _;
use std::process::Stdio;
use tests::cluster::Space;
use tests::coracle::Ran;
use tests::serial::Serial;

/// `PUT` of a subresource with this body.
#[track_caller]
fn put(space: &Space, subresource: &str, body: &str) -> Ran {
    let path = format!("/apis/subresources.kubevirt.io/v1/namespaces/{}/{subresource}", space.name);
    let mut command = space.cluster.kubectl(&["replace", "--raw", &path, "-f", "-"]);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn options_in_yaml_do_what_they_say() {
    let Some(space) = Space::new("yaml") else { return };
    space.apply(&tiny("web", "Halted"));
    space.says("vm/web", ".status.printableStatus", "Stopped");
    let (start, stop) = ("virtualmachines/web/start", "virtualmachines/web/stop");
    put(&space, start, "# not yet\npaused: true\ndryRun: [All]\n").ok();
    assert_eq!(space.get("vm/web", ".spec.runStrategy"), "Halted", "it was a dry run");
    for (body, why) in [
        ("paused: soon\n", "Can not unmarshal Request body to struct, error: invalid type: string \"soon\""),
        ("paused: true\npaused: true\n", "line 2: \"paused\" stands here a second time"),
        ("paused: &a [*a]\n", "line 1: this alias"),
        ("paused: true\n---\npaused: false\n", "more than one document"),
    ] {
        let refused = put(&space, start, body);
        assert!(refused.code == 1 && refused.err.contains("(BadRequest)"), "{body}: {}", refused.err);
        assert!(refused.err.contains(why), "{body}: {}", refused.err);
    }
    assert_eq!(space.get("vm/web", ".spec.runStrategy"), "Halted");
    put(&space, start, "---\npaused: true\nother: {what: is not known}\n").ok();
    space.has("vmi/web", "Paused", "True");
    put(&space, "virtualmachineinstances/web/unpause", "dryRun: []\n").ok();
    space.says("vm/web", ".status.printableStatus", "Running");
    put(&space, stop, "gracePeriod: 0\n").ok();
    space.gone("vmi/web");
}

/// Writes without end, and tells what became of it in each of these rounds: a write to a file system that is frozen waits there
/// in the kernel.
pub(crate) fn watcher(rounds: &str) -> String {
    format!(
        "(while sleep 0.2; do echo >/root/written; done) & w=$!; (is() {{ grep -q percpu /proc/$w/wchan; }}; \
         for n in {rounds}; do until is; do sleep 0.2; done; echo is-fro''zen-$n; while is; do sleep 0.2; done; \
         echo is-tha''wed-$n; done; kill $w) &"
    )
}

/// The file systems of a guest with a guest agent, on whose console somebody is logged in as root, thaw when their time is
/// over, and when they are told to. The story of the guest that has an agent calls this.
pub(crate) fn thaws_by_itself(space: &Space, console: &mut Serial) {
    let (freeze, unfreeze) = ("virtualmachineinstances/web/freeze", "virtualmachineinstances/web/unfreeze");
    for (body, why) in [
        ("unfreezeTimeout: 2h\n", "may be 1h0m0s at most"),
        ("unfreezeTimeout: soon\n", "Can not unmarshal Request body"),
    ] {
        let refused = put(space, freeze, body);
        assert!(refused.code == 1 && refused.err.contains(why), "{body}: {}", refused.err);
    }
    console.types(&watcher("1 2"));
    // Long enough that the guest sees it, on a busy host too.
    put(space, freeze, "unfreezeTimeout: 30s\n").ok();
    console.says("is-frozen-1").says("is-thawed-1");
    put(space, freeze, "").ok();
    console.says("is-frozen-2");
    put(space, unfreeze, "").ok();
    console.says("is-thawed-2");
}
