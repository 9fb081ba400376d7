//! The real virtctl, unmodified, as people use it: each of its verbs against the API that it was written for
//! (`subresources.kubevirt.io`). It judges by its exit code, and by what it prints.

mod guide;
pub(crate) mod login;
mod own;
mod rfb;
mod same;
mod table;
pub(crate) mod udp;

use crate::{network, tiny, with_spec};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use table::Table;
use tests::cluster::{PATIENCE, Space, until};
use tests::coracle::Ran;
use tests::serial::{Serial, says};

const STATUS: &str = ".status.printableStatus";
const STRATEGY: &str = ".spec.runStrategy";

/// virtctl in a namespace. What it prints goes into the table.
struct Virtctl {
    program: String,
    kubeconfig: String,
    namespace: String,
    table: Table,
}

/// A namespace, and virtctl in it.
fn begin(story: &'static str) -> Option<(Space, Virtctl)> {
    let space = Space::new(&format!("virtctl-{story}"))?;
    let virtctl = Virtctl::of(&space, story);
    Some((space, virtctl))
}

impl Virtctl {
    fn of(space: &Space, story: &'static str) -> Virtctl {
        let mut table = Table::of(story);
        table.calls(&space.name, "NAMESPACE");
        let (program, kubeconfig) = (space.cluster.info("virtctl"), space.cluster.info("kubeconfig"));
        Virtctl { program, kubeconfig, namespace: space.name.clone(), table }
    }

    /// virtctl, to be run.
    fn command(&self, args: &[&str]) -> Command {
        self.behind(&[], args)
    }

    /// The same, run by another program.
    fn behind(&self, runner: &[&str], args: &[&str]) -> Command {
        let own = [self.program.as_str(), "-n", &self.namespace];
        let words = [runner, &own, args].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null());
        command
    }

    /// Runs it to its end, whatever that is. One that does not end is ended, with the code 124.
    fn try_run(&self, args: &[&str]) -> Ran {
        let patience = PATIENCE.as_secs().to_string();
        Ran::of(self.behind(&["timeout", &patience], args).output().unwrap())
    }

    /// It does so, and says this.
    #[track_caller]
    fn does(&mut self, args: &[&str], said: &str) {
        let ran = self.try_run(args);
        let out = String::from_utf8_lossy(&ran.out);
        assert!(ran.code == 0 && out.contains(said), "{args:?}: {} {out}{}", ran.code, ran.err);
        self.table.add(args, &ran);
    }

    /// It does not, and says why.
    #[track_caller]
    fn refuses(&mut self, args: &[&str], why: &str) {
        let ran = self.try_run(args);
        let out = String::from_utf8_lossy(&ran.out);
        assert!(ran.code == 1 && ran.err.contains(why), "{args:?}: {} {out}{}", ran.code, ran.err);
        self.table.add(args, &ran);
    }

    /// It prints JSON; the table has the names of its fields.
    #[track_caller]
    fn json(&mut self, args: &[&str]) -> Value {
        let json = self.try_run(args).ok().json();
        let fields: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
        self.table.say(args, 0, &format!("JSON: {}", fields.join(", ")));
        json
    }
}

/// Waits until the guest has said so often that it is up. Then its power button does something.
#[track_caller]
fn is_up(space: &Space, times: usize) {
    let pod = space.pod_of("web");
    let log = || space.try_run(&["logs", &pod, "-c", "guest-console-log"]);
    until(|| says(&log().out, "tiny ready", times), || format!("not {times} times: {:?}", log()));
}

fn uid(space: &Space) -> String {
    space.get("vmi/web", ".metadata.uid")
}

/// What a VM shows of itself from now on, a line for each event.
fn statuses(space: &Space) -> Serial {
    let path = format!("jsonpath={{{STATUS}}}{{\"\\n\"}}");
    let get = ["-n", &space.name, "get", "vm", "web", "--watch", "-o", &path];
    Serial::of(space.cluster.kubectl(&get))
}

/// Waits until these came in this order, whatever came between them.
#[track_caller]
fn went_through(seen: &Serial, wanted: &[&str]) {
    let went = || {
        let text = seen.text();
        let mut lines = text.lines();
        wanted.iter().all(|wanted| lines.any(|line| line == *wanted))
    };
    until(went, || format!("{wanted:?} is not in {:?}", seen.text()));
}

