//! `virsh` in a launcher pod: `kubectl exec POD -c compute -- virsh list`.
//!
//! A launcher pod has no libvirt daemon for libvirt's own program. This program asks the launcher on its
//! socket, which the launcher opens to root and its own user, and prints the same output as libvirt's program
//! (version 9.0).
//!
//! ```text
//!  words ─► options of virsh ─► command.rs: a verb, its options ─┬─► show.rs: facts of the launcher as tables and lines
//!                                                                │     └─ xml.rs: devices of the domain; json.rs: indented
//!                                                                └─► replacement.rs: verbs of Kubernetes for those that change
//! ```
//!
//! **Absent:** verbs that change a VM. They would be undone by the controllers, or unknown to them.

mod command;
mod json;
mod replacement;
mod show;
mod table;
mod xml;

use command::{Arguments, COMMANDS, Command};
use launcher_client::Client;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Name by which this program runs as virsh.
const NAME: &str = "virsh";
/// Environment variable with the path of another socket.
const SOCKET: &str = "VIRT_LAUNCHER_SOCKET";
const DEFAULT_SOCKET: &str = "/var/run/kubevirt/sockets/launcher-sock";

const USAGE: &str = "\
virsh [options]... [<command_string>]
virsh [options]... <command> [args...]

  Asks the launcher of this pod about its VM; there is no libvirt daemon.

  options:
    -c | --connect=URI      accepted, and without effect
    -h | --help             this help
    -q | --quiet            quiet mode
    -r | --readonly         accepted: nothing but qemu-monitor-command changes anything
    -v                      short version
    -V                      long version
         --version[=TYPE]   version, TYPE is short or long (default short)
";

/// Options with and without a value that have no effect here.
const IGNORED: [&str; 4] = ["-r", "--readonly", "-t", "--timing"];
const IGNORED_VALUES: [(&str, &str); 6] = [
    ("-c", "--connect"),
    ("-d", "--debug"),
    ("-e", "--escape"),
    ("-k", "--keepalive-interval"),
    ("-K", "--keepalive-count"),
    ("-l", "--log"),
];

/// Texts for standard output and standard error.
#[derive(Debug, Default, PartialEq, Eq)]
struct Output {
    out: String,
    error: String,
}

/// A failed command, with its lines for standard error.
#[derive(Debug, PartialEq, Eq)]
struct Failed {
    lines: Vec<String>,
    /// The command had begun: libvirt's program then prints an empty line at the end.
    begun: bool,
}

impl Failed {
    /// A usage error, before the command began.
    fn usage(line: impl Into<String>) -> Failed {
        Failed { lines: vec![line.into()], begun: false }
    }

    fn begun(line: impl Into<String>) -> Failed {
        Failed { lines: vec![line.into()], begun: true }
    }
}

/// True if this process was started as virsh.
pub(crate) fn is_meant(arguments: &[OsString]) -> bool {
    arguments.first().is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new(NAME)))
}

/// Carries out the command line.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let words: Vec<String> =
        arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let socket = std::env::var_os(SOCKET).map_or_else(|| PathBuf::from(DEFAULT_SOCKET), PathBuf::from);
    let client = Client::at(format!("the launcher on {}", socket.display()), &socket);
    let (said, is_done) = answer(&words, &client);
    // The reader may be gone.
    let _ = std::io::stdout().write_all(printed(&said.out).as_bytes());
    let _ = std::io::stderr().write_all(printed(&said.error).as_bytes());
    if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Carries out the command line; false where a command failed.
fn answer(words: &[String], client: &Client) -> (Output, bool) {
    let mut said = Output::default();
    match options(words) {
        Err(line) => said.error = format!("error: {line}\n"),
        Ok(Invocation::Usage) => said.out = format!("{USAGE}\n  commands:\n\n{}", help_of_all()),
        Ok(Invocation::Version) => said.out = format!("{}\n", show::libvirt_version(client)),
        Ok(Invocation::Commands { quiet, commands }) => {
            for words in commands {
                if let Err(failed) = run_command(&words, client, quiet, &mut said.out) {
                    failed.lines.iter().for_each(|line| said.error += &format!("error: {line}\n"));
                    if failed.begun && !quiet {
                        said.out.push('\n');
                    }
                    return (said, false);
                }
            }
        }
    }
    let is_done = said.error.is_empty();
    (said, is_done)
}

