//! The instance type or the preference that the volume of a VM names by its labels.
//!
//! ```text
//!  volume ─┬─ persistentVolumeClaim ─► PVC
//!          └─ dataVolume ─► its template in the VM, the DataVolume, the PVC of its name
//!                                 ├─ source.pvc ───► PVC
//!                                 └─ sourceRef ────► DataSource ─► its PVC
//! ```
//!
//! The first object on the way that has the label counts. Objects of other namespaces are on it only where
//! [`Labels`] permits reading them; otherwise the error is the same whether they exist or not
//! ([`Inference::not_readable`]).

use crate::cdi::DataSource;
use crate::data_volume::{self, DataVolume};
use crate::instancetype::Role;
use crate::meta::ObjectMeta;
use crate::vm::VirtualMachine;

/// Lookup of objects by name. Another namespace than the VM's has only the source that the DataVolume of the
/// volume clones, by the permission of the DataVolume's creator. The author of a VM is not asked for
/// permission to read elsewhere.
pub trait Labels {
    /// The metadata of a PVC.
    fn pvc(&self, namespace: &str, name: &str) -> Option<&ObjectMeta>;
    /// The DataVolume of this name.
    fn data_volume(&self, namespace: &str, name: &str) -> Option<&DataVolume>;
    /// The DataSource of this name.
    fn data_source(&self, namespace: &str, name: &str) -> Option<&DataSource>;
}

/// Reason why nothing is inferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InferError {
    /// Human-readable message, upstream's where it has one.
    pub message: String,
    /// The policy `Ignore` applies. An object that does not exist yet is waited for, whatever the policy.
    pub is_ignorable: bool,
}

impl InferError {
    fn ignorable(message: impl Into<String>) -> InferError {
        InferError { message: message.into(), is_ignorable: true }
    }

    fn missing(message: String) -> InferError {
        InferError { message, is_ignorable: false }
    }
}

/// The inferred name, and the kind where a label names it.
type Inferred = Result<(String, Option<String>), InferError>;

/// Infers the instance type or the preference from the labels of a volume of a VM. An error names the volume,
/// and the field that asks for it.
pub fn infer(vm: &VirtualMachine, role: Role, volume: &str, labels: &impl Labels) -> Inferred {
    infer_from(vm, role, volume, labels).map_err(|error| {
        let field = role.field();
        let message = format!("{}; asked for by spec.{field}.inferFromVolume: {volume}", error.message);
        InferError { message, ..error }
    })
}

fn infer_from(vm: &VirtualMachine, role: Role, volume: &str, labels: &impl Labels) -> Inferred {
    let inference =
        Inference { role, labels, namespace: vm.metadata.namespace.as_deref().unwrap_or_default() };
    let mut volumes = vm.spec.template.iter().flat_map(|template| &template.spec.volumes);
    let Some(volume) = volumes.find(|one| one.name == volume) else {
        return Err(InferError::missing(format!("unable to find volume {volume} to infer defaults")));
    };
    if let Some(claim) = &volume.persistent_volume_claim {
        return inference.pvc(inference.namespace, &claim.claim_name);
    }
    let Some(named) = &volume.data_volume else {
        let name = &volume.name;
        return Err(InferError::ignorable(format!(
            "unable to infer defaults from volume {name} as type is not supported"
        )));
    };
    let name = &named.name;
    let mut templates = vm.spec.data_volume_templates.iter();
    let template = templates
        .find(|template| template.metadata.as_ref().and_then(|meta| meta.name.as_ref()) == Some(name));
    let made = labels.data_volume(inference.namespace, name);
    let spec = template.map(|template| &template.spec).or(made.map(|made| &made.spec));
    let Some(spec) = spec else { return inference.pvc(inference.namespace, name) };
    // The importer copies the labels of an image to the PVC.
    let of_template = template.and_then(|template| template.metadata.as_ref());
    let places = [of_template, made.map(|made| &made.metadata), labels.pvc(inference.namespace, name)];
    places
        .into_iter()
        .flatten()
        .find_map(|meta| inference.labelled(meta))
        .map_or_else(|| inference.spec(spec), Ok)
}

