//! Sources of a disk's content: exactly one, with valid fields.

use super::url::{scheme, shown};
use super::wrong;
use api::data_volume::{ContentType, Http, PullMethod, PvcSource, Registry, Source, SourceRef, Spec};
use api::fault::{Fault, Reason};
use api::job::names_object;

/// Checksum algorithms, and the number of hexadecimal digits of each.
const SUMS: [(&str, usize); 4] = [("md5", 32), ("sha1", 40), ("sha256", 64), ("sha512", 128)];

/// Validates the source of a DataVolume.
pub(super) fn check(spec: &Spec, at: &str) -> Result<(), Vec<Fault>> {
    let source = match (&spec.source, &spec.source_ref) {
        (None, None) | (Some(_), Some(_)) => {
            let message = "Data volume should have either Source or SourceRef, or be externally populated";
            return Err(wrong(format!("{at}.source"), message));
        }
        (None, Some(reference)) => return referred(reference, at),
        (Some(source), None) => source,
    };
    check_single_source(source, "Data volume", at)?;
    content_type(spec.content_type.as_ref(), at)?;
    one(source, spec.content_type.as_ref(), at)?;
    let refused = unserved(spec, at);
    if !refused.is_empty() {
        return Err(refused);
    }
    for (from, word, noun) in [(&source.pvc, "PVC", "PVC"), (&source.snapshot, "Snapshot", "snapshot")] {
        if from.as_ref().is_some_and(is_nowhere) {
            let at = format!("{at}.source.{word}");
            return Err(wrong(&at, format!("{at} source {noun} is not valid")));
        }
    }
    Ok(())
}

/// Faults for features that we will never support, in any place.
pub(crate) fn unserved(spec: &Spec, at: &str) -> Vec<Fault> {
    let source = spec.source.as_ref();
    let mut faults = foreign(source, at);
    let staged = [
        ("checkpoints", !spec.checkpoints.is_empty()),
        ("finalCheckpoint", spec.final_checkpoint == Some(true)),
    ];
    faults.extend(staged.into_iter().filter(|(_, is_there)| *is_there).map(|(field, _)| stage(field, at)));
    faults
}

/// Sources that export from another platform's storage.
pub(super) fn foreign(source: Option<&Source>, at: &str) -> Vec<Fault> {
    let imageio = source.is_some_and(|source| source.imageio.is_some());
    let vddk = source.is_some_and(|source| source.vddk.is_some());
    let named = [("imageio", "oVirt", imageio), ("vddk", "vSphere", vddk)];
    let named = named.into_iter().filter(|(.., is_there)| *is_there);
    named
        .map(|(field, from, _)| {
            let field = format!("{at}.source.{field}");
            let message = format!("{field} is not supported: nothing is imported from {from} directly");
            Fault::new(field, Reason::NotSupported, message)
                .hint("export the disk to a file, and import that by source.http or source.upload")
        })
        .collect()
}

/// The refusal of a field of multi-stage imports.
pub(super) fn stage(field: &str, at: &str) -> Fault {
    let field = format!("{at}.{field}");
    let message = format!("{field} is not supported: a disk is imported in one stage");
    Fault::new(field, Reason::NotSupported, message).hint("leave it out")
}

fn referred(reference: &SourceRef, at: &str) -> Result<(), Vec<Fault>> {
    let (field, message) = match reference {
        SourceRef { kind, .. } if kind.is_empty() => ("Kind", "Missing sourceRef kind".to_owned()),
        SourceRef { kind, .. } if kind != "DataSource" => {
            ("Kind", format!("Unsupported sourceRef kind {kind}, currently only DataSource is supported"))
        }
        SourceRef { name, .. } if name.is_empty() => ("Name", "Missing sourceRef name".to_owned()),
        _ => return Ok(()),
    };
    Err(wrong(format!("{at}.sourceRef.{field}"), message))
}

/// Checks that exactly one known source is set.
pub(super) fn check_single_source(source: &Source, noun: &str, at: &str) -> Result<(), Vec<Fault>> {
    let Source { http, s3, gcs, registry, pvc, upload, blank, imageio, vddk, snapshot, other: _ } = source;
    let named = [
        http.is_some(),
        s3.is_some(),
        gcs.is_some(),
        registry.is_some(),
        pvc.is_some(),
        upload.is_some(),
        blank.is_some(),
        imageio.is_some(),
        vddk.is_some(),
        snapshot.is_some(),
    ];
    let message = match named.into_iter().filter(|is_there| *is_there).count() {
        0 => format!("Missing {noun} source"),
        1 => return Ok(()),
        _ => format!("Multiple {noun} sources"),
    };
    Err(wrong(format!("{at}.source"), message))
}

/// Checks that the content type is known.
pub(super) fn content_type(said: Option<&ContentType>, at: &str) -> Result<(), Vec<Fault>> {
    match said {
        Some(ContentType::Other(word)) if !word.is_empty() => {
            Err(wrong(format!("{at}.contentType"), "ContentType not one of: kubevirt, archive"))
        }
        _ => Ok(()),
    }
}

