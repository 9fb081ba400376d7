//! Facts of each CPU architecture, in one table. VMIs of amd64 run; arm64 is not served yet.

/// CPU architecture of a guest, or of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    Amd64,
    Arm64,
}

/// Row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchFacts {
    /// Name in Kubernetes and Go, also in labels of nodes and in container images.
    pub name: &'static str,
    /// Name in the kernel, libvirt and QEMU.
    pub kernel_name: &'static str,
    /// True if VMIs of it run.
    pub is_served: bool,
    /// Default machine type.
    pub machine_type: &'static str,
    /// Machine types that a cluster permits by default; `*` matches any text.
    pub permitted_machine_types: &'static [&'static str],
    /// Machine types that are supported.
    pub machine_types: &'static [&'static str],
    /// Prefixes of machine types with a version: one for each board.
    pub boards: &'static [&'static str],
    /// Default CPU model.
    pub cpu_model: &'static str,
    /// QEMU's base type of all CPUs.
    pub cpu_type: &'static str,
    /// True if vCPUs can be added to a running VMI, so that the maximum has a default.
    pub has_cpu_hotplug: bool,
    /// Default bus of disks.
    pub disk_bus: &'static str,
    /// True if EFI is the default firmware.
    pub boots_efi: bool,
    /// EFI firmware in the order of preference.
    pub firmware: &'static [FirmwareFiles],
    /// Debian's package with the EFI firmware.
    pub firmware_package: &'static str,
    /// Device of the first serial port, as libvirt names its target.
    pub serial: &'static str,
    /// QEMU's program.
    pub qemu: &'static str,
    /// Debian's package with QEMU.
    pub qemu_package: &'static str,
}

impl ArchFacts {
    /// A line of QEMU's output without the name of the program before it.
    pub fn without_program<'a>(&self, line: &'a str) -> &'a str {
        line.split_once(&format!("{}: ", self.qemu)).map_or(line, |(_, rest)| rest)
    }
}

/// Files of an EFI firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirmwareFiles {
    pub folder: &'static str,
    pub code: &'static str,
    /// Template of empty variables.
    pub vars: &'static str,
    /// True for secure boot: only signed loaders start.
    pub is_secure: bool,
}

const fn firmware(
    folder: &'static str,
    code: &'static str,
    vars: &'static str,
    is_secure: bool,
) -> FirmwareFiles {
    FirmwareFiles { folder, code, vars, is_secure }
}

const AMD64: ArchFacts = ArchFacts {
    name: "amd64",
    kernel_name: "x86_64",
    is_served: true,
    machine_type: "q35",
    permitted_machine_types: &["q35*", "pc-q35*"],
    machine_types: &["q35*", "pc-q35*", "pc", "pc-i440fx*"],
    boards: &["pc-q35-", "pc-i440fx-"],
    cpu_model: "host-model",
    cpu_type: "x86_64-cpu",
    has_cpu_hotplug: true,
    disk_bus: "sata",
    boots_efi: false,
    // Debian, Fedora and derivatives, Arch.
    firmware: &[
        firmware("/usr/share/OVMF", "OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd", false),
        firmware("/usr/share/edk2/ovmf", "OVMF_CODE.fd", "OVMF_VARS.fd", false),
        firmware("/usr/share/edk2/x64", "OVMF_CODE.4m.fd", "OVMF_VARS.4m.fd", false),
        firmware("/usr/share/OVMF", "OVMF_CODE.fd", "OVMF_VARS.fd", false),
        firmware("/usr/share/OVMF", "OVMF_CODE_4M.ms.fd", "OVMF_VARS_4M.ms.fd", true),
        firmware("/usr/share/edk2/ovmf", "OVMF_CODE.secboot.fd", "OVMF_VARS.secboot.fd", true),
        firmware("/usr/share/edk2/x64", "OVMF_CODE.secboot.4m.fd", "OVMF_VARS.4m.fd", true),
        firmware("/usr/share/OVMF", "OVMF_CODE.secboot.fd", "OVMF_VARS.secboot.fd", true),
    ],
    firmware_package: "ovmf",
    serial: "isa-serial",
    qemu: "qemu-system-x86_64",
    qemu_package: "qemu-system-x86",
};

