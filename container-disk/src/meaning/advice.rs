//! Errors of names, each with the spelling that would be understood.

use super::Role;
use crate::{Error, ErrorKind};
use std::path::Path;

/// Maximum number of the store's names in an error.
const SHOWN: usize = 6;

pub(super) fn no_file(text: &str, path: &Path) -> Error {
    let written = Path::new(text);
    let what = match std::fs::read_link(path) {
        Ok(to) => format!("{text} is a link to {}, which does not exist", to.display()),
        Err(_) if written == path => format!("there is no file {text}"),
        Err(_) => format!("there is no file {} ({text})", path.display()),
    };
    Error::new(ErrorKind::NotFound, what)
}

pub(super) fn two_meanings(text: &str) -> Error {
    Error::usage(format!("{text} is a file and an image of the store; write ./{text} or store:{text}"))
}

pub(super) fn file_for_image(text: &str) -> Error {
    let what = format!("{text} is a file here, and an image is asked for");
    Error::new(ErrorKind::NotFound, what).with_hint(format!(
        "coracle build -t NAME {text} makes an image of a disk; an archive of images is written \
         oci-archive:{text} or docker-archive:{text}"
    ))
}

pub(super) fn not_a_path(text: &str, role: Role) -> Error {
    let what = match role {
        Role::Stored => format!("{text} is a path, and a name in the store is asked for"),
        _ => format!("{text} is a path, and the name of an image is asked for"),
    };
    Error::usage(what).with_hint(format!("an image in a file is written oci-archive:{text} or oci:{text}"))
}

pub(super) fn unknown_scheme(text: &str, scheme: &str) -> Error {
    Error::usage(format!(
        "cannot read {text}: {scheme}:// names are not supported; give a path, http://, https://, docker:// or -"
    ))
}

/// Error for a name that is neither a file, nor in the store, nor of any other kind.
pub(super) fn unknown(text: &str, stored: &[String]) -> Error {
    let what = format!("{text} is neither a file here nor an image of the store");
    Error::new(ErrorKind::NotFound, what)
        .with_hint(store_has(text, stored))
        .with_hint(format!("a file is written ./{text}, an image in a registry docker://HOST/REPO:TAG"))
}

/// Sentence with names of the store: those like the wanted one first.
pub(super) fn store_has(text: &str, stored: &[String]) -> String {
    if stored.is_empty() {
        return "the store is empty".to_owned();
    }
    let mut names: Vec<&str> = stored.iter().map(String::as_str).collect();
    names.sort_by_key(|name| (likeness(text, name), *name));
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => format!("the store has {shown}"),
        more => format!("the store has {shown} and {more} more (coracle images)"),
    }
}

/// Rank of a stored name by its likeness to the wanted one, the most similar first.
fn likeness(wanted: &str, stored: &str) -> u8 {
    let (wanted, stored) = (without_tag(wanted), without_tag(stored));
    let last = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    match (last(wanted), last(stored)) {
        _ if wanted == stored => 0,
        (word, other) if word == other => 1,
        (word, other) if !word.is_empty() && other.contains(&word) => 2,
        _ => 3,
    }
}

/// "localhost:5000/group/os" of "localhost:5000/group/os:12".
fn without_tag(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((before, tag)) if !tag.contains('/') => before,
        _ => name,
    }
}
