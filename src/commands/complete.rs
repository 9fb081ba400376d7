//! Completion of names in a shell: images of the store with their tags, schemes, and the paths behind them. Errors
//! complete nothing, since a shell must not print them.

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use container_disk::meaning::Surroundings;
use container_disk::open::Places;
use std::ffi::OsStr;

/// Schemes with a path behind them.
const OF_PATHS: [&str; 4] = ["oci:", "oci-archive:", "docker-archive:", "file:"];
/// Schemes of other names.
const OTHERS: [&str; 4] = ["docker://", "store:", "http://", "https://"];

/// Completes a source: an image, a file, or a scheme.
pub(super) fn source(begin: &OsStr) -> Vec<CompletionCandidate> {
    let names = image(begin).into_iter();
    names.chain(PathCompleter::any().complete(begin)).collect()
}

/// Completes an image: a name in the store, or a scheme.
pub(super) fn image(begin: &OsStr) -> Vec<CompletionCandidate> {
    scheme(begin).into_iter().chain(stored(begin)).collect()
}

/// Completes a name in the store, also behind `store:`.
pub(super) fn stored(begin: &OsStr) -> Vec<CompletionCandidate> {
    let begin = begin.to_string_lossy();
    let (scheme, rest) = match begin.strip_prefix("store:") {
        Some(rest) => ("store:", rest),
        None => ("", &*begin),
    };
    let names = Surroundings::stored(&Places::new(None)).unwrap_or_default();
    let fitting = names.into_iter().filter(|name| name.starts_with(rest));
    fitting.map(|name| CompletionCandidate::new(format!("{scheme}{name}"))).collect()
}

fn scheme(begin: &OsStr) -> Vec<CompletionCandidate> {
    let text = begin.to_string_lossy();
    if let Some((scheme, rest)) =
        OF_PATHS.iter().find_map(|scheme| Some((scheme, text.strip_prefix(scheme)?)))
    {
        let paths = PathCompleter::any().complete(OsStr::new(rest));
        return paths.into_iter().map(|path| path.add_prefix(*scheme)).collect();
    }
    // Schemes are offered behind their first letter, so that they do not stand among all files.
    let fitting = |scheme: &&&str| !text.is_empty() && scheme.starts_with(&*text);
    OF_PATHS.iter().chain(&OTHERS).filter(fitting).map(|scheme| CompletionCandidate::new(*scheme)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(candidates: &[CompletionCandidate]) -> Vec<String> {
        candidates.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn schemes_complete_and_paths_behind_them() {
        assert_eq!(values(&scheme(OsStr::new("oci"))), ["oci:", "oci-archive:"]);
        assert_eq!(values(&scheme(OsStr::new("docker"))), ["docker-archive:", "docker://"]);
        assert_eq!(values(&scheme(OsStr::new(""))), [""; 0]);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("saved.tar"), "").unwrap();
        let begin = format!("docker-archive:{}/sa", folder.path().display());
        let whole = format!("docker-archive:{}/saved.tar", folder.path().display());
        assert_eq!(values(&scheme(OsStr::new(&begin))), [whole]);
    }
}
