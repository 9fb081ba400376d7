//! Verbs that build their arguments on use.
//!
//! ```text
//!  arguments ─► by_name: names of all verbs, arguments of the used one ─► parsed arguments
//!                  └─ any error, help, version ─► all verbs in full, again ─► the message or help
//! ```
//!
//! Building the arguments of all verbs takes longer than anything else at the start of most of them. The
//! parsed arguments do not depend on the other verbs; messages may, such as tips, lists and completions.

use clap::{Arg, Command, FromArgMatches};
use std::ffi::OsString;

/// Declares the verbs of a command as an enum. The enum must have a function `described`, which gets each verb's clap command and may
/// change it.
macro_rules! verbs {
    ($(#[$of:meta])* $see:vis enum $verbs:ident { $($(#[$is:meta])* $verb:ident($args:ty) = $name:literal,)* }) => {
        $(#[$of])*
        #[derive(Debug, clap::Subcommand)]
        $see enum $verbs { $($(#[$is])* #[command(name = $name)] $verb($args),)* }

        impl $verbs {
            /// Adds the verbs by their names alone.
            $see fn by_name(command: clap::Command) -> clap::Command {
                command.subcommands([$(clap::Command::new($name).defer(|verb| {
                    let own = <$args as clap::Args>::augment_args(clap::Command::new($name));
                    $crate::verbs::with_flags_of_all(Self::described(own), &verb)
                }),)*])
            }
        }
    };
}
pub(crate) use verbs;

/// Appends the flags of all verbs to a verb, unless it has a flag of that name. clap would put them first if
/// the verb's arguments are built later.
pub(crate) fn with_flags_of_all(verb: Command, all: &Command) -> Command {
    let is_own = |flag: &Arg| verb.get_arguments().any(|own| own.get_id() == flag.get_id());
    let others: Vec<Arg> = all.get_arguments().filter(|flag| !is_own(flag)).cloned().collect();
    verb.args(others)
}

/// Parses a command line; `None` for an error, and for a request of help or version.
pub(crate) fn parsed<T: FromArgMatches>(
    by_name: Command,
    line: impl IntoIterator<Item = OsString>,
) -> Option<T> {
    let matches = by_name.try_get_matches_from(line).ok()?;
    T::from_arg_matches(&matches).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Command;
    use std::collections::BTreeMap;

    /// Asserts that two descriptions have the same verbs with the same arguments.
    pub(crate) fn agree(mut all: Command, mut by_name: Command) {
        all.build();
        by_name.build();
        let (all, by_name) = (verbs(&all), verbs(&by_name));
        assert!(all.len() > 20, "the verbs are not looked at");
        assert_eq!(all.keys().collect::<Vec<_>>(), by_name.keys().collect::<Vec<_>>());
        for (name, takes) in &all {
            assert_eq!(Some(takes), by_name.get(name), "{name}");
        }
    }

    /// Arguments of each verb and of its verbs.
    fn verbs(command: &Command) -> BTreeMap<String, String> {
        let verbs = command.get_subcommands().filter(|verb| verb.get_name() != "help");
        verbs.map(|verb| (verb.get_name().to_owned(), takes(verb))).collect()
    }

    fn takes(verb: &Command) -> String {
        let mut flags: Vec<String> = Vec::new();
        for flag in verb.get_arguments() {
            let names =
                (flag.get_id(), flag.get_long_and_visible_aliases(), flag.get_short(), flag.get_index());
            let values =
                (flag.get_action(), flag.get_num_args(), flag.get_value_parser(), flag.get_possible_values());
            let rest =
                (flag.get_default_values(), flag.get_env(), flag.is_required_set(), flag.is_global_set());
            flags.push(format!("{names:?} {values:?} {rest:?}"));
        }
        flags.sort();
        format!("{flags:#?} {:#?} {}", verbs(verb), verb.is_subcommand_required_set())
    }
}
