use super::*;
use crate::network::facts::Route;
use api::lease::Lease6;
use api::vmi::VirtualMachineInstance;
use serde_json::{Value, json};

fn machine(interface: &Value, network: &Value) -> Machine {
    let object = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": "ns"},
        "spec": {
            "domain": {
                "memory": {"guest": "64Mi"}, "cpu": {"cores": 2},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"interfaces": [interface]}
            },
            "networks": [network]
        }
    });
    let mut vmi: VirtualMachineInstance = api::wire::read(object).unwrap();
    vmi.spec.domain.devices.network_interface_multiqueue = None;
    Machine::check_again(&vmi).unwrap()
}

fn card(addresses: &[&str], routes: &[&str]) -> Card {
    Card {
        name: "eth0".into(),
        mac: "0a:58:0a:f4:01:05".parse().unwrap(),
        mtu: 1450,
        addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        routes: routes.iter().map(|text| text.parse::<Route>().unwrap()).collect(),
    }
}

fn planned(machine: &Machine, card: &Card) -> Result<NetworkPlan> {
    plan(&PlanInput { machine, interface: &machine.interfaces[0], position: 0, card, tap: None })
}

fn text(plan: &NetworkPlan) -> String {
    plan.steps.iter().map(|step| format!("{step}\n")).collect()
}

fn lease(plan: &NetworkPlan) -> Option<String> {
    let Link::Tap { dhcp, .. } = &plan.link else { panic!("no tap") };
    dhcp.as_ref().map(|lease| serde_json::to_string(lease).unwrap())
}

#[test]
fn masquerade_of_everything() {
    let machine =
        machine(&json!({"name": "default", "masquerade": {}}), &json!({"name": "default", "pod": {}}));
    let plan = planned(&machine, &card(&["10.244.1.5/24"], &["0.0.0.0/0>10.244.1.1"])).unwrap();
    let want = r#"bridge k6t-eth0 02:00:00:00:00:00 mtu 1450
address k6t-eth0 10.0.2.1/24
tap tap0 mtu 1450
join tap0 to k6t-eth0
up k6t-eth0
up tap0
lower ipv4/ip_unprivileged_port_start 67
table ip coracle
  prerouting: type filter hook prerouting priority -300
    iifname != "k6t-eth0" ip saddr 10.0.2.2 counter drop
    iifname != "k6t-eth0" ip daddr 10.0.2.2 counter drop
    iifname "k6t-eth0" ip saddr 127.0.0.0/8 counter drop
    iifname "k6t-eth0" ip daddr 127.0.0.0/8 counter drop
  forward: type filter hook forward priority 0
    iifname "k6t-eth0" ip saddr != 10.0.2.2 counter drop
    iifname "eth0" ip daddr != 10.0.2.2 counter drop
    oifname "k6t-eth0" ip daddr != 10.0.2.2 counter drop
    oifname "eth0" ip saddr != 10.0.2.2 counter drop
set ipv4/ip_forward 1
set ipv4/conf/k6t-eth0/route_localnet 1
table ip nat
  prerouting: type nat hook prerouting priority -100
    iifname "eth0" counter jump KUBEVIRT_PREINBOUND
  input: type nat hook input priority 100
  output: type nat hook output priority -100
    ip daddr 127.0.0.1 counter dnat to 10.0.2.2
  postrouting: type nat hook postrouting priority 100
    ip saddr 10.0.2.2 counter masquerade
    oifname "k6t-eth0" counter jump KUBEVIRT_POSTINBOUND
  KUBEVIRT_PREINBOUND:
    counter dnat to 10.0.2.2
  KUBEVIRT_POSTINBOUND:
    ip saddr 127.0.0.1 counter snat to 10.0.2.1
"#;
    assert_eq!(text(&plan), want);
    let told = r#"{"device":"k6t-eth0","server":"10.0.2.1","address":"10.0.2.2","prefix":24,"router":"10.0.2.1","routes":[]}"#;
    assert_eq!(lease(&plan).as_deref(), Some(told));
    // The guest recognizes its card after every start.
    let again = planned(&machine, &card(&["10.244.9.9/24"], &[])).unwrap();
    assert_eq!(again.link, plan.link);
}

