//! Against a launcher with a canned domain. What is expected was printed by virsh 9.0 of such a domain; that
//! the two agree on a running one is shown in `launcher/tests/life/daemon.rs`.

use super::*;
use api::launcher::{Domain, MonitorCommand};
use std::io::Read as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

const XML: &str = "<domain type='kvm' id='1'>
  <name>blue_web</name>
  <devices>
    <disk type='file' device='disk'>
      <source file='/a/disk.img' index='2'/><backingStore type='file'><source file='/base'/></backingStore>
      <target dev='vda' bus='virtio'/>
    </disk>
    <disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>
    <interface type='ethernet'><mac address='52:54:00:00:00:01'/><target dev='tap0' managed='no'/><model type='virtio'/></interface>
    <interface type='network'><source network='default' bridge='virbr0'/></interface>
  </devices>
</domain>
";

fn domain() -> Domain {
    Domain {
        name: "blue_web".to_owned(),
        id: Some(1),
        uuid: "6695eb01-f6a4-8304-79aa-97f2502e193f".to_owned(),
        os_type: "hvm".to_owned(),
        state: 1,
        reason: 5,
        vcpus: 2,
        cpu_ns: 12_340_000_000,
        max_memory_kib: 8_388_608,
        memory_kib: 2_097_152,
        persistent: true,
        security: Some(("none".to_owned(), "0".to_owned())),
        messages: vec!["tainted: a".to_owned(), "b".to_owned()],
        qemu: "7.2.0".to_owned(),
        xml: XML.to_owned(),
        inactive_xml: XML.replace(" id='1'", ""),
        ..Domain::default()
    }
}

/// A launcher with this domain, and what its monitor was asked.
struct Launcher {
    place: tempfile::TempDir,
    asked: Arc<Mutex<Vec<MonitorCommand>>>,
}

impl Launcher {
    fn of(domain: Option<Domain>) -> Launcher {
        let place = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(place.path().join("sock")).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let asked_of = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer_one(stream.unwrap(), domain.as_ref(), &asked_of);
            }
        });
        Launcher { place, asked }
    }

    fn says(&self, line: &[&str]) -> (String, String, bool) {
        let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        let client = Client::at("the launcher", self.place.path().join("sock"));
        let (said, is_done) = answer(&words, &client);
        (said.out, said.error, is_done)
    }

    /// What a command prints that succeeds.
    #[track_caller]
    fn prints(&self, line: &str) -> String {
        let (out, error, is_done) = self.says(&line.split(' ').collect::<Vec<_>>());
        assert!(is_done && error.is_empty(), "{line}: {error}");
        out
    }

    /// What a command complains of that fails, and what it prints.
    #[track_caller]
    fn complains(&self, line: &str) -> (String, String) {
        let (out, error, is_done) = self.says(&line.split(' ').collect::<Vec<_>>());
        assert!(!is_done, "{line}: {out}");
        (error, out)
    }
}

