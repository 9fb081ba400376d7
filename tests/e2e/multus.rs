//! Cards on networks of Multus: of two NetworkAttachmentDefinitions in one VM, of one of another namespace, of one with
//! addresses and a MAC spoof filter, of one in place of the cluster's network, and of one that is not there. (The cluster's
//! plug-in `networks` stands in for Multus; it reads and writes the same annotations.)

use crate::reasons::told;
use crate::{tiny, with_spec};
use serde_json::{Value, json};
use tests::cluster::{Space, until};
use tests::coracle::Ran;
use tests::serial::Serial;

/// The pod's card on a network called `lan`, and that on `man`.
const CARDS: [&str; 2] = ["pod094a367b026", "pod48b676e2b10"];

/// What a pod asks for, and what it has.
const WANTED: &str = ".metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/networks";
const ATTACHED: &str = ".metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/network-status";

/// A pod on the network `lan`, on the node where the bridge of the VMs is.
const NEIGHBOUR: &str = "
apiVersion: v1
kind: Pod
metadata: {name: neighbour, annotations: {k8s.v1.cni.cncf.io/networks: lan}}
spec:
  nodeName: node1
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: 'registry:5000/busybox:1', command: [sleep, infinity]}]
";

/// A definition: a bridge on the node, and these further settings of it.
fn definition(name: &str, bridge: &str, settings: &str) -> String {
    format!(
        "
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {{name: {name}}}
spec:
  config: '{{\"cniVersion\": \"1.0.0\", \"type\": \"bridge\", \"bridge\": \"{bridge}\"{settings}}}'
"
    )
}

/// The settings of a definition that gives addresses of this network.
fn addresses(space: &Space, subnet: &str) -> String {
    let ipam = json!({"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": subnet}]]});
    format!(r#", "name": "{}", "ipam": {ipam}"#, space.name)
}

/// A VM with a second card, on the node where the bridge of the others is.
fn joined(name: &str, network: &str, more: &str) -> String {
    let vm = with_card(&tiny(name, "Always"), "lan", network, more);
    with_spec(&vm, "      nodeSelector: {kubernetes.io/hostname: node1}\n")
}

/// The same VM with one card more, behind the others.
fn with_card(vm: &str, name: &str, network: &str, more: &str) -> String {
    let (interfaces, networks) = vm.split_once("      networks:\n").unwrap();
    format!(
        "{interfaces}          - name: {name}\n            bridge: {{}}\n{more}      networks:\n{networks}      - name: {name}\n        \
         multus: {{networkName: {network}}}\n"
    )
}

/// The guest sends from this MAC on its second card from now on.
#[track_caller]
fn sends_from(console: &mut Serial, mac: &str) {
    let (card, said) = ("ip link set eth1", "cat /sys/class/net/eth1/address");
    let change = format!("{card} down; {card} address {mac}; {card} up; {said}");
    assert_eq!(console.runs(&change).trim(), mac);
}

/// The guest reaches this address, at last.
#[track_caller]
fn reaches(console: &mut Serial, address: &str) {
    let ping = format!("until ping -c 1 -W 5 {address} >/dev/null; do sleep 1; done; echo reached-it");
    assert_eq!(console.runs(&ping), "reached-it\n");
}

