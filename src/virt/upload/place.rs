//! Target of an upload: an existing PVC that may be filled, or an object that is created.
//!
//! ```text
//!  GET PVC ─┬─ exists: GET DataVolume ─► usable? ─► annotate it as a target
//!           └─ absent: GET StorageClass, if given ─► POST DataVolume or PVC
//! ```

use super::annotations::{
    BIND_AT_ONCE, CONTENT_TYPE, DELETED_AFTERWARDS, POD_PHASE, PRIME, TARGET, USES_POPULATOR,
};
use super::bodies::{self, ARCHIVE};
use super::{Bytes, UploadContext, UploadParams, doing};
use crate::error::{Error, ErrorKind, Result};
use crate::virt::client::Cluster;
use crate::virt::json::annotation;
use cluster_model::objects::Kind;
use serde_json::{Value, json};

const PVC: Kind = Kind::PersistentVolumeClaim;

/// Makes sure that the target exists and may be filled.
pub(crate) async fn prepare(context: UploadContext<'_>, bytes: &Bytes) -> Result<()> {
    let UploadContext { cluster, params, observer } = context;
    let (what, namespace) = (doing(params, cluster), cluster.namespace());
    let pvc = match cluster.get(&PVC.object(namespace, &params.name)).await {
        Ok(pvc) => pvc,
        Err(e) if e.code() == 404 => {
            observer.out(&format!("PVC {namespace}/{} not found \n", params.name))?;
            return if params.no_create { Err(e.into_error(&what)) } else { create(context, bytes).await };
        }
        Err(e) => return Err(e.into_error(&what)),
    };
    let pvc = match params.kind {
        Kind::DataVolume => filled_through(cluster, params, pvc).await?,
        _ => pvc,
    };
    usable(&pvc, params)?;
    bind_at_once(context, &pvc).await?;
    let name = pvc["metadata"]["name"].as_str().unwrap_or(&params.name).to_owned();
    if annotation(&pvc, TARGET).is_none() {
        let marked = marked(pvc);
        cluster.put(&PVC.object(namespace, &name), Some(&marked)).await.map_err(|e| e.into_error(&what))?;
    }
    observer.out(&format!("Using existing PVC {namespace}/{name}\n"))
}

async fn create(UploadContext { cluster, params, observer }: UploadContext<'_>, bytes: &Bytes) -> Result<()> {
    let size = match &params.size {
        Some(size) => Some(size.clone()),
        None if params.is_archive => None,
        None => bytes.volume_size().await?,
    };
    let Some(size) = size else {
        let what = "when creating a resource, the size must be specified";
        return Err(Error::new(ErrorKind::Usage, what).with_hint("say it by --size, for example --size=10Gi"));
    };
    if params.size.is_none() {
        observer.say(&format!("the volume gets the size of the disk, {size}"));
    }
    let params = &UploadParams { size: Some(size), ..params.clone() };
    let namespace = cluster.namespace();
    let what = format!("cannot create {} {} in namespace {namespace}", params.kind, params.name);
    if let Some(class) = &params.storage_class {
        cluster.get(&Kind::StorageClass.object("", class)).await.map_err(|e| e.into_error(&what))?;
    }
    let object = match params.kind {
        Kind::DataVolume => bodies::data_volume(params, namespace),
        _ => bodies::claim(params, namespace),
    };
    cluster.post(&params.kind.collection(namespace), &object).await.map_err(|e| e.into_error(&what))?;
    observer.out(&format!("{} {namespace}/{} created\n", params.kind.name(), params.name))
}

/// Requests immediate binding of a volume whose object was created without `--force-bind`.
async fn bind_at_once(
    UploadContext { cluster, params, observer }: UploadContext<'_>,
    pvc: &Value,
) -> Result<()> {
    if !params.force_bind || annotation(pvc, BIND_AT_ONCE).is_some() || pvc["status"]["phase"] == "Bound" {
        return Ok(());
    }
    let (kind, name, namespace) = (params.kind, &params.name, cluster.namespace());
    let changes = json!({"metadata": {"annotations": {BIND_AT_ONCE: ""}}});
    let patched = cluster.patch(&kind.object(namespace, name), &changes).await;
    patched.map_err(|e| {
        e.into_error(&format!("cannot ask for the volume of {kind} {name} now, in namespace {namespace}"))
    })?;
    observer.say(&format!(
        "{kind} {name} was made without --force-bind: its annotation {BIND_AT_ONCE} asks for the volume now"
    ));
    Ok(())
}

