//! Where bytes come from: each source is one file, gives a `Stream` (`Read`), and a `ReadAt` where it can seek.
//!
//! | name | file | seeks | proves that it is the same |
//! |---|---|---|---|
//! | a path | `file.rs` | yes | device, inode, size, times |
//! | a block device | `file.rs` | yes | no |
//! | `-` | `stdin.rs` | no (a redirected file: yes) | no (a redirected file: as a path) |
//! | `http://`, `https://` | `http/` | with ranges | the full name, the size and a strong ETag |
//! | `docker://`, `oci:`, `store:`, archives | `image.rs` | from the store, in a layer that is not compressed; `docker://` is entered again where its layer can be | digest |
//! | (an empty disk, of jobs) | `blank.rs` | yes | its size |
//! | (an upload, of jobs) | `upload.rs` | no | no |
//!
//! [`Named::of`] decides once what a name means: to ask the store whether it has that name opens files, which a program
//! that has given up everything but its source cannot do any more. [`open`] is the one place where a name becomes a
//! source; a new kind of name is a variant of [`Named`] and plugs in there.

mod blank;
pub(crate) mod fetched;
mod file;
pub mod http;
pub mod image;
mod once;
pub mod options;
mod stdin;
pub mod upload;

pub use file::{FileSource, SparseFile, data_map};
pub use options::{Options, Store};
pub use stdin::StdinSource;

use crate::filter::{Boundary, OnBoundary};
use crate::{Error, ErrorKind, Result};
use container_disk::Name;
use container_disk::reference::Local;
use disk_format::ReadAt;
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A source by the meaning of its name on this host. `Debug` shows no password.
#[derive(Clone, PartialEq, Eq)]
pub enum Named {
    /// Standard input, `-`.
    Stdin,
    /// A file, a block device or a named pipe.
    Path(PathBuf),
    /// An address of a web server. It may hold a password: see [`shown`].
    Web(String),
    /// The disk in an image.
    Image(Name),
    /// An empty disk of so many bytes. Not a name of [`Named::of`]: people make an empty file.
    Blank(u64),
    /// A stream of so many bytes, where they are known, that is handed in through standard input. Of jobs alone, too.
    Upload(Option<u64>),
}

impl Named {
    /// Decides what a name means: an image where it is that of one, by its scheme or because the store has it; else a
    /// path, an address or `-`. A name that is a file's and an image's is refused.
    pub fn of(name: &str, options: &Options) -> Result<Named> {
        if let Some(image) = image_name(name, options)? {
            return Ok(Named::Image(image));
        }
        match name.split_once("://") {
            _ if name == "-" => Ok(Named::Stdin),
            Some(("http" | "https", _)) => Ok(Named::Web(name.to_owned())),
            Some((scheme, _)) if !Path::new(name).exists() => Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "cannot read {name}: {scheme}:// names are not supported; give a path, http://, https://, \
                     docker:// or -"
                ),
            )),
            _ => Ok(Named::Path(PathBuf::from(name))),
        }
    }

    /// The image, where it is one.
    pub fn image(&self) -> Option<&Name> {
        match self {
            Named::Image(image) => Some(image),
            _ => None,
        }
    }

    /// The path, where it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Named::Path(path) => Some(path),
            _ => None,
        }
    }

    /// The file, device or folder of this host that its bytes are read from, where the name says it.
    pub(crate) fn local(&self) -> Option<&Path> {
        match self {
            Named::Image(
                Name::Layout(path, _) | Name::OciArchive(path, _) | Name::DockerArchive(path, _),
            ) => Some(path),
            _ => self.path(),
        }
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Named::Stdin => f.write_str("Stdin"),
            Named::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Named::Web(url) => f.debug_tuple("Web").field(&http::shown(url)).finish(),
            Named::Image(image) => f.debug_tuple("Image").field(image).finish(),
            Named::Blank(size) => f.debug_tuple("Blank").field(size).finish(),
            Named::Upload(size) => f.debug_tuple("Upload").field(size).finish(),
        }
    }
}

/// Opens a source.
pub fn open(named: &Named, options: &Options) -> Result<Arc<dyn Source>> {
    Ok(match named {
        Named::Stdin => Arc::new(StdinSource::open()?),
        Named::Path(path) => Arc::new(FileSource::open(path)?),
        Named::Web(url) => Arc::new(http::Http::open(url, options)?),
        Named::Image(image) => Arc::new(image::ImageDisk::open(&options.places, image, &options.image)?),
        Named::Blank(size) => Arc::new(blank::Blank::new(*size)),
        Named::Upload(size) => Arc::new(upload::Upload::new(*size)),
    })
}

/// A source's name as it may be shown and kept: an address without its user and its query, which may hold a password
/// and a signature; any other name as it is.
pub fn shown(name: &str) -> String {
    match name.split_once("://") {
        Some(("http" | "https", _)) => http::shown(name),
        _ => name.to_owned(),
    }
}