#[test]
fn two_vms_on_one_network_reach_each_other_on_their_second_cards() {
    let Some(space) = Space::new("multus") else { return };
    let Some(shared) = Space::new("multus-shared") else { return };
    // One names the definition from its own namespace, the other one of another: both are the same bridge.
    space.apply(&definition("lan", "lan0", ""));
    shared.apply(&definition("wan", "lan0", ""));
    // And one has a third card, on a network of its own.
    space.apply(&definition("man", "lan4", &addresses(&space, "198.18.0.0/24")));
    let mac = "02:00:00:00:00:2a";
    let one = joined("one", "lan", &format!("            macAddress: {mac}\n"));
    space.apply(&with_card(&one, "man", "man", ""));
    space.apply(&joined("two", &format!("{}/wan", shared.name), ""));
    let mut one = space.console_when_ready("one");
    one.log_in();
    one.types("cat /sys/class/net/eth1/address").says(mac);
    one.types("ip addr add 192.0.2.1/24 dev eth1; ip link set eth1 up");
    let mut two = space.console_when_ready("two");
    two.log_in();
    two.types("ip addr add 192.0.2.2/24 dev eth1; ip link set eth1 up");
    reaches(&mut two, "192.0.2.1");
    reaches(&mut one, "192.0.2.2");
    // The other cards are what they were.
    one.types("until ip -4 addr show eth0 | grep inet; do sleep 1; done").says("inet 10.0.2.2/24");
    one.types("until ip -4 addr show eth2 | grep inet; do sleep 1; done").says("inet 198.18.0.");

    let of = |card: &str, field: &str| {
        space.get("vmi/one", &format!(".status.interfaces[?(@.name==\"{card}\")].{field}"))
    };
    let cards = ["lan", "man"].map(|card| of(card, "podInterfaceName"));
    assert_eq!((cards, of("lan", "mac")), (CARDS.map(str::to_owned), mac.into()));
    for card in ["lan", "man"] {
        let source = || of(card, "infoSource");
        until(|| source().contains("domain") && source().contains("multus-status"), source);
    }
    assert_eq!(of("lan", "ipAddress"), "", "nobody but the guest knows its address");
    let wanted = space.get(&format!("pod/{}", space.pod_of("two")), WANTED);
    assert!(wanted.contains(&format!("\"namespace\":\"{}\"", shared.name)), "{wanted}");

    // Where no filter is asked for, a guest may send from any MAC.
    sends_from(&mut one, "02:00:00:00:00:66");
    reaches(&mut one, "192.0.2.2");
    is_unplugged_and_plugged_in(&space, &mut one);
    reaches(&mut one, "192.0.2.2");
    goes_with_the_next_start(&space, &mut one);
}

/// Writes the state of an interface into the VM `one`.
fn state(space: &Space, interface: usize, state: &str) -> Ran {
    let path = format!("/spec/template/spec/domain/devices/interfaces/{interface}/state");
    let change = json!([{"op": "add", "path": path, "value": state}]).to_string();
    space.try_run(&["patch", "vm/one", "--type", "json", "-p", &change])
}

/// The cable of the second card, as the guest sees it and the VMI says it; nothing is started anew for it.
fn is_unplugged_and_plugged_in(space: &Space, one: &mut Serial) {
    for (word, carrier) in [("down", "0"), ("up", "1")] {
        state(space, 1, word).ok();
        let seen = format!("until grep -x {carrier} /sys/class/net/eth1/carrier; do sleep 1; done");
        assert_eq!(one.runs(&seen).trim(), carrier);
        space.says("vmi/one", ".status.interfaces[?(@.name==\"lan\")].linkState", word);
    }
    let restart = space.get("vm/one", ".status.conditions[?(@.type==\"RestartRequired\")].status");
    assert_eq!(restart, "");
}

/// An interface that is to be absent stays until then.
fn goes_with_the_next_start(space: &Space, one: &mut Serial) {
    let refused = state(space, 0, "absent");
    let why = "interface's state \"absent\" is not supported on default networks";
    assert!(refused.code != 0 && refused.err.contains(why), "{}", refused.err);
    state(space, 2, "absent").ok();
    space.has("vm/one", "RestartRequired", "True");
    assert!(one.runs("ls /sys/class/net").contains("eth2"));
    let uid = space.get("vmi/one", ".metadata.uid");
    space.run(&["delete", "vmi/one", "--wait=false"]);
    space.another("vmi/one", &uid);
    let own = format!("kubevirt.io/created-by={}", space.get("vmi/one", ".metadata.uid"));
    let cards = format!("jsonpath={{.items[*]{WANTED}}}");
    let cards = || space.run(&["get", "pods", "-l", &own, "-o", &cards]);
    until(|| !cards().is_empty(), || "there is no other pod".to_owned());
    assert_eq!(CARDS.map(|card| cards().contains(card)), [true, false], "{}", cards());
    space.has("vm/one", "RestartRequired", "");
}

