//! The purpose of an optical disc, recognised by a few well-known files.

use super::boot;
use super::field::harmless;
use super::tree::Tree;

/// The purpose of a disc.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Medium {
    /// `Windows installer`, `Linux installer`, `live system` …; `None` for a disc with ordinary files.
    pub what: Option<&'static str>,
    /// The disc's own description (`.disk/info`, `.treeinfo`).
    pub name: Option<String>,
    /// CPU architectures with a UEFI boot program in `EFI/BOOT`.
    pub uefi: Vec<&'static str>,
}

/// Limit of bytes of a text file that are read.
const MOST: usize = 16 << 10;

/// Recognises the purpose of a disc. `None` if nothing is recognised.
pub(crate) fn medium(tree: &impl Tree) -> Option<Medium> {
    let any = |paths: &[&str]| paths.iter().any(|path| tree.find(path).is_some());
    let (what, name) = match () {
        () if any(&["sources/install.wim", "sources/install.esd", "sources/install.swm"]) => {
            (Some("Windows installer"), None)
        }
        () if any(&["sources/boot.wim"]) => (Some("Windows recovery or preinstallation"), None),
        () => match tree.text(".disk/info", MOST).as_deref().and_then(first_line) {
            Some(name) if any(&["casper", "live"]) => (Some("Linux live system"), Some(name)),
            Some(name) => (Some("Linux installer"), Some(name)),
            None => match tree.text(".treeinfo", MOST).as_deref().and_then(tree_info) {
                Some(name) => (Some("Linux installer"), Some(name)),
                None if any(&["LiveOS", "casper", "live/filesystem.squashfs"]) => {
                    (Some("Linux live system"), None)
                }
                None => (None, None),
            },
        },
    };
    let found = Medium { what, name, uefi: boot::programs(tree) };
    (found != Medium::default()).then_some(found)
}

fn first_line(text: &str) -> Option<String> {
    text.lines().next().and_then(harmless)
}

/// Family, version and architecture of a `.treeinfo`, which is an INI file.
fn tree_info(text: &str) -> Option<String> {
    let general = text.lines().map(str::trim).skip_while(|l| *l != "[general]" && *l != "[release]").skip(1);
    let general: Vec<_> =
        general.take_while(|l| !l.starts_with('[')).filter_map(|l| l.split_once('=')).collect();
    let value = |key: &str| general.iter().find(|(k, _)| k.trim() == key).map(|(_, v)| v.trim().to_string());
    let name = value("name").or_else(|| {
        let parts = [value("family"), value("version")];
        Some(parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    })?;
    harmless(&[Some(name), value("arch")].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_treeinfo_names_family_version_and_architecture() {
        let text = "[header]\nversion = 1.2\n[general]\narch = x86_64\nfamily = Fedora\nversion = 41\n[stage2]\nname=no\n";
        assert_eq!(tree_info(text).as_deref(), Some("Fedora 41 x86_64"));
        assert_eq!(tree_info("[general]\nname = Rocky Linux 9.4\n").as_deref(), Some("Rocky Linux 9.4"));
        assert_eq!(tree_info("nothing"), None);
    }
}
