//! Conversion of the findings of `disk-format` to the report.

use super::report::{
    Boot, BootEntry, Content, Disk, Filesystem, Optical, Partition, PartitionTable, Reference, Seed, System,
    Udf,
};
use disk_format::inspect;

impl From<&inspect::DiskFacts> for Disk {
    fn from(found: &inspect::DiskFacts) -> Disk {
        Disk {
            partition_table: found.table.as_ref().map(Into::into),
            content: found.table.is_none().then(|| (&found.whole).into()),
            optical: found.optical.as_ref().map(Into::into),
            boot: Boot {
                bios: found.boot.bios.clone(),
                uefi: found.boot.uefi.clone(),
                architectures: found.boot.architectures.clone(),
            },
        }
    }
}

impl From<&inspect::PartitionTable> for PartitionTable {
    fn from(table: &inspect::PartitionTable) -> PartitionTable {
        PartitionTable {
            kind: match table.kind {
                inspect::TableKind::Mbr => "mbr",
                inspect::TableKind::Gpt => "gpt",
                inspect::TableKind::Hybrid => "hybrid",
            },
            id: table.id.clone(),
            sector_size: table.sector,
            partitions: table.partitions.iter().map(Into::into).collect(),
            more: table.more,
            problems: table.problems.clone(),
        }
    }
}

impl From<&inspect::Partition> for Partition {
    fn from(p: &inspect::Partition) -> Partition {
        Partition {
            number: p.number,
            start: p.start,
            size: p.size,
            type_id: p.type_id.clone(),
            type_name: p.type_name,
            name: p.name.clone(),
            uuid: p.uuid.clone(),
            active: p.active,
            content: (&p.content).into(),
        }
    }
}

impl From<&inspect::Content> for Content {
    fn from(content: &inspect::Content) -> Content {
        match content {
            inspect::Content::Known(found) => Content::Known(Box::new((&**found).into())),
            inspect::Content::Blank => Content::Blank,
            inspect::Content::Unknown => Content::Unknown,
            inspect::Content::Unread(why) => Content::Unread { why: why.clone() },
        }
    }
}

impl From<&inspect::Filesystem> for Filesystem {
    fn from(found: &inspect::Filesystem) -> Filesystem {
        let (system, uefi, seed) = match &found.inside {
            inspect::Inside::NotLookedInto => (None, vec![], None),
            inspect::Inside::System(system) => (Some(system.into()), vec![], None),
            inspect::Inside::Files { uefi, seed } => (None, uefi.clone(), seed.as_ref().map(Into::into)),
        };
        Filesystem {
            kind: found.kind,
            version: found.version.clone(),
            label: found.label.clone(),
            uuid: found.uuid.clone(),
            size: found.size,
            free: found.free,
            looked_into: found.inside != inspect::Inside::NotLookedInto,
            system,
            uefi,
            seed,
        }
    }
}

impl From<&inspect::System> for System {
    fn from(system: &inspect::System) -> System {
        let os = system.os.clone().unwrap_or_default();
        System {
            os: os.id,
            name: os.name,
            version: os.version,
            cloud_init: system.cloud_init,
            unread: system.unread.clone(),
        }
    }
}

impl From<&inspect::Seed> for Seed {
    fn from(seed: &inspect::Seed) -> Seed {
        Seed { source: seed.source, files: seed.files.clone() }
    }
}

impl From<&inspect::Optical> for Optical {
    fn from(disc: &inspect::Optical) -> Optical {
        let medium = disc.medium.clone().unwrap_or_default();
        Optical {
            iso9660: disc.iso9660,
            label: disc.label.clone(),
            system: disc.system.clone(),
            volume_set: disc.volume_set.clone(),
            publisher: disc.publisher.clone(),
            preparer: disc.preparer.clone(),
            application: disc.application.clone(),
            created: disc.created.clone(),
            size: disc.size,
            joliet: disc.joliet,
            rock_ridge: disc.rock_ridge,
            udf: disc.udf.as_ref().map(|u| Udf { label: u.label.clone(), version: u.version.clone() }),
            boot_catalog: disc.boot.iter().map(Into::into).collect(),
            medium: medium.what,
            medium_name: medium.name,
            uefi: medium.uefi,
            seed: disc.seed.as_ref().map(Into::into),
        }
    }
}

impl From<&inspect::BootEntry> for BootEntry {
    fn from(entry: &inspect::BootEntry) -> BootEntry {
        BootEntry {
            platform: match entry.platform {
                inspect::Platform::Bios => "bios".into(),
                inspect::Platform::Uefi => "uefi".into(),
                inspect::Platform::PowerPc => "powerpc".into(),
                inspect::Platform::Mac => "mac".into(),
                inspect::Platform::Other(id) => format!("platform-{id}"),
            },
            bootable: entry.bootable,
            emulation: entry.emulation,
            offset: entry.offset,
            size: entry.size,
            architectures: entry.architectures.clone(),
        }
    }
}

impl From<inspect::Reference> for Reference {
    fn from(reference: inspect::Reference) -> Reference {
        let kind = match reference.kind {
            inspect::ReferenceKind::BackingFile => "backing-file",
            inspect::ReferenceKind::DataFile => "data-file",
        };
        Reference { kind, name: reference.name, format: reference.format }
    }
}
