//! The command line. Help texts are the doc comments; each verb's arguments are in its own file.

use crate::commands;
use crate::verbs::verbs;
use clap::error::{ContextKind, ContextValue};
use clap::{Args as _, CommandFactory as _, Parser};

/// Virtual machine disks as container images, and the VMs that boot from them
#[derive(Debug, Parser)]
#[command(name = "coracle", version = VERSION, max_term_width = 80, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 refused input, 4 not found,\n\
    5 authentication, 130 interrupted.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) log: Log,
}

// Flags of every verb. A doc comment here would replace the help text of the program.
#[derive(Debug, clap::Args)]
pub(crate) struct Log {
    /// Increase log verbosity (-vv: maximum); RUST_LOG overrides it
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("CORACLE_COMMIT"), ")");

verbs! {
    /// Verbs of the program.
    pub(crate) enum Command {
        #[command(hide = true)]
        Worker(commands::worker::Args) = "apart",
        Build(Box<commands::build::Args>) = "build",
        Convert(Box<commands::convert::Args>) = "convert",
        #[command(visible_alias = "info")]
        Inspect(Box<commands::inspect::Args>) = "inspect",
        Push(commands::push::Args) = "push",
        Pull(commands::pull::Args) = "pull",
        Copy(commands::copy::Args) = "copy",
        Verify(Box<commands::verify::Args>) = "verify",
        Tag(commands::store::TagArgs) = "tag",
        Images(commands::store::ImagesArgs) = "images",
        Rmi(commands::store::RmiArgs) = "rmi",
        Prune(commands::store::PruneArgs) = "prune",
        Run(Box<commands::run::Args>) = "run",
        Test(Box<commands::test::Args>) = "test",
        Ps(commands::ps::Args) = "ps",
        Console(commands::console::Args) = "console",
        Logs(commands::logs::Args) = "logs",
        Vnc(commands::vnc::Args) = "vnc",
        Ssh(commands::guest::SshArgs) = "ssh",
        Exec(commands::guest::ExecArgs) = "exec",
        Start(commands::power::StartArgs) = "start",
        Stop(commands::power::StopArgs) = "stop",
        Kill(commands::power::KillArgs) = "kill",
        Restart(commands::power::RestartArgs) = "restart",
        Pause(commands::power::PauseArgs) = "pause",
        Unpause(commands::power::UnpauseArgs) = "unpause",
        Rm(commands::power::RmArgs) = "rm",
        Status(commands::ps::StatusArgs) = "status",
        Cp(commands::cp::Args) = "cp",
        Forward(commands::forward::Args) = "forward",
        Pool(commands::pool::Args) = "pool",
        Host(commands::host::Args) = "host",
        Virt(Box<commands::virt::Args>) = "virt",
        Ui(Box<commands::ui::Args>) = "ui",
        Manifests(commands::manifests::Args) = "manifests",
        Completions(commands::completions::Args) = "completions",
        #[command(hide = true)]
        Man(commands::man::Args) = "man",
    }
}

/// The program, whose verbs build their arguments only when they are used.
pub(crate) fn by_name() -> clap::Command {
    let command = Command::by_name(Log::augment_args(clap::Command::new("coracle")));
    // `virt` has verbs of its own, which clap would build at once.
    command.mut_subcommand("virt", |_| clap::Command::new("virt").defer(commands::virt::by_name))
}

impl Command {
    fn described(verb: clap::Command) -> clap::Command {
        verb
    }

