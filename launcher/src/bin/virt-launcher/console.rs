//! `virt-launcher console`: the VM's serial console, for `kubectl exec -it POD -c compute -- virt-launcher
//! console`.
//!
//! ```text
//!  keys ──────► Ctrl-]? leave ──────► the launcher's stream ──► the guest
//!  screen ◄─────────────────────────┘
//! ```
//!
//! Its twin for a user's own computer is `src/console.rs` of `coracle`, which uses nothing of a pod.

use crate::args;
use launcher::error::{Error, ErrorKind, Result};
use launcher_client::{Access as Way, Client, wait};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use std::io::{Read as _, Stdin, Stdout, Write as _, stdin, stdout};
use std::os::unix::net::UnixStream;

/// The key Ctrl-], which ends the console.
const LEAVE: u8 = 0x1d;

pub(crate) fn run(args: &args::Console) -> Result<()> {
    let (first, mut stream) = open(args)?;
    let terminal = Terminal::raw()?;
    let mut out = stdout();
    show(&mut out, &first)?;
    let done = join(&mut stream, &terminal, &mut out);
    drop(terminal);
    done
}

/// The bytes of the stream that arrived already, and the stream.
fn open(args: &args::Console) -> Result<(Vec<u8>, UnixStream)> {
    let shown = args.socket.display();
    let client = Client::at(format!("the launcher on {shown}"), &args.socket);
    let how = match () {
        () if args.take => Way::Take,
        () if args.read => Way::Read,
        () => Way::Write,
    };
    let stream = wait(client.console(how)).map_err(|e| match e.kind() {
        launcher_client::ErrorKind::NotListening | launcher_client::ErrorKind::Unreachable => Error::new(
            ErrorKind::NotFound,
            format!("cannot reach the launcher on {shown}; --socket names another"),
        )
        .because(e),
        _ if e.refusal().is_some() => {
            Error::new(ErrorKind::Failed, format!("cannot open the console (try --read or --take): {e}"))
        }
        _ => Error::new(ErrorKind::Failed, "cannot open the console").because(e),
    })?;
    stream.into_blocking().map_err(|e| Error::io("cannot use the console", e))
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
                // The terminal was hung up.
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

/// The terminal of standard input, if it is one; its settings are restored when this value is dropped.
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
            // The terminal may have been hung up.
            let _ = tcsetattr(&self.input, OptionalActions::Now, before);
        }
    }
}
