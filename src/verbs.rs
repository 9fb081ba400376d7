//! Verbs, each described when it is asked for.
//!
//! ```text
//!  arguments ─► by_name: the names, and the one verb in full ─► what was asked
//!                  └─ any error, help, version ─► all verbs in full, again ─► the words for it
//! ```
//!
//! To describe all verbs takes longer than all else that happens before most of them begin. Whether a line is understood,
//! and as what, does not depend on the others; words about it may: tips, lists, completions.

use clap::{Arg, Command, FromArgMatches};
use std::ffi::OsString;

/// Declares the verbs of a command. `described` of the enum finishes the description of each.
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

/// A verb with the flags of all verbs, which stand last, and not where the verb has one of its own by that name. Clap puts
/// them first into a verb that is described later.
pub(crate) fn with_flags_of_all(verb: Command, all: &Command) -> Command {
    let is_own = |flag: &Arg| verb.get_arguments().any(|own| own.get_id() == flag.get_id());
    let others: Vec<Arg> = all.get_arguments().filter(|flag| !is_own(flag)).cloned().collect();
    verb.args(others)
}

/// What a line says to this description; nothing, if it is an error or wants to be told something.
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

    /// Two descriptions have the same verbs, which take the same.
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

    /// What each verb takes, and the verbs of it. Lists and helps are those of all verbs.
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