fn image_name(name: &str, options: &Options) -> Result<Option<Name>> {
    if let Some(image) = Name::with_scheme(name) {
        return Ok(Some(image?));
    }
    let image = in_store(name, options)?;
    if image.is_some() && Path::new(name).exists() {
        let what = format!("{name} is a file and an image of the store; write ./{name} or store:{name}");
        return Err(Error::new(ErrorKind::Usage, what));
    }
    Ok(image)
}

/// The store's image of that name, if it has one. A store that does not exist is not made for the question.
fn in_store(name: &str, options: &Options) -> Result<Option<Name>> {
    let Ok(local) = Local::parse(name) else { return Ok(None) };
    if !options.places.store_folder().is_ok_and(|folder| folder.is_dir()) {
        return Ok(None);
    }
    let wanted = local.to_string();
    let there = options.places.store()?.has_name(&wanted)?;
    Ok(there.then_some(Name::Store(local)))
}

/// A source that has been opened: it exists, we may read it, and its first facts are known.
pub trait Source: Send + Sync {
    /// What is known without reading the bytes.
    fn facts(&self) -> &SourceFacts;

    /// The file or block device that is open, where it is one.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The bytes at any offset, where the source can do that. Reads may come from several threads. Where reading needs
    /// more than what is open ([`SourceFacts::remote`]), a thread that parses is given them by another one.
    fn read_at(&self) -> Option<Arc<dyn ReadAt>>;

    /// The bytes in order from offset `from` to the end. A source that cannot seek can be streamed once, from 0;
    /// anything else is an error that says so. Retries inside continue at the byte where it broke. Whoever reads it may
    /// be a thread that can open nothing: what must be opened is opened here, or by threads of the source's own.
    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>>;

    /// The same from the first byte, where [`SourceFacts::reentry`] says that it can be entered again although it cannot seek:
    /// `note` is told the places on the way.
    fn stream_noting(&self, note: OnBoundary) -> Result<Box<dyn Read + Send>> {
        drop(note);
        self.stream(0)
    }

    /// The bytes from such a place on, and the places behind it.
    fn enter(&self, place: &Boundary, note: OnBoundary) -> Result<Box<dyn Read + Send>> {
        drop(note);
        self.stream(place.output)
    }

    /// Asked after the last read: an error where the source was changed while it was read. A source that notices this
    /// at each read, or cannot notice it, has nothing to add.
    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// After a refusal: whether the bytes were not those that were promised, and a stream opened now brings them from
    /// elsewhere.
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// Whether a stream that was cut short fails: its size is known, or its end is marked. Else it ends like a whole one.
    fn marks_its_end(&self) -> bool {
        true
    }

    /// The ranges that may hold data, in order; what lies between them is known to be zeros and need not be read.
    /// `None` where nothing is known beforehand.
    fn data_map(&self) -> Option<Box<dyn Iterator<Item = Range<u64>> + Send>> {
        None
    }
}

/// What is known about a source before its bytes are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFacts {
    /// The name for people and messages (credentials removed).
    pub name: String,
    /// The size in bytes, if known.
    pub size: Option<u64>,
    /// Whether [`Source::read_at`] gives something.
    pub seekable: bool,
    /// Whether each read costs a round trip, so that several must be in flight.
    pub remote: bool,
    /// It is a file beside the disk (a kernel, an initrd): it keeps the size that it has.
    pub plain: bool,
    /// It cannot seek, and tells places where its stream can be entered again.
    pub reentry: bool,
    /// What proves later that the source is still the same bytes; `None` when nothing does.
    pub identity: Option<Identity>,
}

/// Evidence that a source is unchanged, kept in the journal.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// The evidence: `etag:"…"`, `mtime:…`, `file:dev:ino:size:mtime:ctime`, `sha256:…`.
    pub value: String,
    /// The size in bytes, where it is known.
    pub size: Option<u64>,
    /// The digest of the full name that the evidence is about, query included: the name itself may hold a signature,
    /// and a journal is readable on disk. Empty where the evidence holds whatever the name is.
    pub name: String,
    /// What equal evidence says.
    pub says: Says,
}

/// What it says of two sources that their evidence is equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Says {
    /// Their bytes are equal, whatever their names: a digest of the content, or a file's own inode and times.
    Content,
    /// Their bytes are equal if their names and sizes are: a strong ETag tells versions of one name apart, and two
    /// servers, or one server for two files, may give the same one.
    Version,
    /// They are likely equal if their names and sizes are: a weak ETag, Last-Modified.
    Likely,
}

impl Identity {
    /// Evidence that holds under any name.
    pub(crate) fn of_content(value: String, size: Option<u64>) -> Identity {
        Identity { value, size, name: String::new(), says: Says::Content }
    }

    /// Whether equal evidence (and an equal name, where that counts) proves equal bytes.
    pub fn is_proof(&self) -> bool {
        self.says != Says::Likely
    }

    /// Whether the evidence is equal, names aside.
    pub(crate) fn agrees(&self, other: &Identity) -> bool {
        (&self.value, self.size, self.says) == (&other.value, other.size, other.says)
    }
}
