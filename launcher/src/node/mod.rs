//! The capabilities of this host, as far as files show them: devices, hugepages, firmware, and missing parts.
//!
//! ```text
//!  files ─► here                                     ┐
//!  libvirt's XML ─► capabilities (pure)              ├─► api::node::Node, printed by `virt-launcher node-info`
//!  the probe of KVM (in the program virt-launcher)   ┘
//! ```

pub mod capabilities;

use crate::hypervisor::embed;
use crate::vm::firmware;
use api::architecture::{Arch, ArchFacts};
use api::node::{Device, Efi, Hugepages, Missing};
use std::fs;
use std::path::Path;

/// Devices that VMs use.
pub fn devices() -> Vec<Device> {
    let known = [
        ("kvm", "/dev/kvm"),
        ("tun", "/dev/net/tun"),
        ("vhost-net", "/dev/vhost-net"),
        ("vsock", "/dev/vhost-vsock"),
    ];
    let device = |(name, path): (&str, &str)| {
        let opened = fs::File::options().read(true).write(true).open(path);
        Device {
            name: name.into(),
            path: path.into(),
            usable: opened.is_ok(),
            reason: opened.err().map(|e| e.to_string()),
        }
    };
    known.into_iter().map(device).collect()
}

/// Hugepages by size, smallest first.
pub fn hugepages() -> Vec<Hugepages> {
    hugepages_at(Path::new("/sys/kernel/mm/hugepages"))
}

fn hugepages_at(folder: &Path) -> Vec<Hugepages> {
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let pages = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let kib: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let total = number(&entry.path().join("nr_hugepages"))?;
        let free = number(&entry.path().join("free_hugepages")).unwrap_or_default();
        Some(Hugepages { size: kib.checked_mul(1024)?, total, free })
    };
    let mut found: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().filter_map(pages).collect();
    found.sort_by_key(|pages| pages.size);
    found
}

/// EFI firmware, the preferred first.
pub fn firmwares() -> Vec<Efi> {
    let efi = |found: firmware::Firmware| Efi {
        code: found.code.display().to_string(),
        vars: found.vars.display().to_string(),
        secure_boot: found.secure,
    };
    firmware::installed(None).map(efi).collect()
}

/// Files that VMs need on every architecture: name, possible paths, effect of the absence, packages that have it.
const NEEDED: &[(&str, &[&str], &str, &str)] = &[
    (
        "SeaBIOS",
        &["/usr/share/seabios/bios-256k.bin", "/usr/share/qemu/bios-256k.bin"],
        "VMs without EFI do not start",
        "seabios",
    ),
    (
        "iPXE's ROMs",
        &[
            "/usr/lib/ipxe/qemu/efi-virtio.rom",
            "/usr/share/ipxe/qemu/efi-virtio.rom",
            "/usr/share/qemu/efi-virtio.rom",
        ],
        "VMs with a network interface do not start",
        "ipxe-qemu",
    ),
    ("swtpm", &["/usr/bin/swtpm"], "VMs with a TPM do not start", "swtpm swtpm-tools"),
    ("swtpm_setup", &["/usr/bin/swtpm_setup"], "VMs with a TPM do not start", "swtpm-tools"),
];

/// Missing parts, each with the command that installs it (as root).
pub fn missing() -> Vec<Missing> {
    let entry = |what: &str, effect: &str, mend: &str| Missing {
        what: what.into(),
        effect: effect.into(),
        mend: mend.into(),
    };
    let ArchFacts { qemu, qemu_package, kernel_name, firmware_package, .. } = Arch::of_host().facts();
    let install = |packages: &str| format!("apt-get install --no-install-recommends {packages}");
    let (qemu, driver) = (
        format!("/usr/bin/{qemu}"),
        format!("/usr/lib/{kernel_name}-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so"),
    );
    let of_host: [(&str, &[&str], &str, &str); 2] = [
        ("QEMU", &[&qemu, "/usr/libexec/qemu-kvm"], "no VM starts", qemu_package),
        (
            "libvirt's driver for QEMU",
            &[
                &driver,
                "/usr/lib64/libvirt/connection-driver/libvirt_driver_qemu.so",
                "/usr/lib/libvirt/connection-driver/libvirt_driver_qemu.so",
            ],
            "no VM starts",
            "libvirt-daemon-driver-qemu",
        ),
    ];
    let there = |paths: &[&str]| paths.iter().any(|path| Path::new(path).exists());
    let mut missing: Vec<_> = of_host
        .iter()
        .chain(NEEDED)
        .filter(|(_, paths, ..)| !there(paths))
        .map(|(what, _, effect, packages)| entry(what, effect, &install(packages)))
        .collect();
    // A directory service may have the account too; libvirt itself then reports whether it exists.
    let has_account = |text: String| {
        text.lines().any(|line| line.starts_with("libvirt-qemu:") || line.starts_with("qemu:"))
    };
    if !fs::read_to_string("/etc/passwd").is_ok_and(has_account) {
        let (_, command) = embed::ACCOUNT.split_once("as root: ").unwrap_or(("", embed::ACCOUNT));
        missing.push(entry("the account libvirt-qemu", "libvirt does not start for any user", command));
    }
    if firmware::find(false, None).is_none() {
        missing.push(entry("EFI firmware", "VMs with EFI do not start", &install(firmware_package)));
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hugepages_are_read_by_size() {
        let place = tempfile::tempdir().unwrap();
        for (name, total, free) in
            [("hugepages-1048576kB", "2", "1"), ("hugepages-2048kB", "0", "0"), ("other", "9", "9")]
        {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("nr_hugepages"), format!("{total}\n")).unwrap();
            fs::write(folder.join("free_hugepages"), free).unwrap();
        }
        let found = hugepages_at(place.path());
        let want =
            [Hugepages { size: 2 << 20, total: 0, free: 0 }, Hugepages { size: 1 << 30, total: 2, free: 1 }];
        assert_eq!(found, want);
    }
}
