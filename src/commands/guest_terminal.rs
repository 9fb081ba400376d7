//! A terminal in a guest for `coracle exec -t`, by the files that the guest agent can open.
//!
//! ```text
//!  keys ───► guest-file-write ─► FIFO `in` ─► script, which has the terminal ─► dd ─► `out` ─► guest-file-read ─► screen
//!  size ───► guest-exec: stty                                  `ctl`: full, clear, exit CODE ─► guest-file-read
//!  beat ───► guest-file-write ─► `beat`, which the watch in the guest looks at
//! ```
//!
//! All files are in a private folder of the guest. `out` holds at most 2 MiB: when it is `full`, this side reads it to
//! its end and answers by `go`, and the guest empties it. So a program that writes without end waits, as in front of any
//! slow terminal. The agent never blocks: it opens FIFOs for reading and writing, and reads regular files alone.
//!
//! The folder and the program end with the session. When this side was killed, its beat stops; the watch in the
//! guest ends both within a minute.

use crate::error::{Error, ErrorKind, Result};
use crate::terminal::Raw;
use crate::ui;
use api::launcher::{Exec, GuestFile, GuestFileAnswer};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use launcher_client::{self as one, wait};
use local_vm::client::Client;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{Winsize, tcgetwinsize};
use std::time::{Duration, Instant};

/// Makes the folder, and starts the keeper. Prints the path of the folder. A keeper behind `&` would ignore Ctrl-C, and
/// so would all of its programs.
const START: &str = r#"umask 077
command -v script >/dev/null || { echo 'the guest has no program "script" (package bsdutils or util-linux)' >&2; exit 4; }
d=$(mktemp -d /run/coracle.XXXXXX 2>/dev/null || mktemp -d /tmp/coracle.XXXXXX) || exit
mkfifo "$d/in" "$d/go" && : >"$d/out" && : >"$d/ctl" && : >"$d/beat" || exit
setsid -f sh -c "$1" sh "$d" "$2" </dev/null >/dev/null 2>&1 || exit
printf %s "$d""#;

/// Script of the guest that holds the terminal until its program ends. It removes the folder when no client reads any more.
const KEEPER: &str = r#"d=$1
(
trap '' HUP TERM
old=; same=0
while sleep 5 && [ -d "$d" ] && [ $same -lt 8 ]; do
  new=$(wc -c <"$d/beat")
  if [ "$new" = "$old" ]; then same=$((same + 1)); else same=0; fi
  old=$new
done
kill -TERM -$$; sleep 1; rm -rf "$d"; kill -KILL -$$
) &
{
  exec 3<>"$d/in"
  CORACLE=$d; export CORACLE
  script -qefc "$2" /dev/null <&3 3>&- 2>&1
  echo $? >"$d/code"
} | while :; do
  dd bs=32k count=64 >>"$d/out" 2>/dev/null
  [ -s "$d/out" ] || break
  echo full >>"$d/ctl"
  read -r _ <"$d/go" || break
  : >"$d/out"
  echo clear >>"$d/ctl"
done
echo "exit $(cat "$d/code")" >>"$d/ctl""#;

/// Time between two beats.
const BEAT: Duration = Duration::from_secs(10);
/// Pauses between two looks: behind a key or output, and after a long silence.
const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_millis(250);
/// Time limit of one request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes that are sent at once: a pipe takes them as one.
const KEYS: usize = 1024;
/// Most bytes of `ctl` that are read at once: its lines are short, and a guest may write anything.
const LONGEST: usize = 256 << 10;

/// Runs a program on a terminal of the guest that is joined to this one. Returns its exit code.
pub(super) fn run(name: &str, client: &Client, command: &[String]) -> Result<i32> {
    let mut session = Session::start(name, client, command)?;
    let raw = Raw::of_stdin()?;
    ui::on_signal(|| {
        crate::terminal::restore();
        std::process::exit(i32::from(crate::error::code_of(ErrorKind::Interrupted)));
    })?;
    let ended = join(&mut session);
    session.end();
    drop(raw);
    ended
}

/// Copies keys and output until the program ends.
fn join(session: &mut Session) -> Result<i32> {
    let mut pause = SHORT;
    loop {
        let typed = keys(pause)?;
        for piece in typed.chunks(KEYS) {
            session.write(session.files.input, piece)?;
        }
        session.resize()?;
        let shown = session.output()?;
        ui::raw(&shown)?;
        pause = match typed.is_empty() && shown.is_empty() {
            true => (pause * 2).min(LONG),
            false => SHORT,
        };
        if shown.is_empty()
            && let Some(code) = session.control(ui::raw)?
        {
            return Ok(code);
        }
        session.beat()?;
    }
}