/// Validates the source that is set.
pub(super) fn one(source: &Source, content: Option<&ContentType>, at: &str) -> Result<(), Vec<Fault>> {
    let is_archive = content == Some(&ContentType::Archive);
    if let Some(http) = &source.http {
        web(http, at)?;
    }
    for (url, word) in
        [(source.s3.as_ref().map(|s3| &s3.url), "S3"), (source.gcs.as_ref().map(|gcs| &gcs.url), "GCS")]
    {
        if let Some(url) = url {
            address(url, word, at)?;
        }
    }
    if let Some(gcs) = &source.gcs {
        object(&gcs.url, at)?;
    }
    if source.blank.is_some() && is_archive {
        let message = "SourceType cannot be blank and the contentType be archive";
        return Err(wrong(format!("{at}.contentType"), message));
    }
    if let Some(registry) = &source.registry {
        if is_archive {
            let message = "ContentType must be kubevirt when Source is Registry";
            return Err(wrong(format!("{at}.contentType"), message));
        }
        image(registry, at)?;
    }
    Ok(())
}

fn web(http: &Http, at: &str) -> Result<(), Vec<Fault>> {
    address(&http.url, "HTTP", at)?;
    match http.checksum.as_deref().filter(|sum| !sum.is_empty()).and_then(against_sum) {
        Some(why) => {
            Err(wrong(format!("{at}.source.HTTP.checksum"), format!("Invalid checksum format: {why}")))
        }
        None => Ok(()),
    }
}

fn against_sum(sum: &str) -> Option<String> {
    let Some((algorithm, digits)) = sum.split_once(':') else {
        return Some(format!("invalid checksum format: expected 'algorithm:hash', got '{sum}'"));
    };
    let (algorithm, digits) = (algorithm.trim().to_ascii_lowercase(), digits.trim());
    if digits.is_empty() {
        return Some("checksum hash value cannot be empty".to_owned());
    }
    let Some((_, length)) = SUMS.iter().find(|(known, _)| *known == algorithm) else {
        let known = SUMS.map(|(known, _)| known).join(", ");
        return Some(format!("unsupported hash algorithm '{algorithm}': supported algorithms are: {known}"));
    };
    if digits.len() != *length {
        let found = digits.len();
        return Some(format!(
            "invalid {algorithm} hash length: expected {length} hex characters, got {found}"
        ));
    }
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    (!is_hex).then(|| "checksum hash is not valid hexadecimal".to_owned())
}

/// Validates the URL of a web server or an object store.
fn address(url: &str, word: &str, at: &str) -> Result<(), Vec<Fault>> {
    let why = match scheme(url).as_deref() {
        _ if url.is_empty() => "source URL is empty".to_owned(),
        Some("http" | "https" | "gs") => return Ok(()),
        // A URL without a path cannot be requested.
        None => format!("Invalid source URL: {}", shown(url)),
        Some("") if !url.starts_with('/') => format!("Invalid source URL: {}", shown(url)),
        Some(_) => format!("Invalid source URL scheme: {}", shown(url)),
    };
    Err(wrong(format!("{at}.source.{word}.url"), format!("{at}.source {why}")))
}

/// Checks that the URL names an object. Without one, the importer pod would fail.
fn object(url: &str, at: &str) -> Result<(), Vec<Fault>> {
    if names_object(url) {
        return Ok(());
    }
    let message = format!(
        "{at}.source Invalid source URL: {}: it names no object, as gs://BUCKET/OBJECT does",
        shown(url)
    );
    Err(wrong(format!("{at}.source.GCS.url"), message))
}

/// Validates an image in a registry.
fn image(registry: &Registry, at: &str) -> Result<(), Vec<Fault>> {
    let refused = |field: &str, message: String| Err(wrong(format!("{at}.source.Registry{field}"), message));
    if registry.url.is_some() == registry.image_stream.is_some() {
        return refused("", "Source registry should have either URL or ImageStream".to_owned());
    }
    if let Some(url) = &registry.url {
        match scheme(url).as_deref() {
            Some("docker" | "oci-archive") => {}
            Some(_) => {
                return refused(".URL", format!("Illegal registry source URL scheme {}", shown(url)));
            }
            None => return refused(".URL", format!("Illegal registry source URL {}", shown(url))),
        }
    }
    if let Some(PullMethod::Other(word)) = &registry.pull_method
        && !word.is_empty()
    {
        let message = format!("ImportMethod {word} is neither pod, node or \"\"");
        return refused(".importMethod", message);
    }
    match registry.image_stream.as_deref() {
        Some("") => refused(".importMethod", "Source registry ImageStream is not valid".to_owned()),
        Some(_) if registry.pull_method != Some(PullMethod::Node) => {
            let message = "Source registry ImageStream is supported only with node pull import method";
            refused(".importMethod", message.to_owned())
        }
        _ => Ok(()),
    }
}

fn is_nowhere(from: &PvcSource) -> bool {
    from.namespace.is_empty() || from.name.is_empty()
}
