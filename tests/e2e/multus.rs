//! Cards on networks of Multus: of one NetworkAttachmentDefinition, of one of another namespace, of one with addresses, of
//! one in place of the cluster's network, and of one that is not there. (The cluster's plug-in `networks` stands in for
//! Multus; it reads and writes the same annotations.)

use crate::reasons::told;
use crate::{tiny, with_spec};
use tests::cluster::{Space, until};

/// The pod's card on a network called `lan`.
const CARD: &str = "pod094a367b026";

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

/// A VM with a second card, on the node where the bridge of the others is.
fn joined(name: &str, network: &str, more: &str) -> String {
    let (interface, pod) = ("            masquerade: {}\n", "        pod: {}\n");
    let vm = tiny(name, "Always")
        .replace(interface, &format!("{interface}          - name: lan\n            bridge: {{}}\n{more}"))
        .replace(pod, &format!("{pod}      - name: lan\n        multus: {{networkName: {network}}}\n"));
    with_spec(&vm, "      nodeSelector: {kubernetes.io/hostname: node1}\n")
}

#[test]
fn two_vms_on_one_network_reach_each_other_on_their_second_cards() {
    let Some(space) = Space::new("multus") else { return };
    let Some(shared) = Space::new("multus-shared") else { return };
    // One names the definition from its own namespace, the other one of another: both are the same bridge.
    space.apply(&definition("lan", "lan0", ""));
    shared.apply(&definition("wan", "lan0", ""));
    let mac = "02:00:00:00:00:2a";
    space.apply(&joined("one", "lan", &format!("            macAddress: {mac}\n")));
    space.apply(&joined("two", &format!("{}/wan", shared.name), ""));
    let mut one = space.console_when_ready("one");
    one.log_in();
    one.types("cat /sys/class/net/eth1/address").says(mac);
    one.types("ip addr add 192.0.2.1/24 dev eth1; ip link set eth1 up");
    let mut two = space.console_when_ready("two");
    two.log_in();
    two.types("ip addr add 192.0.2.2/24 dev eth1; ip link set eth1 up");
    two.types("ping -c 1 -w 120 192.0.2.1 >/dev/null && echo reached-it | tr a-z A-Z").says("REACHED-IT");
    one.types("ping -c 1 -w 120 192.0.2.2 >/dev/null && echo reached-it | tr a-z A-Z").says("REACHED-IT");
    // The first card is as it was.
    one.types("until ip -4 addr show eth0 | grep inet; do sleep 1; done").says("inet 10.0.2.2/24");

    let lan = |field: &str| space.get("vmi/one", &format!(".status.interfaces[?(@.name==\"lan\")].{field}"));
    assert_eq!((lan("podInterfaceName"), lan("mac")), (CARD.into(), mac.into()));
    until(
        || lan("infoSource").contains("domain") && lan("infoSource").contains("multus-status"),
        || lan("infoSource"),
    );
    assert_eq!(lan("ipAddress"), "", "nobody but the guest knows its address");
    let note = ".metadata.annotations.k8s\\.v1\\.cni\\.cncf\\.io/networks";
    let wanted = space.get(&format!("pod/{}", space.pod_of("two")), note);
    assert!(wanted.contains(&format!("\"namespace\":\"{}\"", shared.name)), "{wanted}");
}

#[test]
fn a_definition_with_addresses_gives_the_guest_one() {
    let Some(space) = Space::new("multus-ipam") else { return };
    let ipam = r#", "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": "198.51.100.0/24"}]]}"#;
    let name = format!(r#", "name": "{}"{ipam}"#, space.name);
    space.apply(&definition("lan", "lan1", &name));
    space.apply(&joined("web", "lan", ""));
    let mut console = space.console_when_ready("web");
    console.log_in();
    console.types("until ip -4 addr show eth1 | grep inet; do sleep 1; done").says("inet 198.51.100.");
    // The VM is reached by its first card, whatever the second has.
    let pod = space.get(&format!("pod/{}", space.pod_of("web")), ".status.podIP");
    assert_eq!(space.get("vmi/web", ".status.interfaces[0].ipAddress"), pod);
}

#[test]
fn a_network_in_place_of_the_clusters_is_the_guests_first() {
    let Some(space) = Space::new("multus-default") else { return };
    let ipam = r#", "isGateway": true, "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": "203.0.113.0/24"}]]}"#;
    space.apply(&definition("lan", "lan2", &format!(r#", "name": "{}"{ipam}"#, space.name)));
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
