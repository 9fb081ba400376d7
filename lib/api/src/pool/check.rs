//! Strategies of a pool that cannot be carried out. Admission refuses them, and virt-controller does not act
//! on such a pool.

use super::{
    Autohealing, ScaleInStrategy, SelectionPolicy, SortPolicy, Spec, StatePreservation, UpdateStrategy,
    max_unavailable,
};
use crate::fault::{Fault, Reason};

/// Operators of label requirements.
const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];

/// All faults of the strategies of a pool, and of its numbers.
pub fn faults(spec: &Spec) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut invalid = |field: &str, why: &str| faults.push(Fault::new(field, Reason::Invalid, why));
    if spec.replicas.is_some_and(|replicas| replicas < 0) {
        invalid("spec.replicas", "must be 0 or more");
    }
    if max_unavailable(spec.max_unavailable.as_ref(), 1).is_none() {
        invalid("spec.maxUnavailable", "must be a number of 0 or more, or a percentage from 0% to 100%");
    }
    if let Some(healing) = &spec.autohealing {
        of_healing(healing, &mut faults);
        if spec.scale_in_strategy.as_ref().is_some_and(|strategy| strategy.unmanaged.is_some()) {
            let why = "it deletes VMs that fail to start, and spec.scaleInStrategy.unmanaged deletes none: leave out one of both";
            faults.push(Fault::new("spec.autohealing", Reason::Invalid, why));
        }
    }
    if let Some(strategy) = &spec.scale_in_strategy {
        of_scale_in(strategy, &mut faults);
    }
    if let Some(strategy) = &spec.update_strategy {
        of_update(strategy, &mut faults);
    }
    faults
}

fn of_healing(healing: &Autohealing, faults: &mut Vec<Fault>) {
    let fault = |field: &str, why: &str| Fault::new(field, Reason::Invalid, why);
    if healing.start_up_failure_threshold.is_some_and(|most| most < 1) {
        faults.push(fault("spec.autohealing.startUpFailureThreshold", "must be 1 or more"));
    }
    if healing.min_failing_to_start_duration.as_ref().is_some_and(|least| least.nanos() < 0) {
        faults.push(fault("spec.autohealing.minFailingToStartDuration", "must be 0 or more"));
    }
}

fn of_scale_in(strategy: &ScaleInStrategy, faults: &mut Vec<Fault>) {
    const AT: &str = "spec.scaleInStrategy";
    let ScaleInStrategy { unmanaged, opportunistic, proactive, other: _ } = strategy;
    one_of(AT, [unmanaged.is_some(), opportunistic.is_some(), proactive.is_some()], faults);
    let mut preserves = |way: &str, said: Option<&StatePreservation>| {
        let field = format!("{AT}.{way}.statePreservation");
        match said {
            None | Some(StatePreservation::Disabled) => {}
            Some(StatePreservation::Offline | StatePreservation::Online) => {
                faults.push(
                    Fault::not_yet(field).hint("Disabled is: the DataVolumes of a VM are deleted with it"),
                );
            }
            Some(StatePreservation::Other(word)) => {
                let what = format!("{field} is set with an unrecognized option: {word}");
                faults.push(Fault::new(field, Reason::Invalid, what));
            }
        }
    };
    preserves("opportunistic", opportunistic.as_ref().and_then(|way| way.state_preservation.as_ref()));
    preserves("proactive", proactive.as_ref().and_then(|way| way.state_preservation.as_ref()));
    if let Some(policy) = proactive.as_ref().and_then(|way| way.selection_policy.as_ref()) {
        of_policy(policy, &format!("{AT}.proactive.selectionPolicy"), faults);
    }
}

fn of_update(strategy: &UpdateStrategy, faults: &mut Vec<Fault>) {
    const AT: &str = "spec.updateStrategy";
    let UpdateStrategy { unmanaged, opportunistic, proactive, other: _ } = strategy;
    one_of(AT, [unmanaged.is_some(), opportunistic.is_some(), proactive.is_some()], faults);
    if let Some(policy) = proactive.as_ref().and_then(|way| way.selection_policy.as_ref()) {
        of_policy(policy, &format!("{AT}.proactive.selectionPolicy"), faults);
    }
}