#[test]
fn client_and_server_tell_their_versions() {
    let Some((_space, mut virtctl)) = begin("version") else { return };
    let args = ["version"];
    let ran = virtctl.try_run(&args).ok();
    let out = String::from_utf8_lossy(&ran.out);
    // `major.minor.patch`: virtctl can compare no other.
    let of = |whose: &str| {
        let line = out.lines().find(|line| line.starts_with(whose)).unwrap_or_else(|| panic!("{out}"));
        let version = line.split("GitVersion:\"v").nth(1).and_then(|rest| rest.split('"').next());
        let version = version.unwrap_or_else(|| panic!("{line}"));
        let core: Vec<&str> = version.split(['-', '+']).next().unwrap().split('.').collect();
        assert!(core.len() == 3 && core.iter().all(|part| part.parse::<u32>().is_ok()), "{line}");
        format!("v{}.{}", core[0], core[1])
    };
    let (client, server) = (of("Client Version: "), of("Server Version: "));
    assert_eq!(client, "v1.7");
    virtctl.table.say(&args, 0, &format!("Client Version: {client}\nServer Version: {server}"));
}

#[test]
fn who_may_not_is_refused_and_who_edits_may() {
    let Some((space, mut virtctl)) = begin("rights") else { return };
    space.apply(&tiny("web", "Halted"));
    space.says("vm/web", STATUS, "Stopped");
    space.run(&["create", "serviceaccount", "somebody"]);
    let user = format!("--as=system:serviceaccount:{}:somebody", space.name);
    let start = [user.as_str(), "start", "web", "--dry-run"];
    virtctl.refuses(&start, "is forbidden");
    let ran = virtctl.try_run(&[&user, "version"]);
    assert_eq!(ran.code, 0, "versions are for everybody: {}", ran.err);
    let whom = format!("--serviceaccount={}:somebody", space.name);
    space.run(&["create", "rolebinding", "somebody", "--clusterrole=edit", &whom]);
    until(|| virtctl.try_run(&start).code == 0, || virtctl.try_run(&start).err);
    virtctl.does(&start, "VM web was scheduled to start");
    // To move a VM is for those who have the role for it.
    virtctl.refuses(&[&user, "migrate", "web"], "is forbidden");
}

#[test]
fn a_halted_vm_starts_and_stops() {
    let Some((space, mut virtctl)) = begin("start") else { return };
    space.apply(&tiny("web", "Halted"));
    space.says("vm/web", STATUS, "Stopped");
    let mut seen = statuses(&space);
    seen.says("Stopped");
    virtctl.refuses(&["start", "nothing"], "virtualmachine.kubevirt.io \"nothing\" not found");
    virtctl.refuses(&["stop", "web"], "VM is not running");
    virtctl.refuses(&["restart", "web"], "RunStategy Halted does not support manual restart requests");
    virtctl.does(&["start", "web", "--dry-run"], "VM web was scheduled to start");
    assert_eq!(space.get("vm/web", STRATEGY), "Halted");
    virtctl.does(&["start", "web"], "VM web was scheduled to start");
    space.says("vm/web", STATUS, "Running");
    assert_eq!(space.get("vm/web", STRATEGY), "Always");
    virtctl.refuses(&["start", "web"], "VM is already running");
    is_up(&space, 1);
    virtctl.does(&["stop", "web"], "VM web was scheduled to stop");
    space.gone("vmi/web");
    space.says("vm/web", STATUS, "Stopped");
    assert_eq!(space.get("vm/web", STRATEGY), "Halted");
    went_through(&seen, &["Stopped", "Starting", "Running", "Stopped"]);
}

#[test]
fn a_guest_that_ignores_its_power_button_is_stopped_by_force() {
    let Some((space, mut virtctl)) = begin("force") else { return };
    // Longer than anybody waits here.
    space.apply(&tiny("web", "Always").replace("PeriodSeconds: 20", "PeriodSeconds: 900"));
    let mut console = space.console_when_ready("web");
    console.log_in().types("killall acpid; echo no''thing listens").says("nothing listens");
    virtctl.refuses(&["stop", "web", "--force"], "Must both use --force=true and set --grace-period.");
    virtctl.does(&["stop", "web"], "VM web was scheduled to stop");
    space.says("vm/web", STATUS, "Stopping");
    virtctl.refuses(&["stop", "web"], "Halted only supports manual stop requests with a shorter graceperiod");
    virtctl.does(&["stop", "web", "--force", "--grace-period=0"], "VM web was scheduled to stop");
    space.gone("vmi/web");
    space.says("vm/web", STATUS, "Stopped");
}

