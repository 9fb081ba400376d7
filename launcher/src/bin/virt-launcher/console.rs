//! `virt-launcher console`: the machine's serial line, for `kubectl exec -it POD -c compute -- virt-launcher console`.
//!
//! ```text
//!  keys ──────► Ctrl-]? leave ──────► the launcher's stream ──► the guest
//!  screen ◄─────────────────────────┘
//! ```
//!
//! Its twin for a person's own computer is `src/vm/console.rs` of `coracle`, which uses nothing of a pod.

use crate::args;
use api::launcher::STREAM;
use launcher::error::{Error, Kind, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use std::io::{Read as _, Stdin, Stdout, Write as _, stdin, stdout};
use std::os::unix::net::UnixStream;

/// Ctrl-]
const LEAVE: u8 = 0x1d;
/// The longest head of an answer.
const HEAD: usize = 8 << 10;

pub(crate) fn run(args: &args::Console) -> Result<()> {
    let (mut stream, first) = open(args)?;
    let terminal = Terminal::raw()?;
    let mut out = stdout();
    show(&mut out, &first)?;
    let done = join(&mut stream, &terminal, &mut out);
    drop(terminal);
    done
}

/// The stream, and what came of it already.
fn open(args: &args::Console) -> Result<(UnixStream, Vec<u8>)> {
    let shown = args.socket.display();
    let broken = |e| Error::io(format!("the launcher on {shown} broke off"), e);
    let mut stream = UnixStream::connect(&args.socket)
        .map_err(|e| Error::io(format!("cannot reach the launcher on {shown}; --socket names another"), e))?;
    let way = match () {
        () if args.take => "?take",
        () if args.read => "",
        () => "?write",
    };
    let ask = format!(
        "GET /v1/console{way} HTTP/1.1\r\nHost: launcher\r\nConnection: Upgrade\r\nUpgrade: {STREAM}\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).map_err(broken)?;
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        let mut more = [0; 1024];
        match stream.read(&mut more).map_err(broken)? {
            0 => return Err(Error::new(Kind::Failed, format!("the launcher on {shown} broke off"))),
            _ if bytes.len() > HEAD => {
                return Err(Error::refused(format!("what listens on {shown} is no launcher")));
            }
            count => bytes.extend_from_slice(&more[..count]),
        }
    };
    let first = bytes.split_off(end);
    if !bytes.starts_with(b"HTTP/1.1 101 ") {
        let why = String::from_utf8_lossy(&first).trim().to_owned();
        return Err(Error::new(
            Kind::Failed,
            format!("there is no console (--read and --take are other ways): {why}"),
        ));
    }
    Ok((stream, first))
}

fn join(stream: &mut UnixStream, terminal: &Terminal, out: &mut Stdout) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut listening = true;
    let broken = |e| Error::io("the console broke off", e);
    loop {
        let mut fds = vec![PollFd::new(&*stream, PollFlags::IN)];
        if listening {
            fds.push(PollFd::new(&terminal.input, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            done => done.map_err(|e| broken(e.into()))?,
        };
        let told: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if told.get(1) == Some(&true) {
            let count = match rustix::io::read(&terminal.input, &mut buffer[..]) {
                Err(Errno::INTR) => continue,
                // A terminal that was hung up.
                Err(Errno::IO) => return Ok(()),
                done => done.map_err(|e| broken(e.into()))?,
            };
            listening = count > 0;
            let typed = &buffer[..count];
            let leave = terminal.is_one().then(|| typed.iter().position(|key| *key == LEAVE)).flatten();
            stream.write_all(&typed[..leave.unwrap_or(count)]).map_err(broken)?;
            if leave.is_some() {
                return Ok(());
            }
        }
        if told[0] {
            match stream.read(&mut buffer).map_err(broken)? {
                0 => return Ok(()),
                count => show(out, &buffer[..count])?,
            }
        }
    }
}

fn show(out: &mut Stdout, bytes: &[u8]) -> Result<()> {
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|e| Error::io("cannot show the console", e))
}

/// The terminal, where there is one; it is as before when this value is gone.
struct Terminal {
    input: Stdin,
    before: Option<Termios>,
}

impl Terminal {
    fn raw() -> Result<Terminal> {
        let input = stdin();
        let cannot = |e: Errno| Error::io("cannot use the terminal", e);
        if !isatty(&input) {
            return Ok(Terminal { input, before: None });
        }
        let before = tcgetattr(&input).map_err(cannot)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&input, OptionalActions::Now, &raw).map_err(cannot)?;
        Ok(Terminal { input, before: Some(before) })
    }

    fn is_one(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // It may have been hung up.
            let _ = tcsetattr(&self.input, OptionalActions::Now, before);
        }
    }
}