    /// Runs the verb of the command line.
    pub(crate) fn run(self) -> crate::error::Result<()> {
        match self {
            Command::Worker(args) => commands::worker::run(&args),
            Command::Build(args) => commands::build::run(&args),
            Command::Convert(args) => commands::convert::run(&args),
            Command::Inspect(args) => commands::inspect::run(&args),
            Command::Push(args) => commands::push::run(&args),
            Command::Pull(args) => commands::pull::run(&args),
            Command::Copy(args) => commands::copy::run(&args),
            Command::Verify(args) => commands::verify::run(&args),
            Command::Tag(args) => commands::store::tag(&args),
            Command::Images(args) => commands::store::images(&args),
            Command::Rmi(args) => commands::store::rmi(&args),
            Command::Prune(args) => commands::store::prune(&args),
            Command::Run(args) => commands::run::run(&args),
            Command::Test(args) => commands::test::run(&args),
            Command::Ps(args) => commands::ps::run(&args),
            Command::Console(args) => commands::console::run(&args),
            Command::Logs(args) => commands::logs::run(&args),
            Command::Vnc(args) => commands::vnc::run(&args),
            Command::Ssh(args) => commands::guest::ssh(&args),
            Command::Exec(args) => commands::guest::exec(&args),
            Command::Start(args) => commands::power::start(&args),
            Command::Stop(args) => commands::power::stop(&args),
            Command::Kill(args) => commands::power::kill(&args),
            Command::Restart(args) => commands::power::restart(&args),
            Command::Pause(args) => commands::power::pause(&args),
            Command::Unpause(args) => commands::power::unpause(&args),
            Command::Rm(args) => commands::power::rm(&args),
            Command::Status(args) => commands::ps::status(&args),
            Command::Cp(args) => commands::cp::run(&args),
            Command::Forward(args) => commands::forward::run(&args),
            Command::Pool(args) => commands::pool::run(&args),
            Command::Host(args) => commands::host::run(&args),
            Command::Virt(args) => commands::virt::run(&args),
            Command::Ui(args) => commands::ui::run(&args),
            Command::Manifests(args) => commands::manifests::run(&args),
            Command::Completions(args) => commands::completions::run(&args),
            Command::Man(args) => commands::man::run(&args, Cli::command()),
        }
    }
}

