//! The examples of a document, run and compared.

use crate::page::{Fault, Page};
use crate::root;
use ::tests::registry::Registry;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Longer than any document takes, by far.
const SECONDS: &str = "300";

/// Runs the examples in one shell, and yields what is not as the document says.
pub(crate) fn run(page: &Page, with_server: bool, registry: Option<&Registry>) -> Vec<Fault> {
    let home = tempfile::tempdir().expect("a home folder");
    let results = tempfile::tempdir().expect("a folder for the results");
    let outside = tempfile::tempdir().expect("a folder of web servers");
    for command in &page.outside {
        let done = shell(&["-ec", &command.command], outside.path(), home.path());
        if !done.status.success() {
            let fault = format!("{}\n{}", command.command, String::from_utf8_lossy(&done.stderr));
            return vec![(command.line, fault)];
        }
    }

    // The folder of the reader is made after that, so that nothing hidden can be in it.
    let folder = tempfile::tempdir().expect("a folder for the examples");
    let script = results.path().join("script");
    let mut text = String::new();
    if let Some(registry) = registry {
        let settings = home.path().join(".config/coracle");
        fs::create_dir_all(&settings).expect("a folder for settings");
        let plain = "[host.\"registry.example\"]\nplain-http = true\n";
        fs::write(settings.join("registries.toml"), plain).expect("the settings");
        let _ = writeln!(text, "nginx_registry={}", registry.address());
    }
    let served = if page.outside.is_empty() { folder.path() } else { outside.path() };
    let served = (with_server || registry.is_some()).then_some(served);
    text += &script_of(page, served, results.path());
    fs::write(&script, text).expect("the script");
    let done = shell(&[&script.display().to_string()], folder.path(), home.path());
    faults(page, results.path(), &String::from_utf8_lossy(&done.stderr))
}

/// bash with the environment of a reader, whose path begins with the program just built.
fn shell(args: &[&str], folder: &Path, home: &Path) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_coracle"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}:/usr/sbin:/sbin", program.parent().expect("a folder").display());
    Command::new("timeout")
        .args(["--kill-after=5", SECONDS, "bash"])
        .args(args)
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", home)
        .env("LC_ALL", "C.UTF-8")
        .envs([("TERM", "dumb"), ("COLUMNS", "80"), ("no_proxy", "")])
        .env_remove("RUST_LOG")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_DATA_HOME")
        .env_remove("CORACLE_STORE")
        .env_remove("CORACLE_HOME")
        .env_remove("SOURCE_DATE_EPOCH")
        .output()
        .expect("bash runs")
}

/// One shell for the whole document, so that `cd`, variables and `$?` mean what a reader expects.
fn script_of(page: &Page, served: Option<&Path>, results: &Path) -> String {
    let results = results.display();
    let mut script = String::new();
    if let Some(served) = served {
        let _ = writeln!(
            script,
            "source '{}'; nginx_start '{}' '{results}/nginx' || exit 99; trap nginx_stop EXIT\n\
             export http_proxy=http://127.0.0.1:$nginx_port",
            root().join("tests/nginx.sh").display(),
            served.display()
        );
    }
    script.push_str("last=0\n");
    for (index, example) in page.examples.iter().enumerate() {
        let _ = writeln!(
            script,
            "(exit $last)\n{{ {}\n}} >'{results}/{index}' 2>&1 </dev/null\n\
             last=$?; echo $last >'{results}/{index}.status'",
            example.command
        );
    }
    script
}