/// Keys that are typed within a time.
fn keys(patience: Duration) -> Result<Vec<u8>> {
    let stdin = std::io::stdin();
    let patience = Timespec::try_from(patience).ok();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut fds, patience.as_ref()) {
        Ok(0) | Err(Errno::INTR) => return Ok(vec![]),
        other => other.map_err(|e| Error::io("cannot wait for keys", e))?,
    };
    let mut buffer = vec![0; 16 << 10];
    match rustix::io::read(&stdin, &mut buffer) {
        Err(Errno::INTR) => Ok(vec![]),
        // The terminal hung up.
        Ok(0) | Err(Errno::IO) => Err(Error::new(ErrorKind::Interrupted, "the terminal is gone")),
        Err(e) => Err(Error::io("cannot read the keys", e)),
        Ok(count) => {
            buffer.truncate(count);
            Ok(buffer)
        }
    }
}

/// Handles of the guest agent.
struct Files {
    input: i64,
    go: i64,
    output: i64,
    control: i64,
    beat: i64,
}

struct Session {
    name: String,
    client: Client,
    launcher: one::Client,
    folder: String,
    files: Files,
    size: (u16, u16),
    /// The part of `ctl` that was read: a line may come in two.
    said: String,
    /// `out` was read to its end after it was full, and is not empty yet.
    is_full: bool,
    beaten: Instant,
}

impl Session {
    fn start(name: &str, client: &Client, command: &[String]) -> Result<Session> {
        let size = size();
        let launcher = one::Client::at(format!("the launcher of {name}"), client.socket());
        let args = ["-c", START, "sh", KEEPER, &in_terminal(command, size)].map(str::to_owned).to_vec();
        let exec = Exec { command: "/bin/sh".into(), args, input: None, timeout: Some(30) };
        let done = client.exec(&exec, PATIENCE + Duration::from_secs(10))?;
        if done.exit_code != 0 {
            let why = printable::line(done.stderr.trim());
            let kind = if done.exit_code == 4 { ErrorKind::NotFound } else { ErrorKind::Failed };
            let e = Error::new(kind, format!("{name} gives no terminal: {why}"));
            return Err(e.with_hint(format!("'coracle console {name}' and 'coracle ssh {name}' have one")));
        }
        let mut session = Session {
            name: name.to_owned(),
            client: client.clone(),
            launcher,
            folder: done.stdout,
            files: Files { input: 0, go: 0, output: 0, control: 0, beat: 0 },
            size,
            said: String::new(),
            is_full: false,
            beaten: Instant::now(),
        };
        match session.open() {
            Ok(files) => session.files = files,
            Err(e) => {
                session.remove();
                return Err(e);
            }
        }
        Ok(session)
    }

    fn open(&self) -> Result<Files> {
        let open = |name: &str, mode: &str| {
            let path = format!("{}/{name}", self.folder);
            let opened = self.file(&GuestFile::Open { path, mode: mode.to_owned() })?;
            opened
                .handle
                .ok_or_else(|| Error::failed(format!("the guest agent of {} opens no file", self.name)))
        };
        Ok(Files {
            input: open("in", "r+")?,
            go: open("go", "r+")?,
            output: open("out", "r")?,
            control: open("ctl", "r")?,
            beat: open("beat", "a")?,
        })
    }

    fn file(&self, request: &GuestFile) -> Result<GuestFileAnswer> {
        let asked = wait(self.launcher.guest_file(request, PATIENCE));
        asked.map_err(|e| Error::failed(format!("the terminal in {} is lost", self.name)).because(e))
    }

    fn read(&self, handle: i64) -> Result<Vec<u8>> {
        let data = self.file(&GuestFile::Read { handle })?.data.unwrap_or_default();
        let wrong = |e| Error::failed(format!("the guest agent of {} sends no base64", self.name)).because(e);
        STANDARD.decode(data).map_err(wrong)
    }

    /// New output. While the guest empties the file, its end may be in front of the position or behind it.
    fn output(&self) -> Result<Vec<u8>> {
        if self.is_full { Ok(vec![]) } else { self.read(self.files.output) }
    }

    fn write(&self, handle: i64, bytes: &[u8]) -> Result<()> {
        self.file(&GuestFile::Write { handle, data: STANDARD.encode(bytes) }).map(drop)
    }