#[test]
fn masquerade_of_ports_in_both_families() {
    let machine = machine(
        &json!({"name": "default", "masquerade": {}, "macAddress": "02:00:00:00:00:2a",
               "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}],
               "portRanges": [{"protocol": "TCP", "start": 5000, "end": 5009}]}),
        &json!({"name": "default", "pod": {"vmNetworkCIDR": "192.0.2.9/29", "vmIPv6NetworkCIDR": "fd00:9::/64"}}),
    );
    let plan = planned(&machine, &card(&["10.244.1.5/24", "fd00:244::5/64"], &[])).unwrap();
    let text = text(&plan);
    for line in [
        "address k6t-eth0 192.0.2.9/29",
        "address k6t-eth0 fd00:9::1/64",
        "    tcp dport 80 counter dnat to 192.0.2.10",
        "    tcp dport 5000-5009 counter dnat to 192.0.2.10",
        "    udp dport 53 counter dnat to 192.0.2.10",
        "    ip saddr 127.0.0.1 udp dport 53 counter snat to 192.0.2.9",
        "    ip daddr 127.0.0.1 tcp dport 80 counter dnat to 192.0.2.10",
        "set ipv6/conf/all/forwarding 1",
        "    tcp dport 80 counter dnat to fd00:9::2",
        "    ip6 saddr ::1 tcp dport 80 counter snat to fd00:9::1",
        "    ip6 saddr fd00:9::2 counter masquerade",
        "    iifname != \"k6t-eth0\" ip6 daddr fd00:9::2 counter drop",
        "    iifname \"k6t-eth0\" ip6 saddr != fd00:9::2 counter drop",
        "    oifname \"eth0\" ip6 saddr != fd00:9::2 counter drop",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("    counter dnat"), "{text}");
    let Link::Tap { mac, mtu, dhcp6, .. } = &plan.link else { panic!("no tap") };
    assert_eq!((mac.as_str(), *mtu), ("02:00:00:00:00:2a", Some(1450)));
    let told = Lease6 { device: "k6t-eth0".into(), address: "fd00:9::2".parse().unwrap() };
    assert_eq!(dhcp6.as_deref(), Some(&told));
}

#[test]
fn in_a_mesh_the_sidecar_stands_between_the_world_and_the_guest() {
    let lines = |ports: Value| {
        let mut machine = machine(
            &json!({"name": "default", "masquerade": {}, "ports": ports}),
            &json!({"name": "default", "pod": {}}),
        );
        machine.mesh = true;
        let text = text(&planned(&machine, &card(&["10.244.1.5/24", "fd00:244::5/64"], &[])).unwrap());
        text.split_once("table ip nat\n").unwrap().1.to_owned()
    };
    let all = lines(json!([]));
    let chain = |text: &str, name: &str| -> Vec<String> {
        let (_, rest) = text.split_once(&format!("  {name}:")).unwrap();
        let rules = rest.lines().skip(1).take_while(|line| line.starts_with("    "));
        rules.map(|line| line.trim().to_owned()).collect()
    };
    let output = chain(&all, "output");
    assert_eq!(output[0], "ip saddr 127.0.0.1 tcp dport 15000 counter return");
    assert_eq!(output.len(), 10 + 2);
    assert_eq!(
        output[10..],
        ["ip daddr 127.0.0.1 counter dnat to 10.0.2.2", "ip daddr 10.244.1.5 counter dnat to 10.0.2.2"]
    );
    assert_eq!(chain(&all, "KUBEVIRT_PREINBOUND"), ["tcp dport 22 counter dnat to 10.0.2.2"]);
    let out = chain(&all, "KUBEVIRT_POSTINBOUND");
    assert_eq!(
        out[10..],
        ["ip saddr 127.0.0.1 counter snat to 10.0.2.1", "ip saddr 127.0.0.6 counter snat to 10.0.2.1"]
    );
    // The sidecar has no address of its own in IPv6.
    let (_, six) = all.split_once("table ip6 nat\n").unwrap();
    assert!(!six.contains("127.0.0.6") && !six.contains("10.244"), "{six}");
    let named = lines(json!([{"port": 80}]));
    assert_eq!(chain(&named, "KUBEVIRT_PREINBOUND"), [""; 0]);
    let wanted =
        ["127.0.0.1", "10.244.1.5"].map(|ip| format!("ip daddr {ip} tcp dport 80 counter dnat to 10.0.2.2"));
    assert_eq!(chain(&named, "output"), wanted);
    let ssh = lines(json!([{"port": 22}, {"port": 80}]));
    assert_eq!(chain(&ssh, "KUBEVIRT_PREINBOUND"), ["tcp dport 22 counter dnat to 10.0.2.2"]);
}

