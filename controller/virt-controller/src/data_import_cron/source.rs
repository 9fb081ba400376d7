//! Source of the image of a DataImportCron: the request for its digest, and the import of that digest.
//!
//! | source | request to | digest | imported |
//! |---|---|---|---|
//! | `registry`, by tag | the registry, for the manifest | that of the manifest or index | the same name, by that digest |
//! | `registry`, by digest | none | that one | the same |
//! | `http`, `s3` | the server, for the head of the file | SHA-256 of its strong ETag, or of its date and size | the same URL |
//! | `pvc` | the cache of the cluster | `uid:` and the PVC's uid | the same PVC |
//!
//! virt-controller sends no credentials and trusts the system's CAs: it has no right to Secrets and
//! ConfigMaps of tenants. If the template names one, a pod sends the request ([`super::poller`]), and the
//! digest is the same.

use super::messages::{NO_DIGEST, NOT_AUTHORIZED};
use api::cdi::DataImportCron;
use api::data_volume::{Http, Registry, Source as Template};

/// Message about the field for imports from another namespace with the rights of a service account.
const SERVICE_ACCOUNT: &str = "spec.serviceAccountName: images of another namespace are not imported, whatever the \
                               service account; remove the field";

/// Source of the image.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source<'a> {
    /// virt-controller itself asks the server.
    Asked(Question),
    /// Request from a pod, with Secrets or ConfigMaps of its namespace.
    ByPod,
    /// The digest is part of the URL.
    Pinned(String),
    /// The PVC of this name, in the namespace of the DataImportCron.
    Pvc(&'a str),
    /// No request is possible: reason, and message with the field.
    Refused(&'static str, String),
}

/// Question to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The digest of an image by its tag.
    Image {
        /// Address of the registry: `HOST` or `HOST:PORT`.
        host: String,
        /// Repository without the host.
        repository: String,
        /// Tag without the colon.
        tag: String,
    },
    /// The version of a file by its URL.
    File(String),
}

/// Classifies the source of a DataImportCron.
pub(super) fn classify(cron: &DataImportCron) -> Source<'_> {
    let template = &cron.spec.template.spec;
    let own = cron.metadata.namespace.as_deref();
    // Its DataVolumes are created with virt-controller's rights, which cover all namespaces.
    if let Some((field, other)) =
        template.foreign_clone_source(own).or_else(|| template.foreign_data_source_ref(own))
    {
        let why = format!("spec.template.spec.{field}: it is in the namespace {other}");
        return Source::Refused(NOT_AUTHORIZED, why);
    }
    if cron.spec.service_account_name.as_ref().is_some_and(|name| !name.is_empty()) {
        return Source::Refused(NOT_AUTHORIZED, SERVICE_ACCOUNT.to_owned());
    }
    let refused =
        |field: &str, why: &str| Source::Refused(NO_DIGEST, format!("{}{field}: {why}", source_field("")));
    let Some(source) = &template.source else { return refused("", "there is none") };
    match source {
        Template { registry: Some(registry), .. } => image(registry),
        Template { http: Some(http), .. } => file(http),
        Template { s3: Some(s3), .. } => {
            asked(&s3.url, "s3.url", names_one([&s3.secret_ref, &s3.cert_config_map]))
        }
        Template { pvc: Some(pvc), .. } => Source::Pvc(&pvc.name),
        _ => refused("", "versions can be compared for registry, http, s3 and pvc only"),
    }
}

/// The template's source, pinned to a digest.
pub(super) fn pin(source: &Template, digest: &str) -> Template {
    let mut pinned = source.clone();
    if let Some(registry) = &mut pinned.registry
        && let Some(Reference { host, repository, .. }) = registry.url.as_deref().and_then(reference)
    {
        registry.url = Some(format!("docker://{host}/{repository}@{digest}"));
    }
    pinned
}