fn answer_one(mut stream: UnixStream, domain: Option<&Domain>, asked: &Mutex<Vec<MonitorCommand>>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map(|length| length.parse().unwrap());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).unwrap();
    let none = ("409 Conflict", r#"{"error":"there is no VM yet"}"#.to_owned());
    let (status, text) = match head.split(' ').nth(1).unwrap() {
        "/v1/info" => (
            "200 OK",
            r#"{"version":"1","pid":1,"libvirt":"9.0.0","uri":"qemu:///embed?root=/r","root":"/r"}"#
                .to_owned(),
        ),
        _ if domain.is_none() => none,
        "/v1/domain" => ("200 OK", serde_json::to_string(domain.unwrap()).unwrap()),
        "/v1/domain/stats" => {
            ("200 OK", r#"[["state.state","1"],["cpu.time","7"],["net.count","1"]]"#.to_owned())
        }
        "/v1/domain/monitor" => {
            asked.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
            (
                "200 OK",
                serde_json::to_string("{\"return\":{\"b\":1,\"a\":[]},\"id\":\"x\"}\u{1b}[2J").unwrap(),
            )
        }
        other => panic!("{other} is asked"),
    };
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", text.len());
    stream.write_all((head + &text).as_bytes()).unwrap();
}

#[test]
fn a_domain_is_shown_as_libvirts_program_shows_it() {
    let launcher = Launcher::of(Some(domain()));
    let list = " Id   Name       State\n--------------------------\n 1    blue_web   running\n\n";
    assert_eq!(launcher.prints("list"), list);
    assert_eq!(launcher.prints("-c qemu:///system list"), list);
    assert_eq!(launcher.prints("--connect=qemu+unix:///session -r list --all"), list);
    assert_eq!(launcher.prints("-q list"), " 1   blue_web   running\n");
    assert_eq!(launcher.prints("list --inactive"), " Id   Name   State\n--------------------\n\n");
    assert_eq!(launcher.prints("list --state-paused --name"), "\n");
    assert_eq!(launcher.prints("list --name"), "blue_web\n\n");
    assert_eq!(launcher.prints("list --id"), "1\n\n");
    for domain in ["blue_web", "1", "6695eb01-f6a4-8304-79aa-97f2502e193f"] {
        assert_eq!(launcher.prints(&format!("domstate {domain}")), "running\n\n");
    }
    assert_eq!(launcher.prints("domstate --reason --domain 1"), "running (unpaused)\n\n");
    assert_eq!(launcher.prints("-q domid blue_web"), "1\n");
    assert_eq!(launcher.prints("domuuid 1"), "6695eb01-f6a4-8304-79aa-97f2502e193f\n\n");
    assert_eq!(launcher.prints("domname 1"), "blue_web\n\n");
    assert_eq!(
        launcher.prints("dominfo 1"),
        "Id:             1\nName:           blue_web\nUUID:           6695eb01-f6a4-8304-79aa-97f2502e193f\n\
         OS Type:        hvm\nState:          running\nCPU(s):         2\nCPU time:       12.3s\n\
         Max memory:     8388608 KiB\nUsed memory:    2097152 KiB\nPersistent:     yes\n\
         Autostart:      disable\nManaged save:   no\nSecurity model: none\nSecurity DOI:   0\n\
         Messages:       tainted: a\n                b\n\n"
    );
    assert_eq!(
        launcher.prints("domblklist 1"),
        " Target   Source\n-----------------------\n vda      /a/disk.img\n sda      -\n\n"
    );
    assert_eq!(
        launcher.prints("domblklist 1 --details"),
        " Type   Device   Target   Source\n---------------------------------------\n \
         file   disk     vda      /a/disk.img\n file   cdrom    sda      -\n\n"
    );
    assert_eq!(
        launcher.prints("domiflist 1"),
        " Interface   Type       Source    Model    MAC\n\
         --------------------------------------------------------------\n \
         tap0        ethernet   -         virtio   52:54:00:00:00:01\n \
         -           network    default   -        -\n\n"
    );
    assert_eq!(launcher.prints("dumpxml 1"), format!("{XML}\n"));
    assert_eq!(launcher.prints("-q dumpxml 1 --inactive"), XML.replace(" id='1'", ""));
    assert_eq!(
        launcher.prints("domstats"),
        "Domain: 'blue_web'\n  state.state=1\n  cpu.time=7\n  net.count=1\n\n"
    );
    assert_eq!(
        launcher.prints("domstats --interface --state blue_web"),
        "Domain: 'blue_web'\n  state.state=1\n  net.count=1\n\n"
    );
    assert_eq!(
        launcher.prints("version"),
        "Compiled against library: libvirt 9.0.0\nUsing library: libvirt 9.0.0\nUsing API: QEMU 9.0.0\n\
         Running hypervisor: QEMU 7.2.0\n\n"
    );
    assert_eq!(launcher.prints("uri"), "qemu:///embed?root=/r\n\n");
    assert_eq!(launcher.prints("--version"), "9.0.0\n");
    // A line of commands is one argument.
    let (out, error, is_done) = launcher.says(&["domid 1; domstate 'blue_web'"]);
    assert_eq!((out.as_str(), error.as_str(), is_done), ("1\n\nrunning\n\n", "", true));
}

#[test]
fn the_monitor_is_asked_in_both_languages() {
    let launcher = Launcher::of(Some(domain()));
    let qmp = r#"{"execute":"query-status"}"#;
    let (out, _, is_done) = launcher.says(&["qemu-monitor-command", "blue_web", "--pretty", qmp]);
    assert!(is_done);
    assert!(out.starts_with("{\n  \"return\": {\n    \"b\": 1,\n    \"a\": ["), "{out}");
    assert!(printed(&out).ends_with("?[\n  2J\n") && !printed(&out).contains('\u{1b}'), "{out}");
    assert!(launcher.says(&["qemu-monitor-command", "--hmp", "1", "info", "block"]).2);
    let asked = launcher.asked.lock().unwrap();
    let commands: Vec<_> = asked.iter().map(|asked| (asked.command.as_str(), asked.human)).collect();
    assert_eq!(commands, [(qmp, false), ("info block", true)]);
}

#[test]
fn what_is_not_understood_is_refused_in_libvirts_words() {
    let launcher = Launcher::of(Some(domain()));
    for (line, error, out) in [
        ("nosuch", "unknown command: 'nosuch'", ""),
        ("list --bogus", "command 'list' doesn't support option --bogus", ""),
        ("domstate", "command 'domstate' requires <domain> option", ""),
        ("domstate 1 extra", "unexpected data 'extra'", ""),
        ("qemu-monitor-command 1", "command 'qemu-monitor-command' requires <cmd> option", ""),
        ("domstate nosuch", "failed to get domain 'nosuch'", "\n"),
        ("domstats nosuch", "failed to get domain 'nosuch'", "\n"),
        ("dumpxml 1 --security-info", "command 'dumpxml' doesn't support option --security-info", ""),
        ("-X list", "unsupported option '-X'. See --help.", ""),
        ("-c", "option '-c' requires an argument. See --help.", ""),
    ] {
        assert_eq!(launcher.complains(line), (format!("error: {error}\n"), out.to_owned()), "{line}");
    }
    assert!(launcher.says(&[]).1.contains("no interactive mode"));
    assert!(launcher.says(&["domstate 'x"]).1.contains("missing '"));
}

#[test]
fn verbs_that_change_a_vm_say_what_to_use_instead() {
    let launcher = Launcher::of(Some(domain()));
    for (verb, wanted) in [
        ("start", "virtctl start web -n blue"),
        ("destroy", "virtctl stop web -n blue --grace-period=0 --force"),
        ("edit", "kubectl edit vm web -n blue"),
        ("define", "kubectl edit vm web -n blue"),
        ("snapshot-create", "VolumeSnapshots"),
        ("net-list", "objects of the cluster"),
    ] {
        let (error, out) = launcher.complains(&format!("{verb} blue_web --any"));
        assert!(error.starts_with(&format!("error: command '{verb}' is not carried out")), "{error}");
        assert!(error.lines().nth(1).unwrap().contains(wanted) && out.is_empty(), "{error}");
    }
    let none = Launcher::of(None);
    assert!(none.complains("shutdown x").0.contains("virtctl stop NAME -n NAMESPACE"));
}

#[test]
fn without_a_vm_the_list_is_empty_and_without_a_launcher_it_fails() {
    let launcher = Launcher::of(None);
    assert_eq!(launcher.prints("list --all"), " Id   Name   State\n--------------------\n\n");
    assert_eq!(launcher.prints("domstats"), "\n");
    assert_eq!(launcher.complains("dominfo 1").0, "error: failed to get domain '1'\n");
    assert!(launcher.prints("version").ends_with("Using API: QEMU 9.0.0\n\n"));
    let client = Client::at("the launcher", "/nowhere/sock");
    let (said, is_done) = answer(&["list".to_owned()], &client);
    assert!(
        !is_done && said.error.starts_with("error: failed to connect to the hypervisor\nerror: "),
        "{}",
        said.error
    );
}

#[test]
fn helps_name_every_verb() {
    let launcher = Launcher::of(None);
    let (all, usage) = (launcher.prints("help"), launcher.prints("--help"));
    for command in COMMANDS {
        assert!(all.contains(&format!("    {:<30} {}\n", command.name, command.says)), "{}", command.name);
        assert!(usage.contains(command.name));
    }
    assert_eq!(
        launcher.prints("help domstate"),
        "  NAME\n    domstate - domain state\n\n  SYNOPSIS\n    domstate <domain> [--reason]\n\n  DESCRIPTION\n    \
         Returns state about a domain.\n\n  OPTIONS\n    [--domain] <string>  domain name, id or uuid\n    \
         --reason         also print reason for the state\n\n\n"
    );
    assert_eq!(launcher.complains("help nosuch").0, "error: command 'nosuch' doesn't exist\n");
}

#[test]
fn it_is_virsh_by_its_name_alone() {
    for (name, is) in
        [("virsh", true), ("/usr/bin/virsh", true), ("virt-launcher", false), ("virsh.1", false)]
    {
        assert_eq!(is_meant(&[name.into(), "virsh".into()]), is, "{name}");
    }
}
