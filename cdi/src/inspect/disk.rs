//! Conversion of the findings of `disk-format` to the report.

use super::report::{
    Boot, BootEntry, Content, Disk, Filesystem, Optical, Partition, PartitionTable, Reference, Seed, System,
    Udf,
};
use disk_format::look;

impl From<&look::Look> for Disk {
    fn from(found: &look::Look) -> Disk {
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

impl From<&look::PartitionTable> for PartitionTable {
    fn from(table: &look::PartitionTable) -> PartitionTable {
        PartitionTable {
            kind: match table.kind {
                look::TableKind::Mbr => "mbr",
                look::TableKind::Gpt => "gpt",
                look::TableKind::Hybrid => "hybrid",
            },
            id: table.id.clone(),
            sector_size: table.sector,
            partitions: table.partitions.iter().map(Into::into).collect(),
            more: table.more,
            problems: table.problems.clone(),
        }
    }
}

impl From<&look::Partition> for Partition {
    fn from(p: &look::Partition) -> Partition {
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

impl From<&look::Content> for Content {
    fn from(content: &look::Content) -> Content {
        match content {
            look::Content::Known(found) => Content::Known(Box::new((&**found).into())),
            look::Content::Blank => Content::Blank,
            look::Content::Unknown => Content::Unknown,
            look::Content::Unread(why) => Content::Unread { why: why.clone() },
        }
    }
}

impl From<&look::Filesystem> for Filesystem {
    fn from(found: &look::Filesystem) -> Filesystem {
        let (system, uefi, seed) = match &found.inside {
            look::Inside::NotLookedInto => (None, vec![], None),
            look::Inside::System(system) => (Some(system.into()), vec![], None),
            look::Inside::Files { uefi, seed } => (None, uefi.clone(), seed.as_ref().map(Into::into)),
        };
        Filesystem {
            kind: found.kind,
            version: found.version.clone(),
            label: found.label.clone(),
            uuid: found.uuid.clone(),
            size: found.size,
            free: found.free,
            looked_into: found.inside != look::Inside::NotLookedInto,
            system,
            uefi,
            seed,
        }
    }
}

impl From<&look::System> for System {
    fn from(system: &look::System) -> System {
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

impl From<&look::Seed> for Seed {
    fn from(seed: &look::Seed) -> Seed {
        Seed { source: seed.source, files: seed.files.clone() }
    }
}

impl From<&look::Optical> for Optical {
    fn from(disc: &look::Optical) -> Optical {
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

impl From<&look::BootEntry> for BootEntry {
    fn from(entry: &look::BootEntry) -> BootEntry {
        BootEntry {
            platform: match entry.platform {
                look::Platform::Bios => "bios".into(),
                look::Platform::Uefi => "uefi".into(),
                look::Platform::PowerPc => "powerpc".into(),
                look::Platform::Mac => "mac".into(),
                look::Platform::Other(id) => format!("platform-{id}"),
            },
            bootable: entry.bootable,
            emulation: entry.emulation,
            offset: entry.offset,
            size: entry.size,
            architectures: entry.architectures.clone(),
        }
    }
}

impl From<look::Reference> for Reference {
    fn from(reference: look::Reference) -> Reference {
        let kind = match reference.kind {
            look::ReferenceKind::BackingFile => "backing-file",
            look::ReferenceKind::DataFile => "data-file",
        };
        Reference { kind, name: reference.name, format: reference.format }
    }
}
