//! The report and its JSON: the schema `coracle.inspect/v1`. A field that is not known is left out; a list is
//! always there. New fields may be added under the same name of the schema; none changes its meaning or is
//! removed.

use crate::source::image::ImageFile;
use error_core::chain;
use serde::{Serialize, Serializer};

/// The name and version of the schema.
pub const SCHEMA: &str = "coracle.inspect/v1";

/// The report of a disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of this JSON: [`SCHEMA`].
    pub schema: &'static str,
    /// The name of the source, without credentials.
    pub name: String,
    /// The size of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Bytes that a local file takes on its disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<u64>,
    /// Compression and archives around the disk, the outermost first.
    pub layers: Vec<&'static str>,
    /// Path of the described file in the outermost archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    pub format: &'static str,
    /// The size the guest sees; of a refused image, the size in its header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_size: Option<u64>,
    /// Properties of the format, in a fixed order.
    #[serde(serialize_with = "as_map")]
    pub facts: Vec<(String, String)>,
    /// References of the image to other files.
    pub refers_outside: Vec<Reference>,
    /// The reason why `convert` would refuse it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The container image of the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ContainerImage>,
    /// The content of the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// Data and zeros of the disk, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The digest, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The cost of the inspection.
    pub read: ReadCost,
    /// Remarks for the reader of this report, one sentence each.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn new(name: &str, size: Option<u64>) -> Self {
        Report {
            schema: SCHEMA,
            name: name.to_string(),
            size,
            allocated: None,
            layers: vec![],
            member: None,
            format: "unknown",
            virtual_size: None,
            facts: vec![],
            refers_outside: vec![],
            refused: None,
            image: None,
            disk: None,
            usage: None,
            digest: None,
            read: ReadCost::default(),
            notes: vec![],
        }
    }

    pub(super) fn refuse(&mut self, e: &disk_format::Error) {
        self.refused.get_or_insert_with(|| chain(e));
    }

    pub(super) fn note(&mut self, what: &str) {
        self.notes.push(what.to_string());
    }
}

/// The container image of a disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerImage {
    /// The image's own documents.
    #[serde(flatten)]
    pub facts: container_disk::describe::ImageFacts,
    /// The disk's file in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<ImageFile>,
    /// Totals of the transfers with registries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registries: Option<container_disk::registry::TransferCounts>,
}

/// A reference to another file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reference {
    /// The field that holds the reference: `backing-file` or `data-file`.
    pub kind: &'static str,
    /// Name of the file in the image's header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Format of the file by the image's header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

/// Data and zeros of a disk, in bytes of the guest's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Usage {
    /// Origin of the numbers: `tables` of the format, or `holes` of the file.
    pub how: &'static str,
    /// Bytes that are stored uncompressed.
    pub data: u64,
    /// Bytes that are stored compressed.
    pub compressed: u64,
    /// Bytes of the file that those take, at most (formats count whole sectors).
    pub compressed_into: u64,
    /// Zeros that are not stored.
    pub zero: u64,
}

/// A digest of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Digest {
    pub algorithm: &'static str,
    /// The hashed object: `file`, the bytes as they are stored or sent.
    pub of: &'static str,
    /// The digest in hexadecimal.
    pub value: String,
}

/// The cost of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ReadCost {
    /// The number of reads of the source; a stream counts as one.
    pub requests: u64,
    /// The number of bytes read.
    pub bytes: u64,
}

/// The content of a disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disk {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_table: Option<PartitionTable>,
    /// Content of a disk without partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// Facts about an optical disc image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optical: Option<Optical>,
    /// Firmware that the disk looks bootable for.
    pub boot: Boot,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartitionTable {
    /// `mbr`, `gpt` or `hybrid`.
    pub kind: &'static str,
    /// The disk's GUID or signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub sector_size: u32,
    pub partitions: Vec<Partition>,
    /// The number of partitions that are not listed.
    pub more: u64,
    /// Faults of the table.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Partition {
    pub number: u32,
    pub start: u64,
    pub size: u64,
    /// The type: a GUID, or two hexadecimal digits.
    pub type_id: String,
    /// Name of the type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// True if the partition is marked active for a BIOS.
    pub active: bool,
    pub content: Content,
}

/// The content of a partition or a disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Content {
    /// A filesystem, or something like it (a volume manager, encryption).
    Known(Box<Filesystem>),
    /// Zeros where a signature could be.
    Blank,
    /// Bytes without a known signature.
    Unknown,
    /// The content was not inspected.
    Unread { why: String },
}

/// A filesystem, or a part of something larger.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Filesystem {
    /// The type, by the names of `blkid`.
    pub kind: &'static str,
    /// Version or variant of the format, if its header states one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// UUID or serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Free bytes by the filesystem's header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// True if its directories were read.
    pub looked_into: bool,
    /// The operating system by the root directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
    /// CPU architectures with a UEFI boot program.
    pub uefi: Vec<&'static str>,
    /// The seed of cloud-init in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
}

/// The operating system in a root filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct System {
    /// Value of `ID` in `os-release`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// Value of `PRETTY_NAME` in `os-release`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Value of `VERSION_ID` in `os-release`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// True if cloud-init is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<bool>,
    /// The reason why some of this is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// A seed of cloud-init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seed {
    /// Data source of cloud-init: `NoCloud` or `ConfigDrive`.
    pub source: &'static str,
    pub files: Vec<String>,
}

/// An optical disc image.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Optical {
    /// True if it has an ISO 9660 volume.
    pub iso9660: bool,
    /// Label of the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Operating system that the volume was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Name of the volume set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_set: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Person or organisation that prepared the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preparer: Option<String>,
    /// Program that made the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Size of the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// True if it has Joliet names.
    pub joliet: bool,
    /// True if it has Rock Ridge names.
    pub rock_ridge: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udf: Option<Udf>,
    /// The El Torito entries.
    pub boot_catalog: Vec<BootEntry>,
    /// Purpose of the disc, such as `Windows installer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<&'static str>,
    /// Name of the disc by its own files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium_name: Option<String>,
    /// CPU architectures with a UEFI boot program in its own directories.
    pub uefi: Vec<&'static str>,
    /// The seed of cloud-init in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Udf {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Revision of UDF, such as `1.02`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A boot entry of El Torito.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BootEntry {
    /// `bios`, `uefi`, `powerpc`, `mac`, or `platform-N`.
    pub platform: String,
    /// True if the entry is marked bootable.
    pub bootable: bool,
    /// `none`, `floppy`, `hard disk` or `unknown`.
    pub emulation: &'static str,
    /// Offset of the boot image.
    pub offset: u64,
    /// Length of the boot image.
    pub size: u64,
    /// CPU architectures with a boot program of a UEFI entry.
    pub architectures: Vec<&'static str>,
}

/// The reasons why a disk looks bootable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Boot {
    /// Signs of a BIOS boot loader; empty if there are none.
    pub bios: Vec<String>,
    /// Signs of a UEFI boot loader; empty if there are none.
    pub uefi: Vec<String>,
    /// CPU architectures with a UEFI program.
    pub architectures: Vec<&'static str>,
}

fn as_map<S: Serializer>(facts: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(facts.iter().map(|(name, value)| (name, value)))
}
