//! ResourceClaims: each has a name and one source, and each device refers to one of them.

use super::super::resource_claim::{MOST, ResourceClaim, Source};
use super::{Check, Site, text};
use crate::vmi::{self, Devices};
use crate::wire::Path;
use std::collections::BTreeSet;

/// Message on a laptop.
const NOT_HERE: &str =
    "only a cluster has ResourceClaims, and DRA drivers, which choose the device of the node";

/// Checks the ResourceClaims of a VMI with these devices. `at`: the spec.
pub(super) fn resource_claims(
    claims: &[vmi::ResourceClaim],
    devices: &Devices,
    at: &Path,
    check: &mut Check<'_>,
) -> Vec<ResourceClaim> {
    let at = at.child("resourceClaims");
    if claims.len() > MOST {
        check.invalid(&at, format!("{at} must have no more than {MOST} entries"));
        return Vec::new();
    }
    if check.settings.site == Site::Laptop {
        (0..claims.len()).for_each(|n| check.not_yet_or(at.index(n), NOT_HERE));
        return Vec::new();
    }
    let mut names = BTreeSet::new();
    let mut all = Vec::new();
    for (n, claim) in claims.iter().enumerate() {
        let here = at.index(n);
        name(&claim.name, &mut names, &here, check);
        if let Some(source) = source(claim, &here, check) {
            all.push(ResourceClaim { name: claim.name.clone(), source });
        }
    }
    if claim_names(devices).any(|claim| !names.contains(claim)) {
        // Message of upstream.
        check.invalid(
            &at,
            "vmi.spec.resourceClaims must specify all claims used in vmi.spec.domain.devices.gpus and \
             vmi.spec.domain.devices.hostDevices",
        );
    }
    all
}

/// Names of claims that devices refer to.
fn claim_names(devices: &Devices) -> impl Iterator<Item = &str> {
    let gpus = devices.gpus.iter().map(|gpu| &gpu.claim_name);
    let others = devices.host_devices.iter().map(|device| &device.claim_name);
    gpus.chain(others).filter_map(text::non_empty)
}

fn name<'c>(name: &'c str, names: &mut BTreeSet<&'c str>, here: &Path, check: &mut Check<'_>) {
    let at = here.child("name");
    if name.is_empty() {
        return check.required(&at, format!("{at} is a required field"));
    }
    if !names.insert(name) {
        return check.duplicate(&at, format!("duplicate resourceClaims name {name:?}"));
    }
    if let Some(why) = text::not_a_label(name) {
        check.invalid(&at, format!("{at} does not conform to the kubernetes DNS_LABEL rules: {why}"));
    }
}

fn source(claim: &vmi::ResourceClaim, here: &Path, check: &mut Check<'_>) -> Option<Source> {
    let vmi::ResourceClaim { name: _, resource_claim_name, resource_claim_template_name, other: _ } = claim;
    let (field, name, source) =
        match (text::non_empty(resource_claim_name), text::non_empty(resource_claim_template_name)) {
            (Some(name), None) => ("resourceClaimName", name, Source::Existing(name.to_owned())),
            (None, Some(name)) => ("resourceClaimTemplateName", name, Source::Template(name.to_owned())),
            (Some(_), Some(_)) => {
                let message =
                    "at most one of resourceClaimName or resourceClaimTemplateName may be specified";
                check.invalid(here, message);
                return None;
            }
            (None, None) => {
                check.invalid(here, "must specify one of: resourceClaimName, resourceClaimTemplateName");
                return None;
            }
        };
    if let Some(why) = text::not_a_subdomain(name) {
        check.invalid(here.child(field), why);
    }
    Some(source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Machine, Settings};
    use serde_json::{Value, json};

    fn check(claims: &Value, settings: &Settings) -> Result<Vec<ResourceClaim>, String> {
        let vmi: vmi::VirtualMachineInstance = crate::wire::read(json!({
            "metadata": {"name": "vm", "namespace": "n"},
            "spec": {
                "domain": {
                    "memory": {"guest": "128Mi"},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": {"autoattachPodInterface": false},
                },
                "resourceClaims": claims,
            },
        }))
        .unwrap();
        let said = |faults: Vec<crate::fault::Fault>| {
            faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        Machine::check(&vmi, settings).map(|machine| machine.resource_claims).map_err(said)
    }

    fn refused(claims: &Value) -> String {
        check(claims, &Settings::of_cluster(&json!({}))).unwrap_err()
    }

    #[test]
    fn a_claim_is_there_or_made_from_a_template() {
        let claims = json!([{"name": "a", "resourceClaimName": "shared.gpu"},
            {"name": "b", "resourceClaimTemplateName": "gpu"}]);
        let found = check(&claims, &Settings::of_cluster(&json!({}))).unwrap();
        let sources = [Source::Existing("shared.gpu".into()), Source::Template("gpu".into())];
        assert_eq!(found.into_iter().map(|claim| claim.source).collect::<Vec<_>>(), sources);
    }

    #[test]
    fn a_claim_without_a_name_or_with_another_number_of_sources_is_refused_in_upstreams_words() {
        let one = |name: &str| json!({"name": name, "resourceClaimName": "c"});
        let both = json!({"name": "a", "resourceClaimName": "c", "resourceClaimTemplateName": "t"});
        for (claims, said) in [
            (json!([one("")]), "spec.resourceClaims[0].name is a required field"),
            (json!([one("a"), one("a")]), "duplicate resourceClaims name \"a\""),
            (json!([one("A b")]), "does not conform to the kubernetes DNS_LABEL rules"),
            (json!([both]), "at most one of resourceClaimName or resourceClaimTemplateName may be specified"),
            (json!([{"name": "a"}]), "must specify one of: resourceClaimName, resourceClaimTemplateName"),
            (json!([{"name": "a", "resourceClaimName": "../x"}]), "spec.resourceClaims[0].resourceClaimName"),
        ] {
            let found = refused(&claims);
            assert!(found.contains(said), "{found}");
        }
        let many: Vec<Value> = (0..33).map(|n| one(&format!("c{n}"))).collect();
        assert!(refused(&json!(many)).contains("no more than 32 entries"));
    }

    #[test]
    fn a_laptop_has_no_claims() {
        let said =
            check(&json!([{"name": "a", "resourceClaimName": "c"}]), &Settings::of_laptop()).unwrap_err();
        assert!(said.contains("spec.resourceClaims[0]: not supported yet"), "{said}");
    }
}
