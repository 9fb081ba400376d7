//! The export of a disk: a PVC becomes a containerDisk in a registry.
//!
//! ```text
//!  annotations (PVC, or its DataVolume) ──Request::of──► every fault, by the name of its annotation
//!        │ Request::job: Secret and ConfigMap become folders
//!        ▼
//!  Export { disk, target, format, compression, labels } ──JSON──► cdi::export ──► Report
//! ```
//!
//! | annotation `cdi.kubevirt.io/storage.export.…` | value | unset |
//! |---|---|---|
//! | `target` | `docker://HOST/REPO:TAG` | nothing is exported |
//! | `secretRef` | a Secret of the namespace: `.dockerconfigjson`, or `accessKeyId` and `secretKey` | anonymous access |
//! | `certConfigMap` | a ConfigMap of the namespace with certificates (PEM) | the system's authorities |
//! | `format` | `qcow2`, which stores no zeros; `raw` | qcow2; an ISO image stays raw |
//! | `layer` | `zstd`, `gzip`, `none` | `zstd` |
//! | `architecture` | `amd64`, `arm64`, … | that of the node |
//! | `labels` | labels of the image configuration, `NAME=VALUE`, one a line | none |
//! | `id` | any text; a changed text exports again | |
//!
//! **Rights.** A user who may annotate a PVC or a DataVolume can read its bytes, and send them anywhere. A
//! user who may
//! create a pod or a VM in the namespace can do the same, and `edit` permits that as well. The same holds for
//! a Secret that is named here. Objects of other namespaces cannot be named.

use super::References;
use super::import::{Registry, SecretFiles};
use crate::cdi::annotations::{
    EXPORT, EXPORT_ANSWERS, EXPORT_ARCHITECTURE, EXPORT_ASKS, EXPORT_CERTIFICATES, EXPORT_FORMAT,
    EXPORT_LABELS, EXPORT_LAYER, EXPORT_SECRET, EXPORT_TARGET,
};
use crate::fault::{Fault, Reason};
use crate::wire::nearest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A disk to be exported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Export {
    /// Disk that is read. It is raw, whatever its first bytes are.
    pub disk: Disk,
    /// Image that is written; its architecture is that of the registry's entry.
    pub target: Registry,
    /// Format of the disk in the image. Unset: qcow2; an ISO image stays raw.
    #[serde(default)]
    pub format: Option<Format>,
    /// Compression of the image layer.
    #[serde(default)]
    pub layer: Compression,
    /// Labels of the image configuration.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// Disk that is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Disk {
    /// File of this path.
    File(PathBuf),
    /// Block device of this path.
    Device(PathBuf),
}

/// Format of a disk in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Format {
    /// qcow2, which stores no zeros.
    Qcow2,
    /// The bytes of the disk.
    Raw,
}

/// Compression of an image layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Compression {
    #[default]
    Zstd,
    /// gzip, for clients older than 2021.
    Gzip,
    None,
}

/// Request of an export, from the annotations of a PVC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Reference of the image.
    pub target: String,
    /// Secret with the login.
    pub secret: Option<String>,
    /// ConfigMap with the certificates of the registry.
    pub certificates: Option<String>,
    /// Format of the disk in the image.
    pub format: Option<Format>,
    /// Compression of the image layer.
    pub layer: Compression,
    /// Architecture of the image.
    pub architecture: Option<String>,
    /// Labels of the image configuration.
    pub labels: BTreeMap<String, String>,
}

/// Longest reference in bytes, and most bytes of all labels.
const LONGEST: usize = 512;
const MOST_LABELS: (usize, usize) = (64, 16 << 10);
/// Most unknown annotations that are reported.
const MOST_UNKNOWN: usize = 16;

/// True if the annotations request an export.
pub fn is_requested(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(EXPORT_TARGET).is_some_and(|target| !target.is_empty())
}

/// All annotations of the request as one text. A different text is another export.
pub fn fingerprint_text(annotations: &BTreeMap<String, String>) -> String {
    let said = EXPORT_ASKS.iter().filter_map(|name| Some((name, annotations.get(*name)?)));
    said.map(|(name, value)| format!("{name}={}:{value};", value.len())).collect()
}

