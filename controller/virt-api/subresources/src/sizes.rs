//! A VM with the values of its instance type and of its preference: `expand-spec` of a VM, `expand-vm-spec`
//! of a VM in the body.
//!
//! Both are resolved as in virt-controller: the ControllerRevision that the VM uses, or else the live object.
//! A ControllerRevision is shown only if it contains an instance type or a preference.

use crate::objects::Objects;
use crate::refusal::{Refusal, Result};
use api::instancetype::{Conflict, Matcher, Role, expand};
use api::vm::VirtualMachine;
use cluster_model::instancetypes::{SizeSpecs, kind_of, of_revision, revision_in_use};
use cluster_model::objects::names::is_name;
use cluster_model::objects::{Key, Kind, Revision};
use serde_json::Value;

/// Refusal for a conflict of values. It differs between a VM in the body, which is the client's own, and a
/// stored one.
pub(crate) type ToRefusal = fn(String) -> Refusal;

/// The VM with the values of both, and without the references.
pub(crate) async fn expanded(
    objects: &Objects,
    vm: &VirtualMachine,
    told: ToRefusal,
) -> Result<VirtualMachine> {
    let mut given = SizeSpecs::default();
    for matcher in Role::ALL.into_iter().filter_map(|role| Matcher::from_spec(&vm.spec, role)) {
        let spec = spec(objects, vm, &matcher, told).await?;
        let why = |why: String| told(format!("{} cannot be used: {why}", matcher.name));
        given.set(matcher.role, spec).map_err(why)?;
    }
    let mut expanded = vm.clone();
    if let Some(template) = &vm.spec.template {
        let (instancetype, preference) = (given.instancetype.as_ref(), given.preference.as_ref());
        // The default interface is added to the VMI, from settings of the cluster.
        let made = expand(template, instancetype, preference, "spec.template.spec", None);
        expanded.spec.template = Some(made.map_err(|conflicts| told(Conflict::sentence(&conflicts)))?);
    }
    (expanded.spec.instancetype, expanded.spec.preference) = (None, None);
    Ok(expanded)
}

async fn spec(
    objects: &Objects,
    vm: &VirtualMachine,
    matcher: &Matcher<'_>,
    told: ToRefusal,
) -> Result<Value> {
    let field = matcher.role.field();
    if !matcher.infer_from_volume.is_empty() {
        let volume = matcher.infer_from_volume;
        return Err(told(format!(
            "spec.{field} is inferred from volume {volume} when the VM is looked at for the first time: name it, or \
             expand the stored VM"
        )));
    }
    let kind = matcher.matched().map_err(told)?;
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    let is_path = |name: &str| match is_name(name) {
        true => Ok(()),
        false => Err(told(format!("spec.{field}: {name:?} is not the name of an object"))),
    };
    if let Some(name) = revision_in_use(vm, matcher) {
        is_path(name)?;
        let found = objects.found(&Key::new(Kind::ControllerRevision, namespace, name)).await?;
        let mut found =
            found.ok_or_else(|| told(format!("controllerrevisions.apps \"{name}\" not found")))?;
        let meta = api::wire::read_in_part(found["metadata"].take(), &mut Vec::new()).unwrap_or_default();
        let revision = Revision { meta, data: found["data"].take() };
        return of_revision(&revision, matcher.role).map_err(told);
    }
    is_path(matcher.name)?;
    let found = objects.found(&Key::new(kind_of(kind), kind.within(namespace), matcher.name)).await?;
    let mut found = found.ok_or_else(|| told(kind.not_found(matcher.name)))?;
    Ok(found["spec"].take())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::ApiServer;
    use serde_json::json;

    fn bad(why: String) -> Refusal {
        Refusal::bad_request(why)
    }

    fn vm(matcher: &Value, status: &Value) -> VirtualMachine {
        api::wire::read(json!({
            "metadata": {"namespace": "n", "name": "web"},
            "spec": {"instancetype": matcher, "template": {"spec": {"domain": {"devices": {}}}}},
            "status": status,
        }))
        .unwrap()
    }

    fn size(memory: &str) -> Value {
        json!({"cpu": {"guest": 2}, "memory": {"guest": memory}})
    }

    #[tokio::test]
    async fn a_vm_is_shown_with_what_it_uses() {
        let server = ApiServer::default();
        let objects = Objects::new(server.client());
        let group = "/apis/instancetype.kubevirt.io/v1beta1";
        server.put(
            &format!("{group}/virtualmachineclusterinstancetypes/small"),
            json!({"metadata": {"name": "small"}, "spec": size("1Gi")}),
        );
        let kind = "VirtualMachineInstancetype";
        let data =
            json!({"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "spec": size("2Gi")});
        server.put(
            "/apis/apps/v1/namespaces/n/controllerrevisions/kept",
            json!({"metadata": {"name": "kept"}, "data": data}),
        );
        server.put(
            "/apis/apps/v1/namespaces/n/controllerrevisions/theirs",
            json!({"metadata": {"name": "theirs"}, "data": {"spec": {"template": {"secret": "s3cret"}}}}),
        );
        let memory = async |vm: VirtualMachine| {
            let made = expanded(&objects, &vm, bad).await.map_err(|refused| refused.message)?;
            assert!(made.spec.instancetype.is_none());
            let memory = made.spec.template.unwrap().spec.domain.memory.unwrap();
            Ok::<_, String>(memory.guest.unwrap().as_str().to_owned())
        };
        let small = json!({"name": "small"});
        assert_eq!(memory(vm(&small, &json!({}))).await.unwrap(), "1Gi");
        let status = json!({"instancetypeRef": {"name": "small", "controllerRevisionRef": {"name": "kept"}}});
        assert_eq!(memory(vm(&small, &status)).await.unwrap(), "2Gi");
        let chosen = |name: &str| vm(&json!({"name": "small", "revisionName": name}), &json!({}));
        assert_eq!(memory(chosen("kept")).await.unwrap(), "2Gi");
        let theirs = memory(chosen("theirs")).await.unwrap_err();
        assert!(theirs.contains("has no instancetype") && !theirs.contains("s3cret"), "{theirs}");
        for odd in ["../secrets/a", "a?watch=true"] {
            let refused = memory(chosen(odd)).await.unwrap_err();
            assert!(refused.contains("is not the name of an object"), "{refused}");
        }
        let gone = memory(vm(&json!({"name": "gone"}), &json!({}))).await.unwrap_err();
        assert!(gone.contains("\"gone\" not found"), "{gone}");
        let mut both = vm(&json!({"name": "small"}), &json!({}));
        both.spec.template.as_mut().unwrap().spec.domain.memory.get_or_insert_default().guest =
            Some(Default::default());
        let conflict = memory(both).await.unwrap_err();
        assert!(conflict.contains("domain.memory.guest conflicts with selected instance type"), "{conflict}");
    }
}
