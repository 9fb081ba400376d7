//! The firmware of a VMI, and its SMBIOS data.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// The VMI's SMBIOS uuid, in lower case with dashes. The defaults set it.
    pub uuid: String,
    /// Serial number in the SMBIOS.
    pub serial: Option<String>,
    pub boot: Boot,
    /// A kernel that is started without a boot loader.
    pub kernel: Option<KernelBoot>,
}

/// Firmware that boots the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// BIOS boot by SeaBIOS.
    Bios {
        /// SeaBIOS writes to the serial console too.
        use_serial: bool,
    },
    /// UEFI boot by OVMF.
    Efi {
        /// Secure boot: only signed loaders start; needs `smm`.
        secure: bool,
        /// The EFI variables outlive the VMI.
        persistent: bool,
    },
}

/// A kernel that is started without a boot loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelBoot {
    /// Container image with the kernel.
    pub image: Option<Image>,
    /// Path of the kernel in the image.
    pub kernel_path: Option<String>,
    /// The path of the initial file system in the image.
    pub initrd_path: Option<String>,
    /// Arguments of the kernel.
    pub args: Option<String>,
}

/// An image in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Reference of the image.
    pub name: String,
    /// Value of `imagePullPolicy` in the spec.
    pub pull_policy: Option<String>,
    /// Value of `imagePullSecret` in the spec.
    pub pull_secret: Option<String>,
}

/// Chassis fields of the SMBIOS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chassis {
    pub manufacturer: Option<String>,
    pub version: Option<String>,
    pub serial: Option<String>,
    pub asset: Option<String>,
    pub sku: Option<String>,
}
