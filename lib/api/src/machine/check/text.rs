//! Texts with a required form: names, addresses, paths.

use super::super::label::is_label;
use super::Check;
use crate::wire::Path;

/// Longest tag of a device.
const TAG: usize = 255;
/// Messages of Kubernetes for a text that is not a DNS label, or not a DNS subdomain.
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                         must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The text; `None` if it is unset or empty.
pub(super) fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Reason why a text is not a DNS label, in the words of Kubernetes.
pub(super) fn not_a_label(text: &str) -> Option<String> {
    let mut why = Vec::new();
    if text.len() > 63 {
        why.push("must be no more than 63 characters");
    }
    if !is_label(text) {
        why.push(if text.split('.').all(is_label) { "must not contain dots" } else { LABEL });
    }
    (!why.is_empty()).then(|| why.join(", "))
}

/// Reason why a text is not a DNS subdomain, in the words of Kubernetes.
pub(super) fn not_a_subdomain(text: &str) -> Option<String> {
    let why = against_subdomain(text);
    (!why.is_empty()).then(|| why.join(", "))
}

/// All reasons why a text is not a DNS subdomain.
pub(super) fn against_subdomain(text: &str) -> Vec<&'static str> {
    let mut why = Vec::new();
    if text.len() > 253 {
        why.push("must be no more than 253 characters");
    }
    if !text.split('.').all(is_label) {
        why.push(SUBDOMAIN);
    }
    why
}

/// True if the text can be the name of a port: lower case letters (at least one), digits, and dashes between
/// them.
pub(super) fn is_port_name(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && is_label(text)
        && text.contains(|c: char| c.is_ascii_lowercase())
        && !text.contains("--")
}

/// Reason why a text cannot stand in a domain's XML or in the SMBIOS.
pub fn not_plain(text: &str) -> Option<&'static str> {
    let odd = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}');
    if text.chars().any(odd) {
        Some("must not contain control characters")
    } else if text.len() > 4096 {
        Some("must be no more than 4096 bytes")
    } else {
        None
    }
}

/// Checks the name of a device, which becomes a part of the domain's XML.
pub(super) fn device_name(name: &str, device: &Path, check: &mut Check<'_>) {
    if let Some(why) = not_plain(name) {
        let at = device.child("name");
        check.invalid(&at, format!("{at} {why}"));
    }
}

/// Checks the tag of a device: a free text in the config drive.
pub(super) fn tag(tag: &Option<String>, device: &Path, check: &mut Check<'_>) -> Option<String> {
    let tag = non_empty(tag)?;
    if tag.chars().count() > TAG || not_plain(tag).is_some() {
        let at = device.child("tag");
        check.invalid(&at, format!("{at} must be no more than {TAG} letters without control characters"));
    }
    Some(tag.to_owned())
}

/// A MAC address in lower case with colons; it may be written with colons or dashes.
pub(super) fn mac(text: &str) -> Option<String> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let parts: Vec<&str> = text.split(separator).collect();
    let right = parts.len() == 6
        && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()));
    right.then(|| parts.join(":").to_ascii_lowercase())
}

/// True for a hardware address of 8 or 20 bytes, longer than that of a network interface.
pub(super) fn is_long_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize, counts: [usize; 2]| {
        let parts: Vec<&str> = text.split(separator).collect();
        let is_right = |part: &&str| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
        counts.contains(&parts.len()) && parts.iter().all(is_right)
    };
    groups(':', 2, [8, 20]) || groups('-', 2, [8, 20]) || groups('.', 4, [4, 10])
}

/// A uuid in lower case with dashes.
pub fn uuid(text: &str) -> Option<String> {
    let lengths = text.split('-').map(str::len);
    let right = lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit());
    right.then(|| text.to_ascii_lowercase())
}

/// True for an absolute path without relative, empty or double parts.
pub fn is_clean(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
        && not_plain(path).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_form() {
        assert_eq!(mac("DE-AD-00-00-BE-AF").as_deref(), Some("de:ad:00:00:be:af"));
        for odd in [
            "",
            "de:ad",
            "de:ad:00:00:be:a",
            "de:ad:00-00:be:af",
            "de:ad:00:00:be:af:00",
            "+e:ad:00:00:be:af",
        ] {
            assert_eq!(mac(odd), None, "{odd}");
        }
        for long in ["02:00:5e:10:00:00:00:01", "02-00-5e-10-00-00-00-01", "0200.5e10.0000.0001"] {
            assert!(is_long_mac(long) && mac(long).is_none(), "{long}");
        }
        for odd in
            ["", "de:ad:00:00:be:af", "02:00:5e:10:00:00:00", "02:00:5e:10:00:00:00:0g", "0200.5e10.0000"]
        {
            assert!(!is_long_mac(odd), "{odd}");
        }
        assert!(uuid("5D307CA9-b3ef-428c-8861-06e72d69f223").is_some());
        for odd in ["", "5d307ca9b3ef428c886106e72d69f223", "5d307ca9-b3ef-428c-8861-06e72d69f22g"] {
            assert_eq!(uuid(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_clean_path_stays_where_it_is() {
        assert!(is_clean("/disk/a.img"));
        for odd in ["", "/", "disk", "/disk/", "/disk/../etc", "/./disk", "//disk", "/a\nb"] {
            assert!(!is_clean(odd), "{odd}");
        }
    }

    #[test]
    fn names_are_those_of_dns() {
        assert_eq!(not_a_label("a-1"), None);
        assert_eq!(not_a_label("a.b").as_deref(), Some("must not contain dots"));
        let both = not_a_label(&"A".repeat(64)).unwrap();
        assert_eq!(both, format!("must be no more than 63 characters, {LABEL}"));
        assert_eq!(not_a_label(&"a".repeat(64)).as_deref(), Some("must be no more than 63 characters"));
        for odd in ["", "-a", "a-", "A", "a.b", "é", &"a".repeat(64)] {
            assert!(not_a_label(odd).is_some(), "{odd}");
        }
        assert_eq!(not_a_subdomain("a-1.b"), None);
        for odd in ["", ".", "a..b", "a.", "../a", &"a".repeat(254)] {
            assert!(not_a_subdomain(odd).is_some(), "{odd}");
        }
        assert_eq!(against_subdomain(&"A".repeat(254)), ["must be no more than 253 characters", SUBDOMAIN]);
    }

    #[test]
    fn a_port_has_a_short_name_with_a_letter() {
        for name in ["http", "a", "1a", "web-2", "abcdefghijklmno"] {
            assert!(is_port_name(name), "{name}");
        }
        for odd in ["", "1", "80-80", "Web", "a--b", "-a", "a-", "a_b", "a.b", "abcdefghijklmnop"] {
            assert!(!is_port_name(odd), "{odd}");
        }
    }
}
