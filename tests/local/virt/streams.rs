//! Consoles, ports and screens: streams that end, break and come back.

use super::server::{Answer, Stream, echoes, hears, open, says};
use super::{Cluster, PARTS_OF_VMI, PROGRAM, VM, VMI};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tests::coracle::Ran;
use tests::mapped::as_mapped_by_a_server;
use tests::serial::Serial;

/// Timeout, longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program whose standard output is read while it runs.
struct Piped {
    child: Child,
    pieces: Receiver<Vec<u8>>,
    text: String,
}

impl Piped {
    fn start(mut command: Command) -> Piped {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let (sender, pieces) = channel();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = out.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Piped { child, pieces, text: String::new() }
    }

    fn types(&mut self, bytes: &[u8]) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(bytes).and_then(|()| input.flush()).unwrap();
    }

    fn says(&mut self, wanted: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.text.contains(wanted) {
            let left = until.saturating_duration_since(Instant::now());
            let piece = self.pieces.recv_timeout(left);
            let piece = piece.unwrap_or_else(|e| panic!("{wanted:?} does not come ({e}): {}", self.text));
            self.text += &String::from_utf8_lossy(&piece);
        }
    }

    /// Waits for its end; its input stays open.
    fn ends(mut self) -> Ran {
        let input = self.child.stdin.take();
        let ran = Ran::of(self.child.wait_with_output().unwrap());
        drop(input);
        ran
    }
}

fn vmi(uid: &str) -> Value {
    json!({"metadata": {"name": "web", "uid": uid}, "status": {"phase": "Running"}})
}

fn vm(strategy: &str) -> Value {
    json!({"spec": {"runStrategy": strategy}, "status": {"printableStatus": "Running"}})
}

fn greets(text: &'static str) -> Answer {
    open(move |mut stream| {
        says(&mut stream, text.as_bytes());
        echoes(stream);
    })
}

/// A stream that sends a greeting, and breaks without a close frame.
fn breaks(text: &'static str) -> Answer {
    open(move |mut stream| {
        says(&mut stream, text.as_bytes());
        hears(&mut stream);
    })
}

#[test]
fn a_console_is_waited_for_and_comes_back_after_it_broke() {
    let cluster = Cluster::new();
    cluster.server.has(VMI, &vmi("u1"));
    cluster.server.streams([
        Answer::Refused(400, "VMI is not running"),
        breaks("login: "),
        Answer::Refused(500, "virt-handler is not there"),
        greets("back again"),
    ]);
    let mut console = Piped::start(cluster.command(&["console", "web"]));
    console.says("login: ");
    console.types(b"me\n");
    console.says("back again");
    console.types(b"echo\n");
    console.says("againecho");
    console.types(b"\x1d");
    let ran = console.ends().ok();
    assert!(ran.err.contains("waiting up to 5 min for VMI web: VMI is not running"), "{}", ran.err);
    assert!(ran.err.contains("Successfully connected to web console. Press Ctrl+]"), "{}", ran.err);
    assert!(ran.err.contains("the console of web is back"), "{}", ran.err);
    let asked = cluster.server.asked();
    let consoles: Vec<&String> = asked.iter().filter(|one| one.contains("/console")).collect();
    assert_eq!(consoles[0], &format!("GET {PARTS_OF_VMI}/console?mode=take"));
    assert_eq!(consoles[3], &format!("GET {PARTS_OF_VMI}/console?mode=write"), "it is taken from nobody");
}

#[test]
fn a_console_goes_on_with_the_next_vmi_of_a_vm_that_restarts() {
    let cluster = Cluster::new();
    cluster.server.has(VM, &vm("Always"));
    cluster.server.has(VMI, &vmi("u1"));
    cluster.server.streams([
        open(|mut stream| {
            says(&mut stream, b"first");
            stream.close(None).unwrap();
            hears(&mut stream);
        }),
        greets("second"),
    ]);
    let mut console = Piped::start(cluster.command(&["console", "web"]));
    console.says("first");
    cluster.server.forgets(VMI);
    std::thread::sleep(Duration::from_millis(1500));
    cluster.server.has(VMI, &vmi("u2"));
    console.says("second");
    drop(console.child.stdin.take());
    console.ends().ok();
}

