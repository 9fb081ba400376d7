//! Packets between real namespaces with a wire in between: they pass as planned.
//!
//! ```text
//!  world 10.99.0.1 ─ veth ─ pod: eth0 10.99.0.2, k6t-eth0 ─ veth ─ guest      (a veth in place of QEMU's tap)
//! ```

use super::*;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A namespace, which a sleeping process holds.
struct Space(Child);

impl Space {
    fn new() -> Space {
        let child = Command::new("unshare").args(["--net", "sleep", "600"]).stdout(Stdio::null()).spawn();
        let space = Space(child.unwrap());
        let ours = std::fs::read_link("/proc/self/ns/net").unwrap();
        let began = Instant::now();
        while std::fs::read_link(format!("/proc/{}/ns/net", space.id())).unwrap() == ours {
            assert!(began.elapsed() < PATIENCE, "no namespace was made");
            std::thread::yield_now();
        }
        space.ip("link set lo up");
        space
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    fn process(&self) -> Process {
        Process::of(self.id()).unwrap()
    }

    fn ip(&self, words: &str) -> String {
        let done = Command::new("nsenter")
            .args(["--net", "-t", &self.id().to_string(), "ip"])
            .args(words.split(' '))
            .output()
            .unwrap();
        assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    fn listen(&self, address: &str) -> TcpListener {
        namespace::run_in_namespace(&self.process(), || Ok(TcpListener::bind(address).unwrap())).unwrap()
    }

    fn connect(&self, address: &str) -> TcpStream {
        self.dial(address, PATIENCE).unwrap()
    }

    fn dial(&self, address: &str, patience: Duration) -> std::io::Result<TcpStream> {
        let address: SocketAddr = address.parse().unwrap();
        namespace::run_in_namespace(&self.process(), || Ok(TcpStream::connect_timeout(&address, patience)))
            .unwrap()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        drop((self.0.kill(), self.0.wait()));
    }
}

/// Namespaces of the world, the pod and the guest; `None` if they cannot be made.
fn spaces() -> Option<(Space, Space, Space)> {
    let there = |program: &str| Command::new(program).arg("-V").output().is_ok();
    if !rustix::process::geteuid().is_root() || !there("ip") || !std::path::Path::new("/dev/net/tun").exists()
    {
        eprintln!("skipped: only root may make networks, with the program ip and /dev/net/tun");
        return None;
    }
    let (world, pod, guest) = (Space::new(), Space::new(), Space::new());
    world.ip(&format!("link add eth0 type veth peer name eth0 netns {}", pod.id()));
    world.ip("addr add 10.99.0.1/24 dev eth0");
    world.ip("link set eth0 up");
    pod.ip("addr add 10.99.0.2/24 dev eth0");
    pod.ip("link set eth0 address 0a:58:0a:63:00:02 mtu 1450 up");
    pod.ip("route add default via 10.99.0.1");
    Some((world, pod, guest))
}

/// Connects the guest in place of its tap.
fn plug(pod: &Space, guest: &Space, mac: &str, address: &str, gateway: &str) {
    pod.ip(&format!("link add guest type veth peer name eth0 netns {}", guest.id()));
    pod.ip("link set guest master k6t-eth0 up");
    guest.ip(&format!("link set eth0 address {mac} up"));
    guest.ip(&format!("addr add {address} dev eth0"));
    guest.ip(&format!("route add default via {gateway}"));
}

/// Sends a message from one namespace to another. Returns the sender's address as the receiver saw it.
fn heard(listener: &TcpListener, mut stream: TcpStream) -> IpAddr {
    let (mut other, from) = listener.accept().unwrap();
    stream.write_all(b"hello").unwrap();
    drop(stream);
    let mut text = String::new();
    other.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
    from.ip()
}

fn machine(binding: &str) -> Machine {
    let mut interface = serde_json::json!({"name": "default"});
    interface[binding] = serde_json::json!({});
    let object = serde_json::json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": "ns"},
        "spec": {
            "domain": {"memory": {"guest": "64Mi"}, "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"}, "devices": {"interfaces": [interface]}},
            "networks": [{"name": "default", "pod": {}}]
        }
    });
    Machine::check_again(&api::wire::read::<api::vmi::VirtualMachineInstance>(object).unwrap()).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Name of the launcher's user or group in the output of `ip`: a package of this machine may have named its
