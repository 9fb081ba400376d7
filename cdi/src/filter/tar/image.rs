//! Archives of container images: which of their files is the disk, the layers say with their digests, and not the names in
//! the archive.

/// Whether a file of this name may tell.
pub(super) fn may_tell(name: &str) -> bool {
    matches!(at_top(name), "oci-layout" | "manifest.json")
}

/// How the archive is named that holds such a file. Its first bytes count: vendors put a `manifest.json` of their own
/// beside a disk.
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
