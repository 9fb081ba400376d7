//! Paths: their spelling, `~`, and `file:`.

use crate::{Error, Name, Result};
use std::path::PathBuf;

/// True for a text that only a path begins like: `/`, `./`, `../`, `~`.
pub(super) fn looks_like_one(text: &str) -> bool {
    text.starts_with(['/', '~'])
        || text == "."
        || text == ".."
        || text.starts_with("./")
        || text.starts_with("../")
}

/// The user's home folder.
pub fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// The path of a text. `~` and `~/` in front are the home folder, also where no shell has seen them
/// (`--disk=~/a.img`, `oci:~/layout`).
pub fn expand(text: &str, home: Option<PathBuf>) -> Result<PathBuf> {
    let Some(rest) = text.strip_prefix('~') else { return Ok(PathBuf::from(text)) };
    let below = match rest.strip_prefix('/') {
        Some(below) => below.trim_start_matches('/'),
        None if rest.is_empty() => "",
        None => {
            let what = format!("{text}: the home folder of another user must be written out");
            return Err(Error::usage(what).with_hint(format!("a file of that name is written ./{text}")));
        }
    };
    let home = home.ok_or_else(|| Error::usage(format!("{text}: HOME is not set, so ~ has no meaning")))?;
    Ok(if below.is_empty() { home } else { home.join(below) })
}

/// The path of `file:PATH` or `file:///PATH`.
pub(super) fn of_url(text: &str, rest: &str, home: Option<PathBuf>) -> Result<PathBuf> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => match rest.strip_prefix("localhost").unwrap_or(rest) {
            path if path.starts_with('/') => path,
            _ => {
                let what = format!("{text}: a file of this computer is written file:PATH or file:///PATH");
                return Err(Error::usage(what));
            }
        },
        None => rest,
    };
    if path.is_empty() {
        return Err(Error::usage(format!("{text:?} has no path after the scheme")));
    }
    expand(path, home)
}

/// The image with `~` in its path expanded.
pub(super) fn expanded(image: Name, home: Option<PathBuf>) -> Result<Name> {
    let full = |path: PathBuf| match path.to_str() {
        Some(text) => expand(text, home),
        None => Ok(path),
    };
    Ok(match image {
        Name::Layout(path, tag) => Name::Layout(full(path)?, tag),
        Name::OciArchive(path, tag) => Name::OciArchive(full(path)?, tag),
        Name::DockerArchive(path, tag) => Name::DockerArchive(full(path)?, tag),
        other => other,
    })
}
