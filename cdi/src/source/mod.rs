//! Sources: each is one file, gives a stream (`Read`), and a `ReadAt` where it can seek.
//!
//! | name | file | seeks | identity |
//! |---|---|---|---|
//! | a path | `file.rs` | yes | device, inode, size, times |
//! | a block device | `file.rs` | yes | no; while it is read, the kernel's count of writes to it |
//! | `-` | `stdin.rs` | no (a redirected file: yes) | no (a redirected file: as a path) |
//! | `http://`, `https://` | `http/` | with ranges | the full name, the size and a strong ETag |
//! | `docker://`, `oci:`, `store:`, archives | `image.rs` | from the store, in an uncompressed layer; `docker://` streams can be entered again if the layer can | digest |
//! | (an empty disk, of jobs) | `blank.rs` | yes | its size |
//! | (an upload, of jobs) | `upload.rs` | no | no |
//!
//! [`SourceSpec::resolve`] decides the meaning of a name once. It may look at files and into the store, and a
//! confined program cannot do that any more. [`open`] is the only place where a name becomes a source. A new
//! kind of name is a variant of [`SourceSpec`] and is added there.

mod blank;
pub(crate) mod fetched;
mod file;
pub mod http;
pub mod image;
mod once;
pub mod options;
pub(crate) mod sequential;
mod stdin;
pub mod upload;

pub use file::{FileSource, SparseFile, data_map};
pub use options::{Options, Store};
pub use stdin::StdinSource;

use crate::Result;
use crate::filter::{Boundary, OnBoundary};
use container_disk::meaning::{Meaning, Role, not_a_volume};
use container_disk::{Digest, Name};
use disk_format::ReadAt;
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A source, by the meaning of its name on this host. `Debug` shows no password.
#[derive(Clone, PartialEq, Eq)]
pub enum SourceSpec {
    Stdin,
    /// A file, a block device or a named pipe.
    Path(PathBuf),
    /// A URL of a web server. It may hold a password: see [`shown`].
    Web(String),
    /// The disk in an image.
    Image(Name),
    /// An empty disk, with its size in bytes. Only for jobs: no name leads to it.
    Blank(u64),
    /// A stream on standard input, with its length in bytes if that is known. Only for jobs, too.
    Upload(Option<u64>),
}

impl SourceSpec {
    /// Decides the meaning of a name by the rule of [`container_disk::meaning`].
    pub fn resolve(name: &str, options: &Options) -> Result<SourceSpec> {
        Ok(match Meaning::of(name, Role::Disk, &*options.places)? {
            Meaning::Pipe => SourceSpec::Stdin,
            Meaning::File(path) => SourceSpec::Path(path),
            Meaning::Web(url) => SourceSpec::Web(url),
            Meaning::Image(image) => SourceSpec::Image(image),
            Meaning::Volume(volume) => return Err(not_a_volume(&volume).into()),
        })
    }

    /// The image, if it is one.
    pub fn image(&self) -> Option<&Name> {
        match self {
            SourceSpec::Image(image) => Some(image),
            _ => None,
        }
    }

    /// The path, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            SourceSpec::Path(path) => Some(path),
            _ => None,
        }
    }

    /// The file, device or folder of this host that is read, if the name contains it.
    pub(crate) fn local(&self) -> Option<&Path> {
        match self {
            SourceSpec::Image(
                Name::Layout(path, _) | Name::OciArchive(path, _) | Name::DockerArchive(path, _),
            ) => Some(path),
            _ => self.path(),
        }
    }
}

impl fmt::Debug for SourceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceSpec::Stdin => f.write_str("Stdin"),
            SourceSpec::Path(path) => f.debug_tuple("Path").field(path).finish(),
            SourceSpec::Web(url) => f.debug_tuple("Web").field(&http::shown(url)).finish(),
            SourceSpec::Image(image) => f.debug_tuple("Image").field(image).finish(),
            SourceSpec::Blank(size) => f.debug_tuple("Blank").field(size).finish(),
            SourceSpec::Upload(size) => f.debug_tuple("Upload").field(size).finish(),
        }
    }
}

/// Opens a source. A file or a device that is in use is refused.
pub fn open(named: &SourceSpec, options: &Options) -> Result<Arc<dyn Source>> {
    let source = open_used(named, options)?;
    source.check_unused().map(|()| source)
}

/// Opens a source that may be in use. The caller calls [`Source::check_unused`].
pub(crate) fn open_used(named: &SourceSpec, options: &Options) -> Result<Arc<dyn Source>> {
    Ok(match named {
        SourceSpec::Stdin => Arc::new(StdinSource::open()?),
        SourceSpec::Path(path) => Arc::new(FileSource::open_used(path)?),
        SourceSpec::Web(url) => Arc::new(http::Http::open(url, options)?),
        SourceSpec::Image(image) => Arc::new(image::ImageDisk::open(&options.places, image, &options.image)?),
        SourceSpec::Blank(size) => Arc::new(blank::Blank::new(*size)),
        SourceSpec::Upload(size) => Arc::new(upload::Upload::new(*size)),
    })
}

/// The printable form of a source's name: a URL without its user and its query, which may hold a password and
/// a signature; any other name as it is.
pub fn shown(name: &str) -> String {
    match is_web(name) {
        true => http::shown(name),
        false => name.to_owned(),
    }
}

/// A digest of a source's whole name, with the user and the query that [`shown`] leaves out.
pub fn name_digest(name: &str) -> String {
    let whole = reqwest::Url::parse(name).ok().filter(|_| is_web(name)).map(|mut url| {
        // A server does not get it.
        url.set_fragment(None);
        url.to_string()
    });
    Digest::of(whole.as_deref().unwrap_or(name).as_bytes()).to_string()
}