/// ID.
fn named(database: &str) -> String {
    let found = Command::new("getent").args([database, "107"]).output().unwrap().stdout;
    let line = String::from_utf8(found).unwrap();
    line.split(':').next().filter(|name| !name.is_empty()).unwrap_or("107").to_owned()
}

#[test]
fn behind_a_masquerade_the_guest_is_reached_and_reaches() {
    let Some((world, pod, guest)) = spaces() else { return };
    let machine = machine("masquerade");
    let links = prepare(&machine, &pod.process()).unwrap();
    let tap = pod.ip("-d link show tap0");
    let (user, group) = (format!("user {}", named("passwd")), format!("group {}", named("group")));
    for wanted in ["master k6t-eth0", "mtu 1450", "vnet_hdr on", "persist on", &user, &group] {
        assert!(tap.contains(wanted), "{wanted} is not in {tap}");
    }
    plug(&pod, &guest, "02:00:00:00:00:02", "10.0.2.2/24", "10.0.2.1");
    let at_guest = guest.listen("10.0.2.2:80");
    // From outside, to the pod's address: the guest sees the real sender.
    assert_eq!(heard(&at_guest, world.connect("10.99.0.2:80")), ip("10.99.0.1"));
    // From the pod itself.
    assert_eq!(heard(&at_guest, pod.connect("127.0.0.1:80")), ip("10.0.2.1"));
    // To the outside: the world sees the pod's address.
    let at_world = world.listen("10.99.0.1:8080");
    assert_eq!(heard(&at_world, guest.connect("10.99.0.1:8080")), ip("10.99.0.2"));
    // Repeating it changes nothing, also during a connection.
    let stream = world.connect("10.99.0.2:80");
    assert_eq!(prepare(&machine, &pod.process()).unwrap(), links);
    assert_eq!(heard(&at_guest, stream), ip("10.99.0.1"));
}

#[test]
fn named_ports_alone_are_let_in() {
    let Some((world, pod, guest)) = spaces() else { return };
    let mut machine = machine("masquerade");
    let port = |number, last| {
        let protocol = api::machine::network::Protocol::Tcp;
        api::machine::network::Port { name: None, number, last, protocol }
    };
    machine.interfaces[0].ports = vec![port(80, 80), port(90, 92)];
    prepare(&machine, &pod.process()).unwrap();
    plug(&pod, &guest, "02:00:00:00:00:02", "10.0.2.2/24", "10.0.2.1");
    let (at_guest, at_pod) = (guest.listen("10.0.2.2:80"), pod.listen("10.99.0.2:81"));
    assert_eq!(heard(&at_guest, world.connect("10.99.0.2:80")), ip("10.99.0.1"));
    // Each port of a range.
    let in_range = ["90", "91", "92"].map(|port| (guest.listen(&format!("10.0.2.2:{port}")), port));
    for (at_guest, port) in &in_range {
        assert_eq!(heard(at_guest, world.connect(&format!("10.99.0.2:{port}"))), ip("10.99.0.1"));
    }
    let beyond = pod.listen("10.99.0.2:93");
    assert_eq!(heard(&beyond, world.connect("10.99.0.2:93")), ip("10.99.0.1"));
    // Every other port is the pod's own.
    assert_eq!(heard(&at_pod, world.connect("10.99.0.2:81")), ip("10.99.0.1"));
    // Rules of other programs in the same table stay.
    let nft = |words: &str| {
        let id = pod.id().to_string();
        Command::new("nsenter").args(["--net", "-t", &id, "nft"]).args(words.split(' ')).output()
    };
    let Ok(made) = nft("add chain ip nat OTHERS") else { return };
    assert!(made.status.success());
    prepare(&machine, &pod.process()).unwrap();
    let listed = String::from_utf8(nft("list table ip nat").unwrap().stdout).unwrap();
    assert!(listed.contains("chain OTHERS"), "{listed}");
    assert_eq!(listed.matches("tcp dport 80").count(), 3, "{listed}");
}

