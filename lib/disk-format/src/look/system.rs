//! Which operating system lies in a root filesystem, and whether cloud-init is there.

use super::field::harmless;
use super::tree::Tree;

/// What a root filesystem tells about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct System {
    /// The operating system, by its `os-release`.
    pub os: Option<Os>,
    /// Whether cloud-init is installed; `None` when that could not be read, or this is no root filesystem.
    pub cloud_init: Option<bool>,
    /// Why something could not be read.
    pub unread: Option<String>,
}

/// An operating system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Os {
    /// `debian`, `fedora` …
    pub id: Option<String>,
    /// The name for people, with its version.
    pub name: Option<String>,
    /// `12`, `41` …
    pub version: Option<String>,
}

/// The most bytes of `os-release` that are read.
const MOST: usize = 8 << 10;

pub(crate) fn look(tree: &impl Tree) -> System {
    tree.peek().take_missing();
    // The first is mostly a link to the second.
    let release = tree.text("etc/os-release", MOST).or_else(|| tree.text("usr/lib/os-release", MOST));
    let os = release.as_deref().and_then(os);
    let cloud_init = match () {
        () if tree.find("etc/cloud/cloud.cfg").is_some() || tree.find("usr/bin/cloud-init").is_some() => {
            Some(true)
        }
        () if os.is_none() && tree.find("etc").is_none() => None,
        () => Some(false),
    };
    let missing = tree.peek().take_missing();
    System {
        os,
        cloud_init: cloud_init.filter(|&found| found || missing.is_none()),
        unread: missing.map(|why| why.to_string()),
    }
}

/// Reads `os-release`: lines of `KEY=value`, the value perhaps in quotes.
fn os(release: &str) -> Option<Os> {
    let value = |key: &str| {
        let mut lines = release.lines().filter_map(|line| line.trim().split_once('='));
        lines.find(|(k, _)| *k == key).and_then(|(_, v)| unquoted(v))
    };
    let os = Os {
        id: value("ID"),
        name: value("PRETTY_NAME").or_else(|| value("NAME")),
        version: value("VERSION_ID"),
    };
    (os != Os::default()).then_some(os)
}

/// A value without its quotes; a backslash in double quotes keeps the next character.
fn unquoted(value: &str) -> Option<String> {
    let quoted = |q: char| value.strip_prefix(q).and_then(|v| v.strip_suffix(q));
    if let Some(inner) = quoted('\'') {
        return harmless(inner);
    }
    let Some(inner) = quoted('"') else { return harmless(value) };
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    harmless(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_is_read_as_a_shell_would() {
        let text = "# comment\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME='x'\nVERSION_ID=\"12\"\nID=debian\n";
        let os = os(text).expect("an os");
        assert_eq!(os.name.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(os.id.as_deref(), Some("debian"));
        assert_eq!(os.version.as_deref(), Some("12"));
        assert_eq!(unquoted(r#""a \"b\" \\ c""#).as_deref(), Some(r#"a "b" \ c"#));
    }

    #[test]
    fn an_os_release_without_names_is_none() {
        assert_eq!(os("HOME_URL=x\n"), None);
        assert_eq!(os(""), None);
    }
}
