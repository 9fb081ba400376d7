//! Every example in README.md, in the crates' READMEs and under docs/ is run, and its output compared.
//!
//! A document is one story in one empty folder, with the program just built first on the path:
//!
//! ````text
//! <!-- setup                         commands that a reader need not see; each must succeed
//! qemu-img create -f qcow2 disk.qcow2 1G
//! -->
//!
//! ```console                         run
//! $ coracle inspect disk.qcow2       a command; `> ` continues it on the next line
//! format    qcow2                    its output, both streams; nothing here: the output is not compared
//! ...                                any lines; within a line: any text
//! $ coracle inspect nothing.img
//! ...
//! $ echo $?                          a command may fail only when the next one asks for its exit code
//! 4
//! ```
//!
//! ```console no-run: needs a block device     not run, and why
//!
//! ```yaml vm.yaml                    written into a file of that name, for the commands that follow
//! ````
//!
//! An address `http://ANYTHING/NAME` reaches nginx on a loopback port, which serves that folder; images
//! `docker://registry.example/…` are in an empty docker-registry behind it.

use ::tests::registry::Registry;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Languages of blocks that hold no command: drawings, file contents, code that other tests compile.
const NOT_COMMANDS: &[&str] = &["text", "json", "toml", "yaml", "xml", "rust", "diff"];

/// A line that does not occur in any document.
const END_OF_FILE: &str = "END OF FILE";

/// Longer than any document takes, by far.
const SECONDS: &str = "300";

#[test]
fn every_example_in_the_documents_runs() {
    let documents = documents();
    assert!(documents.iter().any(|path| path.ends_with("README.md")), "no documents found");
    let faults: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = documents.iter().map(|path| scope.spawn(|| check(path))).collect();
        runs.into_iter().flat_map(|run| run.join().expect("the run of a document")).collect()
    });
    assert!(faults.is_empty(), "{} examples are not true:\n\n{}", faults.len(), faults.join("\n\n"));
}

/// The tag stands there in words, and is another with each version.
#[test]
fn the_guide_to_a_cluster_pushes_the_images_that_the_manifests_name() {
    let guide = fs::read_to_string(root().join("docs/how-to/install.md")).expect("the guide");
    let copies = guide.lines().filter_map(|line| line.strip_prefix("$ coracle copy oci-archive:"));
    let pushed: BTreeSet<&str> =
        copies.filter_map(|line| line.split_once(" docker://")).map(|(_, image)| image).collect();
    let mut program = Command::new(env!("CARGO_BIN_EXE_coracle"));
    let printed = program.args(["manifests", "--registry", "registry.example/coracle"]).output();
    let printed = printed.expect("the manifests").stdout;
    let manifests = String::from_utf8_lossy(&printed);
    let named: BTreeSet<&str> =
        manifests.split(['"', ',']).filter(|word| word.starts_with("registry.example/coracle/")).collect();
    assert_eq!(pushed, named);
}

/// One command of a document, with what it should print.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    line: usize,
    command: String,
    output: Vec<String>,
    /// Set for a `<!-- setup` block. The reader does not see its output, so it is not compared.
    hidden: bool,
}

impl Example {
    fn go_on(&mut self, line: &str) {
        self.command.push('\n');
        self.command.push_str(line);
    }
}

fn check(document: &Path) -> Vec<String> {
    let name = document.strip_prefix(root()).unwrap_or(document).display().to_string();
    let content = fs::read_to_string(document).expect("a document");
    match parse(&content) {
        Err((line, fault)) => vec![format!("{name}:{line}: {fault}")],
        Ok(examples) if examples.is_empty() => Vec::new(),
        Ok(examples) => {
            let registry = content.contains("docker://").then(Registry::start);
            let faults = run(&examples, content.contains("http://"), registry.as_ref());
            faults.into_iter().map(|(line, fault)| format!("{name}:{line}: {fault}")).collect()
        }
    }
}

