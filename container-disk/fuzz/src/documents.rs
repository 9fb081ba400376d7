//! Invariants of any document and any name.

use container_disk::Name;
use container_disk::image::Config;
use container_disk::manifest::{Content, Document};

/// Input of the target: a manifest, an index, a config or a name.
pub(crate) fn documents(input: &[u8]) {
    if let Ok(document) = Document::parse("fuzz", input.to_vec(), None) {
        assert!(document.bytes == input, "a document keeps its bytes");
        // The descriptors have been checked, so they can be used.
        if let Content::Manifest(manifest) = &document.content {
            assert!(manifest.config.size >= 0 && manifest.layers.iter().all(|layer| layer.size >= 0));
        }
    }
    let _ = Config::parse("fuzz", input);
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(name) = Name::of_image(text) {
        let shown = name.to_string();
        let again = Name::of_image(&shown).unwrap_or_else(|e| panic!("{text:?} is shown as {shown:?}: {e}"));
        assert!(again == name, "{text:?} is shown as {shown:?}, which is another name");
    }
}
