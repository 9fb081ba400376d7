//! The guest in the pod's network: reached through a Service, and reaching others.

use crate::tiny;
use tests::cluster::Space;

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {vm.kubevirt.io/name: web}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  containers:
  - name: other
    image: registry:5000/busybox:1
    command: [/bin/sh, -c, 'mkdir /www; echo from a pod >/www/index.html; exec httpd -f -h /www']
";

#[test]
fn a_pod_reaches_the_guest_and_the_guest_a_pod() {
    let Some(space) = Space::new("network") else { return };
    space.apply(SERVICE);
    space.apply(&tiny("web", "Always"));
    let mut console = space.console_when_ready("web");
    console.log_in();
    space.has("pod/other", "Ready", "True");
    // By the name of the service, through its address, to the guest's web server.
    let fetch = ["exec", "other", "--", "wget", "-qO-", "http://web/"];
    tests::cluster::until(
        || String::from_utf8_lossy(&space.try_run(&fetch).out).contains("tiny"),
        || space.try_run(&fetch).err,
    );
    // And the other way: a name, and a pod.
    let pod = space.get("pod/other", ".status.podIP");
    console.types(&format!("nslookup web.{}.svc.cluster.local | grep -c Name", space.name));
    console.types(&format!("wget -qO- http://{pod}/")).says("from a pod");
    // The address that the cluster shows is the pod's.
    assert_eq!(
        space.get("vmi/web", ".status.interfaces[0].ipAddress"),
        space.get(&format!("pod/{}", space.pod_of("web")), ".status.podIP")
    );
}