fn parse(content: &str) -> Result<Vec<Example>, (usize, String)> {
    enum At {
        Prose,
        Setup,
        Console,
        File,
        Other(String),
    }
    let mut examples: Vec<Example> = Vec::new();
    let mut at = At::Prose;
    for (index, line) in content.lines().enumerate() {
        let number = index + 1;
        match &at {
            At::Prose if line == "<!-- setup" => at = At::Setup,
            At::Prose if line.trim_start().starts_with("```") => {
                let fence: String = line.trim_start().chars().take_while(|sign| *sign == '`').collect();
                at = match line.trim_start().trim_start_matches('`').split_once(' ') {
                    None if line == "```console" => At::Console,
                    Some(("yaml", name)) if line.starts_with("```yaml ") && is_file(name) => {
                        let command = format!("cat >{name} <<'{END_OF_FILE}'");
                        examples.push(Example { line: number, command, output: Vec::new(), hidden: true });
                        At::File
                    }
                    Some(("console", why))
                        if why.strip_prefix("no-run: ").is_some_and(|why| !why.is_empty()) =>
                    {
                        At::Other(fence)
                    }
                    None if NOT_COMMANDS.contains(&line.trim_start().trim_start_matches('`')) => {
                        At::Other(fence)
                    }
                    _ => return Err((number, format!("'{line}' is neither run nor says why not"))),
                };
            }
            At::Prose => {}
            At::Setup if line == "-->" => at = At::Prose,
            At::Setup => {
                let command = line.to_owned();
                examples.push(Example { line: number, command, output: Vec::new(), hidden: true });
            }
            At::File => {
                let is_end = line == "```";
                if let Some(file) = examples.last_mut() {
                    file.go_on(if is_end { END_OF_FILE } else { line });
                }
                if is_end {
                    at = At::Prose;
                }
            }
            At::Console if line == "```" => at = At::Prose,
            At::Other(fence) if line.trim() == fence => at = At::Prose,
            At::Other(_) => {}
            At::Console => match (line.strip_prefix("$ "), line.strip_prefix("> "), examples.last_mut()) {
                (Some(command), ..) => {
                    let command = command.to_owned();
                    examples.push(Example { line: number, command, output: Vec::new(), hidden: false });
                }
                (None, Some(more), Some(last)) if last.output.is_empty() => last.go_on(more),
                (None, _, Some(last)) if !last.hidden => last.output.push(line.to_owned()),
                _ => return Err((number, "output before any command".to_owned())),
            },
        }
    }
    match at {
        At::Prose => Ok(examples),
        _ => Err((content.lines().count(), "the last block has no end".to_owned())),
    }
}

/// True if a word after the language of a block is the name of a file.
fn is_file(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    word.strip_suffix(".yaml").is_some_and(|name| !name.is_empty() && name.chars().all(is_plain))
}