#[test]
fn a_manual_vm_starts_restarts_and_stops() {
    let Some((space, mut virtctl)) = begin("manual") else { return };
    space.apply(&tiny("web", "Manual"));
    space.says("vm/web", STATUS, "Stopped");
    virtctl.refuses(&["stop", "web"], "VM is not running");
    virtctl.refuses(&["restart", "web"], "VM is not running: Halted");
    virtctl.does(&["start", "web"], "VM web was scheduled to start");
    space.has("vmi/web", "Ready", "True");
    is_up(&space, 1);
    let first = uid(&space);
    virtctl.does(&["restart", "web"], "VM web was scheduled to restart");
    space.another("vmi/web", &first);
    space.has("vmi/web", "Ready", "True");
    let second = uid(&space);
    virtctl.does(&["restart", "web", "--force", "--grace-period=0"], "VM web was scheduled to restart");
    space.another("vmi/web", &second);
    space.has("vmi/web", "Ready", "True");
    is_up(&space, 1);
    virtctl.does(&["stop", "web"], "VM web was scheduled to stop");
    space.gone("vmi/web");
    space.says("vm/web", STATUS, "Stopped");
    assert_eq!(space.get("vm/web", STRATEGY), "Manual");
}

#[test]
fn a_guest_stands_still_while_it_is_paused() {
    let Some((space, mut virtctl)) = begin("pause") else { return };
    space.apply(&tiny("web", "Halted"));
    space.says("vm/web", STATUS, "Stopped");
    virtctl.refuses(&["pause", "vm", "web"], "VirtualMachine web is not set to run");
    virtctl.refuses(&["pause", "vmi", "web"], "virtualmachineinstance.kubevirt.io \"web\" not found");
    virtctl.refuses(&["unpause", "vm", "web"], "virtualmachineinstance.kubevirt.io \"web\" not found");
    // It begins paused, and says nothing.
    virtctl.does(&["start", "web", "--paused"], "VM web was scheduled to start");
    space.has("vmi/web", "Paused", "True");
    space.says("vm/web", STATUS, "Paused");
    assert_eq!(space.get("vm/web", STRATEGY), "Always");
    let said = space.run(&["logs", &space.pod_of("web"), "-c", "guest-console-log"]);
    assert!(!said.contains("tiny"), "{said}");
    virtctl.does(&["unpause", "vm", "web"], "VMI web was scheduled to unpause");
    let mut console = space.console_when_ready("web");
    console.log_in().types("n=4711; echo s''et-$n").says("set-4711");
    virtctl.does(&["pause", "vm", "web", "--dry-run"], "VMI web was scheduled to pause");
    virtctl.does(&["pause", "vm", "web"], "VMI web was scheduled to pause");
    space.has("vmi/web", "Paused", "True");
    space.says("vm/web", STATUS, "Paused");
    virtctl.refuses(&["pause", "vm", "web"], "VMI is already paused");
    virtctl.refuses(&["pause", "vmi", "web"], "VMI is already paused");
    virtctl.refuses(&["soft-reboot", "web"], "VMI is paused");
    virtctl.refuses(&["port-forward", "--stdio=true", "vmi/web", "80"], "VMI is paused");
    virtctl.does(&["unpause", "vmi", "web"], "VMI web was scheduled to unpause");
    space.says("vm/web", STATUS, "Running");
    // It goes on where it was.
    console.types("echo $n-ag''ain").says("4711-again");
    virtctl.refuses(&["unpause", "vm", "web"], "VMI is not paused");
    virtctl.refuses(&["unpause", "vmi", "web"], "VMI is not paused");
    virtctl.does(&["pause", "vmi", "web"], "VMI web was scheduled to pause");
    space.has("vmi/web", "Paused", "True");
    virtctl.does(&["unpause", "vm", "web"], "VMI web was scheduled to unpause");
    space.says("vm/web", STATUS, "Running");
}