/// True if a text is a digest in the form of this module: of an image, of a validator, of a PVC.
pub(super) fn is_digest(text: &str) -> bool {
    let Some((kind, rest)) = text.split_once(':') else { return false };
    let is_hex = |length: usize| {
        rest.len() == length && rest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    match kind {
        "sha256" => is_hex(64),
        "sha512" => is_hex(128),
        "uid" => {
            (SHORT..=64).contains(&rest.len())
                && rest.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        }
        _ => false,
    }
}

/// True if a text is the digest of an image.
pub(crate) fn is_image_digest(text: &str) -> bool {
    !text.starts_with("uid:") && is_digest(text)
}

/// Digits of a digest in the name of its DataVolume.
const SHORT: usize = 12;

/// The name of the DataVolume of a digest.
pub(super) fn name(cron: &DataImportCron, digest: &str) -> String {
    let hex = digest.split_once(':').map_or(digest, |(_, hex)| hex);
    let short = hex.get(..SHORT).unwrap_or(hex).trim_end_matches('-').to_ascii_lowercase();
    format!("{}-{short}", cron.spec.managed_data_source)
}

/// True if a name is [`name`] of some digest.
pub(super) fn is_name(cron: &DataImportCron, name: &str) -> bool {
    let short = name.strip_prefix(&*cron.spec.managed_data_source).and_then(|rest| rest.strip_prefix('-'));
    short.is_some_and(|short| {
        // Of a uid the last one may be a dash, which is left out.
        (SHORT - 1..=SHORT).contains(&short.len())
            && short.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'))
    })
}

/// The digest that pins the image of a source.
pub(super) fn image_digest(source: &Template) -> Option<&str> {
    reference(source.registry.as_ref()?.url.as_deref()?)?.digest
}

fn source_field(field: &str) -> String {
    format!("spec.template.spec.source{}{field}", if field.is_empty() { "" } else { "." })
}

/// True if one of these fields is set.
fn names_one(fields: [&Option<String>; 2]) -> bool {
    fields.iter().any(|field| field.as_ref().is_some_and(|name| !name.is_empty()))
}

fn image(registry: &Registry) -> Source<'static> {
    let by_pod = names_one([&registry.secret_ref, &registry.cert_config_map]);
    let url = registry.url.as_deref().unwrap_or_default();
    match reference(url) {
        Some(Reference { digest: Some(digest), .. }) => Source::Pinned(digest.to_owned()),
        Some(_) if by_pod => Source::ByPod,
        Some(Reference { host, repository, tag, digest: None }) => Source::Asked(Question::Image {
            host: host.to_owned(),
            repository: repository.to_owned(),
            tag: tag.to_owned(),
        }),
        None => Source::Refused(
            NO_DIGEST,
            format!("{}: it must be docker://HOST/REPO:TAG", source_field("registry.url")),
        ),
    }
}

fn file(http: &Http) -> Source<'static> {
    let more = !http.secret_extra_headers.is_empty()
        || !http.extra_headers.is_empty()
        || http.insecure_skip_verify == Some(true);
    asked(&http.url, "http.url", more || names_one([&http.secret_ref, &http.cert_config_map]))
}

fn asked(url: &str, field: &str, by_pod: bool) -> Source<'static> {
    // A URL may contain a signature, and is not repeated. A URL with a user needs a request with that user's
    // password.
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        Some(host) if !host.is_empty() && (by_pod || host.contains('@')) => Source::ByPod,
        Some(host) if !host.is_empty() => Source::Asked(Question::File(url.to_owned())),
        _ => Source::Refused(
            NO_DIGEST,
            format!("{}: it must begin with https:// or http://", source_field(field)),
        ),
    }
}

/// The parts of `docker://HOST/REPO[:TAG][@DIGEST]`.
struct Reference<'a> {
    host: &'a str,
    repository: &'a str,
    tag: &'a str,
    digest: Option<&'a str>,
}

