//! virt-controller: its changes of the components of the installation, itself included.
//!
//! | right | bound |
//! |---|---|
//! | patch `deployments`, `daemonsets`, by their names | the fields of [`cluster_model::components`]: replicas and rollout, by which a pod of virt-controller stays; of the pods placement, pull Secrets, resources and known arguments; open labels and annotations |
//!
//! virt-handler is privileged on every node: if its image, its command or its volumes could be changed with
//! virt-controller's account, its holder would be root on all of them. So no field is open here that sets a
//! pod's program, user or mounts. Of the arguments only those in [`api::kubevirt::flags`] are open, and no
//! label or annotation that would make a webhook of the cluster inject a container.

use super::controller::base;
use super::{Policy, differ_only, literal, rule, same};
use crate::InstallOptions;
use api::kubevirt::flags;
use cluster_model::components::{CONTAINERS, DOMAINS, KEPT, NOTES, OF_CONTAINERS, OF_PODS, OF_WORKLOAD};

/// Annotation in which the API server counts the changes of a DaemonSet's template.
const COUNTED: &str = "deprecated.daemonset.template.generation";

pub(super) fn policy(options: &InstallOptions) -> Policy {
    let only = |path: &str, names: &[&str]| differ_only(path, &format!("key in {}", literal(names)));
    base(
        options,
        "kubevirt-controller-components",
        vec![rule("apps", &["deployments", "daemonsets"], &["UPDATE"])],
        vec![
            (
                [
                    only("?spec", &[&OF_WORKLOAD[..], &["template"]].concat()),
                    only("spec.?template", &["metadata", "spec"]),
                    only("spec.template.?metadata", &["annotations", "labels"]),
                    differ_only("spec.template.metadata.?labels", &open()),
                    differ_only("spec.template.metadata.?annotations", &open()),
                    only("spec.template.?spec", &[&OF_PODS[..], &CONTAINERS].concat()),
                    CONTAINERS.map(containers).join(" && "),
                    "object.spec.?replicas.orValue(2) >= 1 && object.spec.?replicas.orValue(2) <= 100"
                        .to_owned(),
                ]
                .join(" && "),
                "changes of the components of the installation only number (1 to 100), placement, resources, labels \
                 and pull Secrets of their pods, and nothing of what runs in them",
            ),
            (
                format!(
                    "{} && {} && {}",
                    ["finalizers", "ownerReferences"]
                        .map(|field| same(&format!("metadata.{field}")))
                        .join(" && "),
                    differ_only("metadata.?labels", &open()),
                    differ_only(
                        "metadata.?annotations",
                        &format!("(key in {} || {})", literal([&NOTES[..], &[COUNTED]].concat()), open())
                    )
                ),
                "changes of the metadata of the programs of the installation its own annotations, and labels and annotations that the \
                 KubeVirt object may give",
            ),
            (
                format!(
                    "(object.metadata.name != {} || {} || !({}))",
                    literal(KEPT),
                    keeps_a_pod("object"),
                    keeps_a_pod("oldObject")
                ),
                "keeps a pod of its own during a rollout: spec.strategy is a RollingUpdate, and its maxUnavailable less than \
                 spec.replicas",
            ),
        ],
    )
}

/// The rule of [`cluster_model::components::keeps_a_pod`].
fn keeps_a_pod(object: &str) -> String {
    let strategy = format!("{object}.spec.?strategy");
    let replicas = format!("{object}.spec.?replicas.orValue(1)");
    let said = |name: &str| format!("{strategy}.?rollingUpdate.?{name}.orValue('25%')");
    let number = |said: &str| format!("int({said}.replace('%', ''))");
    let (missing, more) = (said("maxUnavailable"), said("maxSurge"));
    format!(
        "{strategy}.?type.orValue('RollingUpdate') == 'RollingUpdate' && \
         (type({missing}) == int ? {missing} : {} * {replicas} / 100) < {replicas} && \
         ({replicas} > 1 || (type({more}) == int ? {more} : {}) > 0)",
        number(&missing),
        number(&more)
    )
}

/// True if the label or annotation is open ([`cluster_model::components::is_open`]).
fn open() -> String {
    let domains = DOMAINS.map(|domain| domain.replace('.', "[.]")).join("|");
    let (known, own) = (literal(format!("^(({domains})/)?[^/]+$")), literal("^([^/]*[.])?kubevirt[.]io$"));
    format!("(key.matches({known}) && !key.matches({own}))")
}