/// True if [`shown`] leaves out nothing of a name: no user and no query.
pub fn is_shown_whole(name: &str) -> bool {
    name_digest(name) == name_digest(&shown(name))
}

fn is_web(name: &str) -> bool {
    let scheme = name.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web)))
}

/// An open source: it exists, can be read, and its first facts are known.
pub trait Source: Send + Sync {
    /// Facts that are known without reading the bytes.
    fn facts(&self) -> &SourceFacts;

    /// The open file or block device, if it is one.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Number of compressions of the named file that the source itself undoes.
    fn undone(&self) -> usize {
        0
    }

    /// An error if another program may write to the source while it is read.
    fn check_unused(&self) -> Result<()> {
        Ok(())
    }

    /// The bytes at any offset, where the source can do that. Reads may come from several threads. If reading
    /// needs more than open descriptors ([`SourceFacts::remote`]), another thread reads for the threads that
    /// parse.
    fn read_at(&self) -> Option<Arc<dyn ReadAt>>;

    /// The bytes in order from offset `from` to the end. A source that cannot seek can be streamed once, from
    /// 0; anything else is an error that says so. Retries inside continue at the byte where a connection
    /// broke. The reader may be a thread that can open nothing, so files are opened here, or by threads of
    /// the source.
    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>>;

    /// The bytes from the first one on, for a source that cannot seek but can be entered again
    /// ([`SourceFacts::reentry`]): `note` receives the positions on the way.
    fn stream_noting(&self, note: OnBoundary) -> Result<Box<dyn Read + Send>> {
        drop(note);
        self.stream(0)
    }

    /// The bytes from such a position on; `note` receives those behind it.
    fn enter(&self, place: &Boundary, note: OnBoundary) -> Result<Box<dyn Read + Send>> {
        drop(note);
        self.stream(place.output)
    }

    /// Called after the last read: an error if the source was changed while it was read. A source that
    /// notices this at each read, or cannot notice it, does nothing here.
    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// Called after a refusal: true if the bytes were not the promised ones, and a new stream would bring
    /// them from another server.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// True if a stream that was cut short fails, since its size is known or its end is marked. Otherwise it
    /// ends like a complete one.
    fn marks_its_end(&self) -> bool {
        true
    }

    /// The ranges that may hold data, in order; between them are zeros that need not be read. `None` if
    /// nothing is known beforehand.
    fn data_map(&self) -> Option<Box<dyn Iterator<Item = Range<u64>> + Send>> {
        None
    }
}

/// Facts about a source before its bytes are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFacts {
    /// The name for messages, without credentials.
    pub name: String,
    /// The size in bytes, if known.
    pub size: Option<u64>,
    /// True if [`Source::read_at`] returns a reader.
    pub seekable: bool,
    /// True if each read costs a round trip, so that several must be in flight.
    pub remote: bool,
    /// A file beside the disk (a kernel, an initrd), whose size is not rounded to sectors.
    pub plain: bool,
    /// True if the source cannot seek, and reports positions where its stream can be entered again.
    pub reentry: bool,
    /// Evidence by which a later run can tell that the bytes are the same, if the source has any.
    pub identity: Option<Identity>,
}

/// Evidence that a source is unchanged, kept in the journal.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// The evidence: `etag:"…"`, `mtime:…`, `file:dev:ino:size:mtime:ctime`, `sha256:…`.
    pub value: String,
    /// The size in bytes, if it is known.
    pub size: Option<u64>,
    /// A digest of the full name that the evidence is about, with the query. The name itself may hold a
    /// signature, and a journal is readable on disk. Empty if the evidence holds under any name.
    pub name: String,
    /// The conclusion from equal evidence.
    pub says: EvidenceStrength,
}

/// The conclusion from equal evidence of two sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvidenceStrength {
    /// Their bytes are equal, whatever their names: a digest of the content, or a file's own inode and times.
    Content,
    /// Their bytes are equal if their names and sizes are: a strong ETag tells versions of one name apart,
    /// and two servers, or one server for two files, may give the same one.
    Version,
    /// Bytes are likely equal if names and sizes are equal: a weak ETag, Last-Modified.
    Likely,
}

impl Identity {
    /// Evidence that holds under any name.
    pub(crate) fn of_content(value: String, size: Option<u64>) -> Identity {
        Identity { value, size, name: String::new(), says: EvidenceStrength::Content }
    }

    /// True if equal evidence (and an equal name, where that counts) proves equal bytes.
    pub fn is_proof(&self) -> bool {
        self.says != EvidenceStrength::Likely
    }

    /// True if the evidence, the size and the strength are equal. The names are not compared.
    pub(crate) fn agrees(&self, other: &Identity) -> bool {
        (&self.value, self.size, self.says) == (&other.value, other.size, other.says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_of_what_is_not_shown_too() {
        let plain = "http://h/image";
        for same in ["HTTP://H:80/image", "http://h/image#part"] {
            assert_eq!((shown(same), name_digest(same)), (shown(plain), name_digest(plain)), "{same}");
            assert!(is_shown_whole(same), "{same}");
        }
        for other in ["http://h/image?os=a", "http://h/image?os=b", "HTTP://u:p@h/image", "http://v@h/image"]
        {
            assert_ne!(name_digest(other), name_digest(plain), "{other}");
            assert!(!is_shown_whole(other) && !shown(other).contains(['@', '=']), "{other}");
        }
        assert_ne!(name_digest("http://h/image?os=a"), name_digest("http://h/image?os=b"));
        assert!(is_shown_whole("http://h") && is_shown_whole("docker://h/os:1") && is_shown_whole("nothing"));
    }
}
