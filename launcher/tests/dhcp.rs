//! A real client asks, in a network namespace of its own; the server runs as a user without privileges, as in a pod.
//!
//! ```text
//!  guest: eth0 02:00:00:00:01:07 ─ veth ─ k6t-eth0 10.0.2.1 :pod        (a veth in place of bridge and tap)
//!   busybox udhcpc, or this program        this program again, as user 107
//! ```

#![allow(clippy::unwrap_used)]

use api::launcher::{Link, Resolved};
use api::lease::{Lease, Lease6, Route};
use api::machine::Machine;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tests::disk::copy_program;

const MAC: &str = "02:00:00:00:01:07";
/// Set for the run of this program that is the server.
const SERVER: &str = "CORACLE_TEST_DHCP_SERVER";

/// Set for the run of this program that is the client of DHCPv6.
const CLIENT6: &str = "CORACLE_TEST_DHCP6_CLIENT";
/// The guest's address of IPv6.
const ADDRESS6: Ipv6Addr = Ipv6Addr::new(0xfd10, 0, 2, 0, 0, 0, 0, 2);

/// A process that ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop((self.0.kill(), self.0.wait()));
    }
}

/// A namespace, held by a sleeping process.
fn space() -> Running {
    let space = Running(Command::new("unshare").args(["--net", "sleep", "600"]).spawn().unwrap());
    let ours = fs::read_link("/proc/self/ns/net").unwrap();
    let began = Instant::now();
    while fs::read_link(format!("/proc/{}/ns/net", space.0.id())).unwrap() == ours {
        assert!(began.elapsed() < Duration::from_secs(60), "no namespace was made");
        std::thread::yield_now();
    }
    space
}

fn within(space: &Running, words: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--net", "-t", &space.0.id().to_string()]).args(words);
    command
}

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn ip(space: &Running, words: &str) {
    done(within(space, &["ip"]).args(words.split(' ')));
}

#[test]
fn a_real_client_gets_its_address_from_a_server_without_privileges() {
    let there = |program: &str, word: &str| Command::new(program).arg(word).output().is_ok();
    let all = there("ip", "-V") && there("busybox", "--help") && there("setpriv", "--version");
    if !rustix::process::geteuid().is_root() || !all {
        eprintln!("skipped: only root may make networks, with the programs ip, busybox and setpriv");
        return;
    }
    let (pod, guest) = (space(), space());
    ip(&pod, &format!("link add k6t-eth0 type veth peer name eth0 netns {}", guest.0.id()));
    ip(&pod, "addr add 10.0.2.1/24 dev k6t-eth0");
    ip(&pod, "link set k6t-eth0 up");
    ip(&guest, &format!("link set eth0 address {MAC} up"));

    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The user may not read the folder of the build.
    let program = folder.path().join("server");
    copy_program(std::env::current_exe().unwrap(), &program);
    let start = |pod: &Running| {
        let drop_rights = ["setpriv", "--reuid=107", "--regid=107", "--clear-groups", "--bounding-set=-all"];
        let mut command = within(pod, &drop_rights);
        command.args(["--inh-caps=-all", "--no-new-privs"]).arg(&program);
        command.args(["the_server_process", "--exact", "--nocapture"]).env(SERVER, "1");
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = Running(command.spawn().unwrap());
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let said = lines.by_ref().find_map(|line| line.ok().filter(|line| line.contains("server: ")));
        // The process goes on to write, so the other end of its pipe stays open.
        (child, lines, said.unwrap_or_default())
    };

    // By the kernel's default port 67 is root's; the server names the missing setting.
    let lower = |pod: &Running, port: &str| {
        let key = "cat > /proc/sys/net/ipv4/ip_unprivileged_port_start";
        let mut command = within(pod, &["sh", "-c", &format!("echo {port} | {key}")]);
        done(&mut command);
    };
    lower(&pod, "1024");
    let (_ended, _lines, said) = start(&pod);
    assert!(said.contains("port 67 is not open to this user"), "{said}");

    lower(&pod, "67");
    let (_server, _lines, said) = start(&pod);
    assert!(said.contains("listens"), "{said}");
    let told = asked(&guest, folder.path());
    let told = |key: &str| told.get(key).map(String::as_str);
    assert_eq!(told("ip"), Some("10.0.2.2"));
    assert_eq!(told("subnet"), Some("255.255.255.0"));
    assert_eq!(told("router"), Some("10.0.2.1"));
    assert_eq!(told("mtu"), Some("1400"));
    assert_eq!(told("serverid"), Some("10.0.2.1"));
    assert_eq!(told("lease"), Some("86313600"));
    assert_eq!(told("staticroutes"), Some("10.9.0.0/16 10.0.2.9 0.0.0.0/0 10.0.2.1"));
    assert_eq!(told("ntpsrv"), Some("192.0.2.8"));
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(told("hostname"), Some(name.trim()));

    if has_v6() {
        let mut client =
            within(&guest, &[program.to_str().unwrap(), "the_client_of_dhcpv6", "--exact", "--nocapture"]);
        let said = done(client.env(CLIENT6, "1"));
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains("client: fd10:0:2::2"), "{said}");
    }

    // A client with another MAC address gets no answer.
    ip(&guest, "link set eth0 address 02:00:00:00:01:08");
    let client =
        ["busybox", "udhcpc", "-f", "-n", "-q", "-i", "eth0", "-s", "/bin/true", "-t", "2", "-T", "1"];
    assert!(!within(&guest, &client).output().unwrap().status.success());
}

