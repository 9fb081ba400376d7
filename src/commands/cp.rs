//! The verb `coracle cp`: files into a guest and out of it, by its guest agent.
//!
//! ```text
//!  FILE ─► pieces of 64 KiB, base64 ─► sh in the guest appends to PATH.coracle-… ─► SHA-256 compared ─► mv to PATH
//!  PATH ─► dd | base64 in the guest ─► pieces ─► FILE.partial ─► SHA-256 compared ─► FILE
//! ```
//!
//! Each copy has a PATH.coracle-… of its own, of a random name that did not exist before: two copies to one path do not
//! write into one file, and no link that a user of the guest planted is followed. One that fails or is interrupted is
//! removed.
//!
//! The guest needs `sh`, `base64`, `dd` and `wc`, as every Linux has them; without `sha256sum` the size alone is
//! compared.

use super::virt::create::unused;
use super::vm_args::HomeArgs;
use super::vms::complete;
use crate::error::{Error, ErrorKind, Result, code_of};
use crate::output_file;
use crate::ui;
use api::launcher::{Exec, Executed};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cdi::size::human;
use cdi::target::{FileTarget, Target as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _};
use container_disk::digest::Hasher;
use local_vm::client::Client;
use local_vm::place::{Home, check_name};
use local_vm::record::Vm;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Size of a piece out of the guest in bytes: its base64 is shorter than the output that a launcher passes on.
const PIECE: usize = 512 << 10;
/// Size of a piece into the guest: it is encoded twice, and a launcher takes a command of 160 KiB.
const PIECE_INTO: usize = 64 << 10;
/// Blocks of `dd` in a piece.
const BLOCK: usize = 64 << 10;
/// Time limit of one piece: the guest may be emulated.
const PATIENCE: u64 = 120;