#[test]
fn as_many_ports_as_an_interface_may_name_are_let_in() {
    let Some((world, pod, guest)) = spaces() else { return };
    let mut machine = machine("masquerade");
    let most = u16::try_from(api::machine::network::MOST_PORTS).unwrap();
    let range = |at: u16| {
        let protocol = api::machine::network::Protocol::Tcp;
        api::machine::network::Port { name: None, number: 2000 + 4 * at, last: 2001 + 4 * at, protocol }
    };
    machine.interfaces[0].ports = (0..most).map(range).collect();
    // Again, as after a restart of virt-handler.
    let links = prepare(&machine, &pod.process()).unwrap();
    assert_eq!(prepare(&machine, &pod.process()).unwrap(), links);
    plug(&pod, &guest, "02:00:00:00:00:02", "10.0.2.2/24", "10.0.2.1");
    for port in [2000, 2001 + 4 * (most - 1)] {
        let at_guest = guest.listen(&format!("10.0.2.2:{port}"));
        assert_eq!(heard(&at_guest, world.connect(&format!("10.99.0.2:{port}"))), ip("10.99.0.1"));
    }
    let beyond = pod.listen("10.99.0.2:2002");
    assert_eq!(heard(&beyond, world.connect("10.99.0.2:2002")), ip("10.99.0.1"));
}

/// Without a running mesh: the kernel accepts the rules, and the sidecar's ports stay the pod's.
#[test]
fn the_rules_for_a_mesh_are_taken_and_its_ports_stay_its_own() {
    let Some((world, pod, guest)) = spaces() else { return };
    let mut machine = machine("masquerade");
    machine.mesh = true;
    let links = prepare(&machine, &pod.process()).unwrap();
    assert_eq!(prepare(&machine, &pod.process()).unwrap(), links);
    plug(&pod, &guest, "02:00:00:00:00:02", "10.0.2.2/24", "10.0.2.1");
    // Connections of the sidecar to the pod's address reach the guest.
    let at_guest = guest.listen("10.0.2.2:80");
    assert_eq!(heard(&at_guest, pod.connect("10.99.0.2:80")), ip("10.99.0.2"));
    // The sidecar redirects packets from the world; without a sidecar they stay at the pod.
    let at_pod = pod.listen("10.99.0.2:81");
    assert_eq!(heard(&at_pod, world.connect("10.99.0.2:81")), ip("10.99.0.1"));
    let ssh = guest.listen("10.0.2.2:22");
    assert_eq!(heard(&ssh, world.connect("10.99.0.2:22")), ip("10.99.0.1"));
    let of_sidecar = pod.listen("127.0.0.1:15000");
    assert_eq!(heard(&of_sidecar, pod.connect("127.0.0.1:15000")), ip("127.0.0.1"));
}

/// A guest without a loopback of its own: it sends packets for loopback addresses to its router, also in
/// their name.
#[test]
fn a_guest_behind_a_masquerade_does_not_reach_the_loopback_of_its_pod() {
    let Some((_world, pod, guest)) = spaces() else { return };
    let machine = machine("masquerade");
    let links = prepare(&machine, &pod.process()).unwrap();
    plug(&pod, &guest, "02:00:00:00:00:02", "10.0.2.2/24", "10.0.2.1");
    guest.ip("addr del 127.0.0.1/8 dev lo");
    let accepts = || std::fs::write("/proc/sys/net/ipv4/conf/eth0/route_localnet", "1");
    namespace::run_in_namespace(&guest.process(), || Ok(accepts())).unwrap().unwrap();
    guest.ip("route add 127.0.0.0/8 via 10.0.2.1");
    guest.ip("addr add 127.8.8.8/32 dev eth0");
    let addresses = ["127.0.0.1:15000", "127.9.9.9:15000"];
    let at_pod = addresses.map(|address| pod.listen(address));
    let no_answer = |address: &str| match guest.dial(address, Duration::from_secs(2)) {
        Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::TimedOut, "{address}: {e}"),
        Ok(_) => panic!("the guest reaches {address} of the pod"),
    };
    addresses.into_iter().for_each(no_answer);
    let hears =
        namespace::run_in_namespace(&pod.process(), || Ok(UdpSocket::bind("0.0.0.0:8125").unwrap())).unwrap();
    hears.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let told_by = |sender: &str| {
        let send = || Ok(UdpSocket::bind(sender).unwrap().send_to(b"hello", "10.0.2.1:8125").unwrap());
        namespace::run_in_namespace(&guest.process(), send).unwrap();
        hears.recv_from(&mut [0; 8]).map(|(_, from)| from.ip()).ok()
    };
    assert_eq!((told_by("10.0.2.2:0"), told_by("127.8.8.8:0")), (Some(ip("10.0.2.2")), None));
    // The pod's connections to it reach the guest, and are answered.
    let at_guest = guest.listen("10.0.2.2:80");
    assert_eq!(heard(&at_guest, pod.connect("127.0.0.1:80")), ip("10.0.2.1"));
    // A program that listens on every address of the pod is reachable for the guest at the router's address,
    // as documented.
    let for_all = pod.listen("0.0.0.0:15021");
    assert_eq!(heard(&for_all, guest.connect("10.0.2.1:15021")), ip("10.0.2.2"));
    // Our rule keeps the guest out: with an empty chain in its place, all of this passes.
    let chain = rules::Chain { name: "prerouting", hook: Some(rules::Hook::Raw), rules: vec![] };
    let open = rules::Table { name: "coracle", v6: false, chains: vec![chain] };
    let put = || netlink::rules::replace_chains(&mut netlink::Socket::netfilter().unwrap(), &open);
    namespace::run_in_namespace(&pod.process(), || Ok(put())).unwrap().unwrap();
    for (address, at_pod) in addresses.iter().zip(&at_pod) {
        assert_eq!(heard(at_pod, guest.connect(address)), ip("10.0.2.2"));
    }
    assert_eq!(told_by("127.8.8.8:0"), Some(ip("127.8.8.8")));
    assert_eq!(prepare(&machine, &pod.process()).unwrap(), links);
    no_answer(addresses[0]);
}