const ARM64: ArchFacts = ArchFacts {
    name: "arm64",
    kernel_name: "aarch64",
    is_served: false,
    machine_type: "virt",
    permitted_machine_types: &["virt*"],
    machine_types: &["virt*"],
    boards: &["virt-"],
    cpu_model: "host-passthrough",
    cpu_type: "arm-cpu",
    has_cpu_hotplug: false,
    disk_bus: "virtio",
    boots_efi: true,
    firmware: &[
        firmware("/usr/share/AAVMF", "AAVMF_CODE.fd", "AAVMF_VARS.fd", false),
        firmware("/usr/share/edk2/aarch64", "QEMU_EFI-silent-pflash.raw", "vars-template-pflash.raw", false),
        firmware("/usr/share/AAVMF", "AAVMF_CODE.ms.fd", "AAVMF_VARS.ms.fd", true),
    ],
    firmware_package: "qemu-efi-aarch64",
    serial: "system-serial",
    qemu: "qemu-system-aarch64",
    qemu_package: "qemu-system-arm",
};

impl Arch {
    pub const ALL: [Arch; 2] = [Arch::Amd64, Arch::Arm64];

    /// Architecture of VMIs that set none, and of the settings that a cluster has for it.
    pub const DEFAULT: Arch = Arch::Amd64;

    /// Facts of the architecture.
    pub const fn facts(self) -> &'static ArchFacts {
        match self {
            Arch::Amd64 => &AMD64,
            Arch::Arm64 => &ARM64,
        }
    }

    /// The architecture that Kubernetes calls `name`.
    pub fn named(name: &str) -> Option<Arch> {
        Arch::ALL.into_iter().find(|arch| arch.facts().name == name)
    }

    /// The architecture that this program was built for.
    pub const fn of_host() -> Arch {
        if cfg!(target_arch = "aarch64") { Arch::Arm64 } else { Arch::Amd64 }
    }
}

/// Kubernetes' and Go's name of an architecture that Rust calls `name`.
pub fn go_name(name: &str) -> &str {
    let known = Arch::ALL.into_iter().map(Arch::facts).find(|facts| facts.kernel_name == name);
    match (known, name) {
        (Some(facts), _) => facts.name,
        (None, "powerpc64") => "ppc64le",
        (None, other) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_is_found_by_both_of_its_names() {
        for arch in Arch::ALL {
            let facts = arch.facts();
            assert_eq!(Arch::named(facts.name), Some(arch));
            assert_eq!(go_name(facts.kernel_name), facts.name);
            assert_eq!(facts.qemu, format!("qemu-system-{}", facts.kernel_name));
        }
        assert_eq!(
            (go_name("powerpc64"), go_name("s390x"), Arch::named("s390x")),
            ("ppc64le", "s390x", None)
        );
        assert!(Arch::DEFAULT.facts().is_served);
    }

    /// The default machine type is permitted, and every permitted one is supported.
    #[test]
    fn the_columns_of_a_row_agree() {
        for facts in Arch::ALL.map(Arch::facts) {
            let matches = |patterns: &[&str], name: &str| {
                patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
                    Some(prefix) => name.starts_with(prefix),
                    None => name == *pattern,
                })
            };
            assert!(matches(facts.permitted_machine_types, facts.machine_type), "{}", facts.name);
            for pattern in facts.permitted_machine_types {
                assert!(facts.machine_types.contains(pattern), "{pattern}");
            }
            for board in facts.boards {
                assert!(matches(facts.machine_types, &format!("{board}7.2")), "{board}");
            }
            // A VMI without secure boot gets the first firmware without it.
            assert!(!facts.firmware[0].is_secure && facts.firmware.iter().any(|files| files.is_secure));
        }
    }
}