/// The PVC that the upload pod fills: that of the DataVolume, or the one of its populator.
async fn filled_through(cluster: &Cluster, params: &UploadParams, pvc: Value) -> Result<Value> {
    let (namespace, name) = (cluster.namespace(), &params.name);
    let found = cluster.find(&Kind::DataVolume.object(namespace, name)).await;
    let Some(data_volume) = found.map_err(|e| e.into_error(&doing(params, cluster)))? else {
        return Err(without_data_volume(&pvc, namespace, name));
    };
    if annotation(&data_volume, USES_POPULATOR) != Some("true") {
        return Ok(pvc);
    }
    if pvc["status"]["phase"] == "Bound" {
        return Err(Error::failed(format!("PVC {name} already successfully populated")));
    }
    let Some(prime) = annotation(&pvc, PRIME) else {
        return Err(Error::failed(format!("Unable to get PVC Prime name from PVC {namespace}/{name}")));
    };
    let prime = cluster.get(&PVC.object(namespace, prime)).await;
    prime.map_err(|e| e.into_error(&format!("Unable to get PVC Prime {namespace}/{name}")))
}

fn without_data_volume(pvc: &Value, namespace: &str, name: &str) -> Error {
    let is_filled = annotation(pvc, DELETED_AFTERWARDS) == Some("true")
        && annotation(pvc, POD_PHASE) == Some("Succeeded");
    if is_filled {
        return Error::failed(format!(
            "DataVolume already garbage-collected: Assuming PVC {namespace}/{name} is successfully populated"
        ));
    }
    let what = format!("No DataVolume is associated with the existing PVC {namespace}/{name}");
    Error::new(ErrorKind::NotFound, what).with_hint("say pvc in place of dv to fill the PVC itself")
}

/// Fails if a PVC cannot be uploaded to.
fn usable(pvc: &Value, params: &UploadParams) -> Result<()> {
    let name = &params.name;
    if annotation(pvc, POD_PHASE) == Some("Succeeded") {
        return Err(Error::failed(format!("PVC {name} already successfully imported/cloned/updated")));
    }
    if !params.no_create && annotation(pvc, TARGET).is_none() {
        let what = format!("PVC {name} not available for upload");
        return Err(Error::failed(what).with_hint("--no-create overwrites what is on it"));
    }
    if params.is_archive && annotation(pvc, CONTENT_TYPE) != Some(ARCHIVE) {
        return Err(Error::failed(format!("PVC {name} doesn't have archive contentType annotation")));
    }
    Ok(())
}

/// The PVC with the annotation of an upload target.
fn marked(mut pvc: Value) -> Value {
    if !pvc["metadata"]["annotations"].is_object() {
        pvc["metadata"]["annotations"] = json!({});
    }
    pvc["metadata"]["annotations"][TARGET] = json!("");
    pvc
}

#[cfg(test)]
mod tests {
    use super::super::params::tests::plain;
    use super::*;

    fn pvc(annotations: &Value) -> Value {
        json!({"metadata": {"name": "d", "annotations": annotations}})
    }

    #[test]
    fn a_pvc_that_is_filled_or_of_somebody_else_is_refused() {
        let no_create = UploadParams { no_create: true, ..plain() };
        let archive = UploadParams { is_archive: true, ..plain() };
        usable(&pvc(&json!({TARGET: ""})), &plain()).unwrap();
        usable(&pvc(&json!({})), &no_create).unwrap();
        usable(&pvc(&json!({TARGET: "", CONTENT_TYPE: "archive"})), &archive).unwrap();
        for (annotations, params, wanted) in [
            (
                json!({TARGET: "", POD_PHASE: "Succeeded"}),
                &no_create,
                "PVC d already successfully imported/cloned/updated",
            ),
            (json!({}), &plain(), "PVC d not available for upload"),
            (Value::Null, &plain(), "PVC d not available for upload"),
            (
                json!({TARGET: "", CONTENT_TYPE: "kubevirt"}),
                &archive,
                "PVC d doesn't have archive contentType annotation",
            ),
        ] {
            let said = usable(&pvc(&annotations), params).unwrap_err().to_string();
            assert!(said.starts_with(wanted), "{said}");
        }
    }

    #[test]
    fn a_pvc_is_marked_and_keeps_what_it_has() {
        let kept = json!({"metadata": {"name": "d", "annotations": {"a": "b"}}, "spec": {"x": 1}});
        let wanted =
            json!({"metadata": {"name": "d", "annotations": {"a": "b", TARGET: ""}}, "spec": {"x": 1}});
        assert_eq!(marked(kept), wanted);
        assert_eq!(marked(json!({}))["metadata"]["annotations"], json!({TARGET: ""}));
    }

    #[test]
    fn a_pvc_without_a_data_volume_was_filled_or_never_had_one() {
        let filled = pvc(&json!({DELETED_AFTERWARDS: "true", POD_PHASE: "Succeeded"}));
        let said = without_data_volume(&filled, "blue", "d").to_string();
        assert_eq!(
            said,
            "DataVolume already garbage-collected: Assuming PVC blue/d is successfully populated"
        );
        let said = without_data_volume(&pvc(&json!({})), "blue", "d").to_string();
        assert!(said.starts_with("No DataVolume is associated with the existing PVC blue/d"), "{said}");
    }
}