/// True if the containers of a list are the same, in the same order, except for open fields. Only arguments
/// that the KubeVirt object may set for this program are added or removed, each once. The others stay, in
/// their order.
fn containers(list: &str) -> String {
    let [new, old] = super::maps("spec.template.spec").map(|map| {
        map.strip_suffix(".orValue({})").map_or(map.clone(), |at| format!("{at}.?{list}.orValue([])"))
    });
    let of_program = |(program, flags): (&str, Vec<String>)| {
        format!("is.name == {} && arg in {}", literal(program), literal(flags))
    };
    let given = flags::accepted().map(of_program).collect::<Vec<_>>().join(" || ");
    let most = flags::accepted().map(|(_, flags)| flags.len()).max().unwrap_or(0);
    let fields = literal(OF_CONTAINERS);
    let kept = format!("(key in {fields} || key in was && was[key] == is[key])");
    let args = format!(
        "(is.?args.orValue([]).filter(arg, !({given})) == was.?args.orValue([]).filter(arg, !({given})) && \
         is.?args.orValue([]).filter(arg, {given}).size() <= {most})"
    );
    format!(
        "{new}.size() == {old}.size() && {new}.all(is, {old}.exists(was, was.name == is.name && is.all(key, {kept}) && \
         was.all(key, key in {fields} || key in is) && {args}))"
    )
}

#[cfg(test)]
mod tests {
    use crate::admission::tests::policy;
    use crate::objects;
    use crate::tests::options;
    use cluster_model::components::{PRISTINE, customizable_fields};
    use serde_json::{Value, json};