/// Path of the copy in the guest: a folder keeps the name of the file.
const TARGET: &str = r#"p=$1
case $p in */) p=$p$2;; *) [ -d "$p" ] && p=$p/$2;; esac
case $p in */*) d=${p%/*}/;; *) d=.;; esac
if [ ! -d "$d" ]; then printf 'nowhere %s' "${d%/}"
elif [ -d "$p" ]; then printf 'folder %s' "$p"
else printf 'yes %s' "$p"; fi"#;

/// Size of a file in the guest. Reading a pipe or a device might never end.
const SOURCE: &str = r#"if [ -f "$1" ]; then s=$(wc -c <"$1") && printf 'yes %s' "$s"
elif [ -d "$1" ]; then printf 'folder %s' "$1"
elif [ -e "$1" ]; then printf 'special %s' "$1"
else printf 'missing %s' "$1"; fi"#;

/// Copy a file into a VM or out of it, through the guest agent
///
/// One of SRC and DST is NAME:PATH, a file in the guest; a local file with a
/// colon in its name is written ./FILE. The copy gets its name when it is
/// whole.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle cp app.conf web:/etc/app.conf\n  \
    coracle cp web:/var/log/syslog .")]
pub(crate) struct Args {
    /// File to copy: a path, or NAME:PATH
    #[arg(value_name = "SRC", add = ArgValueCompleter::new(complete_side))]
    source: String,

    /// Target of the copy: a path, or NAME:PATH; a folder keeps the name
    #[arg(value_name = "DST", add = ArgValueCompleter::new(complete_side))]
    target: String,

    /// Hide the progress bar
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    home: HomeArgs,
}

/// One side of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Side<'a> {
    Guest { vm: &'a str, path: &'a str },
    Local(&'a Path),
}

fn side(text: &str) -> Side<'_> {
    match text.split_once(':') {
        Some((vm, path)) if check_name(vm).is_ok() && !path.is_empty() => Side::Guest { vm, path },
        _ => Side::Local(Path::new(text)),
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let home = args.home.home()?;
    let show = if args.quiet { ui::Show::Quiet } else { ui::Show::Auto };
    match (side(&args.source), side(&args.target)) {
        (Side::Local(file), Side::Guest { vm, path }) => {
            let is_interrupted = on_interrupt()?;
            into_guest(&Guest::open(&home, vm, show)?, file, path, &is_interrupted)
        }
        (Side::Guest { vm, path }, Side::Local(file)) => {
            out_of_guest(&Guest::open(&home, vm, show)?, path, file)
        }
        (Side::Guest { .. }, Side::Guest { .. }) => {
            Err(Error::new(ErrorKind::Usage, "one of the two files must be on this computer"))
        }
        (Side::Local(_), Side::Local(_)) => {
            let e = Error::new(ErrorKind::Usage, "one of the two files must be in a VM");
            Err(e.with_hint("write NAME:PATH, as in web:/etc/hosts"))
        }
    }
}

/// A guest whose agent runs programs.
struct Guest {
    name: String,
    client: Client,
    show: ui::Show,
}

impl Guest {
    fn open(home: &Home, name: &str, show: ui::Show) -> Result<Guest> {
        let vm = Vm::open(home, name)?;
        Ok(Guest { name: name.to_owned(), client: vm.up()?, show })
    }

    /// Runs a script of `sh` with arguments, and returns its output.
    fn sh(&self, script: &str, args: &[&str], input: Option<String>) -> Result<String> {
        let args = ["-c", script, "sh"].iter().chain(args).map(|word| (*word).to_owned()).collect();
        let exec = Exec { command: "/bin/sh".into(), args, input, timeout: Some(PATIENCE) };
        let Executed { exit_code, stdout, stderr } =
            self.client.exec(&exec, Duration::from_secs(PATIENCE + 10))?;
        if exit_code == 0 {
            return Ok(stdout);
        }
        let said = stderr.trim().rsplit('\n').next().unwrap_or_default().trim_start_matches("sh: ");
        let said = if said.is_empty() { format!("exit code {exit_code}") } else { printable::line(said) };
        Err(Error::failed(format!("{}: {said}", self.name)))
    }

    /// Runs a script that prints a word and a text, and returns the text behind the word `yes`. Shells word the
    /// failures of files differently; the words are of the scripts here.
    fn look(&self, script: &str, args: &[&str]) -> Result<String> {
        let said = self.sh(script, args, None)?;
        let (word, text) = said.split_once(' ').unwrap_or((&said, ""));
        let place = || printable::line(text.trim_end_matches('\n'));
        match word {
            "yes" => Ok(text.to_owned()),
            "folder" => Err(Error::refused(format!("{}:{} is a folder", self.name, place()))
                .with_hint("one file at a time is copied; tar packs a folder into one")),
            "special" => Err(Error::refused(format!("{}:{} is not a regular file", self.name, place()))),
            "missing" | "nowhere" => {
                let what = if word == "missing" { "file" } else { "folder" };
                let what = format!("{}:{}: there is no such {what}", self.name, place());
                Err(Error::new(ErrorKind::NotFound, what))
            }
            _ => Err(Error::failed(format!("{}: the answer of its shell is not understood", self.name))),
        }
    }

    /// Compares a file in the guest with the bytes that were copied.
    fn compare(&self, path: &str, size: u64, digest: &str) -> Result<()> {
        let script = "wc -c <\"$1\" && if command -v sha256sum >/dev/null; then sha256sum <\"$1\"; fi";
        let said = self.sh(script, &[path], None)?;
        let mut words = said.split_ascii_whitespace();
        let is_whole = words.next().and_then(|word| word.parse().ok()) == Some(size);
        match (is_whole, words.next()) {
            (true, None) => Ok(()),
            (true, Some(sum)) if digest == format!("sha256:{sum}") => Ok(()),
            _ => Err(self.changed(path)),
        }
    }

    fn changed(&self, path: &str) -> Error {
        Error::failed(format!("{}:{path} was changed while it was copied", self.name))
    }

    fn progress(&self, done: &Arc<AtomicU64>, total: u64) -> ui::Progress {
        let done = Arc::clone(done);
        ui::Progress::start(self.show, move || ui::Step { phase: "copying", done: done.load(Relaxed), total })
    }

    fn tell(&self, from: &str, to: &str, size: u64) {
        if self.show == ui::Show::Auto {
            ui::say(&format!("{from} → {to}: {}", human(size)));
        }
    }
}

/// A flag that Ctrl-C sets. The second one ends the program.
fn on_interrupt() -> Result<Arc<AtomicBool>> {
    let is_set = Arc::new(AtomicBool::new(false));
    let sets = Arc::clone(&is_set);
    ui::on_signal(move || {
        if sets.swap(true, Relaxed) {
            ui::leave(i32::from(code_of(ErrorKind::Interrupted)));
        }
    })?;
    Ok(is_set)
}

fn into_guest(guest: &Guest, file: &Path, path: &str, is_interrupted: &AtomicBool) -> Result<()> {
    let cannot = |e| Error::io(format!("cannot read {}", file.display()), e);
    let mut from = File::open(file).map_err(cannot)?;
    let facts = from.metadata().map_err(cannot)?;
    if !facts.is_file() {
        let what = format!("{} is not a file; one file at a time is copied", file.display());
        return Err(Error::new(ErrorKind::Usage, what).with_hint("tar packs a folder into one"));
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = guest.look(TARGET, &[path, &name])?;
    let partial = unused(&format!("{path}.coracle-"))?;
    // A file or a link of that name is an error. Until it is whole, it is its owner's alone.
    guest.sh("umask 077; set -C; : >\"$1\"", &[&partial], None)?;
    let done = Arc::new(AtomicU64::new(0));
    let bar = guest.progress(&done, facts.len());
    let mode = format!("{:o}", facts.permissions().mode() & 0o777);
    let copied = send(guest, &mut from, &partial, &done, is_interrupted).and_then(|()| {
        guest.sh("chmod -- \"$3\" \"$1\" && mv -f -- \"$1\" \"$2\"", &[&partial, &path, &mode], None)
    });
    drop(bar);
    if copied.is_err() {
        // The error of the copy is told; that of its removal would be the same.
        let _ = guest.sh("rm -f -- \"$1\"", &[&partial], None);
    }
    copied?;
    guest.tell(&file.display().to_string(), &format!("{}:{path}", guest.name), done.load(Relaxed));
    Ok(())
}

/// Appends all bytes of a file to one in the guest, which is empty before, and compares them.
fn send(
    guest: &Guest,
    from: &mut File,
    partial: &str,
    done: &AtomicU64,
    is_interrupted: &AtomicBool,
) -> Result<()> {
    let mut hasher = Hasher::new();
    let mut piece = Vec::with_capacity(PIECE_INTO);
    loop {
        piece.clear();
        let read = Read::take(&mut *from, PIECE_INTO as u64).read_to_end(&mut piece);
        if read.map_err(|e| Error::io("cannot read the file", e))? == 0 {
            return guest.compare(partial, done.load(Relaxed), &hasher.finish().to_string());
        }
        if is_interrupted.load(Relaxed) {
            return Err(Error::new(ErrorKind::Interrupted, "interrupted"));
        }
        hasher.update(&piece);
        guest.sh("base64 -d >>\"$1\"", &[partial], Some(STANDARD.encode(&piece)))?;
        done.fetch_add(piece.len() as u64, Relaxed);
    }
}

fn out_of_guest(guest: &Guest, path: &str, file: &Path) -> Result<()> {
    let size: u64 = guest
        .look(SOURCE, &[path])?
        .trim()
        .parse()
        .map_err(|_| Error::failed(format!("{}: the size of {path} is not understood", guest.name)))?;
    let name = path.rsplit('/').next().unwrap_or(path);
    let file = if file.is_dir() { file.join(name) } else { file.to_owned() };
    let done = Arc::new(AtomicU64::new(0));
    let bar = guest.progress(&done, size);
    let copied = output_file::write_with(&file, size, |to| receive(guest, path, size, to, &done));
    drop(bar);
    copied?;
    guest.tell(&format!("{}:{path}", guest.name), &file.display().to_string(), size);
    Ok(())
}

/// Writes all bytes of a file in the guest, and compares them.
fn receive(guest: &Guest, path: &str, size: u64, to: &FileTarget, done: &AtomicU64) -> Result<()> {
    let mut hasher = Hasher::new();
    let mut at = 0_u64;
    while at < size {
        let script = "dd if=\"$1\" bs=\"$2\" skip=\"$3\" count=\"$4\" 2>/dev/null | base64";
        let (block, skip, count) =
            (BLOCK.to_string(), (at / BLOCK as u64).to_string(), (PIECE / BLOCK).to_string());
        let text = guest.sh(script, &[path, &block, &skip, &count], None)?;
        let text: String = text.split_ascii_whitespace().collect();
        let piece = STANDARD.decode(text).map_err(|e| {
            Error::failed(format!("{}: the piece of {path} at {at} is not base64", guest.name)).because(e)
        })?;
        let is_last = at + piece.len() as u64 == size;
        if piece.is_empty() || piece.len() > PIECE || (piece.len() < PIECE && !is_last) {
            return Err(guest.changed(path));
        }
        hasher.update(&piece);
        if at.saturating_add(piece.len() as u64) > size {
            return Err(guest.changed(path));
        }
        to.write(at, &piece)?;
        at += piece.len() as u64;
        done.store(at, Relaxed);
    }
    guest.compare(path, at, &hasher.finish().to_string())
}

/// Completes `NAME:` of a VM, or a path.
fn complete_side(begin: &OsStr) -> Vec<CompletionCandidate> {
    let vms = complete(begin).into_iter().map(|vm| {
        let mut name = vm.get_value().to_owned();
        name.push(":");
        CompletionCandidate::new(name)
    });
    vms.chain(PathCompleter::any().complete(begin)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    #[test]
    fn a_file_in_a_guest_is_named_with_its_vm() {
        assert_eq!(side("web:/etc/hosts"), Side::Guest { vm: "web", path: "/etc/hosts" });
        assert_eq!(side("web:x"), Side::Guest { vm: "web", path: "x" });
        for text in ["x", "./a:b", "/a:b", "../a:b", "web:", ":x", "dir/web:/x", "."] {
            assert_eq!(side(text), Side::Local(Path::new(text)), "{text}");
        }
    }

    /// Bytes of a piece in base64, with an end of line after each 76 characters as the tool writes them.
    #[test]
    fn a_piece_fits_into_the_output_of_a_program() {
        let encoded = PIECE.div_ceil(3) * 4;
        assert!(encoded + encoded / 76 + 1 < 1 << 20);
        assert_eq!(PIECE % BLOCK, 0);
        let twice = (PIECE_INTO.div_ceil(3) * 4).div_ceil(3) * 4;
        assert!(twice + 1024 < 160 << 10, "the command of a piece into a guest");
    }
    /// A launcher whose guest is this computer. Before the first piece of a copy is written, `first` runs.
    fn guest(folder: &Path, first: impl Fn(&Guest) + Send + 'static) -> Guest {
        let socket = folder.join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let guest = || Guest {
            name: "web".into(),
            client: Client::new("web", socket.clone()),
            show: ui::Show::Quiet,
        };
        let (ours, theirs) = (guest(), guest());
        std::thread::spawn(move || {
            let first = Arc::new(std::sync::Mutex::new(Some((first, theirs))));
            for stream in listener.incoming() {
                let (stream, first) = (stream.unwrap(), Arc::clone(&first));
                std::thread::spawn(move || {
                    let exec = asked(&stream);
                    if exec.args[1].contains("base64 -d") {
                        let before = first.lock().unwrap().take();
                        if let Some((before, guest)) = before {
                            before(&guest);
                        }
                    }
                    answer(stream, &exec);
                });
            }
        });
        ours
    }

    fn asked(stream: &UnixStream) -> Exec {
        let (mut reader, mut length) = (BufReader::new(stream), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    fn answer(mut stream: UnixStream, exec: &Exec) {
        let mut program = Command::new(&exec.command);
        program.args(&exec.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // A script that reads nothing may have ended.
        drop(input.write_all(exec.input.clone().unwrap_or_default().as_bytes()));
        drop(input);
        let ended = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let exit_code = ended.status.code().unwrap();
        let body = Executed { exit_code, stdout: text(ended.stdout), stderr: text(ended.stderr) };
        let body = serde_json::to_string(&body).unwrap();
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Both wrote into `PATH.coracle`.
    #[test]
    fn two_copies_to_one_path_do_not_write_into_one_file() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("guest")).unwrap();
        std::fs::write(at("one"), vec![1; 3 * PIECE_INTO / 2]).unwrap();
        std::fs::write(at("two"), vec![2; PIECE_INTO]).unwrap();
        let (two, path) = (at("two"), at("guest/file").display().to_string());
        let other = path.clone();
        let (done, is_done) = std::sync::mpsc::channel();
        let guest = guest(place.path(), move |guest| {
            let copied = into_guest(guest, &two, &other, &AtomicBool::new(false));
            let found = std::fs::read(&other);
            done.send((copied.map_err(|e| e.to_string()), found)).unwrap();
        });
        into_guest(&guest, &at("one"), &path, &AtomicBool::new(false)).unwrap();
        let (copied, found) = is_done.recv().unwrap();
        copied.unwrap();
        assert!(found.unwrap() == vec![2; PIECE_INTO], "the copy that ended first");
        assert!(std::fs::read(&path).unwrap() == vec![1; 3 * PIECE_INTO / 2], "the copy that ended last");
        assert_eq!(names(&at("guest")), ["file"]);
    }

    #[test]
    fn a_copy_that_fails_or_is_interrupted_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir(at("guest")).unwrap();
        std::fs::write(at("one"), vec![1; PIECE_INTO]).unwrap();
        std::fs::write(at("guest/file"), "before").unwrap();
        let folder = at("guest");
        // A program in the guest changes the copy before its last piece comes.
        let guest = guest(place.path(), move |_| {
            let name = names(&folder).into_iter().find(|name| name.starts_with("file.coracle-")).unwrap();
            std::fs::write(folder.join(name), "changed").unwrap();
        });
        let path = at("guest/file").display().to_string();
        let e = into_guest(&guest, &at("one"), &path, &AtomicBool::new(false)).unwrap_err();
        assert!(e.to_string().contains("was changed while it was copied"), "{e}");
        let e = into_guest(&guest, &at("one"), &path, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Interrupted);
        assert_eq!(
            (names(&at("guest")), std::fs::read(&path).unwrap()),
            (vec!["file".into()], b"before".to_vec())
        );
        let e = into_guest(&guest, &at("one"), "/nowhere/file", &AtomicBool::new(false)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
        assert_eq!(e.to_string(), "web:/nowhere: there is no such folder");
    }

    /// Dash, bash and busybox word them differently. Where a folder has the name, `mv` would move the copy into it.
    #[test]
    fn files_and_folders_in_the_way_have_their_kinds_in_every_shell() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("guest/one")).unwrap();
        std::fs::write(at("one"), "1").unwrap();
        std::fs::write(at("guest/-x y"), "2").unwrap();
        Command::new("mkfifo").arg(at("guest/pipe")).status().unwrap();
        let guest = guest(place.path(), |_| {});
        let there = |name: &str| at(&format!("guest/{name}")).display().to_string();
        for (name, kind, why) in [
            ("nothing", ErrorKind::NotFound, ": there is no such file"),
            ("no/thing", ErrorKind::NotFound, ": there is no such file"),
            ("one", ErrorKind::Refused, " is a folder"),
            ("pipe", ErrorKind::Refused, " is not a regular file"),
        ] {
            let e = out_of_guest(&guest, &there(name), &at("copy")).unwrap_err();
            assert_eq!(e.kind(), kind, "{e}");
            assert!(e.to_string().starts_with(&format!("web:{}{why}", there(name))), "{e}");
        }
        out_of_guest(&guest, &there("-x y"), &at("copy")).unwrap();
        assert_eq!(std::fs::read(at("copy")).unwrap(), b"2");
        let is_interrupted = AtomicBool::new(false);
        for to in ["", "/"] {
            let e = into_guest(&guest, &at("one"), &(there("") + to), &is_interrupted).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        }
        into_guest(&guest, &at("one"), &there("one/"), &is_interrupted).unwrap();
        assert_eq!(
            (names(&at("guest/one")), names(&at("guest"))),
            (vec!["one".into()], vec!["-x y".into(), "one".into(), "pipe".into()])
        );
    }
}
