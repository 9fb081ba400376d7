//! What a DataVolume on a laptop may ask for: one source of those that can be read here, and a size where it needs one.

use api::datavolume::{ContentType, DataVolume, Source};
use api::fault::{Fault, Reason};
use api::quantity::Quantity;

/// The size that a DataVolume asks for, where it says one.
pub(crate) fn size(volume: &DataVolume) -> Option<&Quantity> {
    let spec = &volume.spec;
    let of_claim = spec.pvc.as_ref().and_then(|claim| claim.storage());
    let of_storage = || spec.storage.as_ref()?.resources.as_ref()?.requests.get("storage");
    of_claim.or_else(of_storage)
}

/// What is wrong with it.
pub(super) fn judge(volume: &DataVolume) -> Vec<Fault> {
    let mut faults = vec![];
    let spec = &volume.spec;
    match (&spec.source, &spec.source_ref) {
        (Some(source), None) => judge_source(source, &mut faults),
        (None, Some(_)) => faults.push(Fault::not_yet("spec.sourceRef")),
        (Some(_), Some(_)) => {
            faults.push(Fault::new(
                "spec",
                Reason::Invalid,
                "Data volume source and source ref are both set",
            ));
        }
        (None, None) => {
            faults.push(Fault::new("spec.source", Reason::Required, "a DataVolume must say what fills it"));
        }
    }
    if spec.pvc.is_some() == spec.storage.is_some() {
        let what = "a DataVolume says its size in one of spec.storage and spec.pvc";
        faults.push(Fault::new("spec.storage", Reason::Invalid, what));
    }
    let at = if spec.pvc.is_some() { "spec.pvc" } else { "spec.storage" };
    let at = format!("{at}.resources.requests.storage");
    let is_blank = spec.source.as_ref().is_some_and(|source| source.blank.is_some());
    match size(volume) {
        Some(size) if size.bytes().is_none_or(|bytes| bytes == 0) => {
            faults.push(Fault::new(
                at,
                Reason::Invalid,
                format!("{} is not the size of a disk", size.as_str()),
            ));
        }
        None if is_blank => {
            faults.push(Fault::new(at, Reason::Required, "an empty disk must say its size"));
        }
        _ => {}
    }
    match &spec.content_type {
        None | Some(ContentType::Kubevirt) => {}
        Some(ContentType::Archive) => faults.push(Fault::not_yet("spec.contentType")),
        Some(ContentType::Other(word)) if word.is_empty() => {}
        Some(ContentType::Other(word)) => {
            let what = format!("must be kubevirt or archive, not {word:?}");
            faults.push(Fault::new("spec.contentType", Reason::Invalid, what));
        }
    }
    if !spec.checkpoints.is_empty() {
        faults.push(Fault::not_yet("spec.checkpoints"));
    }
    faults
}

fn judge_source(source: &Source, faults: &mut Vec<Fault>) {
    let named = [
        ("http", source.http.is_some()),
        ("registry", source.registry.is_some()),
        ("blank", source.blank.is_some()),
        ("s3", source.s3.is_some()),
        ("gcs", source.gcs.is_some()),
        ("pvc", source.pvc.is_some()),
        ("upload", source.upload.is_some()),
        ("imageio", source.imageio.is_some()),
        ("vddk", source.vddk.is_some()),
        ("snapshot", source.snapshot.is_some()),
    ];
    let named: Vec<&str> = named.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    match named[..] {
        ["http" | "registry" | "blank"] => {}
        [other] => {
            let hint = "on a laptop a disk comes from http, registry or blank";
            faults.push(Fault::not_yet(format!("spec.source.{other}")).hint(hint));
        }
        [] => faults.push(Fault::new("spec.source", Reason::Required, "Missing Data volume source")),
        _ => {
            let what = format!("Multiple Data volume sources: {}", named.join(", "));
            faults.push(Fault::new("spec.source", Reason::Invalid, what));
        }
    }
    if let Some(registry) = &source.registry {
        if registry.image_stream.is_some() {
            faults.push(Fault::not_yet("spec.source.registry.imageStream"));
        }
        match registry.url.as_deref() {
            Some(url) if url.starts_with("docker://") => {}
            Some(url) => {
                let what = format!("must be docker://HOST/REPO:TAG, not {url:?}");
                faults.push(Fault::new("spec.source.registry.url", Reason::Invalid, what));
            }
            None if registry.image_stream.is_none() => {
                let what = "a registry must have a url: docker://HOST/REPO:TAG";
                faults.push(Fault::new("spec.source.registry.url", Reason::Required, what));
            }
            None => {}
        }
    }
    if let Some(http) = &source.http {
        let is_web = http.url.starts_with("http://") || http.url.starts_with("https://");
        if !is_web {
            let what = format!("must begin with http:// or https://, not {:?}", http.url);
            faults.push(Fault::new("spec.source.http.url", Reason::Invalid, what));
        }
    }
}
