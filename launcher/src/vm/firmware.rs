//! EFI firmware, at the paths of distributions.

use std::path::Path;

/// A firmware: its code and its empty variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// The code.
    pub code: &'static str,
    /// The empty variables.
    pub vars: &'static str,
    /// True if only signed loaders start.
    pub secure: bool,
}

/// In the order of preference. Debian, Fedora and its kin, Arch.
const KNOWN: &[Firmware] = &[
    plain("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    plain("/usr/share/edk2/ovmf/OVMF_CODE.fd", "/usr/share/edk2/ovmf/OVMF_VARS.fd"),
    plain("/usr/share/edk2/x64/OVMF_CODE.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"),
    plain("/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"),
    secure("/usr/share/OVMF/OVMF_CODE_4M.ms.fd", "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"),
    secure("/usr/share/edk2/ovmf/OVMF_CODE.secboot.fd", "/usr/share/edk2/ovmf/OVMF_VARS.secboot.fd"),
    secure("/usr/share/edk2/x64/OVMF_CODE.secboot.4m.fd", "/usr/share/edk2/x64/OVMF_VARS.4m.fd"),
    secure("/usr/share/OVMF/OVMF_CODE.secboot.fd", "/usr/share/OVMF/OVMF_VARS.secboot.fd"),
];

const fn plain(code: &'static str, vars: &'static str) -> Firmware {
    Firmware { code, vars, secure: false }
}

const fn secure(code: &'static str, vars: &'static str) -> Firmware {
    Firmware { code, vars, secure: true }
}

/// The installed firmware, the preferred one first.
pub fn installed() -> impl Iterator<Item = Firmware> {
    KNOWN.iter().copied().filter(|known| Path::new(known.code).exists() && Path::new(known.vars).exists())
}

/// The firmware for a VM.
pub fn find(secure: bool) -> Option<Firmware> {
    installed().find(|known| known.secure == secure)
}
