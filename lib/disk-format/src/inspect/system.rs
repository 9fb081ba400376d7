//! The operating system in a root filesystem, and the presence of cloud-init.

use super::field::harmless;
use super::tree::Tree;

/// Facts about a root filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct System {
    /// The operating system, from `os-release`.
    pub os: Option<Os>,
    /// True if cloud-init is installed. `None` if that could not be read, or this is not a root filesystem.
    pub cloud_init: Option<bool>,
    /// Reason why something could not be read.
    pub unread: Option<String>,
}

/// An operating system, as `os-release` describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Os {
    /// Identifier, such as `debian` or `fedora`.
    pub id: Option<String>,
    /// Readable name with the version.
    pub name: Option<String>,
    /// Version, such as `12` or `41`.
    pub version: Option<String>,
}

/// Limit of bytes of `os-release` that are read.
const MOST: usize = 8 << 10;

pub(crate) fn system(tree: &impl Tree) -> System {
    tree.peek().take_missing();
    // The first path is usually a link to the second.
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

/// Parses `os-release`: lines of `KEY=value`, with optional quotes around the value.
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

/// A value without its quotes. In double quotes, a backslash escapes the next character.
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