    /// A test against a real API server covers the comparison in CEL. This one covers the set of open fields.
    #[test]
    fn virt_controller_changes_nothing_of_what_runs_in_a_component() {
        let policy = policy("kubevirt-controller-components");
        let who = &policy["spec"]["matchConditions"][0]["expression"];
        assert_eq!(
            who,
            "request.userInfo.username == \"system:serviceaccount:kubevirt:kubevirt-controller\""
        );
        let said = policy["spec"]["validations"][0]["expression"].as_str().unwrap();
        let open = r#"key in ["affinity","imagePullSecrets","nodeSelector","priorityClassName","terminationGracePeriodSeconds","tolerations","topologySpreadConstraints","containers","initContainers"] ||"#;
        let of_workload = r#"key in ["minReadySeconds","progressDeadlineSeconds","replicas","revisionHistoryLimit","strategy","updateStrategy","template"] ||"#;
        for (path, keys) in [
            ("object.?spec", of_workload),
            ("object.spec.?template", r#"key in ["metadata","spec"] ||"#),
            ("object.spec.template.?metadata", r#"key in ["annotations","labels"] ||"#),
            ("object.spec.template.?spec", open),
        ] {
            assert!(said.contains(&format!("{path}.orValue({{}}).all(key, {keys}")), "{path}: {said}");
        }
        assert!(
            said.ends_with(
                "object.spec.?replicas.orValue(2) >= 1 && object.spec.?replicas.orValue(2) <= 100"
            ),
            "{said}"
        );
        assert!(!has_choice(said), "something stands beside that would be enough: {said}");
        // A missing owner would have the component deleted by the garbage collector.
        let said = policy["spec"]["validations"][1]["expression"].as_str().unwrap();
        for field in ["finalizers", "ownerReferences"] {
            assert!(said.contains(&crate::admission::same(&format!("metadata.{field}"))), "{field}: {said}");
        }
        let notes = r#"(key in ["kubevirt.io/placed","kubevirt.io/customizer-identifier","deprecated.daemonset.template.generation"] ||"#;
        assert!(
            said.contains(&format!("object.metadata.?annotations.orValue({{}}).all(key, {notes}")),
            "{said}"
        );
        assert!(!has_choice(said), "something stands beside that would be enough: {said}");
    }

    /// The same rule as in `cluster-model/src/components/rollout.rs`.
    #[test]
    fn of_virt_controller_a_pod_stays() {
        let policy = policy("kubevirt-controller-components");
        let said = policy["spec"]["validations"][2]["expression"].as_str().unwrap();
        let one = |object: &str| {
            let at = |field: &str| format!("{object}.spec.?strategy.?{field}");
            let (missing, more) = (
                at("rollingUpdate.?maxUnavailable.orValue('25%')"),
                at("rollingUpdate.?maxSurge.orValue('25%')"),
            );
            let replicas = format!("{object}.spec.?replicas.orValue(1)");
            format!(
                "{} == 'RollingUpdate' && (type({missing}) == int ? {missing} : int({missing}.replace('%', '')) * {replicas} / 100) < \
                 {replicas} && ({replicas} > 1 || (type({more}) == int ? {more} : int({more}.replace('%', ''))) > 0)",
                at("type.orValue('RollingUpdate')")
            )
        };
        let (now, before) = (one("object"), one("oldObject"));
        assert_eq!(said, format!("(object.metadata.name != \"virt-controller\" || {now} || !({before}))"));
        assert!(!has_choice(said), "something stands beside that would be enough: {said}");
    }

    /// True if one part of a CEL expression suffices to make all of it true: an `||` outside of all brackets
    /// and texts.
    fn has_choice(expression: &str) -> bool {
        let (mut depth, mut is_text, mut last) = (0_i32, false, ' ');
        expression.chars().any(|c| {
            match c {
                '"' if last != '\\' => is_text = !is_text,
                '(' | '[' | '{' if !is_text => depth += 1,
                ')' | ']' | '}' if !is_text => depth -= 1,
                _ => {}
            }
            let found = c == '|' && last == '|' && depth == 0 && !is_text;
            last = c;
            found
        })
    }

    #[test]
    fn a_choice_is_seen_outside_of_brackets_alone() {
        assert!(has_choice("a || b") && has_choice("all(x, y) && z || true"));
        assert!(!has_choice("all(x, y || z) && k == \"||\"") && !has_choice("(a || b) && c"));
    }

    #[test]
    fn of_a_container_resources_and_known_arguments_are_open() {
        let policy = policy("kubevirt-controller-components");
        let said = policy["spec"]["validations"][0]["expression"].as_str().unwrap();
        for list in ["containers", "initContainers"] {
            let (new, old) = (
                format!("object.spec.template.spec.?{list}.orValue([])"),
                format!("oldObject.spec.template.spec.?{list}.orValue([])"),
            );
            assert!(said.contains(&format!("{new}.size() == {old}.size()")), "{said}");
            assert!(said.contains(&format!("{new}.all(is, {old}.exists(was, was.name == is.name")), "{said}");
        }
        assert!(
            said.contains(r#"(key in ["args","resources"] || key in was && was[key] == is[key])"#),
            "{said}"
        );
        let given = r#"is.name == "virt-controller" && arg in ["--poll-any-address"]"#;
        let kept = |of: &str| format!("{of}.?args.orValue([]).filter(arg, !({given}))");
        assert!(
            said.contains(&format!("({} == {} && ", kept("is"), kept("was"))),
            "others stay, in their order: {said}"
        );
        assert!(said.contains(&format!("is.?args.orValue([]).filter(arg, {given}).size() <= 1)")), "{said}");
    }

    /// The same rule in Rust and in CEL.
    #[test]
    fn keys_are_open_by_a_domain_that_no_webhook_acts_upon() {
        let open = super::open();
        assert_eq!(
            open,
            r#"(key.matches("^((app[.]kubernetes[.]io|cluster-autoscaler[.]kubernetes[.]io|prometheus[.]io)/)?[^/]+$") && !key.matches("^([^/]*[.])?kubevirt[.]io$"))"#
        );
        assert!(
            cluster_model::components::is_open("app.kubernetes.io/x.kubevirt.io"),
            "the name behind a domain is free in both"
        );
    }

    #[test]
    fn manifests_say_how_a_component_was_to_be_placed() {
        let all = objects(&options());
        let programs: Vec<&Value> = all
            .iter()
            .filter(|object| ["Deployment", "DaemonSet"].iter().any(|kind| object["kind"] == *kind))
            .collect();
        assert_eq!(programs.len(), 4);
        for object in programs {
            let said = object["metadata"]["annotations"][PRISTINE].as_str().unwrap();
            assert_eq!(
                serde_json::from_str::<Value>(said).unwrap(),
                Value::Object(customizable_fields(object))
            );
            let has_two = object["kind"] == "Deployment";
            assert_eq!(
                customizable_fields(object).get("replicas"),
                has_two.then(|| json!(2)).as_ref(),
                "{object}"
            );
        }
    }
}
