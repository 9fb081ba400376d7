//! What is asked for, once the flags make sense. Pure.

use crate::virt::object::Kind;
use api::quantity::Quantity;
use cdi::{Error, ErrorKind, Result};
use std::time::Duration;

/// An upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    /// DataVolume or PersistentVolumeClaim.
    pub(crate) kind: Kind,
    /// Name of the object, and of its PVC.
    pub(crate) name: String,
    /// Where the bytes come from.
    pub(crate) path: String,
    /// They are a tar archive, and not a disk.
    pub(crate) is_archive: bool,
    /// Size of the volume, where one is made.
    pub(crate) size: Option<String>,
    /// Storage class of the volume, where one is made.
    pub(crate) storage_class: Option<String>,
    /// Access mode of the volume, where one is made.
    pub(crate) access_mode: Option<String>,
    /// Volume mode of the volume, where one is made.
    pub(crate) volume_mode: Option<VolumeMode>,
    /// Labels of what is made.
    pub(crate) labels: Vec<(&'static str, String)>,
    /// The object must exist.
    pub(crate) no_create: bool,
    /// The volume is bound before a pod uses it.
    pub(crate) force_bind: bool,
    /// A DataSource of the same name leads to the PVC afterwards.
    pub(crate) data_source: bool,
    /// How long an upload pod is waited for.
    pub(crate) patience: Duration,
    /// Attempts without one new byte.
    pub(crate) attempts: u32,
}

/// What a volume is for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeMode {
    Block,
    Filesystem,
}

impl VolumeMode {
    /// As Kubernetes writes it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            VolumeMode::Block => "Block",
            VolumeMode::Filesystem => "Filesystem",
        }
    }
}

/// An error, if a size cannot be one: in the words of Kubernetes.
pub(crate) fn check_size(text: &str) -> Result<()> {
    if Quantity::parse(text).is_ok() {
        return Ok(());
    }
    let what = format!(
        "validation failed for size={text}: a size is a number with Ki, Mi, Gi, Ti (powers of 1024), or k, M, G, T (of 1000)"
    );
    // 10GB, 10GiB: by their last letter alone they are no quantities.
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

/// An error, if an access mode is a short word for one: the API server knows the long ones alone.
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

/// The size of a volume for a disk of so many bytes, as people write it: no smaller, and in whole MiB.
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
    pub(in crate::virt::upload) fn plain() -> Wish {
        Wish {
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