/// Faults of annotations that have the prefix of exports and an unknown name. Without a fault they would
/// silently have no effect.
pub fn unknown(annotations: &BTreeMap<String, String>) -> Vec<Fault> {
    let behind = |name: &'static str| name.strip_prefix(EXPORT).unwrap_or(name);
    let asks = EXPORT_ASKS.map(behind);
    let is_known = |name: &str| EXPORT_ASKS.contains(&name) || EXPORT_ANSWERS.contains(&name);
    let all = annotations.range(EXPORT.to_owned()..).map(|(name, _)| name.as_str());
    let of_exports = all.take_while(|name| name.starts_with(EXPORT)).filter(|name| !is_known(name));
    let fault = |name: &str| {
        let meant = match nearest(name.strip_prefix(EXPORT).unwrap_or(name), &asks) {
            Some(near) => format!("did you mean {EXPORT}{near}?"),
            None => format!("{EXPORT} must be followed by one of {}", asks.join(", ")),
        };
        let at = format!("metadata.annotations[{name}]");
        Fault::new(at, Reason::NotSupported, format!("no annotation of exports has this name; {meant}"))
    };
    of_exports.take(MOST_UNKNOWN).map(fault).collect()
}

impl Request {
    /// Reads the request from annotations, or every fault of it. The worker checks the reference once more.
    pub fn from_annotations(annotations: &BTreeMap<String, String>) -> Result<Request, Vec<Fault>> {
        let mut faults = unknown(annotations);
        let mut reading = AnnotationReader { annotations, faults: &mut faults };
        let request = Request {
            target: reading.target(),
            secret: reading.name(EXPORT_SECRET),
            certificates: reading.name(EXPORT_CERTIFICATES),
            format: reading.word(EXPORT_FORMAT, &[("qcow2", Format::Qcow2), ("raw", Format::Raw)]),
            layer: reading.word(EXPORT_LAYER, LAYERS).unwrap_or_default(),
            architecture: reading.architecture(),
            labels: reading.labels(),
        };
        if faults.is_empty() { Ok(request) } else { Err(faults) }
    }

    /// The job that exports this disk.
    pub fn job<R: References>(&self, disk: Disk, references: &mut R) -> Result<Export, R::Error> {
        let login = self
            .secret
            .as_ref()
            .map(|name| Ok(SecretFiles { secret: name.clone(), files: references.secret(name)? }));
        let login = login.transpose()?;
        let ca = self.certificates.as_ref().map(|name| references.config_map(name)).transpose()?;
        let (url, architecture) = (self.target.clone(), self.architecture.clone());
        Ok(Export {
            disk,
            target: Registry { url, architecture, login, ca, ..Registry::default() },
            format: self.format,
            layer: self.layer,
            labels: self.labels.clone(),
        })
    }
}

const LAYERS: &[(&str, Compression)] =
    &[("zstd", Compression::Zstd), ("gzip", Compression::Gzip), ("none", Compression::None)];

/// Annotations that are read, and their faults.
struct AnnotationReader<'a> {
    annotations: &'a BTreeMap<String, String>,
    faults: &'a mut Vec<Fault>,
}

impl<'a> AnnotationReader<'a> {
    fn value(&self, name: &str) -> Option<&'a String> {
        self.annotations.get(name).filter(|text| !text.is_empty())
    }

    fn add_fault(&mut self, name: &str, what: String) {
        let at = format!("metadata.annotations[{name}]");
        self.faults.push(Fault::new(at, Reason::Invalid, what));
    }

    fn target(&mut self) -> String {
        let text = self.value(EXPORT_TARGET).cloned().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:/[]".contains(c);
        let rest = text.strip_prefix("docker://").filter(|rest| rest.chars().all(is_plain));
        let (_, last) = rest.and_then(|rest| rest.rsplit_once('/')).unwrap_or_default();
        let is_tagged = last.split_once(':').is_some_and(|(name, tag)| !name.is_empty() && !tag.is_empty());
        if text.len() <= LONGEST && !last.is_empty() && !is_tagged {
            // A registry would use the tag `latest`, and replace an image that others use.
            let what = format!(
                "must be docker://HOST/REPO:TAG with its tag, not {}; write :latest where that is meant",
                excerpt(&text)
            );
            self.add_fault(EXPORT_TARGET, what);
        } else if text.len() > LONGEST || !is_tagged {
            let what = format!(
                "must be docker://HOST/REPO:TAG of at most {LONGEST} letters, without a login and without a digest, not {}",
                excerpt(&text)
            );
            self.add_fault(EXPORT_TARGET, what);
        }
        text
    }

    /// Reads the name of an object, which becomes a part of a path.
    fn name(&mut self, annotation: &str) -> Option<String> {
        let text = self.value(annotation)?;
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        let is_name = text.len() <= 253
            && text.bytes().all(is_plain)
            && is_edge(text.bytes().next())
            && is_edge(text.bytes().next_back());
        if !is_name {
            self.add_fault(
                annotation,
                format!("must be the name of an object in this namespace, not {}", excerpt(text)),
            );
        }
        Some(text.clone())
    }

    fn word<T: Copy>(&mut self, annotation: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.value(annotation)?;
        let known = words.iter().find(|(word, _)| word == text).map(|(_, value)| *value);
        if known.is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.add_fault(annotation, format!("must be {}, not {}", all.join(" or "), excerpt(text)));
        }
        known
    }

    fn architecture(&mut self) -> Option<String> {
        let text = self.value(EXPORT_ARCHITECTURE)?;
        if text.len() > 32 || !text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
            self.add_fault(
                EXPORT_ARCHITECTURE,
                format!("must be an architecture as amd64 or arm64, not {}", excerpt(text)),
            );
        }
        Some(text.clone())
    }

    fn labels(&mut self) -> BTreeMap<String, String> {
        let text = self.value(EXPORT_LABELS).map(String::as_str).unwrap_or_default();
        let mut labels = BTreeMap::new();
        if text.len() > MOST_LABELS.1 || text.lines().count() > MOST_LABELS.0 {
            let (lines, bytes) = MOST_LABELS;
            self.add_fault(EXPORT_LABELS, format!("must be at most {lines} lines of {bytes} bytes in all"));
            return labels;
        }
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let pair = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            match pair.filter(|(name, _)| !name.is_empty() && !line.chars().any(char::is_control)) {
                Some((name, value)) => drop(labels.insert(name.to_owned(), value.to_owned())),
                None => self.add_fault(
                    EXPORT_LABELS,
                    format!("must be NAME=VALUE in each line, not {}", excerpt(line)),
                ),
            }
        }
        labels
    }
}

