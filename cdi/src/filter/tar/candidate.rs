//! Candidates: the files of an archive that could be the disk.
//!
//! - A file under 512 bytes: never.
//! - A file named like those that accompany a disk (notes, licences, checksums, signatures, descriptors of
//!   appliances): only if its first bytes are those of a disk or of a compressed file.
//! - Any other file: yes. An unknown name is not a reason to ignore a file: two such files are refused rather
//!   than guessed at.

use crate::filter::{detect, refused_layer};
use disk_format::Format;

/// Bytes that [`by_bytes`] needs.
pub(super) const LOOK: usize = 4096;

const SMALLEST: u64 = 512;

const BESIDE: &[&str] = &[
    "asc",
    "cer",
    "cert",
    "cfg",
    "conf",
    "csv",
    "env",
    "htm",
    "html",
    "ini",
    "json",
    "log",
    "manifest",
    "md",
    "md5",
    "mf",
    "nvram",
    "ovf",
    "packages",
    "pdf",
    "pem",
    "png",
    "rst",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sig",
    "sign",
    "sum",
    "toml",
    "txt",
    "vagrantfile",
    "vmx",
    "xml",
    "yaml",
    "yml",
];

const BESIDE_WHOLE: &[&str] = &[
    "authors",
    "changelog",
    "checksum",
    "checksums",
    "copying",
    "license",
    "licence",
    "makefile",
    "manifest",
    "md5sums",
    "notice",
    "readme",
    "sha1sums",
    "sha256sums",
    "sha512sums",
    "vagrantfile",
    "version",
];

/// The verdict by a file's name and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    Disk,
    IfItsBytesSay,
    Never,
}

pub(super) fn by_name(name: &str, size: u64) -> Worth {
    if size < SMALLEST {
        return Worth::Never;
    }
    let last = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let extension = last.rsplit_once('.').map_or("", |(_, extension)| extension);
    // macOS stores a file's attributes beside it as `._NAME`.
    let beside =
        BESIDE.contains(&extension) || BESIDE_WHOLE.contains(&last.as_str()) || last.starts_with("._");
    if beside { Worth::IfItsBytesSay } else { Worth::Disk }
}

pub(super) fn by_bytes(head: &[u8]) -> bool {
    let boots = head.get(510..512) == Some(&[0x55, 0xaa]);
    boots || Format::probe(head) != Format::Raw || detect(head).is_some() || refused_layer(head).is_some()
}