#[test]
fn a_definition_with_addresses_gives_the_guest_one_and_its_filter_drops_forged_macs() {
    let Some(space) = Space::new("multus-ipam") else { return };
    let can_filter = space.cluster.on_node(1, &["nft", "--check", "add table bridge nat"]);
    let filter = if can_filter.code == 0 { r#", "macspoofchk": true"# } else { "" };
    let settings = format!("{filter}{}", addresses(&space, "198.51.100.0/24"));
    space.apply(&definition("lan", "lan1", &settings));
    space.apply(NEIGHBOUR);
    space.apply(&joined("web", "lan", ""));
    let mut console = space.console_when_ready("web");
    console.log_in();
    console.types("until ip -4 addr show eth1 | grep inet; do sleep 1; done").says("inet 198.51.100.");
    // The VM is reached by its first card, whatever the second has.
    let pod = space.get(&format!("pod/{}", space.pod_of("web")), ".status.podIP");
    assert_eq!(space.get("vmi/web", ".status.interfaces[0].ipAddress"), pod);

    let neighbour = address_of_neighbour(&space);
    reaches(&mut console, &neighbour);
    if filter.is_empty() {
        eprintln!("skipped: the node's kernel filters no MACs on bridges: {}", can_filter.err);
        return;
    }
    let own = console.runs("cat /sys/class/net/eth1/address");
    sends_from(&mut console, "02:00:00:00:00:66");
    let ping = format!("ping -c 3 -W 5 {neighbour} >/dev/null && echo heard || echo dropped");
    assert_eq!(console.runs(&ping), "dropped\n");
    sends_from(&mut console, own.trim());
    reaches(&mut console, &neighbour);
}

/// The address of the other pod on the network `lan`.
fn address_of_neighbour(space: &Space) -> String {
    space.has("pod/neighbour", "Ready", "True");
    let cards: Value = serde_json::from_str(&space.get("pod/neighbour", ATTACHED)).unwrap();
    cards[1]["ips"][0].as_str().unwrap().to_owned()
}

#[test]
fn a_network_in_place_of_the_clusters_is_the_guests_first() {
    let Some(space) = Space::new("multus-default") else { return };
    let settings = format!(r#", "isGateway": true{}"#, addresses(&space, "203.0.113.0/24"));
    space.apply(&definition("lan", "lan2", &settings));
    let vm = tiny("web", "Always")
        .replace("masquerade: {}", "bridge: {}")
        .replace("        pod: {}\n", "        multus: {networkName: lan, default: true}\n");
    space.apply(&vm);
    let mut console = space.console_when_ready("web");
    console.log_in();
    let ip = space.get(&format!("pod/{}", space.pod_of("web")), ".status.podIP");
    assert!(ip.starts_with("203.0.113."), "{ip}");
    console.types("until ip -4 addr show eth0 | grep inet; do sleep 1; done").says(&format!("inet {ip}/"));
    assert_eq!(space.get("vmi/web", ".status.interfaces[0].podInterfaceName"), "eth0");
}

#[test]
fn a_definition_that_is_not_there_is_waited_for_by_name() {
    let Some(space) = Space::new("multus-none") else { return };
    space.apply(&joined("web", "lan", ""));
    told(&space, "Synchronized", &format!("{}/lan", space.name));
    assert_eq!(space.get("vmi/web", ".status.phase"), "Scheduling");
    // The kubelet tries again.
    space.apply(&definition("lan", "lan3", ""));
    space.console_when_ready("web").log_in();
}