/// Adds tips to a usage error. Hidden verbs are not suggested; a verb of `coracle virt` and the page are.
pub(crate) fn with_tips(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::Strings(mut tips)) = error.remove(ContextKind::SuggestedSubcommand) {
        let command = Cli::command();
        tips.retain(|tip| !command.find_subcommand(tip).is_some_and(clap::Command::is_hide_set));
        if !tips.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(tips));
        }
    }
    let tip = match error.get(ContextKind::InvalidSubcommand) {
        // The program itself has this verb; the user looked for it among others.
        Some(ContextValue::String(word)) if word == "ui" => {
            error.remove(ContextKind::SuggestedSubcommand);
            Some("the page of the VMs of a cluster is 'coracle ui'".to_owned())
        }
        Some(ContextValue::String(word)) if is_of_cluster(word) => {
            Some(format!("for the VMs of a cluster it is 'coracle virt {word}'"))
        }
        _ => None,
    };
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// True for a verb of `coracle virt` that the program itself does not have.
fn is_of_cluster(word: &str) -> bool {
    let mut command = Cli::command();
    // Verbs build their arguments only when they are used.
    command.build();
    let is_verb =
        |within: &clap::Command| within.find_subcommand(word).is_some_and(|verb| !verb.is_hide_set());
    !is_verb(&command) && command.find_subcommand("virt").is_some_and(is_verb)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First words of questions and of references to an earlier sentence; CONTRIBUTING.md has the rules.
    const NEVER_FIRST: [&str; 13] = [
        "how", "it", "its", "of", "that", "this", "what", "when", "where", "whether", "which", "who", "whose",
    ];

    #[test]
    fn every_help_text_defines_its_argument_in_the_words_of_the_glossary() {
        let (mut looked_at, mut faults) = (0, Vec::new());
        let mut command = Cli::command();
        // Some verbs are described only when they are asked for.
        command.build();
        look(&command, &mut looked_at, &mut faults);
        assert!(looked_at > 150, "only {looked_at} texts: the commands are not walked");
        assert!(faults.is_empty(), "{} of {looked_at}:\n{}", faults.len(), faults.join("\n"));
    }

    fn look(command: &clap::Command, looked_at: &mut usize, faults: &mut Vec<String>) {
        let name = command.get_name();
        let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
        let mut texts = vec![(name.to_owned(), about)];
        for argument in command.get_arguments() {
            let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string);
            texts.push((format!("{name} {}", argument.get_id()), help));
        }
        for (at, text) in texts {
            *looked_at += 1;
            if let Some(fault) = fault(text.as_deref().unwrap_or_default()) {
                faults.push(format!("{at}: {fault}: {text:?}"));
            }
        }
        for inner in command.get_subcommands() {
            look(inner, looked_at, faults);
        }
    }

    fn fault(text: &str) -> Option<String> {
        let lower = text.to_lowercase().replace("virtual machine", "").replace("machine type", "");
        let words: Vec<&str> =
            lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        match words.first() {
            _ if text.trim().is_empty() => Some("no text".to_owned()),
            Some(first) if NEVER_FIRST.contains(first) => Some(format!("begins with {first}")),
            _ if words.iter().any(|word| ["machine", "machines"].contains(word)) => {
                Some("says machine, where VM or computer is meant".to_owned())
            }
            _ => None,
        }
    }

    #[test]
    fn a_verb_that_is_asked_for_is_the_verb_of_the_list() {
        crate::verbs::tests::agree(Cli::command(), by_name());
        let asked = |line: &str| {
            let words = line.split_whitespace().map(Into::into);
            crate::verbs::parsed::<Cli>(by_name(), words).map(|cli| format!("{cli:?}"))
        };
        for line in [
            "coracle virt -vv start web -n blue --dry-run",
            "coracle -v ps",
            "coracle virt adm x",
            "coracle virt",
        ] {
            let all = Cli::try_parse_from(line.split_whitespace()).ok();
            assert_eq!(asked(line), all.map(|cli| format!("{cli:?}")), "{line}");
        }
        assert!(asked("coracle virt start web").is_some() && asked("coracle virt start").is_none());
    }

    #[test]
    fn a_tip_is_a_verb_that_people_type() {
        let tips = |line: &str| {
            let error = with_tips(Cli::try_parse_from(line.split_whitespace()).unwrap_err());
            assert_eq!(error.kind(), clap::error::ErrorKind::InvalidSubcommand, "{line}");
            error.to_string()
        };
        let migrate = tips("coracle migrate web");
        assert!(migrate.contains("unrecognized subcommand 'migrate'"), "{migrate}");
        assert!(migrate.contains("tip: for the VMs of a cluster it is 'coracle virt migrate'"), "{migrate}");
        assert!(!migrate.contains("apart"), "{migrate}");
        assert!(!tips("coracle vert web").contains("coracle virt"), "no verb of it has this name");
        assert!(tips("coracle virt strat web").contains("similar subcommand"), "the others stay");
        assert!(tips("coracle vert web").contains("similar subcommand"), "the others stay");
        let ui = tips("coracle virt ui");
        assert!(ui.contains("tip: the page of the VMs of a cluster is 'coracle ui'"), "{ui}");
    }

    #[test]
    fn the_help_of_virt_begins_with_the_sentence_of_virtctl() {
        let mut command = Cli::command();
        command.build();
        let virt = command.find_subcommand_mut("virt").expect("the verb");
        let text = virt.render_help().to_string();
        assert!(text.starts_with("Manage the VMs of a Kubernetes cluster"), "{text}");
        let text = virt.render_long_help().to_string();
        assert!(text.starts_with("Manage the VMs of a Kubernetes cluster"), "{text}");
    }

    #[test]
    fn a_riddle_is_found() {
        for text in ["", "What to run", "Its name", "Stop machines", "How it is with a VM"] {
            assert!(fault(text).is_some(), "{text}");
        }
        assert_eq!(fault("Virtual machine disks as images, and the VMs that boot from them"), None);
    }

    #[test]
    fn every_visible_verb_has_a_manual_page_that_names_its_flags() {
        let folder = tempfile::tempdir().unwrap();
        let args = commands::man::Args { folder: folder.path().to_owned() };
        commands::man::run(&args, Cli::command()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let convert = read("coracle-convert.1");
        assert!(convert.contains(".TH coracle-convert 1"), "{convert}");
        assert!(convert.contains("coracle convert"), "the words that a user types: {convert}");
        assert!(convert.contains("\\-\\-checksum"), "{convert}");
        assert!(read("coracle-virt-image-upload.1").contains("\\-\\-size"));
        assert!(!folder.path().join("coracle-apart.1").exists(), "hidden verbs have no page");
    }
}
