//! The guest in the pod's network: reached through a Service, and reaching others.

use crate::tiny;
use tests::cluster::{Space, until};

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {vm.kubevirt.io/name: web}
  ports: [{port: 80}]
";

/// A pod with a web server, and with what asks one.
pub(crate) const OTHER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  containers:
  - name: other
    image: registry:5000/busybox:1
    command: [/bin/sh, -c, 'mkdir /www; echo from a pod >/www/index.html; exec httpd -f -h /www']
";

/// The other pod gets the guest's page there.
#[track_caller]
pub(crate) fn reaches(space: &Space, address: &str) {
    let fetch = ["exec", "other", "--", "wget", "-qO-", address];
    until(
        || String::from_utf8_lossy(&space.try_run(&fetch).out).contains("tiny"),
        || space.try_run(&fetch).err,
    );
}

#[test]
fn a_pod_reaches_the_guest_and_the_guest_a_pod() {
    let Some(space) = Space::new("network") else { return };
    space.apply(SERVICE);
    space.apply(OTHER);
    space.apply(&tiny("web", "Always"));
    let mut console = space.console_when_ready("web");
    console.log_in();
    space.has("pod/other", "Ready", "True");
    // By the name of the service, through its address, to the guest's web server.
    reaches(&space, "http://web/");
    // And the other way: a name, and a pod.
    let pod = space.get("pod/other", ".status.podIP");
    let name = format!("web.{}.svc.cluster.local", space.name);
    console.types(&format!("nslookup {name} | sed -n 's/^Name:.*/found-it/p' | tr a-z A-Z")).says("FOUND-IT");
    console.types(&format!("wget -qO- http://{pod}/")).says("from a pod");
    // The address that the cluster shows is the pod's.
    assert_eq!(
        space.get("vmi/web", ".status.interfaces[0].ipAddress"),
        space.get(&format!("pod/{}", space.pod_of("web")), ".status.podIP")
    );
}

#[test]
fn on_a_bridge_the_guest_has_the_pods_place() {
    let Some(space) = Space::new("bridge") else { return };
    space.apply(OTHER);
    space.apply(&tiny("web", "Always").replace("masquerade: {}", "bridge: {}"));
    let mut console = space.console_when_ready("web");
    console.log_in();
    space.has("pod/other", "Ready", "True");
    // The pod's address, by DHCP, and its MAC.
    let ip = space.get(&format!("pod/{}", space.pod_of("web")), ".status.podIP");
    console.types("until ip -4 addr show eth0 | grep inet; do sleep 1; done").says(&format!("inet {ip}/"));
    assert_eq!(space.get("vmi/web", ".status.interfaces[0].ipAddress"), ip);
    console.types("cat /sys/class/net/eth0/address");
    console.says(&space.get("vmi/web", ".status.interfaces[0].mac"));
    // Both ways, through the cluster's own network.
    reaches(&space, &format!("http://{ip}/"));
    let other = space.get("pod/other", ".status.podIP");
    console.types(&format!("wget -qO- http://{other}/")).says("from a pod");
}

#[test]
fn on_passt_the_guest_has_the_pods_network_without_a_tap() {
    let Some(space) = Space::new("passt") else { return };
    space.apply(OTHER);
    // One port: for all of them virt-handler raises a limit, which a host need not let it do.
    let binding = "            passtBinding: {}\n            ports: [{port: 80}]\n";
    space.apply(&tiny("web", "Always").replace("            masquerade: {}\n", binding));
    let mut console = space.console_when_ready("web");
    console.log_in();
    space.has("pod/other", "Ready", "True");
    let pod = space.pod_of("web");
    let asked = space.get(&format!("pod/{pod}"), ".spec.containers[0].resources.limits");
    assert!(!asked.contains("devices.kubevirt.io/tun"), "{asked}");
    // The guest has the pod's own address, and both ways lead through passt.
    let ip = space.get(&format!("pod/{pod}"), ".status.podIP");
    console.types("until ip -4 addr show eth0 | grep inet; do sleep 1; done").says(&format!("inet {ip}/"));
    assert_eq!(space.get("vmi/web", ".status.interfaces[0].ipAddress"), ip);
    reaches(&space, &format!("http://{ip}/"));
    let other = space.get("pod/other", ".status.podIP");
    console.types(&format!("wget -qO- http://{other}/")).says("from a pod");
}

#[test]
fn the_ports_that_are_listed_lead_to_the_guest_and_no_others() {
    let Some(space) = Space::new("ports") else { return };
    space.apply(OTHER);
    let binding = "            masquerade: {}\n";
    space.apply(
        &tiny("web", "Always").replace(binding, &format!("{binding}            ports: [{{port: 80}}]\n")),
    );
    let mut console = space.console_when_ready("web");
    console.log_in();
    space.has("pod/other", "Ready", "True");
    let ip = space.get("vmi/web", ".status.interfaces[0].ipAddress");
    reaches(&space, &format!("http://{ip}/"));
    // The guest listens there too, but nothing leads to it.
    let echo = space.try_run(&["exec", "other", "--", "nc", "-w", "5", &ip, "7"]);
    assert!(echo.code != 0 && echo.err.contains("refused"), "{}", echo.err);
    // Its address it has from port 67, though a pod's low ports are kept from ordinary users, as the launcher is one.
    console.types("until ip -4 addr show eth0 | grep inet; do sleep 1; done").says("inet 10.0.2.2/24");
    let low = ["exec", "other", "--", "cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start"];
    assert_eq!(space.run(&low), "1024");
}
