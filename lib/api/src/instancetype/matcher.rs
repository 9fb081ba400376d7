//! References of a VM to its instance type and to its preference: two fields of one form.

use crate::fault::{Fault, Reason};
use crate::vm::{InferFailurePolicy, Spec};

/// Kind of object that a matcher refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Instancetype,
    Preference,
}

/// Scope of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Usable by the VMs of the same namespace.
    Namespace,
    /// Usable by the VMs of all namespaces.
    Cluster,
}

/// A kind of instance types or preferences, one of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatcherKind {
    pub role: Role,
    pub scope: Scope,
}

/// Reference of a VM to an instance type or a preference. Unset fields are empty texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matcher<'a> {
    pub role: Role,
    pub name: &'a str,
    pub kind: &'a str,
    pub revision_name: &'a str,
    pub infer_from_volume: &'a str,
    pub policy: Option<&'a InferFailurePolicy>,
}

/// Prefix of the labels of volumes that name an instance type, a preference, or the kind of either.
pub const DEFAULTS: &str = "instancetype.kubevirt.io/default-";

impl Role {
    /// Both kinds of objects.
    pub const ALL: [Role; 2] = [Role::Instancetype, Role::Preference];

    /// The field of a VM's spec.
    pub const fn field(self) -> &'static str {
        match self {
            Role::Instancetype => "instancetype",
            Role::Preference => "preference",
        }
    }

    /// The label of a volume that names a default; with `-kind` behind it, the one that names its kind.
    pub const fn label(self) -> &'static str {
        match self {
            Role::Instancetype => "instancetype.kubevirt.io/default-instancetype",
            Role::Preference => "instancetype.kubevirt.io/default-preference",
        }
    }

    /// The name of the matcher, as upstream says it.
    const fn matcher(self) -> &'static str {
        match self {
            Role::Instancetype => "InstancetypeMatcher",
            Role::Preference => "PreferenceMatcher",
        }
    }
}

impl MatcherKind {
    pub const ALL: [MatcherKind; 4] = [
        MatcherKind { role: Role::Instancetype, scope: Scope::Namespace },
        MatcherKind { role: Role::Instancetype, scope: Scope::Cluster },
        MatcherKind { role: Role::Preference, scope: Scope::Namespace },
        MatcherKind { role: Role::Preference, scope: Scope::Cluster },
    ];

    /// The kind with this name or plural, in any case; the cluster-scoped one if the text is empty.
    pub fn parse(role: Role, text: &str) -> Option<MatcherKind> {
        if text.is_empty() {
            return Some(MatcherKind { role, scope: Scope::Cluster });
        }
        MatcherKind::ALL
            .into_iter()
            .filter(|kind| kind.role == role)
            .find(|kind| [kind.kind(), kind.plural()].iter().any(|name| name.eq_ignore_ascii_case(text)))
    }

    /// The name of the kind.
    pub const fn kind(self) -> &'static str {
        match (self.role, self.scope) {
            (Role::Instancetype, Scope::Namespace) => "VirtualMachineInstancetype",
            (Role::Instancetype, Scope::Cluster) => "VirtualMachineClusterInstancetype",
            (Role::Preference, Scope::Namespace) => "VirtualMachinePreference",
            (Role::Preference, Scope::Cluster) => "VirtualMachineClusterPreference",
        }
    }

    /// The plural of the kind, as it stands in paths.
    pub const fn plural(self) -> &'static str {
        match (self.role, self.scope) {
            (Role::Instancetype, Scope::Namespace) => "virtualmachineinstancetypes",
            (Role::Instancetype, Scope::Cluster) => "virtualmachineclusterinstancetypes",
            (Role::Preference, Scope::Namespace) => "virtualmachinepreferences",
            (Role::Preference, Scope::Cluster) => "virtualmachineclusterpreferences",
        }
    }

    /// Namespace in which a VM of `namespace` finds an object of this kind; empty for cluster-scoped kinds.
    pub fn within(self, namespace: &str) -> &str {
        if self.scope == Scope::Cluster { "" } else { namespace }
    }

    /// Annotation of a VMI that names its instance type or preference.
    pub const fn annotation(self) -> &'static str {
        match (self.role, self.scope) {
            (Role::Instancetype, Scope::Namespace) => "kubevirt.io/instancetype-name",
            (Role::Instancetype, Scope::Cluster) => "kubevirt.io/cluster-instancetype-name",
            (Role::Preference, Scope::Namespace) => "kubevirt.io/preference-name",
            (Role::Preference, Scope::Cluster) => "kubevirt.io/cluster-preference-name",
        }
    }

    /// The API server's message that an object of this kind and name does not exist.
    pub fn not_found(self, name: &str) -> String {
        format!("{}.{} \"{name}\" not found", self.plural(), super::GROUP)
    }
}

