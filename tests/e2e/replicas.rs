//! As many of the same as are wanted.

use tests::cluster::{Space, until};

/// A set of so many.
pub(crate) fn set(replicas: u32) -> String {
    let vm = crate::tiny("x", "Always");
    let spec = vm.split("    spec:\n").nth(1).unwrap().replace("256Mi", "128Mi");
    format!(
        "
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstanceReplicaSet
metadata: {{name: many}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: many}}}}
  template:
    metadata: {{labels: {{app: many}}}}
    spec:
{spec}"
    )
}

#[test]
fn a_set_is_scaled_and_ended() {
    let Some(space) = Space::new("replicas") else { return };
    space.apply(&set(2));
    space.says("vmirs/many", ".status.readyReplicas", "2");
    space.run(&["scale", "vmirs/many", "--replicas=3"]);
    space.says("vmirs/many", ".status.readyReplicas", "3");
    space.run(&["scale", "vmirs/many", "--replicas=1"]);
    space.says("vmirs/many", ".status.readyReplicas", "1");
    let count = || space.run(&["get", "vmi", "-l", "app=many", "-o", "name"]).lines().count();
    until(|| count() == 1, || format!("{} VMIs", count()));
    space.run(&["delete", "vmirs", "many"]);
    space.gone("vmi");
    space.gone("pod");
}

/// Wants two of such an object, no less and no more.
pub(crate) fn scaler(version: &str, kind: &str) -> String {
    format!(
        "
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{name: many}}
spec:
  scaleTargetRef: {{apiVersion: {version}, kind: {kind}, name: many}}
  minReplicas: 2
  maxReplicas: 2
"
    )
}

#[test]
fn a_scaler_keeps_a_set_within_its_bounds() {
    let Some(space) = Space::new("scaler") else { return };
    space.apply(&set(1));
    space.says("vmirs/many", ".status.readyReplicas", "1");
    assert_eq!(
        space.run(&["get", "vmirs", "many", "--subresource=scale", "-o", "jsonpath={.status.selector}"]),
        "app=many"
    );
    space.apply(&scaler("kubevirt.io/v1", "VirtualMachineInstanceReplicaSet"));
    space.says("vmirs/many", ".status.readyReplicas", "2");
    // More than it wants is taken back.
    space.run(&["scale", "vmirs/many", "--replicas=3"]);
    space.says("vmirs/many", ".spec.replicas", "2");
    space.says("vmirs/many", ".status.replicas", "2");
}
