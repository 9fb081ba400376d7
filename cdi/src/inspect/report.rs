//! The report and its JSON: the schema `coracle.inspect/v1`. A field that is not known is left out; a list is always
//! there. A new field may come under the same name of the schema; none changes its meaning or goes.

use crate::source::image::ImageFile;
use error_core::chain;
use serde::{Serialize, Serializer};

/// The name and version of the schema.
pub const SCHEMA: &str = "coracle.inspect/v1";

/// What a disk is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The name of the source, without credentials.
    pub name: String,
    /// The size of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How much of it is allocated, for a local file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<u64>,
    /// Compression and archives around the disk, the outermost first.
    pub layers: Vec<&'static str>,
    /// The disk's format.
    pub format: &'static str,
    /// The size the guest sees; of an image that is refused, what its header claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_size: Option<u64>,
    /// What the format says of itself, in a fixed order.
    #[serde(serialize_with = "as_map")]
    pub facts: Vec<(String, String)>,
    /// What the image refers to outside itself.
    pub refers_outside: Vec<Reference>,
    /// Why `convert` would refuse it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The container image it lies in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ContainerImage>,
    /// What lies inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// How full it is, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The digest, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// What it cost to find this out.
    pub read: Read,
    /// What a reader of this report should know, one sentence each.
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
            format: "unknown",
            virtual_size: None,
            facts: vec![],
            refers_outside: vec![],
            refused: None,
            image: None,
            disk: None,
            usage: None,
            digest: None,
            read: Read::default(),
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

/// A container image.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContainerImage {
    /// What it says of itself.
    #[serde(flatten)]
    pub facts: container_disk::describe::ImageFacts,
    /// Where the disk is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<ImageFile>,
    /// What the transfers with registries came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registries: Option<container_disk::registry::Counted>,
}

/// Something outside the image file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reference {
    /// `backing-file` or `data-file`.
    pub kind: &'static str,
    /// Its name as it stands in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The format the image says it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

/// How full a disk is, in bytes of the guest's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Usage {
    /// What told it: `tables` of the format, or `holes` of the file.
    pub how: &'static str,
    /// Stored as they are.
    pub data: u64,
    /// Stored compressed.
    pub compressed: u64,
    /// Bytes of the file that those take, at most (formats count whole sectors).
    pub compressed_into: u64,
    /// Not stored: zeros.
    pub zero: u64,
}

/// A digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Digest {
    /// `sha256`.
    pub algorithm: &'static str,
    /// Of what: `file`, the bytes as they are stored or sent.
    pub of: &'static str,
    /// In hexadecimal.
    pub value: String,
}

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Read {
    /// How many reads of the source; a stream counts as one.
    pub requests: u64,
    /// How many bytes they asked for.
    pub bytes: u64,
}

/// What lies inside a disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disk {
    /// Its partition table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_table: Option<PartitionTable>,
    /// What lies on it without partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// What an optical disc image tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optical: Option<Optical>,
    /// Which firmware it looks bootable for.
    pub boot: Boot,
}

/// A partition table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartitionTable {
    /// `mbr`, `gpt` or `hybrid`.
    pub kind: &'static str,
    /// The disk's GUID or signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Bytes per sector.
    pub sector_size: u32,
    /// The partitions.
    pub partitions: Vec<Partition>,
    /// How many more there are.
    pub more: u64,
    /// What is wrong with it.
    pub problems: Vec<String>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Partition {
    /// Its number.
    pub number: u32,
    /// Where it begins, in bytes.
    pub start: u64,
    /// How long it is, in bytes.
    pub size: u64,
    /// The type: a GUID, or two hexadecimal digits.
    pub type_id: String,
    /// What that is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_name: Option<&'static str>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its GUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Whether a BIOS would boot it.
    pub active: bool,
    /// What lies in it.
    pub content: Content,
}

/// What lies somewhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Content {
    /// A filesystem or something like it.
    Known(Box<Filesystem>),
    /// Zeros where a signature could be.
    Blank,
    /// Nothing that is known.
    Unknown,
    /// It was not looked at.
    Unread {
        /// Why.
        why: String,
    },
}

/// A filesystem, or a part of something larger.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Filesystem {
    /// As `blkid` names it.
    pub kind: &'static str,
    /// Its version or variant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its UUID or serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How much of it is free, as its header says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// Whether its directories were read.
    pub looked_into: bool,
    /// What its root directory says about the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
    /// CPU architectures with a UEFI boot program.
    pub uefi: Vec<&'static str>,
    /// The seed of cloud-init it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
}

/// What a root filesystem tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct System {
    /// `ID` of `os-release`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// `PRETTY_NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `VERSION_ID`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether cloud-init is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<bool>,
    /// Why something of this is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// A seed of cloud-init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Seed {
    /// `NoCloud` or `ConfigDrive`.
    pub source: &'static str,
    /// Its files.
    pub files: Vec<String>,
}

/// An optical disc image.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Optical {
    /// Whether it has an ISO 9660 volume.
    pub iso9660: bool,
    /// The volume's label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// For which system it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The set it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_set: Option<String>,
    /// Who published it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Who prepared it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preparer: Option<String>,
    /// With which program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// The size of the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Whether it has Joliet names.
    pub joliet: bool,
    /// Whether it has Rock Ridge names.
    pub rock_ridge: bool,
    /// Its UDF volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udf: Option<Udf>,
    /// Its El Torito entries.
    pub boot_catalog: Vec<BootEntry>,
    /// What it is for: `Windows installer` …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<&'static str>,
    /// What it says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium_name: Option<String>,
    /// CPU architectures with a UEFI boot program in its own directories.
    pub uefi: Vec<&'static str>,
    /// The seed of cloud-init it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
}

/// A UDF volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Udf {
    /// Its label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A boot entry of El Torito.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BootEntry {
    /// `bios`, `uefi`, `powerpc`, `mac`, or `platform-N`.
    pub platform: String,
    /// Whether it may be booted.
    pub bootable: bool,
    /// `none`, `floppy`, `hard disk` or `unknown`.
    pub emulation: &'static str,
    /// Where its image begins.
    pub offset: u64,
    /// How long it is.
    pub size: u64,
    /// CPU architectures with a boot program of a UEFI entry.
    pub architectures: Vec<&'static str>,
}

/// Why a disk looks bootable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Boot {
    /// By a BIOS; empty when nothing speaks for it.
    pub bios: Vec<String>,
    /// By UEFI; empty when nothing speaks for it.
    pub uefi: Vec<String>,
    /// CPU architectures with a UEFI program.
    pub architectures: Vec<&'static str>,
}

fn as_map<S: Serializer>(facts: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(facts.iter().map(|(name, value)| (name, value)))
}
