//! Kernel-boot images: labels of the config name the files of the kernel and the initrd.

use crate::image::{CMDLINE, Config, INITRD, KERNEL};

/// Kernel, initrd and command line of a kernel-boot image.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Boot {
    /// The kernel's path in the image, for [`super::Options::path`].
    pub kernel: String,
    /// The initrd's path in the image.
    pub initrd: Option<String>,
    /// The kernel's command line.
    pub cmdline: String,
}

/// The command line of an image without the label.
const SERIAL: &str = "console=ttyS0";

/// The boot files from the labels of the config. `None` for an image without a kernel label.
pub fn boot(config: &Config) -> Option<Boot> {
    Some(Boot {
        kernel: config.label(KERNEL)?.to_owned(),
        initrd: config.label(INITRD).map(str::to_owned),
        cmdline: config.label(CMDLINE).unwrap_or(SERIAL).to_owned(),
    })
}