    /// Follows what the guest says. Returns the exit code of a program that has ended.
    fn control(&mut self, mut show: impl FnMut(&[u8]) -> Result<()>) -> Result<Option<i32>> {
        let new = self.read(self.files.control)?;
        self.said.push_str(&String::from_utf8_lossy(&new));
        if self.said.len() > LONGEST {
            return Err(Error::failed(format!("the terminal in {} is not understood", self.name)));
        }
        while let Some((line, rest)) = self.said.split_once('\n') {
            let (line, rest) = (line.to_owned(), rest.to_owned());
            self.said = rest;
            match line.split_once(' ') {
                None if line == "full" => {
                    // All of it is written, and some of it perhaps not read.
                    loop {
                        let left = self.read(self.files.output)?;
                        if left.is_empty() {
                            break;
                        }
                        show(&left)?;
                    }
                    self.is_full = true;
                    self.write(self.files.go, b"\n")?;
                }
                None if line == "clear" => {
                    self.file(&GuestFile::Rewind { handle: self.files.output })?;
                    self.is_full = false;
                }
                Some(("exit", code)) => return Ok(Some(code.parse().unwrap_or(1))),
                _ => return Err(Error::failed(format!("the terminal in {} is not understood", self.name))),
            }
        }
        Ok(None)
    }

    /// Gives the guest's terminal the size of this one, if that has changed.
    fn resize(&mut self) -> Result<()> {
        let size = size();
        if size != self.size {
            self.size = size;
            let script = "stty -F \"$(cat \"$1/tty\")\" rows \"$2\" cols \"$3\"";
            self.sh(script, &[&size.0.to_string(), &size.1.to_string()])?;
        }
        Ok(())
    }

    fn beat(&mut self) -> Result<()> {
        if self.beaten.elapsed() >= BEAT {
            self.beaten = Instant::now();
            self.write(self.files.beat, b".")?;
        }
        Ok(())
    }

    fn sh(&self, script: &str, args: &[&str]) -> Result<()> {
        let words = ["-c", script, "sh", &self.folder];
        let args = words.iter().chain(args).map(|word| (*word).to_owned()).collect();
        let exec = Exec { command: "/bin/sh".into(), args, input: None, timeout: Some(20) };
        Ok(self.client.exec(&exec, PATIENCE).map(drop)?)
    }

    /// Removes the folder, by which the watch in the guest ends what still runs.
    fn remove(&self) {
        if let Err(e) = self.sh("rm -rf \"$1\"", &[]) {
            tracing::info!("{} of {} stays until its watch removes it: {e}", self.folder, self.name);
        }
    }

    fn end(&self) {
        let Files { input, go, output, control, beat } = self.files;
        for handle in [input, go, output, control, beat] {
            let _ = self.file(&GuestFile::Close { handle });
        }
        self.remove();
    }
}

/// Rows and columns of this terminal.
fn size() -> (u16, u16) {
    match tcgetwinsize(std::io::stdin()) {
        Ok(Winsize { ws_row, ws_col, .. }) if ws_row > 0 && ws_col > 0 => (ws_row, ws_col),
        _ => (24, 80),
    }
}

/// Shell command that runs a program on the new terminal. `script` turns the echo off if its input is not a terminal, and
/// `stty sane` turns it on again.
fn in_terminal(command: &[String], (rows, columns): (u16, u16)) -> String {
    let term = std::env::var("TERM").unwrap_or_else(|_| "vt100".to_owned());
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    format!(
        "tty >\"$CORACLE/tty\"; unset CORACLE; stty sane rows {rows} cols {columns}; TERM={}; export TERM; exec {}",
        quoted(&term),
        words.join(" ")
    )
}