/// Carries out one command.
fn run_command(words: &[String], client: &Client, quiet: bool, out: &mut String) -> Result<(), Failed> {
    let Some((name, rest)) = words.split_first() else { return Ok(()) };
    let Some(command) = Command::named(name) else {
        return Err(match replacement::for_verb(name) {
            Some(instead) => Failed { lines: instead.lines(name, show::vm(client).as_ref()), begun: false },
            None => Failed::usage(format!("unknown command: '{name}'")),
        });
    };
    let given = command.given(rest).map_err(Failed::usage)?;
    let shown = match command.name {
        "help" => help(&given)?,
        _ => show::show(command.name, &given, client, quiet)?,
    };
    out.push_str(&shown);
    if !quiet {
        out.push('\n');
    }
    Ok(())
}

/// The command line after its options.
enum Invocation {
    Usage,
    Version,
    Commands { quiet: bool, commands: Vec<Vec<String>> },
}

fn options(words: &[String]) -> Result<Invocation, String> {
    let mut quiet = false;
    let mut words = words.iter();
    let mut left = Vec::new();
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        let with_value = IGNORED_VALUES.iter().find(|(short, long)| *short == word || *long == name);
        match word.as_str() {
            "-h" | "--help" => return Ok(Invocation::Usage),
            "-v" | "-V" | "--version" | "--version=short" | "--version=long" => {
                return Ok(Invocation::Version);
            }
            "-q" | "--quiet" => quiet = true,
            word if IGNORED.contains(&word) => {}
            word if with_value.is_some() => {
                if !word.contains('=') && words.next().is_none() {
                    return Err(format!("option '{word}' requires an argument. See --help."));
                }
            }
            word if word.starts_with('-') => return Err(format!("unsupported option '{word}'. See --help.")),
            _ => {
                left.push(word.clone());
                left.extend(words.cloned());
                break;
            }
        }
    }
    let commands = match left.as_slice() {
        [] => {
            return Err("no interactive mode: give a command ('virsh help' lists them)".to_owned());
        }
        // A single argument is a line of commands.
        [line] => lines(line)?,
        _ => vec![left],
    };
    Ok(Invocation::Commands { quiet, commands })
}

/// Splits a line into commands: words with quotes, and `;` between commands.
fn lines(line: &str) -> Result<Vec<Vec<String>>, String> {
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some(end) if end == letter => break,
                        Some('\\') if letter == '"' => quoted.extend(letters.next()),
                        Some(other) => quoted.push(other),
                        None => return Err(format!("missing {letter}")),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            ';' | '\n' => {
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
            }
            letter if letter.is_whitespace() => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    Ok(commands)
}

fn help(given: &Arguments) -> Result<String, Failed> {
    match given.words.as_slice() {
        [] => Ok(help_of_all()),
        [name, ..] => match Command::named(name) {
            Some(command) => Ok(command.help()),
            None => Err(Failed::begun(format!("command '{name}' doesn't exist"))),
        },
    }
}

fn help_of_all() -> String {
    let lines = COMMANDS.iter().map(|command| format!("    {:<30} {}\n", command.name, command.says));
    let rest =
        "\n Verbs that change a VM say what to use instead: virsh start, stop by virtctl, edit by kubectl.\n";
    format!(" Domain of this pod:\n{}{rest}", lines.collect::<String>())
}

/// The text without control characters, since a guest or QEMU may have written it.
fn printed(text: &str) -> String {
    let is_plain = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t' | '\r');
    text.chars().map(|letter| if is_plain(letter) { letter } else { '?' }).collect()
}

#[cfg(test)]
mod tests;