/// The settings that a client received, by the names of its script.
fn asked(guest: &Running, folder: &Path) -> BTreeMap<String, String> {
    let (script, found) = (folder.join("script"), folder.join("found"));
    fs::write(&script, format!("#!/bin/sh\n[ \"$1\" = bound ] && env > {}\nexit 0\n", found.display()))
        .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let options = ["mtu", "staticroutes", "ntpsrv", "search", "hostname"].map(|name| format!("-O{name}"));
    let mut client =
        within(guest, &["busybox", "udhcpc", "-f", "-n", "-q", "-i", "eth0", "-t", "20", "-T", "1"]);
    done(client.args(options).arg("-s").arg(&script));
    let text = fs::read_to_string(found).unwrap();
    text.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// The other run of this program.
#[test]
fn the_server_process() {
    if std::env::var_os(SERVER).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match launcher::net::serve(&machine(), &resolved()) {
            Ok(_servers) => {
                println!("\nserver: listens");
                std::future::pending::<()>().await;
            }
            Err(e) => println!("\nserver: {}", e.chain()),
        }
    });
}

/// The run of this program in the guest. There is no client of DHCPv6 that every host has.
#[test]
fn the_client_of_dhcpv6() {
    if std::env::var_os(CLIENT6).is_none() {
        return;
    }
    // Of this network, unlike `/sys`: an address, the number of its link, …, the name of its link.
    let index = || -> Option<u32> {
        let all = fs::read_to_string("/proc/self/net/if_inet6").ok()?;
        let line = all.lines().find(|line| line.ends_with(" eth0"))?;
        u32::from_str_radix(line.split_whitespace().nth(1)?, 16).ok()
    };
    let socket = UdpSocket::bind("[::]:546").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let began = Instant::now();
    // A SOLICIT of a client with a number, which wants an association and the address at once.
    let mut question = vec![1, 7, 7, 7, 0, 1, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 1, 7, 0, 14, 0, 0, 0, 3, 0, 12];
    question.extend([0; 12]);
    let mut bytes = [0; 2048];
    while began.elapsed() < Duration::from_secs(60) {
        // The link's own address may not be ready yet.
        let to = |index| std::net::SocketAddrV6::new("ff02::1:2".parse().unwrap(), 547, 0, index);
        let sent = index().is_some_and(|index| socket.send_to(&question, to(index)).is_ok());
        if let (true, Ok((length, _))) = (sent, socket.recv_from(&mut bytes)) {
            assert_eq!(bytes[..4], [7, 7, 7, 7]);
            let found = bytes[..length].windows(16).any(|window| window == ADDRESS6.octets());
            assert!(found, "{:02x?}", &bytes[..length]);
            println!("\nclient: {ADDRESS6}");
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("nobody answers");
}

fn has_v6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

fn machine() -> Machine {
    let object = serde_json::json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "vm", "namespace": "ns"},
        "spec": {
            "domain": {
                "memory": {"guest": "64Mi"},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"interfaces": [
                    {"name": "default", "masquerade": {}, "dhcpOptions": {"ntpServers": ["192.0.2.8"]}}
                ]}
            },
            "networks": [{"name": "default", "pod": {}}]
        }
    });
    Machine::check_again(&api::wire::read::<api::vmi::VirtualMachineInstance>(object).unwrap()).unwrap()
}

fn resolved() -> Resolved {
    let server = Ipv4Addr::new(10, 0, 2, 1);
    let lease = Lease {
        device: "k6t-eth0".into(),
        server,
        address: Ipv4Addr::new(10, 0, 2, 2),
        prefix: 24,
        router: Some(server),
        routes: vec![Route {
            to: Ipv4Addr::new(10, 9, 0, 0),
            prefix: 16,
            via: Some(Ipv4Addr::new(10, 0, 2, 9)),
        }],
    };
    let lease6 = Lease6 { device: "k6t-eth0".into(), address: ADDRESS6 };
    let link = Link::Tap {
        name: "tap0".into(),
        mac: MAC.into(),
        mtu: Some(1400),
        dhcp: Some(Box::new(lease)),
        dhcp6: has_v6().then(|| Box::new(lease6)),
    };
    Resolved { interfaces: [("default".to_owned(), link)].into(), ..Resolved::default() }
}