/// The guest's kernel accepts the route, and reaches the pod with the address that DHCPv6 would assign.
#[test]
fn a_guest_hears_of_its_router_and_reaches_the_world_in_ipv6() {
    let Some((world, pod, guest)) = spaces() else { return };
    if !std::path::Path::new("/proc/net/if_inet6").exists() {
        eprintln!("skipped: the kernel has no IPv6");
        return;
    }
    world.ip("addr add fd00:99::1/64 dev eth0 nodad");
    pod.ip("addr add fd00:99::2/64 dev eth0 nodad");
    let machine = machine("masquerade");
    prepare(&machine, &pod.process()).unwrap();
    plug(&pod, &guest, "02:00:00:00:00:02", "10.0.2.2/24", "10.0.2.1");
    guest.ip("addr add fd10:0:2::2/128 dev eth0 nodad");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let all = advertisers(&machine, &pod.process()).unwrap();
    assert_eq!(all.len(), 1);
    let running = {
        let _inside = runtime.enter();
        Advertisers::start(all)
    };
    let began = Instant::now();
    let route = loop {
        let route = guest.ip("-6 route show default");
        if route.contains("via fe80") {
            break route;
        }
        assert!(began.elapsed() < PATIENCE, "no router was heard of: {route}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(route.contains("proto ra"), "{route}");
    let at_world = world.listen("[fd00:99::1]:8080");
    assert_eq!(heard(&at_world, guest.connect("[fd00:99::1]:8080")), ip("fd00:99::2"));
    drop(running);
    // A pod without IPv6 has no router.
    pod.ip("addr del fd00:99::2/64 dev eth0");
    assert!(advertisers(&machine, &pod.process()).unwrap().is_empty());
}

/// A neighbour that uses the pod as a router reaches only what the manifest permits.
#[test]
fn a_neighbour_on_the_segment_reaches_named_ports_alone() {
    let Some((world, pod, guest)) = spaces() else { return };
    let has_v6 = std::path::Path::new("/proc/net/if_inet6").exists();
    if has_v6 {
        world.ip("addr add fd00:99::1/64 dev eth0 nodad");
        pod.ip("addr add fd00:99::2/64 dev eth0 nodad");
    }
    let mut machine = machine("masquerade");
    let protocol = api::machine::network::Protocol::Tcp;
    machine.interfaces[0].ports =
        vec![api::machine::network::Port { name: None, number: 80, last: 80, protocol }];
    prepare(&machine, &pod.process()).unwrap();
    plug(&pod, &guest, "02:00:00:00:00:02", "10.0.2.2/24", "10.0.2.1");
    // Another address that the guest has set itself.
    guest.ip("addr add 10.0.2.9/24 dev eth0");
    world.ip("route add 10.0.2.0/24 via 10.99.0.2");
    let at_guest = guest.listen("0.0.0.0:80");
    let beside = guest.listen("0.0.0.0:81");
    assert_eq!(heard(&at_guest, world.connect("10.99.0.2:80")), ip("10.99.0.1"));
    let mut hidden = vec!["10.0.2.2:80", "10.0.2.2:81", "10.0.2.9:81"];
    let at_guest6 = has_v6.then(|| {
        guest.ip("addr add fd10:0:2::2/120 dev eth0 nodad");
        guest.ip("addr add fd10:0:2::9/120 dev eth0 nodad preferred_lft 0");
        guest.ip("-6 route add default via fd10:0:2::1");
        world.ip("-6 route add fd10:0:2::/120 via fd00:99::2");
        hidden.extend(["[fd10:0:2::2]:80", "[fd10:0:2::2]:81", "[fd10:0:2::9]:81"]);
        let at_guest = guest.listen("[fd10:0:2::2]:80");
        assert_eq!(heard(&at_guest, world.connect("[fd00:99::2]:80")), ip("fd00:99::1"));
        (at_guest, guest.listen("[::]:82"))
    });
    for address in hidden {
        let reached = world.dial(address, Duration::from_secs(2));
        assert!(reached.is_err(), "a neighbour reaches {address} of the guest");
    }
    // The guest's connections to the outside are answered, and the pod itself reaches all ports of its guest.
    let at_world = world.listen("10.99.0.1:8080");
    assert_eq!(heard(&at_world, guest.connect("10.99.0.1:8080")), ip("10.99.0.2"));
    assert_eq!(heard(&beside, pod.connect("10.0.2.2:81")), ip("10.0.2.1"));
    if at_guest6.is_some() {
        let at_world = world.listen("[fd00:99::1]:8080");
        assert_eq!(heard(&at_world, guest.connect("[fd00:99::1]:8080")), ip("fd00:99::2"));
    }
}

#[test]
fn the_pod_forwards_nothing_but_its_guests_packets() {
    let Some((world, pod, guest)) = spaces() else { return };
    // Another network that the pod is in.
    let other = Space::new();
    pod.ip(&format!("link add net1 type veth peer name net1 netns {}", other.id()));
    for (space, address) in [(&pod, "10.98.0.1/24"), (&other, "10.98.0.2/24")] {
        space.ip(&format!("addr add {address} dev net1"));
        space.ip("link set net1 up");
    }
    other.ip("route add default via 10.98.0.1");
    world.ip("route add 10.98.0.0/24 via 10.99.0.2");
    world.ip("route add 192.0.2.0/24 via 10.99.0.2");
    let mut machine = machine("masquerade");
    let protocol = api::machine::network::Protocol::Tcp;
    machine.interfaces[0].ports =
        vec![api::machine::network::Port { name: None, number: 80, last: 80, protocol }];
    prepare(&machine, &pod.process()).unwrap();
    plug(&pod, &guest, "02:00:00:00:00:02", "10.0.2.2/24", "10.0.2.1");
    // Packets with a source other than the guest's address: the first that the world receives is the pod's.
    guest.ip("addr add 192.0.2.7/32 dev eth0");
    let bound = |space: &Space, address: &'static str| {
        namespace::run_in_namespace(&space.process(), || Ok(UdpSocket::bind(address).unwrap())).unwrap()
    };
    let hears = bound(&world, "10.99.0.1:8125");
    hears.set_read_timeout(Some(PATIENCE)).unwrap();
    for sender in ["192.0.2.7:0", "10.0.2.2:0"] {
        bound(&guest, sender).send_to(b"hello", "10.99.0.1:8125").unwrap();
    }
    assert_eq!(hears.recv_from(&mut [0; 8]).unwrap().1.ip(), ip("10.99.0.2"));
    // Neighbours of either network send through the pod to the other one; one uses the guest's address.
    let (_at_world, _at_other) = (world.listen("10.99.0.1:8080"), other.listen("10.98.0.2:8080"));
    for (space, address) in [(&world, "10.98.0.2:8080"), (&other, "10.99.0.1:8080")] {
        let reached = space.dial(address, Duration::from_secs(2));
        assert!(reached.is_err(), "a neighbour reaches {address} through the pod");
    }
    other.ip("addr add 10.0.2.2/32 dev net1");
    bound(&other, "10.0.2.2:0").send_to(b"not me", "10.99.0.1:8125").unwrap();
    bound(&guest, "10.0.2.2:0").send_to(b"me", "10.99.0.1:8125").unwrap();
    let mut said = [0; 8];
    let (size, from) = hears.recv_from(&mut said).unwrap();
    assert_eq!((&said[..size], from.ip()), (&b"me"[..], ip("10.99.0.2")));
    // The guest reaches the pod's other network, as the pod.
    let at_other = other.listen("10.98.0.2:8081");
    assert_eq!(heard(&at_other, guest.connect("10.98.0.2:8081")), ip("10.98.0.1"));
}

/// The kernel's own errors come back, however many rules fail.
#[test]
fn a_batch_that_fails_changes_nothing_and_says_why() {
    let Some((_world, pod, _guest)) = spaces() else { return };
    let jump = || rules::Rule { matches: vec![], verdict: rules::Verdict::Jump("NOWHERE") };
    let chain = rules::Chain { name: "HERE", hook: None, rules: (0..1500).map(|_| jump()).collect() };
    let wrong = rules::Table { name: "nat", v6: false, chains: vec![chain] };
    let chains = vec![rules::Chain { rules: vec![], ..wrong.chains[0].clone() }];
    let right = rules::Table { chains, ..wrong.clone() };
    let (failed, then) = namespace::run_in_namespace(&pod.process(), || {
        let mut socket = netlink::Socket::netfilter().unwrap();
        let failed = netlink::rules::replace_chains(&mut socket, &wrong).unwrap_err();
        // Left-over answers do not block the next request, and are not taken for its answer.
        Ok((failed.kind(), netlink::rules::replace_chains(&mut socket, &right).is_ok()))
    })
    .unwrap();
    assert_eq!((failed, then), (std::io::ErrorKind::NotFound, true));
}

#[test]
fn on_a_bridge_the_guest_takes_the_pods_place() {
    let Some((world, pod, guest)) = spaces() else { return };
    let machine = machine("bridge");
    let links = prepare(&machine, &pod.process()).unwrap();
    let Some(Link::Tap { mac, dhcp: Some(lease), .. }) = links.get("default") else { panic!("{links:?}") };
    assert_eq!((mac.as_str(), lease.address.to_string()), ("0a:58:0a:63:00:02", "10.99.0.2".into()));
    assert_eq!(lease.router.map(IpAddr::from), Some(ip("10.99.0.1")));
    let stand_in = pod.ip("-d addr show eth0");
    for wanted in ["alias coracle 0.0.0.0/0>10.99.0.1", "0a:58:0a:63:00:02", "10.99.0.2/24"] {
        assert!(stand_in.contains(wanted), "{wanted} is not in {stand_in}");
    }
    plug(&pod, &guest, mac, "10.99.0.2/24", "10.99.0.1");
    let at_guest = guest.listen("10.99.0.2:80");
    assert_eq!(heard(&at_guest, world.connect("10.99.0.2:80")), ip("10.99.0.1"));
    let at_world = world.listen("10.99.0.1:8080");
    assert_eq!(heard(&at_world, guest.connect("10.99.0.1:8080")), ip("10.99.0.2"));
    // The card has no settings any more; the earlier ones are found again.
    assert_eq!(prepare(&machine, &pod.process()).unwrap(), links);
}

/// The second card is a veth in place of what a plugin of Multus makes: no addresses, and a name that follows from `blue`.
#[test]
fn on_a_network_of_multus_the_guest_has_a_card_beside_the_pods() {
    let Some((world, pod, guest)) = spaces() else { return };
    let object = serde_json::json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": "ns"},
        "spec": {
            "domain": {
                "memory": {"guest": "64Mi"}, "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"interfaces": [{"name": "blue", "bridge": {}}, {"name": "default", "masquerade": {}}]}
            },
            "networks": [{"name": "default", "pod": {}}, {"name": "blue", "multus": {"networkName": "shared/lan"}}]
        }
    });
    let machine =
        Machine::check_again(&api::wire::read::<api::vmi::VirtualMachineInstance>(object).unwrap()).unwrap();
    let error = prepare(&machine, &pod.process()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "it may come");
    for words in
        ["no card pod16477688c0e", "Network blue", "NetworkAttachmentDefinition shared/lan", "network-status"]
    {
        assert!(error.to_string().contains(words), "{words} is not in {error}");
    }
    let untouched = |link: &str| !pod.ip("link show").contains(link);
    assert!(untouched("k6t-"), "all plans come first");

    world.ip(&format!("link add lan type veth peer name pod16477688c0e netns {}", pod.id()));
    world.ip("addr add 192.0.2.1/24 dev lan");
    world.ip("link set lan mtu 1400 up");
    pod.ip("link set pod16477688c0e address 0a:58:00:00:00:07 mtu 1400 up");
    let links = prepare(&machine, &pod.process()).unwrap();
    let Some(Link::Tap { name, mac, mtu, dhcp, .. }) = links.get("blue") else { panic!("{links:?}") };
    assert_eq!((name.as_str(), *mtu, dhcp), ("tap16477688c0e", Some(1400), &None));
    assert_eq!(mac, "0a:58:00:00:00:07");
    assert!(pod.ip("link show tap16477688c0e").contains("master k6t-16477688c0e"));
    assert!(pod.ip("addr show eth0").contains("10.99.0.2/24"), "the pod's own card is as it was");
    // The guest sends on the wire of that network with the card's MAC address, and any IP address.
    pod.ip(&format!("link add guest type veth peer name eth1 netns {}", guest.id()));
    pod.ip("link set guest master k6t-16477688c0e up");
    guest.ip(&format!("link set eth1 address {mac} up"));
    guest.ip("addr add 192.0.2.9/24 dev eth1");
    let at_guest = guest.listen("192.0.2.9:80");
    assert_eq!(heard(&at_guest, world.connect("192.0.2.9:80")), ip("192.0.2.1"));
    let at_world = world.listen("192.0.2.1:8080");
    assert_eq!(heard(&at_world, guest.connect("192.0.2.1:8080")), ip("192.0.2.9"));
    assert_eq!(prepare(&machine, &pod.process()).unwrap(), links, "once more changes nothing");
}

