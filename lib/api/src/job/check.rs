//! Faults of a DataVolume. This is the one place that lists which sources, and which of their fields, are
//! served.

use super::import::non_empty;
use crate::data_volume::{ContentType, DataVolume, Http, PullMethod, Registry, Source, SourceRef};
use crate::fault::{Fault, Reason};
use crate::meta::is_name;

/// All faults of a DataVolume for an import.
pub fn check(volume: &DataVolume) -> Vec<Fault> {
    faults(volume, false)
}

/// All faults of a DataVolume in a cluster, which can also clone PVCs.
pub fn check_in_cluster(volume: &DataVolume) -> Vec<Fault> {
    faults(volume, true)
}

fn faults(volume: &DataVolume, has_claims: bool) -> Vec<Fault> {
    let mut faults = vec![];
    let spec = &volume.spec;
    match (&spec.source, &spec.source_ref) {
        (Some(source), None) => check_source(source, has_claims, &mut faults),
        (None, Some(named)) if has_claims => check_reference(named, &mut faults),
        (None, Some(_)) => faults.push(Fault::not_yet("spec.sourceRef")),
        (Some(_), Some(_)) => {
            let what = "Data volume source and source ref are both set";
            faults.push(Fault::new("spec", Reason::Invalid, what));
        }
        (None, None) => {
            faults.push(Fault::new("spec.source", Reason::Required, "a DataVolume needs a source"));
        }
    }
    if (spec.source.is_some() || spec.source_ref.is_some())
        && spec.data_references().iter().any(Option::is_some)
    {
        let what = "External population is incompatible with Source and SourceRef";
        faults.push(Fault::new("spec.source", Reason::Invalid, what));
    }
    check_names(volume, &mut faults);
    check_size(volume, &mut faults);
    match &spec.content_type {
        None | Some(ContentType::Kubevirt) => {}
        Some(ContentType::Archive) => {
            let why = not_of_files(volume);
            faults.extend(why.map(|why| Fault::new("spec.contentType", Reason::Invalid, why)));
        }
        Some(ContentType::Other(word)) if word.is_empty() => {}
        Some(ContentType::Other(word)) => {
            let what = format!("must be kubevirt or archive, not {word:?}");
            faults.push(Fault::new("spec.contentType", Reason::Invalid, what));
        }
    }
    if !spec.checkpoints.is_empty() {
        faults.push(Fault::not_yet("spec.checkpoints"));
    }
    if spec.final_checkpoint == Some(true) {
        faults.push(Fault::not_yet("spec.finalCheckpoint"));
    }
    faults
}

/// Checks that names of other objects are valid: they become file names and parts of a pod.
fn check_names(volume: &DataVolume, faults: &mut Vec<Fault>) {
    let spec = &volume.spec;
    let mut judge = |field: String, kind: &str, name: &Option<String>| {
        if let Some(name) = non_empty(name).filter(|name| !is_name(name)) {
            let what = format!("{name:?} cannot be the name of a {kind}");
            faults.push(Fault::new(field, Reason::Invalid, what));
        }
    };
    judge("spec.priorityClassName".to_owned(), "PriorityClass", &spec.priority_class_name);
    judge("spec.serviceAccountName".to_owned(), "ServiceAccount", &spec.service_account_name);
    let source = spec.source.as_ref();
    let http = source.and_then(|source| source.http.as_ref());
    let s3 = source.and_then(|source| source.s3.as_ref());
    let gcs = source.and_then(|source| source.gcs.as_ref());
    let registry = source.and_then(|source| source.registry.as_ref());
    let named = [
        ("http", http.map(|http| &http.secret_ref), http.map(|http| &http.cert_config_map)),
        ("s3", s3.map(|s3| &s3.secret_ref), s3.map(|s3| &s3.cert_config_map)),
        ("gcs", gcs.map(|gcs| &gcs.secret_ref), None),
        (
            "registry",
            registry.map(|registry| &registry.secret_ref),
            registry.map(|registry| &registry.cert_config_map),
        ),
    ];
    for (source, secret, certificates) in named {
        let at = |field: &str| format!("spec.source.{source}.{field}");
        judge(at("secretRef"), "Secret", secret.unwrap_or(&None));
        judge(at("certConfigMap"), "ConfigMap", certificates.unwrap_or(&None));
    }
    for (i, name) in http.iter().flat_map(|http| &http.secret_extra_headers).enumerate() {
        judge(format!("spec.source.http.secretExtraHeaders[{i}]"), "Secret", &Some(name.clone()));
    }
}