#[test]
fn a_guest_boots_anew_in_the_same_vmi() {
    let Some((space, mut virtctl)) = begin("reboot") else { return };
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    is_up(&space, 1);
    let first = uid(&space);
    virtctl.does(&["soft-reboot", "web"], "VMI web was scheduled to soft-reboot");
    is_up(&space, 2);
    virtctl.does(&["reset", "web"], "VMI web was scheduled to reset");
    is_up(&space, 3);
    assert_eq!(uid(&space), first);
    virtctl.refuses(&["soft-reboot", "nothing"], "virtualmachineinstance.kubevirt.io \"nothing\" not found");
    virtctl.refuses(&["reset", "nothing"], "virtualmachineinstance.kubevirt.io \"nothing\" not found");
}

#[test]
fn a_terminal_is_the_console() {
    const HELLO: &str = "Successfully connected to web console. Press Ctrl+] or Ctrl+5 to exit console.";
    let Some((space, mut virtctl)) = begin("console") else { return };
    virtctl.refuses(&["console", "nothing"], "virtualmachineinstance.kubevirt.io \"nothing\" not found");
    space.apply(&tiny("web", "Always"));
    // Whoever comes before the guest runs is let in when it does.
    space.says("vmi/web", ".metadata.name", "web");
    let line = format!("{} -n {} console web", virtctl.program, space.name);
    let on_terminal = || {
        let mut command = Command::new("script");
        command.args(["-qefc", &line, "/dev/null"]).env("KUBECONFIG", &virtctl.kubeconfig);
        Serial::of(command)
    };
    let mut terminal = on_terminal();
    terminal.says(HELLO).log_in();
    terminal.types("echo $((6*7))-answer").says("42-answer");
    terminal.keys_are(b"\x1d");
    terminal.ends();
    assert!(terminal.succeeded(), "Ctrl+] is a good end");
    // Whoever comes later closes the console before, with a pipe as well as with a terminal; whoever had it is told.
    let mut first = on_terminal();
    first.says(HELLO).types("echo s''till-$((6*7))").says("still-42");
    let mut second = Serial::of(virtctl.command(&["console", "web"]));
    first.says("another client has opened this console").ends();
    second.types("echo he''re-$((6*7))").says("here-42");
    drop(second);
    virtctl.table.say(&["console", "web"], 0, HELLO);
}