#[test]
fn a_console_is_over_when_its_vm_is_off_or_somebody_else_has_it() {
    let closes = || {
        open(|mut stream: Stream| {
            says(&mut stream, b"hello");
            stream.close(None).unwrap();
            hears(&mut stream);
        })
    };
    let cluster = Cluster::new();
    cluster.server.has(VM, &vm("Halted"));
    cluster.server.has(VMI, &vmi("u1"));
    cluster.server.streams([closes()]);
    let mut console = Piped::start(cluster.command(&["console", "web"]));
    console.says("hello");
    cluster.server.forgets(VMI);
    let ran = console.ends().ok();
    assert!(ran.err.contains("does not start one (run strategy Halted)"), "{}", ran.err);

    let cluster = Cluster::new();
    cluster.server.has(VMI, &vmi("u1"));
    cluster.server.streams([closes()]);
    let mut console = Piped::start(cluster.command(&["console", "web"]));
    console.says("hello");
    let ran = console.ends().ok();
    assert!(ran.err.contains("maybe another client has opened it"), "{}", ran.err);

    let cluster = Cluster::new();
    cluster.server.has(VMI, &vmi("u1"));
    cluster.server.streams([breaks("one"), breaks("two")]);
    let mut console = Piped::start(cluster.command(&["console", "web"]));
    console.says("one");
    console.types(b"x");
    console.says("two");
    console.types(b"x");
    console.ends().refused(1, "it broke twice");

    cluster.server.streams([Answer::Refused(404, "\"other\" not found")]);
    let none = cluster.run("console other --timeout 0");
    none.refused(4, "cannot open the console of VMI other in namespace blue");
}

#[test]
fn a_terminal_is_as_it_was_after_the_console() {
    let cluster = Cluster::new();
    cluster.server.has(VMI, &vmi("u1"));
    cluster.server.streams([greets("tiny ready")]);
    let line = format!("stty -a > before; {PROGRAM} virt console web; stty -a > after");
    let mut command = Command::new("script");
    command.args(["-qefc", &line, "/dev/null"]).current_dir(cluster.place.folder());
    command.env("HOME", cluster.place.folder()).env_remove("KUBECONFIG");
    let mut terminal = Serial::of(command);
    terminal.says("tiny ready");
    // Ctrl-C is sent to the guest.
    terminal.keys_are(b"\x03and");
    terminal.says("and");
    terminal.keys_are(b"\x1d");
    terminal.ends();
    assert!(terminal.succeeded());
    assert_eq!(cluster.place.bytes("before"), cluster.place.bytes("after"));
}

#[test]
fn a_port_of_the_guest_is_joined_to_standard_input_and_output() {
    let cluster = Cluster::new();
    cluster.server.streams([open(echoes)]);
    let mut forward = Piped::start(cluster.command(&["port-forward", "--stdio=true", "vmi/web/blue", "22"]));
    let sent = "0123456789abcdef".repeat(64 << 10);
    let mut input = forward.child.stdin.take().unwrap();
    let text = sent.clone();
    let writes = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    while forward.text.len() < sent.len() {
        forward.text += &String::from_utf8_lossy(&forward.pieces.recv_timeout(PATIENCE).unwrap());
    }
    assert!(forward.text == sent, "the bytes are others");
    writes.join().unwrap();
    assert!(forward.ends().ok().err.is_empty());
    assert_eq!(cluster.server.asked(), [format!("GET {PARTS_OF_VMI}/portforward/22/tcp")]);
    cluster.server.streams([Answer::Refused(409, "VMI is paused")]);
    cluster.run("port-forward --stdio vm/web 22").refused(1, "VMI is paused");
}

