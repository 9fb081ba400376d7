//! The firmware of a VMI, and what it tells the guest of the hardware.

/// The firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// The VMI's SMBIOS uuid, in lower case with dashes. The defaults see to it that there is one.
    pub uuid: String,
    /// The serial number the guest reads.
    pub serial: Option<String>,
    /// BIOS or EFI.
    pub boot: Boot,
    /// A kernel that is started without a boot loader.
    pub kernel: Option<KernelBoot>,
}

/// What runs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// SeaBIOS.
    Bios {
        /// It writes to the serial console too.
        use_serial: bool,
    },
    /// OVMF.
    Efi {
        /// Only signed loaders start; needs `smm`.
        secure: bool,
        /// Its variables outlive the VMI.
        persistent: bool,
    },
}

/// A kernel that is started without a boot loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelBoot {
    /// The image that holds it.
    pub image: Option<Image>,
    /// Its path in the image.
    pub kernel_path: Option<String>,
    /// The path of the initial file system in the image.
    pub initrd_path: Option<String>,
    /// The kernel's arguments.
    pub args: Option<String>,
}

/// An image in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its reference.
    pub name: String,
    /// `imagePullPolicy`.
    pub pull_policy: Option<String>,
    /// `imagePullSecret`.
    pub pull_secret: Option<String>,
}

/// What the guest reads of its case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chassis {
    pub manufacturer: Option<String>,
    pub version: Option<String>,
    pub serial: Option<String>,
    pub asset: Option<String>,
    pub sku: Option<String>,
}