#[test]
fn the_screen_is_seen() {
    let Some((space, mut virtctl)) = begin("screen") else { return };
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("screen.png").display().to_string();
    virtctl.table.calls(&picture, "FILE");
    virtctl.does(&["vnc", "screenshot", "web", "-f", &picture, "--move-cursor"], "");
    let picture = std::fs::read(picture).unwrap();
    let (magic, size) = (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", picture.get(16..24).unwrap());
    assert!(picture.starts_with(magic) && size[..4] != [0; 4] && size[4..] != [0; 4], "{:?}", &picture[..24]);
    // The proxy is for one viewer, and ends with it.
    let args = ["vnc", "web", "--proxy-only"];
    let proxy = || {
        let mut proxy = Running(virtctl.command(&args).stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(proxy.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = serde_json::from_str::<Value>(&line).unwrap()["port"].as_u64().unwrap();
        (proxy, line, port)
    };
    // There is one session: it is preserved for whoever asks, and closed for a next one that does not.
    let (mut first, _, port) = proxy();
    let mut viewer = TcpStream::connect(("127.0.0.1", port as u16)).unwrap();
    viewer.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut greeting = [0; 12];
    viewer.read_exact(&mut greeting).unwrap();
    let preserves = [&args[..], &["--preserve-session"]].concat();
    let denied = virtctl.try_run(&preserves);
    assert!(denied.code == 1 && denied.err.contains("Active VNC connection"), "{denied:?}");
    let (mut proxy, line, port) = proxy();
    // By an end or a reset.
    let _ = viewer.read_to_end(&mut Vec::new());
    // How virtctl judges that end is its own.
    until(|| first.0.try_wait().unwrap().is_some(), || "the first virtctl goes on".to_owned());
    virtctl.table.calls(port.to_string(), "PORT");
    let (width, height) = rfb::size_of_screen(port as u16);
    assert!(width > 0 && height > 0, "{width}x{height}");
    assert!(proxy.0.wait().unwrap().success());
    virtctl.table.say(&args, 0, &line);
    virtctl.refuses(
        &["vnc", "nothing", "--proxy-only"],
        "virtualmachineinstance.kubevirt.io \"nothing\" not found",
    );
}

/// A virtctl that goes on; it ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port of this host that virtctl forwards, and the first connection to it.
fn forwarded(virtctl: &Virtctl) -> (u16, Running, TcpStream) {
    for _ in 0..20 {
        // Free just now; another program may take it first, and virtctl ends.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ports = format!("{port}:80");
        let mut forward = Running(virtctl.command(&["port-forward", "vmi/web", &ports]).spawn().unwrap());
        let mut stream = None;
        let mut has_ended = false;
        until(
            || {
                stream = TcpStream::connect(("127.0.0.1", port)).ok();
                has_ended = forward.0.try_wait().unwrap().is_some();
                has_ended || stream.is_some()
            },
            || format!("virtctl does not listen on {port}"),
        );
        if let Some(stream) = stream.filter(|_| !has_ended) {
            return (port, forward, stream);
        }
    }
    panic!("no port is free");
}

#[test]
fn a_port_of_the_guest_is_reached() {
    const GET: &[u8] = b"GET / HTTP/1.0\r\n\r\n";
    let Some((space, mut virtctl)) = begin("ports") else { return };
    space.apply(network::OTHER);
    space.apply(&tiny("web", "Always"));
    let mut console = space.console_when_ready("web");
    console.log_in();
    console.types("until ip -4 addr show eth0 | grep inet; do sleep 1; done").says("inet 10.0.2.2/24");
    // By standard input and output, as `virtctl ssh` has it.
    for target in ["vm/web", "vmi/web"] {
        let args = ["port-forward", "--stdio=true", target, "80"];
        let mut tunnel = Serial::of(virtctl.command(&args));
        tunnel.keys_are(GET);
        tunnel.says("tiny").ends();
        assert!(tunnel.succeeded(), "{target}: the guest's end is a good end");
        virtctl.table.say(&args, 0, "");
    }
    // By a port of this host.
    let (port, mut forward, mut stream) = forwarded(&virtctl);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(GET).unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.contains("tiny"), "{page}");
    let pid = rustix::process::Pid::from_child(&forward.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(forward.0.wait().unwrap().success());
    virtctl.table.calls(port.to_string(), "PORT");
    virtctl.table.say(&["port-forward", "vmi/web", &format!("{port}:80")], 0, "");
    virtctl.refuses(&["port-forward", "--stdio=true", "vmi/nothing", "80"], "not found");
    // By a Service, which selects what a VMI's pod says of itself.
    let expose = ["expose", "vmi", "web", "--name=web", "--port=80"];
    virtctl.does(&expose, "Service web successfully created for vmi web");
    virtctl.refuses(&expose, "services \"web\" already exists");
    virtctl.does(
        &["expose", "vm", "web", "--name=too", "--port=80"],
        "Service too successfully created for vm web",
    );
    space.has("pod/other", "Ready", "True");
    network::reaches(&space, "http://web/");
    network::reaches(&space, "http://too/");
}

#[test]
fn a_vmi_that_does_not_run_yet_says_so() {
    let Some((space, mut virtctl)) = begin("waiting") else { return };
    space.apply(&with_spec(&tiny("web", "Always"), "      nodeSelector: {disk: quick}\n"));
    space.says("vm/web", STATUS, "ErrorUnschedulable");
    virtctl.refuses(&["start", "web"], "VM is already running");
    virtctl.refuses(&["pause", "vmi", "web"], "VM is not running");
    virtctl.refuses(&["unpause", "vmi", "web"], "VMI is not running");
    virtctl.refuses(&["soft-reboot", "web"], "is not running");
    virtctl.refuses(&["reset", "web"], "Failed to reset non-running VMI with phase");
    virtctl.refuses(&["vnc", "web", "--proxy-only"], "VMI is not running");
    virtctl.refuses(&["vnc", "screenshot", "web", "-f", "-"], "VMI is not running");
    virtctl.refuses(&["guestosinfo", "web"], "VMI is not running");
    virtctl.refuses(&["port-forward", "--stdio=true", "vmi/web", "80"], "");
    // It is not on its way off a node, which is no error.
    for kind in ["vm", "vmi"] {
        virtctl.does(&["evacuate-cancel", kind, "web"], "was canceled evacuation");
    }
}

#[test]
fn a_vm_is_shown_with_all_that_it_will_have() {
    let Some((space, mut virtctl)) = begin("expand") else { return };
    let manifest = tiny("web", "Halted");
    space.apply(&manifest);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), manifest).unwrap();
    let file = file.path().display().to_string();
    virtctl.table.calls(&file, "FILE");
    for from in [["--vm", "web"], ["--file", file.as_str()]] {
        let vm = virtctl.json(&[&["expand", "--output", "json"], &from[..]].concat());
        assert_eq!(vm["spec"]["runStrategy"], "Halted", "{vm}");
        let memory = &vm["spec"]["template"]["spec"]["domain"]["resources"]["requests"]["memory"];
        assert_eq!(memory, "256Mi", "{vm}");
    }
}

/// A PVC that nobody has: no volume is made for it.
const EXTRA: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: extra}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
";