/// Runs the examples in one shell, and yields what is not as the document says.
fn run(examples: &[Example], with_server: bool, registry: Option<&Registry>) -> Vec<(usize, String)> {
    let folder = tempfile::tempdir().expect("a folder for the examples");
    let results = tempfile::tempdir().expect("a folder for the results");
    let script = results.path().join("script");
    let mut text = String::new();
    if let Some(registry) = registry {
        let settings = folder.path().join(".config/coracle");
        fs::create_dir_all(&settings).expect("a folder for settings");
        let plain = "[host.\"registry.example\"]\nplain-http = true\n";
        fs::write(settings.join("registries.toml"), plain).expect("the settings");
        let _ = writeln!(text, "nginx_registry={}", registry.address());
    }
    text += &script_of(examples, with_server || registry.is_some(), results.path());
    fs::write(&script, text).expect("the script");

    let program = Path::new(env!("CARGO_BIN_EXE_coracle"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}:/usr/sbin:/sbin", program.parent().expect("a folder").display());
    let shell = Command::new("timeout")
        .args(["--kill-after=5", SECONDS, "bash"])
        .arg(&script)
        .current_dir(folder.path())
        .env("PATH", path)
        .env("HOME", folder.path())
        .env("LC_ALL", "C.UTF-8")
        .envs([("TERM", "dumb"), ("COLUMNS", "80"), ("no_proxy", "")])
        .env_remove("RUST_LOG")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_DATA_HOME")
        .env_remove("CORACLE_STORE")
        .env_remove("SOURCE_DATE_EPOCH")
        .output()
        .expect("bash runs");

    let mut faults = Vec::new();
    for (index, example) in examples.iter().enumerate() {
        let base = results.path().join(index.to_string());
        let Ok(status) = fs::read_to_string(base.with_extension("status")) else {
            let said = String::from_utf8_lossy(&shell.stderr).into_owned();
            faults.push((example.line, format!("never came to an end: {}\n{said}", example.command)));
            break;
        };
        let printed = String::from_utf8_lossy(&fs::read(&base).unwrap_or_default()).into_owned();
        let asked = examples.get(index + 1).is_some_and(|next| next.command == "echo $?");
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

/// One shell for the whole document, so that `cd`, variables and `$?` mean what a reader expects.
fn script_of(examples: &[Example], with_server: bool, results: &Path) -> String {
    let results = results.display();
    let mut script = String::new();
    if with_server {
        let nginx = root().join("tests/nginx.sh");
        let _ = writeln!(
            script,
            "source '{}'; nginx_start \"$PWD\" '{results}/nginx' || exit 99; trap nginx_stop EXIT\n\
             export http_proxy=http://127.0.0.1:$nginx_port",
            nginx.display()
        );
    }
    script.push_str("last=0\n");
    for (index, example) in examples.iter().enumerate() {
        let _ = writeln!(
            script,
            "(exit $last)\n{{ {}\n}} >'{results}/{index}' 2>&1 </dev/null\n\
             last=$?; echo $last >'{results}/{index}.status'",
            example.command
        );
    }
    script
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

/// README.md of the root and of each folder, and everything under docs/.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if path.is_dir() && !path.is_symlink() && !hidden && !path.join("CACHEDIR.TAG").exists() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
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
    fn a_block_either_runs_or_says_why_not() {
        assert!(parse("```sh\nmake\n```\n").is_err());
        assert!(parse("```\nmake\n```\n").is_err());
        assert!(parse("```console no-run: \n$ make\n```\n").is_err());
        assert!(parse("```console\n$ make\n").is_err());
        assert_eq!(parse("```console no-run: needs a cluster\n$ make\n```\n"), Ok(Vec::new()));
        assert!(parse("```yaml a b.yaml\na: 1\n```\n").is_err());
        assert_eq!(parse("````text\n```console\n$ false\n```\n````\n"), Ok(Vec::new()));
    }

    #[test]
    fn a_fault_in_an_example_is_found() {
        let faults = |document: &str| run(&parse(document).expect("parses"), false, None).len();
        assert_eq!(faults("```console\n$ echo 1\n1\n```\n"), 0);
        assert_eq!(faults("```console\n$ echo 1\n2\n```\n"), 1);
        assert_eq!(faults("```console\n$ false\n```\n"), 1);
        assert_eq!(faults("```console\n$ (exit 3)\n$ echo $?\n3\n```\n"), 0);
        assert_eq!(
            faults("<!-- setup\necho hello >file\n-->\n```console\n$ cat \\\n> file\nhello\n```\n"),
            0
        );
        assert_eq!(faults("<!-- setup\nfalse\n-->\n"), 1);
        assert_eq!(faults("```yaml a.yaml\na: $1\n```\n```console\n$ cat a.yaml\na: $1\n```\n"), 0);
        assert_eq!(faults("```yaml a.yaml\na: 1\n```\n```console\n$ cat a.yaml\na: 2\n```\n"), 1);
        assert_eq!(faults("```console\n$ exit\n$ echo 1\n```\n"), 1);
    }
}
