//! Machine types by the names of distributions (`pc-q35-rhel9.4.0`, `pc-i440fx-jammy`), which upstream QEMU
//! does not have. A VMI with such a name gets the machine type of QEMU that the distribution derived it from,
//! or the newest one of the launcher's image. The cluster may map each name to another one, by the annotation
//! [`MACHINE_TYPES`] of its KubeVirt object. Then the spec of the VMI has that machine type from the start
//! (`defaults`).

use crate::architecture::Arch;
use serde_json::Value;
use std::collections::BTreeMap;

/// Annotation of the KubeVirt object: `pc-q35-rhel9.4.0=pc-q35-8.2`, with commas between entries.
pub const MACHINE_TYPES: &str = "kubevirt.io/machine-types";
/// Entries of the annotation that are read.
const ENTRIES: usize = 128;
/// The longest name of a machine type.
const LONGEST: usize = 64;

/// Newest version that a name is mapped to: the QEMU of Debian 12 (a laptop may run it) has it, and so has
/// that of the launcher's image. It must not rise for existing VMIs, since a guest with changed hardware may
/// need to be activated again.
const NEWEST: (u8, u8) = (7, 2);
/// Oldest version that QEMU 10.0 still has, the one of the launcher's image.
const OLDEST: (u8, u8) = (2, 4);

/// QEMU version that the machine types of a RHEL version are derived from, in the order of RHEL versions.
const RED_HAT: [((u32, u32), (u8, u8)); 18] = [
    ((7, 0), (1, 5)),
    ((7, 1), (2, 1)),
    ((7, 2), (2, 3)),
    ((7, 3), (2, 6)),
    ((7, 4), (2, 9)),
    ((7, 5), (2, 10)),
    ((7, 6), (2, 12)),
    ((8, 0), (3, 1)),
    ((8, 1), (4, 1)),
    ((8, 2), (4, 2)),
    ((8, 3), (5, 1)),
    ((8, 4), (5, 2)),
    ((8, 5), (6, 0)),
    ((8, 6), (6, 2)),
    ((9, 0), (6, 2)),
    ((9, 2), (7, 2)),
    ((9, 4), (8, 2)),
    ((9, 6), (9, 1)),
];

/// QEMU version that the machine types of an Ubuntu release are derived from.
const UBUNTU: [(&str, (u8, u8)); 23] = [
    ("trusty", (2, 0)),
    ("utopic", (2, 1)),
    ("vivid", (2, 2)),
    ("wily", (2, 3)),
    ("xenial", (2, 5)),
    ("yakkety", (2, 6)),
    ("zesty", (2, 8)),
    ("artful", (2, 10)),
    ("bionic", (2, 11)),
    ("cosmic", (2, 12)),
    ("disco", (3, 1)),
    ("eoan", (4, 0)),
    ("focal", (4, 2)),
    ("groovy", (5, 0)),
    ("hirsute", (5, 2)),
    ("impish", (6, 0)),
    ("jammy", (6, 2)),
    ("kinetic", (7, 0)),
    ("lunar", (7, 2)),
    ("mantic", (8, 0)),
    ("noble", (8, 2)),
    ("oracular", (9, 0)),
    ("plucky", (9, 2)),
];

/// Mapping of distributions' machine types to those of QEMU in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineTypeMap(BTreeMap<String, String>);

impl MachineTypeMap {
    /// Reads the mapping from the annotation of a KubeVirt object.
    pub fn of_cluster(object: &Value) -> MachineTypeMap {
        MachineTypeMap(entries(object).take(ENTRIES).filter_map(entry_of).collect())
    }

    /// Entries of the annotation that have no effect, each with the reason, and the first one beyond the
    /// limit.
    pub fn ineffective_entries(object: &Value) -> Vec<String> {
        let why = |(at, entry): (usize, &str)| {
            let shown: String = entry.chars().take(LONGEST).collect();
            match at {
                ENTRIES => Some(format!("{shown:?} is entry {}, and {ENTRIES} are read", at + 1)),
                _ if entry_of(entry).is_some() => None,
                _ => Some(format!("{shown:?} is not NAME=TYPE: pc-q35-rhel9.4.0=pc-q35-8.2, of one board")),
            }
        };
        entries(object).enumerate().take(ENTRIES + 1).filter_map(why).collect()
    }