/// Parses the URL of an image; `None` if it is invalid. Only characters that are safe in a URL path pass.
fn reference(url: &str) -> Option<Reference<'_>> {
    let (host, rest) = url.strip_prefix("docker://")?.split_once('/')?;
    let (rest, digest) = match rest.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (rest, None),
    };
    let (repository, tag) = rest.split_once(':').unwrap_or((rest, "latest"));
    let is_of = |text: &str, more: &[u8]| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
    };
    let parts = repository.split('/').all(|part| is_of(part, b"._-") && !part.contains("..") && part != ".");
    let is_whole = is_of(host, b".-_:[]")
        && parts
        && repository.len() <= 255
        && is_of(tag, b"._-")
        && tag.len() <= 128
        && !tag.starts_with(['.', '-'])
        && digest.is_none_or(is_image_digest);
    is_whole.then_some(Reference { host, repository, tag, digest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::wire;
    use serde_json::{Value, json};

    fn cron(source: &Value) -> DataImportCron {
        let spec = json!({"managedDataSource": "os", "template": {"spec": {"source": source}}});
        wire::read(json!({"metadata": {"namespace": "n"}, "spec": spec})).unwrap()
    }

    fn refused(source: &Value) -> (&'static str, String) {
        match classify(&cron(source)) {
            Source::Refused(word, why) => (word, why),
            other => panic!("{source}: {other:?}"),
        }
    }

    #[test]
    fn an_image_is_asked_for_by_its_tag_and_imported_by_its_digest() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let source = json!({"registry": {"url": "docker://h.example:5000/a/b:v1"}});
        let question =
            Question::Image { host: "h.example:5000".into(), repository: "a/b".into(), tag: "v1".into() };
        assert_eq!(classify(&cron(&source)), Source::Asked(question));
        let template = cron(&source).spec.template.spec.source.unwrap();
        let url = pin(&template, &digest).registry.unwrap().url.unwrap();
        assert_eq!(url, format!("docker://h.example:5000/a/b@{digest}"));
        let source = json!({"registry": {"url": url}});
        assert_eq!(classify(&cron(&source)), Source::Pinned(digest.clone()));
        assert_eq!(name(&cron(&source), &digest), "os-0a0a0a0a0a0a");
        assert_eq!(name(&cron(&source), "uid:1234abcd-56-9-"), "os-1234abcd-56");
    }

    #[test]
    fn nothing_gets_into_the_path_of_a_request() {
        for url in [
            "docker://h/a/../../b:1",
            "docker://h/./a:1",
            "docker://h/a?x=:1",
            "docker://h/a#b",
            "docker://h/a:1/2",
            "docker://h/a%2e:1",
            "docker://u@h/a:1",
            "docker://h /a",
            "docker://h/a@sha256:00",
            "docker://h/a:.",
            "docker://h/",
            "docker:///a",
            "http://h/a",
        ] {
            let (word, why) = refused(&json!({"registry": {"url": url}}));
            assert_eq!(word, NO_DIGEST, "{url}");
            assert_eq!(why, "spec.template.spec.source.registry.url: it must be docker://HOST/REPO:TAG");
        }
    }

    #[test]
    fn a_repository_and_a_tag_are_as_long_as_registries_take_them() {
        for (repository, tag, is_taken) in [(255, 128, true), (256, 128, false), (255, 129, false)] {
            let url = format!("docker://h/{}:{}", "r".repeat(repository), "t".repeat(tag));
            let source = json!({"registry": {"url": url}});
            assert_eq!(matches!(classify(&cron(&source)), Source::Asked(_)), is_taken, "{repository} {tag}");
        }
    }

    #[test]
    fn what_only_a_pod_can_have_is_asked_by_a_pod() {
        for source in [
            json!({"registry": {"url": "docker://h/a", "secretRef": "s"}}),
            json!({"registry": {"url": "docker://h/a", "certConfigMap": "s"}}),
            json!({"http": {"url": "https://h/a", "secretRef": "s"}}),
            json!({"http": {"url": "https://h/a", "extraHeaders": ["A: b"]}}),
            json!({"http": {"url": "https://h/a", "secretExtraHeaders": ["s"]}}),
            json!({"http": {"url": "https://h/a", "insecureSkipVerify": true}}),
            json!({"http": {"url": "https://u:topsecret@h/a"}}),
            json!({"s3": {"url": "https://h/a", "secretRef": "s"}}),
        ] {
            assert_eq!(classify(&cron(&source)), Source::ByPod, "{source}");
        }
        let (_, why) = refused(&json!({"http": {"url": "file:///topsecret", "secretRef": "s"}}));
        assert!(
            why.starts_with("spec.template.spec.source.http.url: ") && !why.contains("topsecret"),
            "{why}"
        );
        for url in ["https:///a", "https://"] {
            assert_eq!(refused(&json!({"http": {"url": url}})).0, NO_DIGEST, "{url}");
            assert_eq!(refused(&json!({"http": {"url": url, "secretRef": "s"}})).0, NO_DIGEST, "{url}");
        }
        let digest = format!("sha256:{}", "0a".repeat(32));
        let pinned = json!({"registry": {"url": format!("docker://h/a@{digest}"), "secretRef": "s"}});
        assert_eq!(classify(&cron(&pinned)), Source::Pinned(digest), "nobody has to be asked");
        let url = "https://h/a?signature=1";
        for source in [json!({"http": {"url": url}}), json!({"s3": {"url": url, "secretRef": ""}})] {
            assert_eq!(classify(&cron(&source)), Source::Asked(Question::File(url.into())));
        }
    }

    #[test]
    fn a_service_account_is_refused_by_name() {
        let mut cron = cron(&json!({"registry": {"url": "docker://h/a"}}));
        cron.spec.service_account_name = Some("poller".into());
        assert_eq!(classify(&cron), Source::Refused(NOT_AUTHORIZED, SERVICE_ACCOUNT.to_owned()));
        cron.spec.service_account_name = Some(String::new());
        assert!(matches!(classify(&cron), Source::Asked(_)));
    }

    #[test]
    fn a_pvc_of_another_namespace_is_not_taken_with_our_rights() {
        let (word, why) = refused(&json!({"pvc": {"namespace": "m", "name": "disk"}}));
        assert_eq!(
            (word, why.as_str()),
            (NOT_AUTHORIZED, "spec.template.spec.source.pvc.namespace: it is in the namespace m")
        );
        assert_eq!(classify(&cron(&json!({"pvc": {"namespace": "n", "name": "disk"}}))), Source::Pvc("disk"));
        assert_eq!(refused(&json!({"upload": {}})).0, NO_DIGEST);
    }
}