#[test]
fn what_is_not_served_is_refused_by_its_name() {
    let Some((space, mut virtctl)) = begin("refused") else { return };
    space.apply(EXTRA);
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    for verb in ["guestosinfo", "userlist", "fslist"] {
        virtctl.refuses(&[verb, "web"], "VMI does not have guest agent connected");
    }
    let extra = "--volume-name=extra";
    let verbs: &[(&[&str], &str)] = &[
        (&["addvolume", "web", extra], "virtualmachineinstances/addvolume"),
        (&["addvolume", "web", extra, "--persist"], "virtualmachines/addvolume"),
        (&["removevolume", "web", extra], "virtualmachineinstances/removevolume"),
        (&["removevolume", "web", extra, "--persist"], "virtualmachines/removevolume"),
        (&["memory-dump", "get", "web", "--claim-name=extra"], "virtualmachines/memorydump"),
        (&["memory-dump", "remove", "web"], "virtualmachines/removememorydump"),
        (&["objectgraph", "web"], "virtualmachines/objectgraph"),
        (&["objectgraph", "--vmi", "web"], "virtualmachineinstances/objectgraph"),
        (&["guestfs", "extra"], "guestfs"),
    ];
    for (args, resource) in verbs {
        virtctl.refuses(args, &format!("the subresource {resource} is not supported"));
    }
    // Served, of a VMI that has places for USB devices of clients.
    virtctl.refuses(&["usbredir", "web", "--no-launch"], "Not configured with USB Redirection");
    // The status, which virtctl does not tell.
    let path = format!(
        "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachineinstances/web/addvolume",
        space.name
    );
    let refused = space.try_run(&["replace", "--raw", &path, "-f", "-"]);
    assert!(refused.code != 0 && refused.err.contains("(NotImplemented)"), "{path}: {}", refused.err);
}

/// What a guest agent says, to the three verbs that ask it; somebody is logged in as root. The story of the guest that has
/// an agent calls this.
pub(crate) fn asks_the_guest_agent(space: &Space) {
    let mut virtctl = Virtctl::of(space, "agent");
    let info = virtctl.json(&["guestosinfo", "web"]);
    assert!(info["os"]["id"] == "debian" && info["hostname"] == "ours", "{info}");
    assert!(info["guestAgentVersion"].as_str().is_some_and(|version| !version.is_empty()), "{info}");
    assert!(info["supportedCommands"].as_array().is_some_and(|commands| !commands.is_empty()), "{info}");
    same::tells(&virtctl, &["guestosinfo", "web"], &info);
    let disks = virtctl.json(&["fslist", "web"]);
    let is_root = |disk: &Value| disk["mountPoint"] == "/" && disk["fileSystemType"] == "ext4";
    assert!(disks["items"].as_array().is_some_and(|disks| disks.iter().any(is_root)), "{disks}");
    same::tells(&virtctl, &["fslist", "web"], &disks);
    let users = virtctl.json(&["userlist", "web"]);
    same::tells(&virtctl, &["userlist", "web"], &users);
    let is_root = |user: &Value| user["userName"] == "root";
    assert!(users["items"].as_array().is_some_and(|users| users.iter().any(is_root)), "{users}");
}
