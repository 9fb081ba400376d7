//! Detection of container images in archives. In these the layers and their digests determine the disk, not
//! the file names in the archive.

/// True if a file of this name may show that the archive is a container image.
pub(super) fn may_tell(name: &str) -> bool {
    matches!(at_top(name), "oci-layout" | "manifest.json")
}

/// The scheme for the archive of a container image with this file. The first bytes of the file count, since
/// vendors put a `manifest.json` of their own beside a disk.
pub(super) fn scheme(name: &str, head: &[u8]) -> Option<&'static str> {
    let holds = |word: &str| head.windows(word.len()).any(|bytes| bytes == word.as_bytes());
    match at_top(name) {
        "oci-layout" => holds("\"imageLayoutVersion\"").then_some("oci-archive"),
        _ => {
            (head.starts_with(b"[") && holds("\"Config\"") && (holds("\"Layers\"") || holds("\"RepoTags\"")))
                .then_some("docker-archive")
        }
    }
}

fn at_top(name: &str) -> &str {
    name.trim_start_matches("./")
}