/// The tap is as a CNI plugin leaves it.
#[test]
fn the_tap_of_a_binding_plugin_is_taken_as_it_is() {
    let Some((_world, pod, _guest)) = spaces() else { return };
    let mut machine = machine("bridge");
    machine.interfaces[0].binding = Binding::Tap;
    let error = prepare(&machine, &pod.process()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(
        error
            .to_string()
            .contains("did not create a tap device: tap0 does not exist, and eth0 is not a tap device"),
        "{error}"
    );
    pod.ip("tuntap add dev tap0 mode tap user 107");
    let before = pod.ip("link show");
    let links = prepare(&machine, &pod.process()).unwrap();
    let Some(Link::Tap { name, mac, dhcp: None, dhcp6: None, .. }) = links.get("default") else {
        panic!("{links:?}")
    };
    assert_eq!((name.as_str(), mac.as_str()), ("tap0", "0a:58:0a:63:00:02"));
    assert_eq!(pod.ip("link show"), before, "nothing is made beside it");
}

#[test]
fn whoever_was_killed_while_a_card_was_put_aside_goes_on() {
    let Some((_world, pod, _guest)) = spaces() else { return };
    let machine = machine("bridge");
    // A dummy without a note is half made: all settings are still on the card.
    pod.ip("link add eth0-kep type bridge");
    let card = |process: &Process| {
        namespace::run_in_namespace(process, || look::card(&mut netlink::Socket::route().unwrap(), "eth0"))
            .unwrap()
    };
    let before = card(&pod.process());
    assert_eq!(before.routes.len(), 1);
    let wanted = prepare(&machine, &pod.process()).unwrap();
    assert_eq!(card(&pod.process()), before);
    // Back to the point where the dummy has all settings, and the card is down without its routes under its
    // old name.
    pod.ip("link set eth0-nic down");
    pod.ip("link set eth0-nic nomaster");
    pod.ip("link set eth0 name eth0-kep");
    pod.ip("link set eth0-nic name eth0");
    assert_eq!(card(&pod.process()), before);
    assert_eq!(prepare(&machine, &pod.process()).unwrap(), wanted);
    assert!(pod.ip("link show eth0-nic").contains("master k6t-eth0"));
}

#[test]
fn the_nodes_own_network_is_never_touched() {
    let error =
        prepare(&machine("masquerade"), &Process::of(std::process::id()).unwrap()).unwrap_err().to_string();
    assert!(error.contains("node's own network"), "{error}");
}

#[test]
fn a_card_that_is_not_there_is_named() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root may make networks");
        return;
    }
    let error = prepare(&machine("masquerade"), &Space::new().process()).unwrap_err().to_string();
    assert!(error.contains("no card eth0"), "{error}");
}
