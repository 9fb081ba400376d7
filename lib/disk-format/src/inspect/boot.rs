//! The firmware that could boot a disk, with the reasons. These are hints only; the disk is not booted.

use super::filesystem::{Content, Inside};
use super::iso::{Optical, Platform};
use super::kind_name;
use super::partition::{PartitionTable, TableKind};
use super::tree::Tree;

/// Reasons to expect that a disk boots, by firmware. An empty list means that nothing points to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Boot {
    pub bios: Vec<String>,
    pub uefi: Vec<String>,
    /// CPU architectures with a UEFI boot program, each once.
    pub architectures: Vec<&'static str>,
}

/// The boot programs that UEFI starts from removable media, by CPU architecture.
const PROGRAMS: &[(&str, &str)] = &[
    ("BOOTX64.EFI", "x86_64"),
    ("BOOTAA64.EFI", "aarch64"),
    ("BOOTIA32.EFI", "i686"),
    ("BOOTARM.EFI", "arm"),
    ("BOOTRISCV64.EFI", "riscv64"),
    ("BOOTLOONGARCH64.EFI", "loongarch64"),
];

/// CPU architectures with a boot program in `EFI/BOOT`.
pub(crate) fn programs(tree: &impl Tree) -> Vec<&'static str> {
    let Some(files) = tree.find("EFI/BOOT").and_then(|dir| tree.list(&dir)) else { return vec![] };
    let there = |program: &str| files.iter().any(|f| f.name.eq_ignore_ascii_case(program));
    PROGRAMS.iter().filter(|(program, _)| there(program)).map(|(_, architecture)| *architecture).collect()
}

/// Collects the hints. `front` is the first sector, `whole` the content of a disk without partitions.
pub(crate) fn boot(
    front: &[u8],
    table: Option<&PartitionTable>,
    whole: &Content,
    optical: Option<&Optical>,
) -> Boot {
    let mut boot = Boot::default();
    if let Some(table) = table {
        boot.bios_code(front, table);
        for partition in &table.partitions {
            let programs = programs_in(&partition.content);
            let esp = partition.type_id == kind_name::ESP || partition.type_id == "ef";
            if esp || !programs.is_empty() {
                let what = if esp { "EFI system partition" } else { "FAT partition" };
                boot.uefi(&format!("{what} {}", partition.number), programs);
            }
        }
    }
    if let programs @ [_, ..] = programs_in(whole) {
        boot.uefi("FAT filesystem", programs);
    }
    for entry in optical.iter().flat_map(|o| &o.boot).filter(|e| e.bootable) {
        match entry.platform {
            Platform::Bios => boot.bios.push("El Torito entry for BIOS".into()),
            Platform::Uefi => boot.uefi("El Torito entry for UEFI", &entry.architectures),
            _ => {}
        }
    }
    boot
}

fn programs_in(content: &Content) -> &[&'static str] {
    match content {
        Content::Known(found) => match &found.inside {
            Inside::Files { uefi, .. } => uefi,
            _ => &[],
        },
        _ => &[],
    }
}

impl Boot {
    /// Adds hints for BIOS. A BIOS runs any code in the first sector, which proves little, so the table is
    /// considered too.
    fn bios_code(&mut self, front: &[u8], table: &PartitionTable) {
        let code = front.get(..440).unwrap_or_default();
        if code.iter().all(|&b| b == 0) {
            return;
        }
        let loader = match () {
            () if code.windows(4).any(|w| w == b"GRUB") => "GRUB in the first sector",
            () => "code in the first sector",
        };
        let bios_boot = table.partitions.iter().find(|p| p.type_id == kind_name::BIOS_BOOT);
        let active = table.partitions.iter().find(|p| p.active);
        match (bios_boot, active) {
            (Some(p), _) => self.bios.push(format!("{loader}, BIOS boot partition {}", p.number)),
            (_, Some(p)) => self.bios.push(format!("{loader}, active partition {}", p.number)),
            _ if table.kind != TableKind::Gpt => self.bios.push(loader.into()),
            // On a GPT disk, code without a partition to continue in is the stub that prints "not bootable".
            _ => {}
        }
    }

    fn uefi(&mut self, place: &str, programs: &[&'static str]) {
        self.uefi.push(match programs {
            [] => place.to_string(),
            some => format!("{place} ({})", some.join(", ")),
        });
        for program in programs {
            if !self.architectures.contains(program) {
                self.architectures.push(program);
            }
        }
    }
}
