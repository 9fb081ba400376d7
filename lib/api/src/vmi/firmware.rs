//! Firmware and direct kernel boot.

use crate::object;

object! {
    /// Firmware of the guest: boot loader, SMBIOS identity and direct kernel boot.
    pub struct Firmware {
        /// UUID of the system in the SMBIOS. Default: a random UUID.
        pub uuid: Option<String> = "uuid",
        /// Boot loader firmware: BIOS or EFI. Default: BIOS on amd64, EFI on arm64.
        pub bootloader: Option<Bootloader> = "bootloader",
        /// Serial number of the system in the SMBIOS. Default: a random number for a VM, none for a
        /// stand-alone VMI.
        pub serial: Option<String> = "serial",
        /// Direct boot of a kernel and an initrd without a boot loader.
        pub kernel_boot: Option<KernelBoot> = "kernelBoot",
        /// Additional ACPI tables of the guest, for example for Windows licences.
        pub acpi: Option<Acpi> = "acpi",
    }
}

object! {
    /// Boot loader firmware: either BIOS or EFI.
    pub struct Bootloader {
        /// Boots the guest with BIOS (SeaBIOS). Excludes `efi`.
        pub bios: Option<Bios> = "bios",
        /// Boots the guest with EFI (OVMF). Excludes `bios`.
        pub efi: Option<Efi> = "efi",
    }
}

object! {
    /// Settings of the BIOS (SeaBIOS).
    pub struct Bios {
        /// Writes the messages of the BIOS to the serial console too. Requires a serial console. Default:
        /// false.
        pub use_serial: Option<bool> = "useSerial",
    }
}

object! {
    /// Settings of EFI (OVMF).
    pub struct Efi {
        /// Enforces signatures of boot loaders. Requires the feature `smm`. Default: true.
        pub secure_boot: Option<bool> = "secureBoot",
        /// Keeps the EFI variables across restarts of the VM, in a PersistentVolumeClaim of the VM. Default:
        /// false.
        pub persistent: Option<bool> = "persistent",
    }
}

object! {
    /// Direct boot of a kernel and an initrd without a boot loader.
    pub struct KernelBoot {
        /// Command line of the kernel. Requires a kernel in `container`.
        pub kernel_args: Option<String> = "kernelArgs",
        /// Container image with the kernel and the initrd.
        pub container: Option<KernelContainer> = "container",
    }
}

object! {
    /// Container image with a kernel and an initrd.
    pub struct KernelContainer {
        /// Reference of the container image with the kernel files.
        pub image: String = "image",
        /// Name of the image pull Secret for the registry. Unset: anonymous access.
        pub image_pull_secret: Option<String> = "imagePullSecret",
        /// Image pull policy: `Always`, `IfNotPresent` or `Never`. Unset: the default of Kubernetes.
        pub image_pull_policy: Option<String> = "imagePullPolicy",
        /// Absolute path of the kernel in the image. Either a kernel or an initrd is required.
        pub kernel_path: Option<String> = "kernelPath",
        /// Absolute path of the initrd in the image. Either a kernel or an initrd is required.
        pub initrd_path: Option<String> = "initrdPath",
    }
}

object! {
    /// Additional ACPI tables of the guest.
    pub struct Acpi {
        /// Name of the Secret volume with the ACPI SLIC table.
        pub slic_name_ref: Option<String> = "slicNameRef",
        /// Name of the Secret volume with the ACPI MSDM table.
        pub msdm_name_ref: Option<String> = "msdmNameRef",
    }
}
