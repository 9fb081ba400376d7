//! The rule by which every command reads a source or a target (`docs/reference/names.md`).
//!
//! ```text
//!  1  a scheme                                   what it says: Image, Web, File, Volume; "-": Pipe
//!  2  an existing path; /, ./, ../, ~ in front   File
//!  3  HOST/REPO; a dot or a port in HOST         Image, in that registry
//!  4  any other                                  Image, in the store
//! ```
//!
//! | role | 2 | 3 | 4 |
//! |---|---|---|---|
//! | [`Role::Disk`], [`Role::Image`]: a source | yes; refused if the store has the name, too | yes | must exist |
//! | [`Role::Stored`]: a name in the store | never | the name under which the store keeps that image | yes |
//! | [`Role::Target`]: an image that is written | never | yes | yes |
//! | [`Role::DiskTarget`]: a disk that is written | always | never | never |
//!
//! [`Surroundings`] answers what exists, so that the rule is a function of values.

mod advice;
mod path;
#[cfg(test)]
mod tests;

pub use path::{expand, home};

use crate::open::Places;
use crate::reference::{Local, Remote};
use crate::{Error, ErrorKind, Name, Result};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The use that a command makes of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A source whose disk is read: a file or an image.
    Disk,
    /// A source that is an image. A file is refused with the name that it has as an archive.
    Image,
    /// A name in the store.
    Stored,
    /// An image that is written.
    Target,
    /// A disk that is written.
    DiskTarget,
}

/// The meaning of a name.
#[derive(Clone, PartialEq, Eq)]
pub enum Meaning {
    /// Standard input or output.
    Pipe,
    /// A file, a block device or a folder of this computer.
    File(PathBuf),
    /// A URL of a web server. It may hold a password.
    Web(String),
    Image(Name),
    /// A PVC of a cluster, as it is written: `pvc/NAME` or `dv/NAME`.
    Volume(String),
}

/// Files, names and folders that a name may mean.
pub trait Surroundings {
    /// True if there is a file, a folder, a device or a link of this path.
    fn exists(&self, path: &Path) -> bool;

    /// All names of the store, `NAME:TAG`. A store that does not exist has none, and is not created.
    fn stored(&self) -> Result<Vec<String>>;

    /// The user's home folder.
    fn home(&self) -> Option<PathBuf> {
        home()
    }
}

impl Surroundings for Places {
    fn exists(&self, path: &Path) -> bool {
        match std::fs::symlink_metadata(path) {
            Ok(_) => true,
            // A path that cannot be looked at is opened, and the error of that names the cause.
            Err(e) => !matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput
            ),
        }
    }

    fn stored(&self) -> Result<Vec<String>> {
        match self.store_folder() {
            Ok(folder) if folder.is_dir() => self.store()?.names(),
            _ => Ok(vec![]),
        }
    }
}

impl fmt::Debug for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Meaning::Pipe => f.write_str("Pipe"),
            Meaning::File(path) => f.debug_tuple("File").field(path).finish(),
            Meaning::Web(_) => f.write_str("Web"),
            Meaning::Image(name) => f.debug_tuple("Image").field(name).finish(),
            Meaning::Volume(text) => f.debug_tuple("Volume").field(text).finish(),
        }
    }
}

impl Meaning {
    /// Reads a name by the rule.
    pub fn of(text: &str, role: Role, around: &dyn Surroundings) -> Result<Meaning> {
        if text.is_empty() {
            return Err(Error::usage("the name is empty"));
        }
        if let Some(meaning) = by_scheme(text, role, around) {
            return meaning;
        }
        let path = expand(text, around.home())?;
        match role {
            Role::DiskTarget => Ok(Meaning::File(path)),
            Role::Stored | Role::Target if path::looks_like_one(text) => Err(advice::not_a_path(text, role)),
            Role::Stored => match Remote::by_host(text) {
                Some(remote) => Ok(Meaning::Image(Name::Store(remote?.stored()))),
                None => Ok(Meaning::Image(Name::Store(Local::parse(text)?))),
            },
            Role::Target => match Remote::by_host(text) {
                Some(remote) => Ok(Meaning::Image(Name::Registry(remote?))),
                None => Ok(Meaning::Image(Name::Store(Local::parse(text)?))),
            },
            Role::Disk | Role::Image => source(text, path, role, around),
        }
    }
}

/// A source without a scheme.
fn source(text: &str, path: PathBuf, role: Role, around: &dyn Surroundings) -> Result<Meaning> {
    let is_file = around.exists(&path);
    if path::looks_like_one(text) {
        return match (is_file, role) {
            (true, Role::Image) => Err(advice::file_for_image(text)),
            (true, _) => Ok(Meaning::File(path)),
            (false, _) => Err(advice::no_file(text, &path)),
        };
    }
    let local = Local::parse(text).ok();
    if is_file {
        let name = local.as_ref().map(ToString::to_string);
        return match name {
            Some(name) if around.stored()?.contains(&name) => Err(advice::two_meanings(text)),
            _ if role == Role::Image => Err(advice::file_for_image(text)),
            _ => Ok(Meaning::File(path)),
        };
    }
    if let Some(remote) = Remote::by_host(text) {
        let remote = remote.map_err(|e| e.with_hint(format!("there is no file {text} either")))?;
        return Ok(Meaning::Image(Name::Registry(remote)));
    }
    let stored = around.stored()?;
    match local {
        Some(local) if stored.contains(&local.to_string()) => Ok(Meaning::Image(Name::Store(local))),
        _ => Err(advice::unknown(text, &stored)),
    }
}

/// The meaning of a name with a scheme; `None` without one.
fn by_scheme(text: &str, role: Role, around: &dyn Surroundings) -> Option<Result<Meaning>> {
    if text == "-" {
        return Some(Ok(Meaning::Pipe));
    }
    if let Some(image) = Name::with_scheme(text) {
        return Some(image.and_then(|image| path::expanded(image, around.home())).map(Meaning::Image));
    }
    if let Some((scheme, rest)) = text.split_once("://")
        && ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web))
    {
        return Some(Ok(Meaning::Web(format!("{}://{rest}", scheme.to_ascii_lowercase()))));
    }
    if let Some(rest) = text.strip_prefix("file:") {
        return Some(path::of_url(text, rest, around.home()).and_then(|path| match role {
            Role::Disk if !around.exists(&path) => Err(advice::no_file(text, &path)),
            Role::Disk | Role::DiskTarget => Ok(Meaning::File(path)),
            Role::Image => Err(advice::file_for_image(&path.display().to_string())),
            Role::Stored | Role::Target => Err(advice::not_a_path(text, role)),
        }));
    }
    // A target may lie in a folder of that name; no PVC is written here.
    let is_volume = text.starts_with("pvc/") || text.starts_with("dv/");
    if is_volume && matches!(role, Role::Disk | Role::Image) {
        return Some(Ok(Meaning::Volume(text.to_owned())));
    }
    let (scheme, _) = text.split_once("://")?;
    (!around.exists(Path::new(text))).then(|| Err(advice::unknown_scheme(text, scheme)))
}

/// Error of a command that does not read PVCs of a cluster.
pub fn not_a_volume(text: &str) -> Error {
    let what = format!("{text} names a volume of a cluster, which 'coracle build' alone reads");
    Error::new(ErrorKind::Usage, what).with_hint(format!("a local file of this name is written ./{text}"))
}