/// Message for an archive on a block device, which has no files.
pub(super) const ON_BLOCK: &str = "ContentType Archive cannot have block volumeMode";

/// Reason why the content of the DataVolume cannot be an archive.
fn not_of_files(volume: &DataVolume) -> Option<&'static str> {
    let spec = &volume.spec;
    let modes = [
        spec.pvc.as_ref().and_then(|claim| claim.volume_mode.as_deref()),
        spec.storage.as_ref().and_then(|claim| claim.volume_mode.as_deref()),
    ];
    let source = spec.source.as_ref();
    if source.is_some_and(|source| source.blank.is_some()) {
        Some("SourceType cannot be blank and the contentType be archive")
    } else if source.is_some_and(|source| source.registry.is_some()) {
        Some("ContentType must be kubevirt when Source is Registry")
    } else if spec.source_ref.is_some() || source.is_some_and(|source| source.pvc.is_some()) {
        Some(
            "ContentType must be kubevirt when the source is a PVC: disks are cloned, and archives are not yet",
        )
    } else {
        modes.contains(&Some("Block")).then_some(ON_BLOCK)
    }
}

fn check_size(volume: &DataVolume, faults: &mut Vec<Fault>) {
    let spec = &volume.spec;
    if spec.pvc.is_some() == spec.storage.is_some() {
        let what = "a DataVolume needs exactly one of spec.storage and spec.pvc";
        faults.push(Fault::new("spec.storage", Reason::Invalid, what));
    }
    let at = if spec.pvc.is_some() { "spec.pvc" } else { "spec.storage" };
    let at = format!("{at}.resources.requests.storage");
    let is_blank = spec.source.as_ref().is_some_and(|source| source.blank.is_some());
    match spec.size() {
        Some(size) if size.bytes().is_none_or(|bytes| bytes == 0) => {
            let what = format!("{} is not the size of a disk", size.as_str());
            faults.push(Fault::new(at, Reason::Invalid, what));
        }
        None if is_blank => {
            faults.push(Fault::new(at, Reason::Required, "an empty disk needs a size"));
        }
        _ => {}
    }
}

fn check_reference(named: &SourceRef, faults: &mut Vec<Fault>) {
    if named.kind != "DataSource" {
        let what = format!("must be DataSource, not {:?}", named.kind);
        faults.push(Fault::new("spec.sourceRef.kind", Reason::Invalid, what));
    }
    if named.name.is_empty() {
        faults.push(Fault::new("spec.sourceRef.name", Reason::Required, "must name a DataSource"));
    }
}

fn check_source(source: &Source, has_claims: bool, faults: &mut Vec<Fault>) {
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
        ["http" | "s3" | "gcs" | "registry" | "blank" | "upload"] => {}
        ["pvc" | "snapshot"] if has_claims => {
            let claims = [("pvc", &source.pvc), ("snapshot", &source.snapshot)];
            for (field, claim) in claims {
                if claim.as_ref().is_some_and(|claim| claim.name.is_empty()) {
                    let at = format!("spec.source.{field}.name");
                    faults.push(Fault::new(at, Reason::Required, "must name what is cloned"));
                }
            }
        }
        [other] => faults.push(Fault::not_yet(format!("spec.source.{other}"))),
        [] => faults.push(Fault::new("spec.source", Reason::Required, "Missing Data volume source")),
        _ => {
            let what = format!("Multiple Data volume sources: {}", named.join(", "));
            faults.push(Fault::new("spec.source", Reason::Invalid, what));
        }
    }
    if let Some(registry) = &source.registry {
        check_registry(registry, faults);
    }
    if let Some(http) = &source.http {
        check_http(http, faults);
    }
    if let Some(s3) = &source.s3 {
        check_address("spec.source.s3.url", &s3.url, &["https://", "http://"], faults);
    }
    if let Some(gcs) = &source.gcs {
        let at = "spec.source.gcs.url";
        if non_empty(&gcs.secret_ref).is_some() && begins(&gcs.url, "http://") {
            let what = "with secretRef it must begin with gs:// or https://: the token of an account goes by TLS alone";
            faults.push(Fault::new(at, Reason::Invalid, what));
        } else {
            check_address(at, &gcs.url, &["gs://", "https://", "http://"], faults);
            if !names_object(&gcs.url) {
                faults.push(Fault::new(
                    at,
                    Reason::Invalid,
                    "must be gs://BUCKET/OBJECT: it names no object",
                ));
            }
        }
    }
}

