//! Form of an upload, as the page sends it. Pure.

use super::super::answer::Refusal;
use crate::virt::target;
use crate::virt::upload::UploadParams;
use crate::virt::upload::params::check_size;
use cluster_model::objects::Kind;
use http::StatusCode;
use serde::Deserialize;
use std::time::Duration;

/// Timeout for the upload pod: long, since the user watches, and can cancel.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// Maximum number of attempts without one new byte.
const ATTEMPTS: u32 = 5;
/// Maximum length of the file's name in messages.
const LONGEST: usize = 255;

/// The form of a new upload.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(in crate::page) struct Begin {
    /// Name of the file, for messages.
    pub(super) file: String,
    /// Size of the file in bytes.
    pub(super) length: u64,
    /// Modification time of the file in milliseconds, as the browser reports it.
    pub(super) modified: u64,
    /// Size of the volume to create.
    size: String,
    /// Storage class of the volume. Default: that of the cluster.
    #[serde(default)]
    storage_class: String,
}

impl Begin {
    /// Parses and checks a form.
    pub(in crate::page) fn parse(body: &[u8]) -> Result<Begin, Refusal> {
        let bad = |sentence: String| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, sentence);
        let begin: Begin = serde_json::from_slice(body)
            .map_err(|e| bad(format!("this is not the form of an upload: {e}; load the page again")))?;
        if begin.length == 0 {
            return Err(bad("the file is empty".to_owned()));
        }
        check_size(&begin.size).map_err(|e| bad(e.to_string()))?;
        if !begin.storage_class.is_empty() {
            target::name(&begin.storage_class).map_err(|e| bad(format!("the storage class: {e}")))?;
        }
        Ok(Begin { file: printable::text(&begin.file, LONGEST), ..begin })
    }

    /// The upload that the form asks for: a DataVolume of this name whose volume is bound at once.
    pub(super) fn params(&self, name: String) -> UploadParams {
        UploadParams {
            kind: Kind::DataVolume,
            name,
            path: self.file.clone(),
            is_archive: false,
            size: Some(self.size.clone()),
            storage_class: (!self.storage_class.is_empty()).then(|| self.storage_class.clone()),
            access_mode: None,
            volume_mode: None,
            labels: Vec::new(),
            no_create: false,
            force_bind: true,
            data_source: false,
            patience: PATIENCE,
            attempts: ATTEMPTS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_form_is_checked_before_anything_is_begun() {
        let form = |change: serde_json::Value| {
            let mut form = json!({"file": "d.img", "length": 7, "modified": 1, "size": "1Gi"});
            form.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            Begin::parse(form.to_string().as_bytes()).map_err(|refusal| refusal.sentence)
        };
        let params =
            form(json!({"storageClass": "fast", "file": "a\u{1b}[2Jb"})).unwrap().params("d".to_owned());
        assert_eq!((params.path.as_str(), params.storage_class.as_deref()), ("a [2Jb", Some("fast")));
        assert!(params.force_bind && !params.no_create);
        for (change, said) in [
            (json!({"size": "10GB"}), "size=10GB"),
            (json!({"length": 0}), "empty"),
            (json!({"length": -1}), "not the form"),
            (json!({"storageClass": "../x"}), "storage class"),
            (json!({"path": "/etc/passwd"}), "not the form"),
        ] {
            let told = form(change).unwrap_err();
            assert!(told.contains(said), "{told}");
        }
    }
}