#[test]
fn a_family_that_the_pod_has_not_is_not_given_to_the_guest() {
    let machine =
        machine(&json!({"name": "default", "masquerade": {}}), &json!({"name": "default", "pod": {}}));
    let leases = |addresses: &[&str]| {
        let plan = planned(&machine, &card(addresses, &[])).unwrap();
        let Link::Tap { dhcp, dhcp6, .. } = &plan.link else { panic!("no tap") };
        (dhcp.is_some(), dhcp6.as_ref().map(|lease| lease.address.to_string()), text(&plan))
    };
    let (v4, v6, steps) = leases(&["fd00:244::5/64"]);
    assert_eq!((v4, v6.as_deref()), (false, Some("fd10:0:2::2")));
    assert!(!steps.contains("10.0.2.") && !steps.contains("table ip "), "{steps}");
    assert!(steps.contains("address k6t-eth0 fd10:0:2::1/120\n"), "{steps}");
    assert!(steps.contains("set ipv6/conf/k6t-eth0/disable_ipv6 0\n"), "{steps}");
    let (v4, v6, steps) = leases(&["10.244.1.5/24"]);
    assert_eq!((v4, v6), (true, None));
    assert!(!steps.contains("ipv6") && !steps.contains("fd10"), "{steps}");
}

#[test]
fn a_bridge_gives_the_guest_the_pods_place() {
    let machine = machine(&json!({"name": "default", "bridge": {}}), &json!({"name": "default", "pod": {}}));
    let routes = ["0.0.0.0/0>169.254.1.1", "169.254.1.1/32", "::/0>fe80::1"];
    let plan = planned(&machine, &card(&["10.244.1.5/32"], &routes)).unwrap();
    let text = text(&plan);
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("put eth0 aside as eth0-nic 02:"), "{first}");
    let (second, rest) = rest.split_once('\n').unwrap();
    assert!(second.starts_with("bridge k6t-eth0 02:"), "{second}");
    let want = "set ipv4/conf/all/arp_ignore 1
address k6t-eth0 169.254.75.10/32
lower ipv4/ip_unprivileged_port_start 67
join eth0-nic to k6t-eth0
learn nothing from eth0-nic
tap tap0 mtu 1450
join tap0 to k6t-eth0
up k6t-eth0
up eth0-nic
up tap0
";
    assert_eq!(rest, want);
    let Link::Tap { mac, .. } = &plan.link else { panic!("no tap") };
    assert_eq!(mac, "0a:58:0a:f4:01:05");
    let told = r#"{"device":"k6t-eth0","server":"169.254.75.10","address":"10.244.1.5","prefix":32,"router":"169.254.1.1","routes":[{"to":"169.254.1.1","prefix":32,"via":null}]}"#;
    assert_eq!(lease(&plan).as_deref(), Some(told));
}

#[test]
fn a_bridge_on_a_network_without_addresses_answers_nobody() {
    let machine = machine(&json!({"name": "default", "bridge": {}}), &json!({"name": "default", "pod": {}}));
    let plan = planned(&machine, &card(&[], &[])).unwrap();
    assert_eq!(lease(&plan), None);
    assert!(!text(&plan).contains("169.254"), "{}", text(&plan));
}

/// The card of the network `blue`.
#[test]
fn a_network_of_multus_has_links_of_its_own() {
    let machine = machine(
        &json!({"name": "blue", "bridge": {}, "macAddress": "02:00:00:00:00:2a"}),
        &json!({"name": "blue", "multus": {"networkName": "lan"}}),
    );
    let mut card = Card { name: names::card(&machine.interfaces[0]), mtu: 8900, ..card(&[], &[]) };
    let plan_of = |card: &Card| {
        plan(&PlanInput {
            machine: &machine,
            interface: &machine.interfaces[0],
            position: 1,
            card,
            tap: None,
        })
    };
    let bare = plan_of(&card).unwrap();
    let lines = text(&bare);
    for line in [
        "join 16477688c0e-nic to k6t-16477688c0e",
        "tap tap16477688c0e mtu 8900",
        "join tap16477688c0e to k6t-16477688c0e",
    ] {
        assert!(lines.lines().any(|known| known == line), "{line} is not in\n{lines}");
    }
    assert!(lines.starts_with("put pod16477688c0e aside as 16477688c0e-nic "), "{lines}");
    assert!(!lines.contains("eth0"), "the pod's own card is another's: {lines}");
    let Link::Tap { name, mac, mtu, dhcp, .. } = &bare.link else { panic!("no tap") };
    assert_eq!((name.as_str(), mac.as_str(), *mtu), ("tap16477688c0e", "02:00:00:00:00:2a", Some(8900)));
    assert!(dhcp.is_none(), "its definition has no addresses");
    // If it has addresses, the guest gets them from a DHCP server of this card.
    card.addresses = vec!["192.0.2.7/24".parse().unwrap()];
    let told = r#"{"device":"k6t-16477688c0e","server":"169.254.75.11","address":"192.0.2.7","prefix":24,"router":null,"routes":[]}"#;
    assert_eq!(lease(&plan_of(&card).unwrap()).as_deref(), Some(told));
}

