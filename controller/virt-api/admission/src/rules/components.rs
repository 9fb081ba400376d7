//! Settings of the KubeVirt object for the components of the installation: readable patches, known arguments,
//! valid labels. The target of a patch is checked when it is applied: virt-controller reports a failure in a
//! condition.

use api::fault::{Fault, Reason};
use api::kubevirt::flags::{FLAGS, argument};
use api::kubevirt::{CustomizeComponents, Spec};
use api::meta::is_label_value;
use cluster_model::components::patch::{MOST, Patch};

const AT: &str = "spec.customizeComponents";

pub(super) fn judge(spec: &Spec, faults: &mut Vec<Fault>) {
    let labels = [
        ("productVersion", &spec.product_version),
        ("productName", &spec.product_name),
        ("productComponent", &spec.product_component),
    ];
    for (field, value) in labels {
        if value.as_deref().is_some_and(|value| !is_label_value(value)) {
            let message = "must be the value of a label: at most 63 letters, digits, `-`, `_` and `.`, with a letter or a digit at both ends";
            faults.push(Fault::new(format!("spec.{field}"), Reason::Invalid, message));
        }
    }
    if let Some(said) = &spec.customize_components {
        patches(said, faults);
        flags(said, faults);
    }
}

fn patches(said: &CustomizeComponents, faults: &mut Vec<Fault>) {
    if said.patches.len() > MOST {
        let message = format!("must be at most {MOST} patches, not {}", said.patches.len());
        faults.push(Fault::new(format!("{AT}.patches"), Reason::Invalid, message));
        return;
    }
    for (at, patch) in said.patches.iter().enumerate() {
        let at = format!("{AT}.patches[{at}]");
        for (field, text) in [("resourceName", &patch.resource_name), ("resourceType", &patch.resource_type)]
        {
            if text.is_empty() {
                let message = "must not be empty: it says which object is patched";
                faults.push(Fault::new(format!("{at}.{field}"), Reason::Invalid, message));
            }
        }
        if let Err(why) = Patch::read(&patch.r#type, &patch.patch) {
            faults.push(Fault::new(format!("{at}.patch"), Reason::Invalid, why));
        }
    }
}

fn flags(said: &CustomizeComponents, faults: &mut Vec<Fault>) {
    let Some(flags) = &said.flags else { return };
    for (field, ..) in FLAGS {
        for (name, value) in flags.of(field).into_iter().flatten() {
            if let Err(why) = argument(field, name, value) {
                faults.push(Fault::new(format!("{AT}.flags.{field}"), Reason::NotSupported, why));
            }
        }
    }
}
