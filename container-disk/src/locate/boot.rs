//! Kernel-boot images: the kernel and the initrd are files that the config's labels name.

use crate::image::{CMDLINE, Config, INITRD, KERNEL};

/// What a kernel-boot image says.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Boot {
    /// The kernel's path in the image, for [`super::Options::path`].
    pub kernel: String,
    /// The initrd's.
    pub initrd: Option<String>,
    /// The command line.
    pub cmdline: String,
}

/// The command line of an image that tells none.
const SERIAL: &str = "console=ttyS0";

/// What the config of a kernel-boot image says; `None` for any other image.
pub fn boot(config: &Config) -> Option<Boot> {
    Some(Boot {
        kernel: config.label(KERNEL)?.to_owned(),
        initrd: config.label(INITRD).map(str::to_owned),
        cmdline: config.label(CMDLINE).unwrap_or(SERIAL).to_owned(),
    })
}