#[test]
fn a_plugin_gets_a_bridge_without_dhcp_or_brings_its_own_tap() {
    let mut machine =
        machine(&json!({"name": "default", "bridge": {}}), &json!({"name": "default", "pod": {}}));
    let card = card(&["10.244.1.5/24"], &["0.0.0.0/0>10.244.1.1"]);
    machine.interfaces[0].binding = Binding::ManagedTap;
    let managed = planned(&machine, &card).unwrap();
    let lines = text(&managed);
    assert!(lines.contains("join tap0 to k6t-eth0\n") && lines.contains("put eth0 aside"), "{lines}");
    assert!(!lines.contains("169.254") && !lines.contains("unprivileged"), "{lines}");
    assert_eq!(lease(&managed), None);

    machine.interfaces[0].binding = Binding::Tap;
    let plugin = api::machine::network::Plugin { name: "macvtap".into(), ..Default::default() };
    machine.interfaces[0].plugin = Some(plugin);
    let of = |tap| {
        plan(&PlanInput {
            machine: &machine,
            interface: &machine.interfaces[0],
            position: 0,
            card: &card,
            tap,
        })
    };
    let found = of(Some("tap0")).unwrap();
    assert!(found.steps.is_empty(), "{}", text(&found));
    let Link::Tap { name, mac, mtu, dhcp, dhcp6 } = &found.link else { panic!("no tap") };
    assert_eq!((name.as_str(), mac.as_str(), *mtu), ("tap0", "0a:58:0a:f4:01:05", Some(1450)));
    assert_eq!((dhcp, dhcp6), (&None, &None));
    let error = of(None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "it may come");
    assert!(
        error.to_string().contains("plugin 'macvtap' did not create a tap device: tap0 does not exist"),
        "{error}"
    );
}

#[test]
fn no_network_of_multus_is_masqueraded() {
    let mut machine = machine(
        &json!({"name": "blue", "bridge": {}}),
        &json!({"name": "blue", "multus": {"networkName": "lan"}}),
    );
    machine.interfaces[0].binding = Binding::Masquerade;
    let error = planned(&machine, &card(&["192.0.2.7/24"], &[])).unwrap_err().to_string();
    assert!(error.contains("masquerade supports the pod network only"), "{error}");
}

#[test]
fn many_queues_are_for_many_processors() {
    let mut machine =
        machine(&json!({"name": "default", "masquerade": {}}), &json!({"name": "default", "pod": {}}));
    machine.network_multi_queue = true;
    let plan = planned(&machine, &card(&["10.244.1.5/24"], &[])).unwrap();
    assert!(text(&plan).contains("tap tap0 mtu 1450 of many queues"), "{}", text(&plan));
}

#[test]
fn a_pod_without_an_address_is_refused_by_the_interface() {
    let machine =
        machine(&json!({"name": "default", "masquerade": {}}), &json!({"name": "default", "pod": {}}));
    let error = planned(&machine, &card(&[], &[])).unwrap_err().to_string();
    assert!(error.starts_with("spec.domain.devices.interfaces[0] ('default'): "), "{error}");
}

#[test]
fn passt_is_allowed_its_ports_and_pings_and_makes_nothing() {
    let of = |interface: Value| machine(&interface, &json!({"name": "default", "pod": {}}));
    let all = of(json!({"name": "default", "passtBinding": {}}));
    let plan = planned(&all, &card(&["10.244.1.5/24", "fd00::5/64"], &[])).unwrap();
    assert_eq!(text(&plan), "lower ipv4/ip_unprivileged_port_start 0\npings of the group 107\n");
    let Link::Passt { device, mac } = &plan.link else { panic!("{:?}", plan.link) };
    assert_eq!(device, "eth0");
    // The guest recognizes its card after every start, and the address differs from the pod's.
    assert_eq!(planned(&all, &card(&["10.244.9.9/24"], &[])).unwrap().link, plan.link);
    assert!(mac.starts_with("02:"), "{mac}");
    let two = json!({"name": "default", "passtBinding": {}, "macAddress": "02:00:00:00:00:2a",
                     "ports": [{"port": 8080}, {"port": 53, "protocol": "UDP"}]});
    let plan = planned(&of(two), &card(&["10.244.1.5/24"], &[])).unwrap();
    assert!(text(&plan).starts_with("lower ipv4/ip_unprivileged_port_start 53\n"), "{}", text(&plan));
    assert!(matches!(&plan.link, Link::Passt { mac, .. } if mac == "02:00:00:00:00:2a"));
    let none = planned(&all, &card(&[], &[])).unwrap_err().to_string();
    assert!(none.contains("no address on eth0"), "{none}");
}
