//! What is permitted where the machine is to run.

use crate::wire::Path;
use std::collections::BTreeSet;

/// What is permitted where the machine is to run. The default is a single machine: everything that can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the spec stands in the object that somebody wrote: `spec`, or `spec.template.spec`.
    pub at: Path,
    /// Feature gates that are open.
    pub gates: Gates,
    /// Machine types, where `*` stands for anything.
    pub machine_types: Vec<String>,
    /// The bridge binding may be used on the pod's network.
    pub bridge_on_pod_network: bool,
}

/// Feature gates that are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gates {
    /// All of them.
    All,
    /// These.
    Some(BTreeSet<String>),
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            at: Path::of("spec"),
            gates: Gates::All,
            machine_types: ["q35*", "pc-q35*", "pc", "pc-i440fx*"].map(str::to_owned).to_vec(),
            bridge_on_pod_network: true,
        }
    }
}

impl Settings {
    /// Whether a feature gate is open.
    pub fn gate(&self, name: &str) -> bool {
        match &self.gates {
            Gates::All => true,
            Gates::Some(open) => open.contains(name),
        }
    }

    /// Whether a machine type is permitted.
    pub fn permits_type(&self, name: &str) -> bool {
        self.machine_types.iter().any(|pattern| matches(pattern, name))
    }
}

/// Whether `name` is of the form `pattern`, in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or("");
    for part in parts {
        match name.find(part) {
            Some(found) => name = &name[found + part.len()..],
            None => return false,
        }
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("q35*", "q35", true),
            ("q35*", "pc-q35-7.2", false),
            ("pc-q35*", "pc-q35-7.2", true),
            ("pc", "pc-q35-7.2", false),
            ("*", "", true),
            ("pc-*-7.*", "pc-i440fx-7.2", true),
            ("pc-*-7.*", "pc-i440fx-8.2", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