/// True if an address in Google Cloud Storage names an object, where it has the short form
/// `gs://BUCKET/OBJECT`.
pub fn names_object(url: &str) -> bool {
    let Some(rest) = url.get("gs://".len()..).filter(|_| begins(url, "gs://")) else { return true };
    let (bucket, object) = rest.split_once('/').unwrap_or((rest, ""));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !bucket.trim_matches('.').is_empty() && bucket.chars().all(is_plain) && !object.is_empty()
}

fn check_registry(registry: &Registry, faults: &mut Vec<Fault>) {
    let at = |field: &str| format!("spec.source.registry.{field}");
    if non_empty(&registry.image_stream).is_some() {
        faults.push(Fault::not_yet(at("imageStream")));
    }
    match non_empty(&registry.url) {
        Some(_) if registry.reference().is_some() => {}
        Some(url) => {
            let what = format!("must be docker://HOST/REPO:TAG, not {url:?}");
            faults.push(Fault::new(at("url"), Reason::Invalid, what));
        }
        None if non_empty(&registry.image_stream).is_none() => {
            let what = "a registry must have a url: docker://HOST/REPO:TAG";
            faults.push(Fault::new(at("url"), Reason::Required, what));
        }
        None => {}
    }
    match &registry.pull_method {
        None | Some(PullMethod::Pod | PullMethod::Node) => {}
        Some(PullMethod::Other(word)) if word.is_empty() => {}
        Some(PullMethod::Other(word)) => {
            let what = format!("must be pod or node, not {word:?}");
            faults.push(Fault::new(at("pullMethod"), Reason::Invalid, what));
        }
    }
}

/// True if the URL has this scheme, in upper or lower case.
fn begins(url: &str, scheme: &str) -> bool {
    url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

/// Checks an address. The fault does not repeat it, since it may hold a password or a signature.
fn check_address(at: &str, url: &str, schemes: &[&str], faults: &mut Vec<Fault>) {
    if !schemes.iter().any(|scheme| begins(url, scheme)) {
        let what = format!("must begin with {}", schemes.join(" or "));
        faults.push(Fault::new(at, Reason::Invalid, what));
    }
}

fn check_http(http: &Http, faults: &mut Vec<Fault>) {
    let at = |field: &str| format!("spec.source.http.{field}");
    check_address(&at("url"), &http.url, &["http://", "https://"], faults);
    for (i, line) in http.extra_headers.iter().enumerate() {
        // The fault does not repeat the line, since it may hold a secret.
        if !line.contains(':') {
            let what = "a header is written 'Name: value'";
            faults.push(Fault::new(at(&format!("extraHeaders[{i}]")), Reason::Invalid, what));
        }
    }
    faults.extend(non_empty(&http.checksum).and_then(|text| check_checksum(at("checksum"), text)));
}

/// Checksums that `cdi` can compute: SHA-256 and SHA-512. Digits without an algorithm are one of these by
/// their length.
fn check_checksum(at: String, text: &str) -> Option<Fault> {
    let (algorithm, digits) = match text.split_once(':') {
        Some((algorithm, digits)) => (algorithm.to_ascii_lowercase(), digits),
        None => (String::new(), text),
    };
    let is_hex = |count: usize| digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    match algorithm.as_str() {
        "md5" | "sha1" => Some(
            Fault::not_yet(at).hint(format!("{algorithm} is not secure; write sha256:HEX or sha512:HEX")),
        ),
        "" if text.starts_with(':') => Some(wrong_checksum(at, text)),
        "" if is_hex(64) || is_hex(128) => None,
        "sha256" if is_hex(64) => None,
        "sha512" if is_hex(128) => None,
        _ => Some(wrong_checksum(at, text)),
    }
}

fn wrong_checksum(at: String, text: &str) -> Fault {
    let what = format!("{text:?} is neither sha256:HEX with 64 hex digits nor sha512:HEX with 128");
    Fault::new(at, Reason::Invalid, what)
}