impl<'a> Matcher<'a> {
    /// The reference to the instance type, or to the preference; `None` if the VM has none.
    pub fn from_spec(spec: &'a Spec, role: Role) -> Option<Matcher<'a>> {
        let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
        Some(match role {
            Role::Instancetype => {
                let said = spec.instancetype.as_ref()?;
                Matcher {
                    role,
                    name: text(&said.name),
                    kind: text(&said.kind),
                    revision_name: text(&said.revision_name),
                    infer_from_volume: text(&said.infer_from_volume),
                    policy: said.infer_from_volume_failure_policy.as_ref(),
                }
            }
            Role::Preference => {
                let said = spec.preference.as_ref()?;
                Matcher {
                    role,
                    name: text(&said.name),
                    kind: text(&said.kind),
                    revision_name: text(&said.revision_name),
                    infer_from_volume: text(&said.infer_from_volume),
                    policy: said.infer_from_volume_failure_policy.as_ref(),
                }
            }
        })
    }

    /// The kind that the reference names. An error lists the kinds that are allowed.
    pub fn matched(&self) -> Result<MatcherKind, String> {
        MatcherKind::parse(self.role, self.kind)
            .ok_or_else(|| format!("got unexpected kind in {}: {}", self.role.matcher(), self.kind))
    }

    /// Faults of the reference by itself, whatever exists in the cluster. `old`: the reference before the
    /// update.
    pub fn faults(&self, old: Option<&Matcher<'_>>) -> Vec<Fault> {
        let matcher = self.role.field();
        let at = format!("spec.{matcher}");
        let mut faults = Vec::new();
        let mut fault = |field: &str, reason, message: String| {
            let field = if field.is_empty() { at.clone() } else { format!("{at}.{field}") };
            faults.push(Fault::new(field, reason, message));
        };
        if self.name.is_empty() && self.infer_from_volume.is_empty() {
            let what =
                format!("Either Name or InferFromVolume should be provided within the {matcher} matcher");
            fault("", Reason::NotFound, what);
        }
        if !self.infer_from_volume.is_empty() {
            for (field, word, said) in [("name", "Name", self.name), ("kind", "Kind", self.kind)] {
                if !said.is_empty() {
                    let what = format!(
                        "{word} should not be provided when InferFromVolume is used within the {matcher} matcher"
                    );
                    fault(field, Reason::NotFound, what);
                }
            }
        }
        if let Some(InferFailurePolicy::Other(word)) = self.policy {
            let what = format!("Invalid value '{word}' for InferFromVolumeFailurePolicy");
            fault("inferFromVolumeFailurePolicy", Reason::Invalid, what);
        }
        let is_stale = old.is_some_and(|old| {
            !old.revision_name.is_empty() && old.revision_name == self.revision_name && old.name != self.name
        });
        if is_stale {
            let what = "the Matcher Name has been updated without updating the RevisionName";
            fault("revisionName", Reason::Invalid, what.to_owned());
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;
    use serde_json::{Value, json};

    fn told(new: Value, old: Option<Value>) -> Vec<(String, String)> {
        let read = |said: Value| wire::read::<Spec>(json!({"instancetype": said})).unwrap();
        let (new, old) = (read(new), old.map(read));
        let old = old.as_ref().and_then(|old| Matcher::from_spec(old, Role::Instancetype));
        let faults = Matcher::from_spec(&new, Role::Instancetype).unwrap().faults(old.as_ref());
        faults.into_iter().map(|fault| (fault.field, fault.message)).collect()
    }

    #[test]
    fn a_matcher_names_one_thing_and_says_so_in_the_words_of_upstream() {
        let one = |field: &str, message: &str| vec![(field.to_owned(), message.to_owned())];
        assert_eq!(told(json!({"name": "a", "kind": "b"}), None), []);
        assert_eq!(
            told(json!({}), None),
            one(
                "spec.instancetype",
                "Either Name or InferFromVolume should be provided within the instancetype matcher"
            )
        );
        assert_eq!(
            told(json!({"inferFromVolume": "root", "name": "a"}), None),
            one(
                "spec.instancetype.name",
                "Name should not be provided when InferFromVolume is used within the instancetype matcher"
            )
        );
        assert_eq!(
            told(json!({"inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Wait"}), None),
            one(
                "spec.instancetype.inferFromVolumeFailurePolicy",
                "Invalid value 'Wait' for InferFromVolumeFailurePolicy"
            )
        );
        let revised = |name: &str| json!({"name": name, "revisionName": "r"});
        assert_eq!(
            told(revised("b"), Some(revised("a"))),
            one(
                "spec.instancetype.revisionName",
                "the Matcher Name has been updated without updating the RevisionName"
            )
        );
        assert_eq!(told(revised("a"), Some(revised("a"))), []);
        assert_eq!(told(json!({"name": "b"}), Some(revised("a"))), []);
    }

    #[test]
    fn a_kind_is_meant_by_its_name_or_its_plural() {
        let of = |text: &str| MatcherKind::parse(Role::Preference, text).map(MatcherKind::kind);
        assert_eq!(of(""), Some("VirtualMachineClusterPreference"));
        assert_eq!(of("virtualmachinepreferences"), Some("VirtualMachinePreference"));
        assert_eq!(of("VirtualMachineClusterPreference"), Some("VirtualMachineClusterPreference"));
        assert_eq!(of("VirtualMachineInstancetype"), None);
    }
}