struct Inference<'a, L> {
    role: Role,
    labels: &'a L,
    /// Namespace of the VM.
    namespace: &'a str,
}

impl<L: Labels> Inference<'_, L> {
    /// The name and the kind in the labels of an object.
    fn labelled(&self, meta: &ObjectMeta) -> Option<(String, Option<String>)> {
        let name = meta.labels.get(self.role.label())?.clone();
        let kind = meta.labels.get(&format!("{}-kind", self.role.label())).cloned();
        Some((name, kind.filter(|kind| !kind.is_empty())))
    }

    fn needed(&self, meta: &ObjectMeta) -> Inferred {
        self.labelled(meta).ok_or_else(|| {
            let label = self.role.label();
            InferError::ignorable(format!("unable to find required {label} label on the volume"))
        })
    }

    fn pvc(&self, namespace: &str, name: &str) -> Inferred {
        match self.labels.pvc(namespace, name) {
            Some(meta) => self.needed(meta),
            None if namespace != self.namespace => Err(self.not_readable(namespace)),
            None => Err(InferError::missing(format!("persistentvolumeclaims \"{name}\" not found"))),
        }
    }

    /// The error for every object of another namespace that may not be read, whether it exists or not.
    fn not_readable(&self, namespace: &str) -> InferError {
        let field = self.role.field();
        InferError::missing(format!(
            "unable to infer defaults from the namespace {namespace}: that is done when the DataVolume of the volume is a clone of what \
             is there, and its maker was permitted to clone it; inference at the DataVolume, or name the {field} by spec.{field}.name"
        ))
    }

    fn spec(&self, spec: &data_volume::Spec) -> Inferred {
        let within =
            |other: &str| if other.is_empty() { self.namespace.to_owned() } else { other.to_owned() };
        if let Some(pvc) = spec.source.as_ref().and_then(|source| source.pvc.as_ref()) {
            return self.pvc(&within(&pvc.namespace), &pvc.name);
        }
        let Some(named) = &spec.source_ref else {
            return Err(InferError::ignorable(
                "unable to infer defaults from DataVolumeSpec as DataVolumeSource is not supported",
            ));
        };
        if named.kind != "DataSource" {
            let kind = &named.kind;
            let what =
                format!("unable to infer defaults from DataVolumeSourceRef as Kind {kind} is not supported");
            return Err(InferError::ignorable(what));
        }
        let namespace = within(named.namespace.as_deref().unwrap_or_default());
        let Some(source) = self.labels.data_source(&namespace, &named.name) else {
            if namespace != self.namespace {
                return Err(self.not_readable(&namespace));
            }
            let what = format!("datasources.cdi.kubevirt.io \"{}\" not found", named.name);
            return Err(InferError::missing(what));
        };
        if let Some(said) = self.labelled(&source.metadata) {
            return Ok(said);
        }
        let Some(pvc) = &source.spec.source.pvc else {
            return Err(InferError::ignorable(
                "unable to infer defaults from DataSource that doesn't provide DataVolumeSourcePVC",
            ));
        };
        let namespace = if pvc.namespace.is_empty() { &namespace } else { &pvc.namespace };
        self.pvc(namespace, &pvc.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    #[derive(Default)]
    struct Objects {
        pvcs: BTreeMap<String, ObjectMeta>,
        volumes: BTreeMap<String, DataVolume>,
        sources: BTreeMap<String, DataSource>,
    }

    impl Labels for Objects {
        fn pvc(&self, namespace: &str, name: &str) -> Option<&ObjectMeta> {
            self.pvcs.get(&format!("{namespace}/{name}"))
        }

        fn data_volume(&self, namespace: &str, name: &str) -> Option<&DataVolume> {
            self.volumes.get(&format!("{namespace}/{name}"))
        }

        fn data_source(&self, namespace: &str, name: &str) -> Option<&DataSource> {
            self.sources.get(&format!("{namespace}/{name}"))
        }
    }

    fn labels(name: &str) -> Value {
        json!({"labels": {Role::Instancetype.label(): name}})
    }

    fn vm(volume: &Value, templates: &Value) -> VirtualMachine {
        wire::read(json!({
            "metadata": {"namespace": "n", "name": "web"},
            "spec": {"dataVolumeTemplates": templates, "template": {"spec": {"domain": {"devices": {}}, "volumes": [volume]}}},
        }))
        .unwrap()
    }

    #[test]
    fn the_first_object_with_the_label_is_asked() {
        let mut objects = Objects::default();
        objects.pvcs.insert("n/root".into(), wire::read(labels("of-pvc")).unwrap());
        objects.pvcs.insert("gold/os".into(), wire::read(labels("of-gold")).unwrap());
        let source =
            json!({"metadata": {}, "spec": {"source": {"pvc": {"namespace": "gold", "name": "os"}}}});
        objects.sources.insert("gold/os".into(), wire::read(source).unwrap());
        let source = json!({"metadata": labels("of-source"), "spec": {"source": {}}});
        objects.sources.insert("n/own".into(), wire::read(source).unwrap());
        let volume = json!({"metadata": labels("of-volume"), "spec": {"source": {"blank": {}}}});
        objects.volumes.insert("n/data".into(), wire::read(volume).unwrap());
        let of = |volume: Value, templates: Value| {
            infer(&vm(&volume, &templates), Role::Instancetype, "a", &objects).map(|(name, _)| name)
        };
        let claim = json!({"name": "a", "persistentVolumeClaim": {"claimName": "root"}});
        assert_eq!(of(claim, json!([])), Ok("of-pvc".into()));
        let data = |name: &str| json!({"name": "a", "dataVolume": {"name": name}});
        assert_eq!(of(data("data"), json!([])), Ok("of-volume".into()));
        assert_eq!(of(data("root"), json!([])), Ok("of-pvc".into()), "its DataVolume was collected");
        let imported =
            json!([{"metadata": {"name": "root"}, "spec": {"source": {"registry": {"url": "a"}}}}]);
        assert_eq!(of(data("root"), imported), Ok("of-pvc".into()), "the image has named it");
        let template = |spec: Value| json!([{"metadata": {"name": "new"}, "spec": spec}]);
        let named = json!({"sourceRef": {"kind": "DataSource", "namespace": "gold", "name": "os"}});
        assert_eq!(of(data("new"), template(named)), Ok("of-gold".into()));
        let named = json!({"sourceRef": {"kind": "DataSource", "name": "own"}});
        assert_eq!(of(data("new"), template(named)), Ok("of-source".into()));
        let cloned = json!({"source": {"pvc": {"name": "root"}}});
        assert_eq!(of(data("new"), template(cloned)), Ok("of-pvc".into()));
        let blank = of(data("new"), template(json!({"source": {"blank": {}}}))).unwrap_err();
        assert!(blank.is_ignorable && blank.message.contains("DataVolumeSource is not supported"));
        let far = |spec: Value| of(data("new"), template(spec)).unwrap_err();
        let pvc = far(json!({"source": {"pvc": {"namespace": "gold", "name": "x"}}}));
        assert!(pvc.message.starts_with("unable to infer defaults from the namespace gold: "), "{pvc:?}");
        assert!(!pvc.is_ignorable, "it is waited for, as what is not there");
        let source = far(json!({"sourceRef": {"kind": "DataSource", "namespace": "gold", "name": "x"}}));
        assert_eq!(source, pvc, "one word for what may not be read and what is not there");
        let image = of(json!({"name": "a", "containerDisk": {"image": "a"}}), json!([])).unwrap_err();
        assert_eq!(
            image.message,
            "unable to infer defaults from volume a as type is not supported; asked for by spec.instancetype.inferFromVolume: a"
        );
        let gone =
            of(json!({"name": "a", "persistentVolumeClaim": {"claimName": "x"}}), json!([])).unwrap_err();
        assert!(!gone.is_ignorable, "what is not there yet is waited for");
        assert_eq!(
            gone.message,
            "persistentvolumeclaims \"x\" not found; asked for by spec.instancetype.inferFromVolume: a"
        );
        let other = of(json!({"name": "b"}), json!([])).unwrap_err();
        assert!(other.message.starts_with("unable to find volume a to infer defaults; "), "{other:?}");
    }
}