/// A word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::Executed;
    use std::fs::{File, OpenOptions};
    use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::process::Command;

    /// A launcher whose guest is this computer, with this folder as its `/run`.
    fn launcher(folder: &Path) -> Client {
        let (socket, folder) = (folder.join("socket"), folder.to_owned());
        let listener = UnixListener::bind(&socket).unwrap();
        let client = Client::new("web", socket);
        std::thread::spawn(move || {
            let mut files = vec![];
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let body = match asked(&stream) {
                    (path, body) if path.contains("/v1/guest/exec") => executed(&folder, &body),
                    (_, body) => filed(&mut files, serde_json::from_slice(&body).unwrap()),
                };
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
            }
        });
        client
    }

    fn asked(stream: &UnixStream) -> (String, Vec<u8>) {
        let mut lines = vec![];
        let mut reader = BufReader::new(stream);
        while lines.last().is_none_or(|line: &String| line != "\r\n") {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            lines.push(line);
        }
        let length =
            |line: &String| line.to_ascii_lowercase().strip_prefix("content-length: ")?.trim().parse().ok();
        let mut body = vec![0; lines.iter().find_map(length).unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        (lines.swap_remove(0), body)
    }

    fn executed(folder: &Path, body: &[u8]) -> String {
        let mut exec: Exec = serde_json::from_slice(body).unwrap();
        exec.args[1] = exec.args[1].replace("/run/", &format!("{}/", folder.display()));
        let done = Command::new(&exec.command).args(&exec.args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let exit_code = done.status.code().unwrap();
        let executed = Executed { exit_code, stdout: text(done.stdout), stderr: text(done.stderr) };
        serde_json::to_string(&executed).unwrap()
    }

    fn filed(files: &mut Vec<File>, request: GuestFile) -> String {
        let mut answer = GuestFileAnswer::default();
        let at =
            |files: &Vec<File>, handle: i64| files[usize::try_from(handle).unwrap()].try_clone().unwrap();
        match request {
            GuestFile::Read { handle } => {
                let mut buffer = vec![0; 64 << 10];
                let count = at(files, handle).read(&mut buffer).unwrap();
                answer.data = Some(STANDARD.encode(&buffer[..count]));
            }
            GuestFile::Write { handle, data } => {
                at(files, handle).write_all(&STANDARD.decode(data).unwrap()).unwrap();
            }
            GuestFile::Rewind { handle } => at(files, handle).rewind().unwrap(),
            GuestFile::Close { .. } => {}
            GuestFile::Open { path, mode } => {
                let mut how = OpenOptions::new();
                how.read(mode != "a").write(mode == "r+").append(mode == "a");
                files.push(how.open(path).unwrap());
                answer.handle = i64::try_from(files.len() - 1).ok();
            }
        }
        serde_json::to_string(&answer).unwrap()
    }

    /// Exit code and output of a program that has these keys typed once it has written `prompt`.
    fn typed(script: &str, prompt: &str, keys: &[u8]) -> (i32, String) {
        let place = tempfile::tempdir().unwrap();
        let command = ["sh", "-c", script].map(str::to_owned);
        let mut session = Session::start("web", &launcher(place.path()), &command).unwrap();
        let (mut output, mut keys) = (vec![], Some(keys));
        let begun = Instant::now();
        let code = loop {
            let new = session.output().unwrap();
            output.extend_from_slice(&new);
            if keys.is_some() && String::from_utf8_lossy(&output).contains(prompt) {
                session.write(session.files.input, keys.take().unwrap()).unwrap();
            }
            let show = |bytes: &[u8]| {
                output.extend_from_slice(bytes);
                Ok(())
            };
            if new.is_empty() {
                if let Some(code) = session.control(show).unwrap() {
                    break code;
                }
                std::thread::sleep(SHORT);
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", String::from_utf8_lossy(&output));
        };
        let folder = session.folder.clone();
        assert!(folder.starts_with(place.path().to_str().unwrap()), "{folder}");
        session.end();
        assert!(!Path::new(&folder).exists());
        (code, String::from_utf8(output).unwrap())
    }

    #[test]
    fn a_program_has_a_terminal_its_keys_and_its_exit_code() {
        let (rows, columns) = size();
        let has = format!("{rows} {columns}\r\n");
        let (code, text) = typed("stty size; read word; echo got $word; exit 7", &has, b"it\r");
        assert_eq!((code, text), (7, format!("{has}it\r\ngot it\r\n")));
        let (code, text) = typed("echo begun; exec sleep 60", "begun", b"\x03");
        assert_eq!((code, text.as_str()), (130, "begun\r\n^C"));
        assert_eq!(typed("exec nothing-of-this-name", "never", b"").0, 127);
    }

    /// Some 1.4 MB: the file of the output is emptied several times.
    #[test]
    fn long_output_arrives_once_and_in_its_order() {
        let (code, text) = typed("exec seq 1 200000", "never", b"");
        assert_eq!(code, 0);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[199_999]), (200_000, "1", "200000"));
        assert!(lines.iter().zip(1..).all(|(line, number)| line.parse() == Ok(number)));
    }

    #[test]
    fn words_reach_the_program_as_they_are() {
        let odd = ["a b", "it's", "$HOME", "", "*", "\\"].map(str::to_owned);
        let words: Vec<String> = odd.iter().map(|word| quoted(word)).collect();
        let script = format!("for word in {}; do printf '%s\\n' \"$word\"; done", words.join(" "));
        let done = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(done.stdout).unwrap().lines().collect::<Vec<_>>(), odd);
    }
}