/// The first 80 characters of a foreign text, quoted, for a message.
fn excerpt(text: &str) -> String {
    let start: String = text.chars().take(80).collect();
    format!("{start:?}")
}

/// True if the text is the digest of a manifest. The report of a worker is not trusted to have one.
pub fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:");
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(is_hex))
}

impl Disk {
    /// The path of the file or device.
    pub fn path(&self) -> &PathBuf {
        match self {
            Disk::File(path) | Disk::Device(path) => path,
        }
    }
}

impl Compression {
    /// The compression as the annotation has it.
    pub fn word(self) -> &'static str {
        LAYERS.iter().find(|(_, layer)| *layer == self).map_or("", |(word, _)| word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Files;
    use std::convert::Infallible;

    fn notes(said: &[(&str, &str)]) -> BTreeMap<String, String> {
        let name = |name: &str| format!("cdi.kubevirt.io/storage.export.{name}");
        said.iter().map(|(key, value)| (name(key), (*value).to_owned())).collect()
    }

    const TARGET: (&str, &str) = ("target", "docker://registry.example:5000/os/debian:12");

    #[test]
    fn annotations_become_a_request() {
        let plain = Request::from_annotations(&notes(&[TARGET])).unwrap();
        let expected = Request {
            target: TARGET.1.to_owned(),
            secret: None,
            certificates: None,
            format: None,
            layer: Compression::Zstd,
            architecture: None,
            labels: BTreeMap::new(),
        };
        assert_eq!(plain, expected);
        let all = notes(&[
            TARGET,
            ("secretRef", "login.1"),
            ("certConfigMap", "ca"),
            ("format", "raw"),
            ("layer", "gzip"),
            ("architecture", "arm64"),
            ("labels", "a=b=c\n\n instancetype.kubevirt.io/default-instancetype = u1.small\n"),
        ]);
        let expected = Request {
            secret: Some("login.1".to_owned()),
            certificates: Some("ca".to_owned()),
            format: Some(Format::Raw),
            layer: Compression::Gzip,
            architecture: Some("arm64".to_owned()),
            labels: [("a", "b=c"), ("instancetype.kubevirt.io/default-instancetype", "u1.small")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..expected
        };
        assert_eq!(Request::from_annotations(&all).unwrap(), expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_the_name_of_its_annotation() {
        let long = format!("docker://h/{}", "a".repeat(600));
        let many = "a=b\n".repeat(65);
        for (name, value) in [
            ("target", "registry.example/os:1"),
            ("target", "docker://os"),
            ("target", "docker://user:word@registry.example/os:1"),
            ("target", "docker://h/os@sha256:00"),
            ("target", "docker://h/os 1"),
            ("target", "docker://h/os\n"),
            ("target", "http://h/os"),
            ("target", &long),
            ("target", "docker://registry.example:5000/os/debian"),
            ("target", "docker://registry.example/os:"),
            ("target", "docker://registry.example/os/"),
            ("secretRef", "../other"),
            ("secretRef", "a/b"),
            ("secretRef", "-a"),
            ("certConfigMap", "A"),
            ("format", "vmdk"),
            ("layer", "xz"),
            ("architecture", "amd64/../.."),
            ("labels", "novalue"),
            ("labels", "=b"),
            ("labels", "a=\u{1b}[2J"),
            ("labels", &many),
        ] {
            let faults = Request::from_annotations(&notes(&[TARGET, (name, value)])).unwrap_err();
            assert_eq!(faults.len(), 1, "{name}={value}: {faults:?}");
            let field = format!("metadata.annotations[cdi.kubevirt.io/storage.export.{name}]");
            assert_eq!(faults[0].field, field);
            assert!(faults[0].message.starts_with("must be ") && faults[0].message.len() < 300, "{faults:?}");
            assert!(!faults[0].message.chars().any(char::is_control));
        }
        let untagged = Request::from_annotations(&notes(&[("target", "docker://h:5000/os")])).unwrap_err();
        assert_eq!(
            untagged[0].message,
            "must be docker://HOST/REPO:TAG with its tag, not \"docker://h:5000/os\"; write :latest where that is meant"
        );
        let two = Request::from_annotations(&notes(&[("target", "x"), ("format", "y")])).unwrap_err();
        assert_eq!(two.len(), 2, "all faults are told: {two:?}");
    }

    #[test]
    fn a_misspelt_annotation_is_refused_and_told_what_was_meant() {
        let mut said = notes(&[TARGET, ("secretref", "login"), ("colour", "red"), ("phase", "Running")]);
        said.insert("cdi.kubevirt.io/storage.exports".to_owned(), "of others".to_owned());
        said.insert("cdi.kubevirt.io/storage.import.x".to_owned(), "of others".to_owned());
        let faults = Request::from_annotations(&said).unwrap_err();
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let all = "target, secretRef, certConfigMap, format, layer, architecture, labels, id";
        let at = |name: &str| {
            format!(
                "metadata.annotations[cdi.kubevirt.io/storage.export.{name}]: no annotation of exports has this name; "
            )
        };
        assert_eq!(
            told,
            [
                at("colour") + &format!("cdi.kubevirt.io/storage.export. must be followed by one of {all}"),
                at("secretref") + "did you mean cdi.kubevirt.io/storage.export.secretRef?",
            ]
        );
        let many: BTreeMap<String, String> =
            (0..100).map(|i| (format!("{EXPORT}{i:03}"), String::new())).collect();
        assert_eq!(unknown(&many).len(), MOST_UNKNOWN);
    }

    #[test]
    fn whoever_asks_again_asks_for_another_export() {
        let sums: Vec<String> = [
            notes(&[TARGET]),
            notes(&[TARGET, ("id", "1")]),
            notes(&[TARGET, ("id", "2")]),
            notes(&[TARGET, ("format", "1")]),
        ]
        .iter()
        .map(fingerprint_text)
        .collect();
        let all: std::collections::BTreeSet<&String> = sums.iter().collect();
        assert_eq!(all.len(), 4, "{sums:?}");
        let mut answered = notes(&[TARGET]);
        answered.insert(crate::cdi::annotations::EXPORT_PHASE.to_owned(), "Running".to_owned());
        assert_eq!(fingerprint_text(&answered), sums[0], "what answers does not ask");
        assert!(
            is_requested(&answered)
                && !is_requested(&notes(&[("target", "")]))
                && !is_requested(&notes(&[("id", "1")]))
        );
    }

    #[test]
    fn a_job_names_folders_and_no_secret() {
        struct Mounts;
        impl References for Mounts {
            type Error = Infallible;
            fn secret(&mut self, name: &str) -> Result<Files, Infallible> {
                Ok(Files::Folder(PathBuf::from("/s").join(name)))
            }
            fn config_map(&mut self, name: &str) -> Result<PathBuf, Infallible> {
                Ok(PathBuf::from("/c").join(name))
            }
        }
        let asked =
            notes(&[TARGET, ("secretRef", "login"), ("certConfigMap", "ca"), ("architecture", "arm64")]);
        let disk = Disk::File("/data/disk.img".into());
        let Ok(job) = Request::from_annotations(&asked).unwrap().job(disk, &mut Mounts);
        let text = serde_json::to_string(&job).unwrap();
        assert_eq!(serde_json::from_str::<Export>(&text).unwrap(), job);
        assert_eq!(job.target.ca, Some("/c/ca".into()));
        assert_eq!(job.target.architecture.as_deref(), Some("arm64"));
        let login = job.target.login.unwrap();
        assert_eq!((login.secret.as_str(), login.files), ("login", Files::Folder("/s/login".into())));
    }

    #[test]
    fn nothing_but_a_digest_is_a_digest() {
        let hex = "0a".repeat(32);
        assert!(is_digest(&format!("sha256:{hex}")));
        for odd in
            [&hex[..], &format!("sha256:{}", hex.to_uppercase()), "sha256:00", "", &format!("sha256:{hex}\n")]
        {
            assert!(!is_digest(odd), "{odd}");
        }
    }
}