/// What the commands printed that the document does not say; `stderr` is that of the shell.
fn faults(page: &Page, results: &Path, stderr: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, example) in page.examples.iter().enumerate() {
        let base = results.join(index.to_string());
        let Ok(status) = fs::read_to_string(base.with_extension("status")) else {
            faults.push((example.line, format!("never came to an end: {}\n{stderr}", example.command)));
            break;
        };
        let printed = String::from_utf8_lossy(&fs::read(&base).unwrap_or_default()).into_owned();
        let asked = page.examples.get(index + 1).is_some_and(|next| next.command == "echo $?");
        if status.trim() != "0" && !asked {
            let fault = format!("exit code {} of: {}\n{printed}", status.trim(), example.command);
            faults.push((example.line, fault));
        } else if !example.output.is_empty() && !matches(&example.output, &printed) {
            let wanted = example.output.join("\n");
            let fault =
                format!("{}\n--- the document says\n{wanted}\n--- it printed\n{printed}", example.command);
            faults.push((example.line, fault));
        }
    }
    faults
}

fn matches(wanted: &[String], printed: &str) -> bool {
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let wanted: Vec<&str> = wanted.iter().map(|line| line.trim_end()).collect();
    match_lines(&wanted, &printed)
}

fn match_lines(wanted: &[&str], printed: &[&str]) -> bool {
    match (wanted, printed) {
        ([], []) => true,
        ([], _) => false,
        (["...", rest @ ..], _) => (0..=printed.len()).any(|skip| match_lines(rest, &printed[skip..])),
        (_, []) => false,
        ([line, rest @ ..], [first, others @ ..]) => match_text(line, first) && match_lines(rest, others),
    }
}

fn match_text(wanted: &str, printed: &str) -> bool {
    match wanted.split_once("...") {
        None => wanted == printed,
        Some((before, after)) => printed.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| match_text(after, &rest[at..]))
        }),
    }
}

mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_any_lines_and_any_text() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert!(matches(&lines("a\n...\nz"), "a\nb\nc\nz\n"));
        assert!(matches(&lines("size ... bytes"), "size 4096 bytes\n"));
        assert!(matches(&lines("..."), ""));
        assert!(!matches(&lines("a\n...\nz"), "a\nb\n"));
        assert!(!matches(&lines("size ... bytes"), "size 4096 KiB\n"));
        assert!(!matches(&lines("a"), "a\nb\n"));
    }

    #[test]
    fn a_fault_in_an_example_is_found() {
        let faults = |document: &str| run(&Page::parse(document).expect("parses"), false, None).len();
        assert_eq!(faults("```console\n$ echo 1\n1\n```\n"), 0);
        assert_eq!(faults("```console\n$ echo 1\n2\n```\n"), 1);
        assert_eq!(faults("```console\n$ false\n```\n"), 1);
        assert_eq!(faults("```console\n$ (exit 3)\n$ echo $?\n3\n```\n"), 0);
        assert_eq!(faults("```console\n$ echo hello >file\n$ cat \\\n> file\nhello\n```\n"), 0);
        assert_eq!(faults("<!-- setup\nfalse\n-->\n"), 1);
        assert_eq!(faults("```yaml a.yaml\na: $1\n```\n```console\n$ cat a.yaml\na: $1\n```\n"), 0);
        assert_eq!(faults("```yaml a.yaml\na: 1\n```\n```console\n$ cat a.yaml\na: 2\n```\n"), 1);
        assert_eq!(faults("```console\n$ exit\n$ echo 1\n```\n"), 1);
    }

    #[test]
    fn the_folder_of_a_reader_is_empty() {
        let faults = |document: &str, with_server| {
            run(&Page::parse(document).expect("parses"), with_server, None).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(faults("```console\n$ test -z \"$(ls -A)\"\n```\n", true), []);
        let outside = "<!-- outside\necho hello >file\n-->\n```console\n";
        assert_eq!(faults(&format!("{outside}$ test -z \"$(ls -A)\"\n```\n"), true), []);
        let fetch = "$ curl -s http://disks.example/file\nhello\n```\n";
        assert_eq!(faults(&format!("{outside}{fetch}"), true), []);
        assert_eq!(faults(&format!("{outside}$ cat file\n```\n"), true).len(), 1);
        assert_eq!(faults("<!-- outside\nfalse\n-->\n```console\n$ true\n```\n", true).len(), 1);
    }
}
