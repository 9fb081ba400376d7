//! Blocking client of a VM's launcher on this computer: wraps the one client of launchers
//! (`lib/launcher-client`) for verbs, with errors that name the VM.

use crate::error::{Error, ErrorKind, Result};
use crate::place::Home;
use crate::user_words::UserWords;
use api::launcher::{Answer, Exec, Executed, GuestInfo, Info, MonitorCommand, Request, State, Sync};
use launcher_client::{self as one, Access, Timeouts, wait};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Timeouts of requests to a launcher. The guest may be emulated, on a busy computer.
const PATIENCE: Timeouts = Timeouts {
    answer: Duration::from_secs(30),
    sync: Duration::from_secs(120),
    state: Duration::from_secs(30),
};

/// Client of the launcher of one VM.
#[derive(Debug, Clone)]
pub struct Client {
    vm: String,
    socket: PathBuf,
    one: one::Client,
    /// Home of the VM, by which messages get the user's names.
    home: Option<Home>,
}

impl Client {
    /// A client for the launcher of this VM at this socket. Nothing is opened yet.
    pub fn new(vm: &str, socket: PathBuf) -> Client {
        let one = one::Client::at(format!("the launcher of {vm}"), &socket).with(PATIENCE);
        Client { vm: vm.to_owned(), socket, one, home: None }
    }

    /// The client for a VM of this home.
    #[must_use]
    pub(crate) fn of_home(self, home: &Home) -> Client {
        Client { home: Some(home.clone()), ..self }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// True if a process listens on the socket.
    pub fn is_there(&self) -> bool {
        one::is_listening(&self.socket)
    }

    /// Identity of the launcher: version, process ID.
    pub fn info(&self) -> Result<Info> {
        self.wait(self.one.info())
    }

    /// Current state of the VM.
    pub fn state(&self) -> Result<State> {
        self.wait(self.one.state()).map(|state| self.in_user_words(state))
    }

    /// Tells the launcher the VM that it must run.
    pub fn sync(&self, wanted: &Sync) -> Result<Answer> {
        self.wait(self.one.sync(wanted))
    }

    /// Sends a request, like pause or shutdown.
    pub fn request(&self, request: &Request) -> Result<Answer> {
        self.wait(self.one.request(request))
    }

    /// Sends a command to QEMU's monitor, and returns its answer.
    pub fn monitor(&self, command: &MonitorCommand) -> Result<String> {
        self.wait(self.one.monitor(command))
    }

    /// Screenshot of the guest's display as PNG.
    pub fn screenshot(&self) -> Result<Vec<u8>> {
        self.wait(self.one.screenshot())
    }

    /// Report of the guest agent.
    pub fn guest_info(&self) -> Result<GuestInfo> {
        self.wait(self.one.guest_info())
    }

    /// Runs a program in the guest.
    pub fn exec(&self, exec: &Exec, patience: Duration) -> Result<Executed> {
        self.wait(self.one.exec(exec, patience))
    }

    /// Stream of VM states: the current one, and each later one.
    pub fn watch(&self) -> Result<States> {
        let (states, ()) = self.wait(self.one.watch())?;
        Ok(States { client: self.clone(), states })
    }

    /// The serial console, as a stream of bytes in both directions.
    pub fn console(&self, how: Access) -> Result<Stream> {
        self.stream(self.one.console(how))
    }

    /// The screen as a VNC stream.
    pub fn vnc(&self, how: Access) -> Result<Stream> {
        self.stream(self.one.vnc(how))
    }

    fn stream(&self, left: impl Future<Output = one::Result<one::Stream>>) -> Result<Stream> {
        let blocking = self.wait(left)?.into_blocking();
        let cannot = |e| Error::io(format!("cannot use the stream of {}", self.vm), e);
        let (first, socket) = blocking.map_err(cannot)?;
        Ok(Stream { first, socket })
    }

    /// The state with the user's names in its message.
    fn in_user_words(&self, mut state: State) -> State {
        state.message = state.message.map(|message| self.translated(message));
        state
    }

    fn translated(&self, message: String) -> String {
        match &self.home {
            Some(home) => UserWords::find(home, &self.vm).translate(&message),
            None => message,
        }
    }

    fn wait<T>(&self, work: impl Future<Output = one::Result<T>>) -> Result<T> {
        wait(work).map_err(|e| self.error(e))
    }

    /// The verbs' error: faults one per line, with the hint of the launcher.
    fn error(&self, e: one::Error) -> Error {
        let kind = match e.kind() {
            one::ErrorKind::NotListening | one::ErrorKind::NotFound => ErrorKind::NotFound,
            one::ErrorKind::Refused => ErrorKind::Refused,
            one::ErrorKind::Unreachable
            | one::ErrorKind::TimedOut
            | one::ErrorKind::TooLarge
            | one::ErrorKind::Failed => ErrorKind::Failed,
        };
        if e.kind() == one::ErrorKind::Unreachable {
            let what = format!("cannot reach {}", self.socket.display());
            return e.into_cause().into_iter().fold(Error::new(kind, what), Error::because);
        }
        let Some(refusal) = e.refusal() else {
            let error = Error::new(kind, self.translated(e.to_string()));
            // The message already says that the socket is closed.
            let cause = e.into_cause().filter(|_| kind != ErrorKind::NotFound);
            return cause.into_iter().fold(error, Error::because);
        };
        let faults: String = refusal.faults.iter().map(|fault| format!("\n  {fault}")).collect();
        let error = Error::new(kind, self.translated(format!("{}{faults}", refusal.error)));
        refusal.hint.iter().fold(error, |error, hint| error.with_hint(hint))
    }
}

/// Stream of states of a VM.
pub struct States {
    client: Client,
    states: one::States,
}

impl States {
    /// The next state; `None` after the launcher has ended or closed the stream.
    pub fn next(&mut self, patience: Option<Duration>) -> Result<Option<State>> {
        let next = match patience {
            Some(patience) => self.client.wait(self.states.next_within(patience)),
            None => self.client.wait(self.states.next()),
        }?;
        Ok(next.map(|state| self.client.in_user_words(state)))
    }
}

/// What came of a stream of states in some time.
#[derive(Debug)]
pub(crate) enum NextState {
    State(Box<State>),
    /// The launcher has ended or closed the stream.
    End,
    /// Nothing has come in that time.
    Silence,
}

impl States {
    /// The next state within this time; without one it is waited for as long as it takes.
    pub(crate) fn next_within(&mut self, within: Option<Duration>) -> Result<NextState> {
        let begun = Instant::now();
        let next = match within {
            Some(within) => wait(self.states.next_within(within)),
            None => wait(self.states.next()),
        };
        match next {
            Ok(Some(state)) => Ok(NextState::State(Box::new(self.client.in_user_words(state)))),
            Ok(None) => Ok(NextState::End),
            // A state that has begun and does not end is an error earlier.
            Err(e)
                if e.kind() == one::ErrorKind::TimedOut
                    && within.is_some_and(|within| begun.elapsed() >= within) =>
            {
                Ok(NextState::Silence)
            }
            Err(e) => Err(self.client.error(e)),
        }
    }
}

/// A stream of bytes in both directions.
pub struct Stream {
    /// Bytes that were received together with the response header.
    pub first: Vec<u8>,
    pub socket: UnixStream,
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
