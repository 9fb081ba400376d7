//! The verbs `completion` and `options`, about this program itself.

use super::called;
use crate::commands::completions;
use crate::error::Result;
use crate::ui;
use crate::virt::connect::ConnectArgs;
use clap::{Args as _, Command};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Print a completion script for a shell
///
/// For bash: source <(coracle virt completion bash). What it completes are the
/// verbs of the program by which it was printed.
#[derive(Debug, clap::Args)]
pub(super) struct CompletionArgs {
    /// Shell: bash, zsh, fish or powershell
    #[arg(value_name = "SHELL", value_parser = ["bash", "zsh", "fish", "powershell"])]
    shell: String,
}

/// Print the flags that every verb takes
#[derive(Debug, clap::Args)]
pub(super) struct OptionsArgs {}

pub(super) fn completion(args: &CompletionArgs) -> Result<()> {
    let first = std::env::args_os().next().filter(|first| called(Some(first)).is_some());
    let program = first.map(PathBuf::from);
    let name = program.as_ref().and_then(|path| path.file_name()?.to_str()).unwrap_or("coracle");
    completions::print(&args.shell, name)
}

pub(super) fn options(_: &OptionsArgs) -> Result<()> {
    ui::out(&text())
}

fn text() -> String {
    let command = ConnectArgs::augment_args(Command::new("options"));
    let mut text = "The following options can be passed to any command:\n\n".to_owned();
    for argument in command.get_arguments() {
        let Some(long) = argument.get_long() else { continue };
        let short = argument.get_short().map_or("    ".to_owned(), |short| format!("-{short}, "));
        let takes = argument.get_action().takes_values();
        let value = argument.get_value_names().filter(|_| takes).and_then(|names| names.first());
        let value = value.map_or(String::new(), |name| format!("={name}"));
        let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        if long == "user" {
            help += "; in 'create vm' and 'credentials', user of the guest";
        }
        let _ = writeln!(text, "    {short}--{long}{value}:\n        {help}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_the_cluster_is_an_option() {
        let text = text();
        for flag in [
            "    -n, --namespace=NAME:\n",
            "        --as-group=GROUP:\n",
            "        --insecure-skip-tls-verify:\n",
            "that of the context]; in 'create vm' and 'credentials', user of the guest\n",
        ] {
            assert!(text.contains(flag), "{flag}\n{text}");
        }
        assert!(text.matches("\n    ").count() >= 14 * 2, "{text}");
    }
}