fn one_of(at: &str, said: [bool; 3], faults: &mut Vec<Fault>) {
    if said.iter().filter(|said| **said).count() > 1 {
        let what = format!("{at} must have at most one of unmanaged, opportunistic and proactive");
        faults.push(Fault::new(at, Reason::Invalid, what));
    }
}

fn of_policy(policy: &SelectionPolicy, at: &str, faults: &mut Vec<Fault>) {
    if let Some(SortPolicy::Other(word)) = &policy.sort_policy {
        let field = format!("{at}.sortPolicy");
        let what = format!("{field} is set with an unrecognized option: {word}");
        faults.push(Fault::new(field, Reason::Invalid, what));
    }
    let Some(selectors) = &policy.selectors else { return };
    let expressions = selectors.label_selector.iter().flat_map(|selector| &selector.match_expressions);
    let rules = expressions.map(|rule| ("labelSelector.matchExpressions", rule)).chain(
        selectors
            .node_selector_requirement_matcher
            .iter()
            .map(|rule| ("nodeSelectorRequirementMatcher", rule)),
    );
    for (part, rule) in rules {
        let operator = rule["operator"].as_str().unwrap_or_default();
        if !OPERATORS.contains(&operator) {
            let field = format!("{at}.selectors.{part}");
            let what =
                format!("{field} has an operator that is not one of {}: {operator:?}", OPERATORS.join(", "));
            faults.push(Fault::new(field, Reason::Invalid, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;
    use serde_json::{Value, json};

    fn fields(spec: Value) -> Vec<String> {
        let spec: Spec = wire::read(spec).unwrap();
        faults(&spec).into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn what_cannot_be_done_is_named() {
        let policy = |policy: Value| json!({"scaleInStrategy": {"proactive": {"selectionPolicy": policy}}});
        for (spec, expected) in [
            (json!({"replicas": -1}), "spec.replicas"),
            (json!({"maxUnavailable": "much"}), "spec.maxUnavailable"),
            (
                json!({"autohealing": {"startUpFailureThreshold": 0}}),
                "spec.autohealing.startUpFailureThreshold",
            ),
            (
                json!({"autohealing": {"minFailingToStartDuration": "-1s"}}),
                "spec.autohealing.minFailingToStartDuration",
            ),
            (json!({"scaleInStrategy": {"unmanaged": {}, "opportunistic": {}}}), "spec.scaleInStrategy"),
            (
                json!({"scaleInStrategy": {"proactive": {"statePreservation": "Offline"}}}),
                "spec.scaleInStrategy.proactive.statePreservation",
            ),
            (
                json!({"scaleInStrategy": {"opportunistic": {"statePreservation": "Online"}}}),
                "spec.scaleInStrategy.opportunistic.statePreservation",
            ),
            (
                policy(json!({"sortPolicy": "Best"})),
                "spec.scaleInStrategy.proactive.selectionPolicy.sortPolicy",
            ),
            (
                policy(
                    json!({"selectors": {"nodeSelectorRequirementMatcher": [{"key": "a", "operator": "Near"}]}}),
                ),
                "spec.scaleInStrategy.proactive.selectionPolicy.selectors.nodeSelectorRequirementMatcher",
            ),
            (json!({"updateStrategy": {"unmanaged": {}, "proactive": {}}}), "spec.updateStrategy"),
            (
                json!({"updateStrategy": {"proactive": {"selectionPolicy": {"sortPolicy": "Best"}}}}),
                "spec.updateStrategy.proactive.selectionPolicy.sortPolicy",
            ),
        ] {
            assert_eq!(fields(spec.clone()), [expected], "{spec}");
        }
    }

    #[test]
    fn what_can_be_done_is_not() {
        let policy = json!({"sortPolicy": "Oldest", "selectors": {
            "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            "nodeSelectorRequirementMatcher": [{"key": "a", "operator": "Gt", "values": ["1"]}],
        }});
        let spec = json!({
            "replicas": 0, "maxUnavailable": "50%", "autohealing": {"minFailingToStartDuration": "1m"},
            "scaleInStrategy": {"proactive": {"selectionPolicy": policy, "statePreservation": "Disabled"}},
            "updateStrategy": {"opportunistic": {}},
        });
        assert_eq!(fields(spec), [""; 0]);
        assert_eq!(fields(json!({})), [""; 0]);
    }
}