#[test]
fn each_connection_to_a_port_is_a_stream_of_its_own() {
    let cluster = Cluster::new();
    cluster.server.streams([open(echoes), open(echoes), Answer::Refused(500, "dialing VM: refused")]);
    let mut command = cluster.command(&["port-forward", "vm/web", "0:80"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.strip_prefix("Forwarding tcp ").and_then(|rest| rest.split(' ').next());
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    assert!(line.ends_with("to port 80 of VM web in namespace blue\n"), "{line}");
    let mut both = [TcpStream::connect(&address).unwrap(), TcpStream::connect(&address).unwrap()];
    for (connection, text) in both.iter_mut().zip(["one", "two"]) {
        connection.write_all(text.as_bytes()).unwrap();
    }
    for (connection, text) in both.iter_mut().zip(["one", "two"]) {
        let mut answer = [0; 3];
        connection.read_exact(&mut answer).unwrap();
        assert_eq!(answer, text.as_bytes());
    }
    let mut refused = TcpStream::connect(&address).unwrap();
    assert_eq!(refused.read(&mut [0; 8]).unwrap_or(0), 0);
    while !line.contains("dialing VM: refused") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "no word of the third");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_viewer_finds_the_screen_on_a_port() {
    let cluster = Cluster::new();
    cluster.server.streams([greets("RFB 003.008\n")]);
    let mut vnc = Piped::start(cluster.command(&["vnc", "web", "--proxy-only"]));
    vnc.says("}\n");
    let port = serde_json::from_str::<Value>(&vnc.text).unwrap()["port"].as_u64().unwrap();
    let mut viewer = TcpStream::connect(("127.0.0.1", port as u16)).unwrap();
    let mut greeting = [0; 12];
    viewer.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"RFB 003.008\n");
    drop(viewer);
    vnc.ends().ok();
    assert_eq!(cluster.server.asked(), [format!("GET {PARTS_OF_VMI}/vnc?mode=take")]);
    cluster.server.streams([Answer::Refused(503, "Active VNC connection. Request denied.")]);
    cluster
        .run("vnc web --proxy-only --preserve-session")
        .refused(1, "Active VNC connection. Request denied.");

    cluster.server.answers(&format!("GET {PARTS_OF_VMI}/vnc/screenshot"), 200, "PNG");
    assert_eq!(cluster.text("vnc screenshot web -f -"), "PNG");
    cluster.text("vnc screenshot web -f a.png");
    assert_eq!(cluster.place.bytes("a.png"), b"PNG");
}

#[test]
fn on_the_loopback_the_screen_is_for_viewers_of_the_same_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make what belongs to another user");
        return;
    }
    let cluster = Cluster::new();
    cluster.server.streams([greets("RFB 003.008\n")]);
    let mut vnc = Piped::start(cluster.command(&["vnc", "web", "--proxy-only"]));
    vnc.says("}\n");
    let port = serde_json::from_str::<Value>(&vnc.text).unwrap()["port"].as_u64().unwrap();
    let mut greeting = [0; 12];
    as_mapped_by_a_server(65534, || {
        let mut stranger = TcpStream::connect(("127.0.0.1", port as u16)).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stranger.read(&mut [0; 12]).unwrap_or(0), 0, "the screen was shown to another user");
    });
    let mut viewer = TcpStream::connect(("127.0.0.1", port as u16)).unwrap();
    viewer.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"RFB 003.008\n");
    drop(viewer);
    vnc.ends().ok();
}

#[test]
fn ssh_goes_through_this_program_to_the_same_cluster() {
    let cluster = Cluster::new();
    cluster.server.streams([greets("SSH-2.0-guest\n")]);
    let folder = cluster.place.path("bin");
    std::fs::create_dir(&folder).unwrap();
    let config = std::fs::read_to_string(cluster.place.path(".kube/config")).unwrap();
    std::fs::remove_file(cluster.place.path(".kube/config")).unwrap();
    // The server accepts the token of the flag alone.
    std::fs::write(cluster.place.path("other config"), config.replace("\"secret\"", "\"old\"")).unwrap();
    // A script in place of ssh: it prints its arguments, and runs the command that connects to the guest.
    let script = "#!/bin/sh\necho \"$@\" >said\nfor arg; do\n  case $arg in\n    ProxyCommand=*) exec sh -c \"${arg#*=}\" <&0 ;;\n  esac\ndone\n";
    let ssh = folder.join("ssh");
    std::fs::write(&ssh, script).unwrap();
    std::fs::set_permissions(&ssh, PermissionsExt::from_mode(0o755)).unwrap();
    let flags = ["--kubeconfig", "other config", "--token", "secret"];
    let mut command = cluster.command(&[&flags[..], &["ssh", "me@vm/web", "-c", "uname -a"]].concat());
    command.env("RUST_LOG", "info");
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", folder.display()));
    let mut ran = Piped::start(command);
    ran.says("SSH-2.0-guest\n");
    drop(ran.child.stdin.take());
    let ran = ran.ends().ok();
    let said = String::from_utf8(cluster.place.bytes("said")).unwrap();
    assert!(said.trim_end().ends_with("me@vm.web.blue uname -a"), "{said}");
    // Every user of this computer can read the arguments of a command.
    assert!(ran.err.contains("ProxyCommand"), "{}", ran.err);
    assert!(!said.contains("secret") && !ran.err.contains("secret"), "{said}{}", ran.err);
    assert!(
        said.contains("virt '--kubeconfig=other config' port-forward --stdio=true vm/web/blue 22"),
        "{said}"
    );
}
