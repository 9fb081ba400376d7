//! As many VMs of one template as are wanted.

use crate::replicas::scaler;
use tests::cluster::{Space, until};

fn pool(replicas: u32) -> String {
    let vm = crate::tiny("x", "Always");
    let spec = vm.split_once("\nspec:\n").unwrap().1.replace("256Mi", "128Mi");
    let spec: String = spec.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "
apiVersion: pool.kubevirt.io/v1beta1
kind: VirtualMachinePool
metadata: {{name: many}}
spec:
  replicas: {replicas}
  maxUnavailable: 1
  selector: {{matchLabels: {{app: many}}}}
  scaleInStrategy: {{proactive: {{selectionPolicy: {{sortPolicy: DescendingOrder}}}}}}
  virtualMachineTemplate:
    metadata: {{labels: {{app: many}}}}
    spec:
{spec}"
    )
}

#[test]
fn a_pool_is_scaled_by_a_scaler_and_by_hand_updated_and_ended() {
    let Some(space) = Space::new("pools") else { return };
    space.apply(&pool(1));
    space.says("vmpool/many", ".status.readyReplicas", "1");
    assert_eq!(
        space.run(&["get", "vmpool", "many", "--subresource=scale", "-o", "jsonpath={.status.selector}"]),
        "app=many"
    );
    // A scaler makes it larger, and takes back what is more than it wants.
    space.apply(&scaler("pool.kubevirt.io/v1beta1", "VirtualMachinePool"));
    space.says("vmpool/many", ".status.readyReplicas", "2");
    space.run(&["scale", "vmpool/many", "--replicas=3"]);
    space.says("vmpool/many", ".spec.replicas", "2");
    space.says("vmpool/many", ".status.replicas", "2");
    space.run(&["delete", "hpa", "many"]);
    // Another template: both run it, one after the other.
    space.apply(&pool(2).replace("128Mi", "144Mi"));
    for number in 0..2 {
        space.says(&format!("vmi/many-{number}"), ".spec.domain.resources.requests.memory", "144Mi");
    }
    space.says("vmpool/many", ".status.readyReplicas", "2");
    space.run(&["scale", "vmpool/many", "--replicas=1"]);
    let names = || space.run(&["get", "vm", "-l", "app=many", "-o", "name"]);
    until(|| names().trim() == "virtualmachine.kubevirt.io/many-0", names);
    space.run(&["delete", "vmpool", "many"]);
    space.gone("vm");
    space.gone("pod");
}

#[test]
fn a_pool_is_refused_where_it_is_wrong() {
    let Some(space) = Space::new("pools-wrong") else { return };
    for (wrong, with, said) in [
        (
            "selector: {matchLabels: {app: many}}",
            "selector: {matchLabels: {app: few}}",
            "selector does not match labels.",
        ),
        (
            "sortPolicy: DescendingOrder",
            "sortPolicy: Best",
            "sortPolicy is set with an unrecognized option: Best",
        ),
    ] {
        let told = space.try_apply(&pool(1).replace(wrong, with));
        assert!(told.code != 0 && told.err.contains(said), "{}", told.err);
    }
}
