//! EFI firmware, at the paths of distributions, or in the folder that the cluster names.

use api::architecture::{Arch, FirmwareFiles};
use std::path::{Path, PathBuf};

/// A firmware: its code and its empty variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firmware {
    pub code: PathBuf,
    /// Template of empty variables.
    pub vars: PathBuf,
    /// Secure boot: only signed loaders start.
    pub secure: bool,
}

/// The installed firmware, the preferred one first; only that of `folder`, if one is named.
pub fn installed(folder: Option<&Path>) -> impl Iterator<Item = Firmware> {
    let at = move |files: &FirmwareFiles| {
        let folder = folder.unwrap_or(Path::new(files.folder));
        Firmware { code: folder.join(files.code), vars: folder.join(files.vars), secure: files.is_secure }
    };
    Arch::of_host().facts().firmware.iter().map(at).filter(|known| known.code.exists() && known.vars.exists())
}

/// The preferred firmware for a VM.
pub fn find(secure: bool, folder: Option<&Path>) -> Option<Firmware> {
    installed(folder).find(|known| known.secure == secure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_named_is_looked_into_and_no_other() {
        let place = tempfile::tempdir().unwrap();
        let folder = Some(place.path());
        assert_eq!(find(false, folder), None);
        for file in ["OVMF_CODE.fd", "OVMF_VARS.fd", "OVMF_CODE.secboot.fd"] {
            std::fs::write(place.path().join(file), "").unwrap();
        }
        let found = find(false, folder).unwrap();
        assert_eq!(found.code, place.path().join("OVMF_CODE.fd"));
        assert_eq!(find(true, folder), None, "its variables are not there");
        std::fs::write(place.path().join("OVMF_VARS.secboot.fd"), "").unwrap();
        assert_eq!(find(true, folder).unwrap().vars, place.path().join("OVMF_VARS.secboot.fd"));
    }
}
