//! As many of the same as are wanted.

use tests::cluster::{Space, until};

#[test]
fn a_set_is_scaled_and_ended() {
    let Some(space) = Space::new("replicas") else { return };
    let machine = crate::tiny("x", "Always");
    let spec = machine.split("    spec:\n").nth(1).unwrap().replace("256Mi", "128Mi");
    space.apply(&format!(
        "
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstanceReplicaSet
metadata: {{name: many}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: many}}}}
  template:
    metadata: {{labels: {{app: many}}}}
    spec:
{spec}"
    ));
    space.says("vmirs/many", ".status.readyReplicas", "2");
    space.run(&["scale", "vmirs/many", "--replicas=3"]);
    space.says("vmirs/many", ".status.readyReplicas", "3");
    space.run(&["scale", "vmirs/many", "--replicas=1"]);
    space.says("vmirs/many", ".status.readyReplicas", "1");
    let count = || space.run(&["get", "vmi", "-l", "app=many", "-o", "name"]).lines().count();
    until(|| count() == 1, || format!("{} instances", count()));
    space.run(&["delete", "vmirs", "many"]);
    space.gone("vmi");
    space.gone("pod");
}