    /// The machine type that the cluster maps this name to.
    pub fn mapped(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The machine type that the cluster maps this name to, or else the nearest one; `None` if it is not a
    /// distribution's name.
    pub fn of_distribution(&self, name: &str) -> Option<String> {
        self.mapped(name).map(str::to_owned).or_else(|| of_distribution(name))
    }
}

/// Entries of the annotation.
fn entries(object: &Value) -> impl Iterator<Item = &str> {
    let said = object["metadata"]["annotations"][MACHINE_TYPES].as_str().unwrap_or_default();
    said.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// Parses an entry. The name is a board followed by letters; its value is the same board followed by a QEMU
/// version. So a mapped name is never the value of another entry.
fn entry_of(entry: &str) -> Option<(String, String)> {
    let (name, own) = entry.split_once('=')?;
    let (name, own) = (name.trim(), own.trim());
    let board = board_of(name)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name = name.len() <= LONGEST
        && name.chars().all(plain)
        && name[board.len()..].starts_with(char::is_alphabetic);
    let (major, minor) = own.strip_prefix(board)?.split_once('.')?;
    let is_number = |text: &str| matches!(text.len(), 1..=2) && text.bytes().all(|b| b.is_ascii_digit());
    (is_name && is_number(major) && is_number(minor)).then(|| (name.to_owned(), own.to_owned()))
}

/// The board at the begin of a name.
fn board_of(name: &str) -> Option<&'static str> {
    Arch::DEFAULT.facts().boards.iter().copied().find(|board| name.starts_with(board))
}

/// The nearest machine type of QEMU for a distribution's name; `None` for any other name.
pub fn of_distribution(name: &str) -> Option<String> {
    let board = board_of(name)?;
    let rest = &name[board.len()..];
    let made_from = match rest.strip_prefix("rhel") {
        Some(version) => red_hat(version)?,
        // `focal-hpb` and `jammy-maxcpus` are machine types of those releases with a raised limit.
        None => {
            let release = rest.split('-').next()?;
            UBUNTU.into_iter().find(|(name, _)| *name == release)?.1
        }
    };
    let (major, minor) = made_from.clamp(OLDEST, NEWEST);
    Some(format!("{board}{major}.{minor}"))
}

/// QEMU version that the machine types of a RHEL version are made from. A version without a row has that of
/// the row before it.
fn red_hat(version: &str) -> Option<(u8, u8)> {
    let mut parts = version.split('.');
    let mut number = || parts.next()?.parse::<u32>().ok();
    let wanted = (number()?, number()?);
    if parts.any(|part| part.parse::<u32>().is_err()) {
        return None;
    }
    RED_HAT.into_iter().rev().find(|(version, _)| *version <= wanted).map(|(_, made_from)| made_from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_distributions_become_those_of_qemu() {
        for (name, expected) in [
            ("pc-q35-rhel9.4.0", Some("pc-q35-7.2")),
            ("pc-q35-rhel10.0.0", Some("pc-q35-7.2")),
            ("pc-q35-rhel9.0.0", Some("pc-q35-6.2")),
            ("pc-q35-rhel8.6.0", Some("pc-q35-6.2")),
            ("pc-q35-rhel8.9.0", Some("pc-q35-6.2")),
            ("pc-q35-rhel7.6.0", Some("pc-q35-2.12")),
            ("pc-q35-rhel7.0.0", Some("pc-q35-2.4")),
            ("pc-i440fx-rhel7.0.0", Some("pc-i440fx-2.4")),
            ("pc-i440fx-trusty", Some("pc-i440fx-2.4")),
            ("pc-i440fx-rhel7.6.0", Some("pc-i440fx-2.12")),
            ("pc-q35-jammy", Some("pc-q35-6.2")),
            ("pc-i440fx-focal-hpb", Some("pc-i440fx-4.2")),
            ("pc-q35-noble-v2", Some("pc-q35-7.2")),
            ("pc-q35-rhel6.6.0", None),
            ("pc-q35-rhel", None),
            ("pc-q35-rhel9.x", None),
            ("pc-q35-rhel9.4.x", None),
            ("pc-q35-7.2", None),
            ("pc-q35-9.2", None),
            ("pc-q35-", None),
            ("pc-q35-breezy", None),
            ("q35", None),
            ("rhel9.4.0", None),
        ] {
            assert_eq!(of_distribution(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_cluster_says_otherwise_of_each_name() {
        let said = "pc-q35-rhel9.4.0=pc-q35-8.2, pc-i440fx-noble = pc-i440fx-8.2,pc-q35-own=pc-q35-10.0,";
        let object = serde_json::json!({"metadata": {"annotations": {MACHINE_TYPES: said}}});
        let machine_type_map = MachineTypeMap::of_cluster(&object);
        for (name, expected) in [
            ("pc-q35-rhel9.4.0", Some("pc-q35-8.2")),
            ("pc-i440fx-noble", Some("pc-i440fx-8.2")),
            ("pc-q35-own", Some("pc-q35-10.0")),
            ("pc-q35-rhel9.2.0", Some("pc-q35-7.2")),
            ("pc-q35-7.2", None),
        ] {
            assert_eq!(machine_type_map.of_distribution(name).as_deref(), expected, "{name}");
        }
        assert!(MachineTypeMap::ineffective_entries(&object).is_empty());
        assert_eq!(MachineTypeMap::of_cluster(&Value::Null), MachineTypeMap::default());
    }

    /// None of them becomes a name that is mapped again, and none is of another board.
    #[test]
    fn an_entry_that_is_none_has_no_effect_and_is_told() {
        let long = format!("pc-q35-rhel{}=pc-q35-8.2", "9".repeat(LONGEST));
        for entry in [
            "pc-q35-rhel9.4.0",
            "pc-q35-rhel9.4.0=pc-i440fx-8.2",
            "pc-q35-rhel9.4.0=pc-q35-rhel9.2.0",
            "pc-q35-rhel9.4.0=pc-q35-8",
            "pc-q35-rhel9.4.0=pc-q35-8.2.0",
            "pc-q35-rhel9.4.0=pc-q35-+8.2",
            "pc-q35-7.2=pc-q35-8.2",
            "pc-q35-=pc-q35-8.2",
            "pc-q35-a b=pc-q35-8.2",
            "q35=pc-q35-8.2",
            long.as_str(),
        ] {
            let object = serde_json::json!({"metadata": {"annotations": {MACHINE_TYPES: entry}}});
            assert_eq!(MachineTypeMap::of_cluster(&object), MachineTypeMap::default(), "{entry}");
            let shown: String = entry.chars().take(LONGEST).collect();
            let [odd] = &MachineTypeMap::ineffective_entries(&object)[..] else { panic!("{entry}") };
            assert!(odd.starts_with(&format!("{shown:?} is not NAME=TYPE")), "{odd}");
        }
    }

    #[test]
    fn the_first_entry_that_is_not_read_is_told() {
        let said = |count: usize| {
            let entries: Vec<String> = (0..count).map(|n| format!("pc-q35-own{n}=pc-q35-8.2")).collect();
            serde_json::json!({"metadata": {"annotations": {MACHINE_TYPES: entries.join(",")}}})
        };
        assert!(MachineTypeMap::ineffective_entries(&said(ENTRIES)).is_empty());
        let more = said(ENTRIES + 2);
        assert_eq!(
            MachineTypeMap::ineffective_entries(&more),
            ["\"pc-q35-own128=pc-q35-8.2\" is entry 129, and 128 are read"]
        );
        let machine_type_map = MachineTypeMap::of_cluster(&more);
        assert_eq!(
            (machine_type_map.mapped("pc-q35-own127"), machine_type_map.mapped("pc-q35-own128")),
            (Some("pc-q35-8.2"), None)
        );
    }

    #[test]
    fn the_table_is_in_order() {
        assert!(RED_HAT.is_sorted() && RED_HAT.windows(2).all(|two| two[0].1 <= two[1].1));
    }
}
