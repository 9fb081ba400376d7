//! What is installed: virt-controller's account changes nothing of what runs in it, and nobody replaces it by an older version.
//! Nothing is changed for good: other stories go on beside.

use crate::trust::{Bearer, refused};
use serde_json::{Value, json};
use tests::cluster::Space;

#[test]
fn a_stolen_token_of_virt_controller_places_a_component_and_changes_nothing_of_what_runs_in_it() {
    let Some(space) = Space::new("components") else { return };
    let thief = Bearer::of(&space, "kubevirt-controller", &[]);
    let template = |spec: &str| format!(r#"{{"spec":{{"template":{{"spec":{spec}}}}}}}"#);
    let placed = [
        r#"{"nodeSelector":{"kvm":"true"}}"#,
        r#"{"tolerations":[{"operator":"Exists"},{"key":"a","operator":"Exists"}]}"#,
        r#"{"imagePullSecrets":[{"name":"a"}]}"#,
    ];
    for spec in placed {
        thief.patches("daemonsets/virt-handler", &template(spec)).ok();
    }
    // Another policy holds the images of everybody's changes.
    let image = template(r#"{"containers":[{"name":"virt-handler","image":"evil:1"}]}"#);
    refused(&thief.patches("daemonsets/virt-handler", &image), "kubevirt-");
    let said = "nothing of what runs in them";
    // A merge patch replaces the whole list.
    let there = space.cluster.run(&[
        "-n",
        "kubevirt",
        "get",
        "daemonset/virt-handler",
        "-o",
        "jsonpath={.spec.template.spec.containers[0]}",
    ]);
    let there: Value = serde_json::from_slice(&there.ok().out).unwrap();
    let container = |field: &str, value: Value| {
        let mut container = there.clone();
        container[field] = value;
        json!({"containers": [container]}).to_string()
    };
    for spec in [
        &container("command", json!(["evil"])),
        &container("args", json!(["--kubeconfig=evil"])),
        &container("securityContext", json!({"privileged": true, "runAsUser": 7})),
        r#"{"hostNetwork":true}"#,
        r#"{"serviceAccountName":"default"}"#,
    ] {
        refused(&thief.patches("daemonsets/virt-handler", &template(spec)), said);
    }
    // The policy of images speaks of it, too.
    refused(&thief.patches("daemonsets/virt-handler", &template(r#"{"initContainers":null}"#)), "kubevirt-");
    for replicas in ["0", "101"] {
        let change = format!(r#"{{"spec":{{"replicas":{replicas}}}}}"#);
        refused(&thief.patches("deployments/virt-api", &change), said);
    }
    for strategy in
        [r#"{"type":"Recreate","rollingUpdate":null}"#, r#"{"rollingUpdate":{"maxUnavailable":"100%"}}"#]
    {
        let change = format!(r#"{{"spec":{{"strategy":{strategy}}}}}"#);
        refused(&thief.patches("deployments/virt-controller", &change), "keeps a pod of its own");
        thief.patches("deployments/cdi-uploadproxy", &change).ok();
    }
    let labels = r#"{"spec":{"template":{"metadata":{"annotations":{"sidecar.istio.io/inject":"true"}}}}}"#;
    refused(&thief.patches("daemonsets/virt-handler", labels), said);
    let version = r#"{"metadata":{"annotations":{"kubevirt.io/install-strategy-version":"99.0.0"}}}"#;
    refused(&thief.patches("daemonsets/virt-handler", version), "kubevirt-");
}

#[test]
fn an_older_version_is_refused_by_the_api_server() {
    let Some(space) = Space::new("downgrade") else { return };
    // The tag of this installation is the sum of its content: a version is tried on a role of nobody's.
    let role = |version: &str| {
        let name = format!("downgrade-{}", space.name);
        let notes = match version {
            "" => String::new(),
            version => format!(r#", "annotations": {{"kubevirt.io/install-strategy-version": "{version}"}}"#),
        };
        format!(
            r#"{{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {{"name": "{name}"{notes}}}, "rules": []}}"#
        )
    };
    space.apply(&role("0.9.10"));
    for older in ["0.9.9", "0.8.11", "v0.9.9", ""] {
        refused(&space.try_apply(&role(older)), "a downgrade is not supported");
    }
    for newer in ["0.9.10", "0.9.11", "0.10.0", "v1.0.0-rc.1", "latest"] {
        space.apply(&role(newer));
    }
}
