//! Parameters of an upload, after its flags are checked. Pure.

use crate::error::{Error, ErrorKind, Result};
use api::quantity::Quantity;
use cluster_model::objects::Kind;
use std::time::Duration;

/// Parameters of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UploadParams {
    /// Kind of the target: DataVolume or PersistentVolumeClaim.
    pub(crate) kind: Kind,
    /// Name of the object, and of its PVC.
    pub(crate) name: String,
    /// Path or URL of the bytes.
    pub(crate) path: String,
    /// True for a tar archive, false for a disk.
    pub(crate) is_archive: bool,
    /// Size of a volume to create.
    pub(crate) size: Option<String>,
    /// Storage class of a volume to create.
    pub(crate) storage_class: Option<String>,
    /// Access mode of a volume to create.
    pub(crate) access_mode: Option<String>,
    /// Volume mode of a volume to create.
    pub(crate) volume_mode: Option<VolumeMode>,
    /// Labels of the created objects.
    pub(crate) labels: Vec<(&'static str, String)>,
    /// True if the target must exist.
    pub(crate) no_create: bool,
    /// True if the volume is bound before a pod uses it.
    pub(crate) force_bind: bool,
    /// True if a DataSource of the same name shall refer to the PVC.
    pub(crate) data_source: bool,
    /// Timeout for the upload pod.
    pub(crate) patience: Duration,
    /// Maximum number of attempts without one new byte.
    pub(crate) attempts: u32,
}

/// Volume mode of a PVC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeMode {
    Block,
    Filesystem,
}

impl VolumeMode {
    /// Value of the field in Kubernetes.
    pub(crate) fn word(self) -> &'static str {
        match self {
            VolumeMode::Block => "Block",
            VolumeMode::Filesystem => "Filesystem",
        }
    }
}

/// Checks a size, with the error message of Kubernetes.
pub(crate) fn check_size(text: &str) -> Result<()> {
    if Quantity::parse(text).is_ok() {
        return Ok(());
    }
    let what = format!(
        "validation failed for size={text}: a size is a number with Ki, Mi, Gi, Ti (powers of 1024), or k, M, G, T (of 1000)"
    );
    // Sizes like 10GB and 10GiB have a final letter that quantities do not have.
    let meant = text.strip_suffix(['b', 'B']).map(|text| text.strip_suffix('i').unwrap_or(text));
    let meant = meant.map(|text| (format!("{text}i"), text));
    let hint = match meant {
        Some((binary, decimal)) if [&*binary, decimal].iter().all(|text| Quantity::parse(text).is_ok()) => {
            format!("write {binary} or {decimal}")
        }
        _ => "write 10Gi, or 500Mi".to_owned(),
    };
    Err(Error::new(ErrorKind::Usage, what).with_hint(hint))
}

/// Refuses abbreviations of access modes: the API server knows the long names alone.
pub(crate) fn check_access_mode(text: &str) -> Result<()> {
    let meant = match text.to_ascii_uppercase().as_str() {
        "RWO" => "ReadWriteOnce",
        "RWX" => "ReadWriteMany",
        "RWOP" => "ReadWriteOncePod",
        "ROX" => "ReadOnlyMany",
        _ => return Ok(()),
    };
    let what = format!("{text} is not an access mode of a volume");
    Err(Error::new(ErrorKind::Usage, what).with_hint(format!("say --access-mode={meant}")))
}

/// Size of a volume for a disk of this many bytes, rounded up to MiB.
pub(crate) fn size_for(disk: u64) -> String {
    let mebibytes = disk.div_ceil(1 << 20).max(1);
    match mebibytes.is_multiple_of(1 << 10) {
        true => format!("{}Gi", mebibytes >> 10),
        false => format!("{mebibytes}Mi"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An upload of a disk to a DataVolume `d`.
    pub(in crate::virt::upload) fn plain() -> UploadParams {
        UploadParams {
            kind: Kind::DataVolume,
            name: "d".to_owned(),
            path: "d.img".to_owned(),
            is_archive: false,
            size: Some("1Gi".to_owned()),
            storage_class: None,
            access_mode: None,
            volume_mode: None,
            labels: Vec::new(),
            no_create: false,
            force_bind: false,
            data_source: false,
            patience: Duration::from_secs(300),
            attempts: 5,
        }
    }

    #[test]
    fn a_volume_is_never_smaller_than_its_disk() {
        for (bytes, wanted) in
            [(10 << 30, "10Gi"), ((10 << 30) + 1, "10241Mi"), (300_000, "1Mi"), (0, "1Mi"), (5 << 20, "5Mi")]
        {
            assert_eq!(size_for(bytes), wanted);
            assert!(Quantity::parse(&size_for(bytes)).is_ok());
        }
    }

    #[test]
    fn a_size_is_refused_in_the_words_of_kubernetes() {
        for size in ["1Gi", "500Mi", "1e9", "0.5G", "10737418240"] {
            check_size(size).unwrap();
        }
        for (size, hint) in [
            ("500Zb", "write 10Gi, or 500Mi"),
            ("much", "write 10Gi, or 500Mi"),
            ("", "write 10Gi, or 500Mi"),
            ("5KK", "write 10Gi, or 500Mi"),
            ("10GB", "write 10Gi or 10G"),
            ("10GiB", "write 10Gi or 10G"),
        ] {
            let error = check_size(size).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            let said = error.to_string();
            assert!(
                said.starts_with(&format!("validation failed for size={size}: a size is a number")),
                "{said}"
            );
            assert!(said.ends_with(hint), "{said}");
        }
        check_access_mode("ReadWriteMany").unwrap();
        let said = check_access_mode("RWX").unwrap_err().to_string();
        assert_eq!(said, "RWX is not an access mode of a volume; say --access-mode=ReadWriteMany");
    }
}
