//! What starts the machine.

use crate::object;

object! {
    /// What starts the machine, and what it says of itself.
    pub struct Firmware {
        /// The machine's uuid.
        pub uuid: Option<String> = "uuid",
        /// BIOS or EFI.
        pub bootloader: Option<Bootloader> = "bootloader",
        /// The serial number the guest reads.
        pub serial: Option<String> = "serial",
        /// A kernel that is started without a boot loader.
        pub kernel_boot: Option<KernelBoot> = "kernelBoot",
        /// Tables for the guest's licences.
        pub acpi: Option<Acpi> = "acpi",
    }
}

object! {
    /// BIOS or EFI.
    pub struct Bootloader {
        /// SeaBIOS.
        pub bios: Option<Bios> = "bios",
        /// OVMF.
        pub efi: Option<Efi> = "efi",
    }
}

object! {
    /// SeaBIOS.
    pub struct Bios {
        /// It writes to the serial console too.
        pub use_serial: Option<bool> = "useSerial",
    }
}

object! {
    /// OVMF.
    pub struct Efi {
        /// Only signed loaders start; not said is yes.
        pub secure_boot: Option<bool> = "secureBoot",
        /// Its variables outlive the machine.
        pub persistent: Option<bool> = "persistent",
    }
}

object! {
    /// A kernel that is started without a boot loader.
    pub struct KernelBoot {
        /// The kernel's arguments.
        pub kernel_args: Option<String> = "kernelArgs",
        /// The image that holds it.
        pub container: Option<KernelContainer> = "container",
    }
}

object! {
    /// The image that holds a kernel.
    pub struct KernelContainer {
        /// Its reference.
        pub image: String = "image",
        /// The secret that opens the registry.
        pub image_pull_secret: Option<String> = "imagePullSecret",
        /// `Always`, `IfNotPresent` or `Never`.
        pub image_pull_policy: Option<String> = "imagePullPolicy",
        /// Its path in the image.
        pub kernel_path: Option<String> = "kernelPath",
        /// The path of the initial file system in the image.
        pub initrd_path: Option<String> = "initrdPath",
    }
}

object! {
    /// Tables for the guest's licences.
    pub struct Acpi {
        /// The volume that holds the SLIC table.
        pub slic_name_ref: Option<String> = "slicNameRef",
        /// The volume that holds the MSDM table.
        pub msdm_name_ref: Option<String> = "msdmNameRef",
    }
}
