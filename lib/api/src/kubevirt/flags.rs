//! Command line arguments that `customizeComponents.flags` may give to the programs of the installation.
//!
//! A program ends at once if it is given an unknown argument, and again after each restart; so each argument
//! is listed here. Arguments that the manifests set (listen addresses, mounted folders) cannot be set twice.
//! A test compares the list with the programs' own command lines.

use super::ComponentFlags;
use std::collections::BTreeMap;

/// Use of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Passed to the program without a value.
    Plain,
    /// Set by the manifests of the program, or by its environment.
    Fixed,
}

use Flag::{Fixed, Plain};

/// A field in `flags`, the name of its program, and the program's arguments without their dashes.
type Arguments = (&'static str, &'static str, &'static [(&'static str, Flag)]);

/// The programs by their fields in `flags`.
pub const FLAGS: [Arguments; 3] = [
    ("api", "virt-api", &[("namespace", Fixed), ("listen", Fixed), ("signing-key", Fixed)]),
    (
        "controller",
        "virt-controller",
        &[
            ("namespace", Fixed),
            ("identity", Fixed),
            ("launcher-image", Fixed),
            ("worker-image", Fixed),
            ("poll-any-address", Plain),
            ("listen", Fixed),
        ],
    ),
    (
        "handler",
        "virt-handler",
        &[
            ("node-name", Fixed),
            ("namespace", Fixed),
            ("pods", Fixed),
            ("findings", Fixed),
            ("device-plugins", Fixed),
            ("sysfs", Fixed),
            ("listen", Fixed),
            ("pod-ip-address", Fixed),
            ("kubeconfig", Fixed),
        ],
    ),
];

/// Arguments of KubeVirt's programs that are settings here, with the field of the setting.
const SETTINGS: [(&str, &str); 1] = [("v", "spec.configuration.developerConfiguration.logVerbosity sets it")];

/// Characters of a name or value that an error repeats.
const SHOWN: usize = 64;

impl ComponentFlags {
    /// The arguments of the program with this field; `None` if the field does not name a program.
    pub fn of(&self, field: &str) -> Option<&BTreeMap<String, String>> {
        match field {
            "api" => Some(&self.api),
            "controller" => Some(&self.controller),
            "handler" => Some(&self.handler),
            _ => None,
        }
    }
}

/// The programs that accept arguments here, each with its arguments as on a command line.
pub fn accepted() -> impl Iterator<Item = (&'static str, Vec<String>)> {
    let plain = |flags: &[(&str, Flag)]| {
        flags.iter().filter(|(_, flag)| *flag == Plain).map(|(name, _)| format!("--{name}")).collect()
    };
    let programs = FLAGS.iter().map(move |(_, program, flags)| (*program, plain(flags)));
    programs.filter(|(_, flags): &(_, Vec<String>)| !flags.is_empty())
}

/// The command line argument of a program (by its field) for a name and a value. An error is the reason, as a
/// sentence.
pub fn argument(field: &str, name: &str, value: &str) -> Result<String, String> {
    let short = |text: &str| text.chars().take(SHOWN).collect::<String>();
    let Some((_, program, flags)) = FLAGS.iter().find(|(of, ..)| *of == field) else {
        return Err("this installation has no program for this field".to_owned());
    };
    let known = name.trim_start_matches('-');
    let open = flags.iter().filter(|(_, flag)| *flag == Plain).map(|(name, _)| *name).collect::<Vec<_>>();
    let takes = match open.is_empty() {
        true => format!("{program} takes no arguments from here"),
        false => format!("{program} takes {}", open.join(", ")),
    };
    match flags.iter().find(|(flag, _)| *flag == known) {
        Some((flag, Plain)) if value.is_empty() => Ok(format!("--{flag}")),
        Some((flag, Plain)) => {
            Err(format!("{flag} of {program} has no value: leave {:?} away", short(value)))
        }
        Some((flag, Fixed)) => Err(format!("{flag} of {program} is set by its manifest; {takes}")),
        None => {
            let setting = SETTINGS.iter().find(|(flag, _)| *flag == known);
            let more = setting.map(|(_, says)| format!("; {says}")).unwrap_or_default();
            Err(format!("{program} does not know the argument {:?}; {takes}{more}", short(name)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_would_end_the_program_is_none() {
        assert_eq!(argument("controller", "poll-any-address", ""), Ok("--poll-any-address".to_owned()));
        assert_eq!(
            accepted().collect::<Vec<_>>(),
            [("virt-controller", vec!["--poll-any-address".to_owned()])]
        );
        for (field, name, value, says) in [
            ("controller", "poll-any-address", "true", "has no value"),
            (
                "controller",
                "launcher-image",
                "a:1",
                "is set by its manifest; virt-controller takes poll-any-address",
            ),
            ("api", "listen", "[::]:1", "virt-api takes no arguments from here"),
            ("handler", "max-devices", "7", "virt-handler does not know the argument \"max-devices\""),
            ("api", "v", "5", "logVerbosity sets it"),
            ("operator", "v", "5", "this installation has no program for this field"),
        ] {
            let said = argument(field, name, value).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }
}
