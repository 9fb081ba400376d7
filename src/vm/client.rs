//! The launcher of a VM here: the one client of launchers (`lib/launcher-client`), for verbs that wait, with errors that
//! speak of the VM.

use api::launcher::{Answer, Exec, Executed, GuestInfo, Info, Request, State, Sync};
use cdi::{Error, ErrorKind, Result};
use launcher_client::{self as one, Access, Patience, wait};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a launcher may take. A guest may be emulated beside it, on a busy computer.
const PATIENCE: Patience = Patience {
    answer: Duration::from_secs(30),
    sync: Duration::from_secs(120),
    state: Duration::from_secs(30),
};

/// The launcher of one VM.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    vm: String,
    socket: PathBuf,
    one: one::Client,
}

impl Client {
    /// The launcher of this VM, which listens (or not) on this socket.
    pub(crate) fn new(vm: &str, socket: PathBuf) -> Client {
        let one = one::Client::at(format!("the launcher of {vm}"), &socket).with(PATIENCE);
        Client { vm: vm.to_owned(), socket, one }
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether somebody listens.
    pub(crate) fn is_there(&self) -> bool {
        one::is_listening(&self.socket)
    }

    /// Who it is.
    pub(crate) fn info(&self) -> Result<Info> {
        self.wait(self.one.info())
    }

    /// How it is with the VM.
    pub(crate) fn state(&self) -> Result<State> {
        self.wait(self.one.state())
    }

    /// Tells it what should run.
    pub(crate) fn sync(&self, wanted: &Sync) -> Result<Answer> {
        self.wait(self.one.sync(wanted))
    }

    /// Asks for something.
    pub(crate) fn request(&self, request: &Request) -> Result<Answer> {
        self.wait(self.one.request(request))
    }

    /// The screen, as a PNG.
    pub(crate) fn screenshot(&self) -> Result<Vec<u8>> {
        self.wait(self.one.screenshot())
    }

    /// What the guest agent says.
    pub(crate) fn guest_info(&self) -> Result<GuestInfo> {
        self.wait(self.one.guest_info())
    }

    /// Runs a program in the guest.
    pub(crate) fn exec(&self, exec: &Exec, patience: Duration) -> Result<Executed> {
        self.wait(self.one.exec(exec, patience))
    }

    /// The states of the VM: the one that it has, and each that comes.
    pub(crate) fn watch(&self) -> Result<States> {
        let (states, ()) = self.wait(self.one.watch())?;
        Ok(States { client: self.clone(), states })
    }

    /// The serial console, as bytes both ways.
    pub(crate) fn console(&self, how: Access) -> Result<Stream> {
        self.stream(self.one.console(how))
    }

    /// The screen, as bytes both ways.
    pub(crate) fn vnc(&self, how: Access) -> Result<Stream> {
        self.stream(self.one.vnc(how))
    }

    fn stream(&self, left: impl Future<Output = one::Result<one::Stream>>) -> Result<Stream> {
        let blocking = self.wait(left)?.into_blocking();
        let cannot = |e| Error::io(format!("cannot use the stream of {}", self.vm), e);
        let (first, socket) = blocking.map_err(cannot)?;
        Ok(Stream { first, socket })
    }

    fn wait<T>(&self, work: impl Future<Output = one::Result<T>>) -> Result<T> {
        wait(work).map_err(|e| self.error(e))
    }

    /// The verbs' error: faults one below the other, and the hint as theirs.
    fn error(&self, e: one::Error) -> Error {
        let kind = match e.kind() {
            one::ErrorKind::Absent | one::ErrorKind::NotFound => ErrorKind::NotFound,
            one::ErrorKind::Refused => ErrorKind::Refused,
            one::ErrorKind::Closed
            | one::ErrorKind::Late
            | one::ErrorKind::Endless
            | one::ErrorKind::Failed => ErrorKind::Failed,
        };
        if e.kind() == one::ErrorKind::Closed {
            let what = format!("cannot reach {}", self.socket.display());
            return e.into_cause().into_iter().fold(Error::new(kind, what), Error::because);
        }
        let Some(refusal) = e.refusal() else {
            let error = Error::new(kind, e.to_string());
            // That nobody listens is said already.
            let cause = e.into_cause().filter(|_| kind != ErrorKind::NotFound);
            return cause.into_iter().fold(error, Error::because);
        };
        let faults: String = refusal.faults.iter().map(|fault| format!("\n  {fault}")).collect();
        let error = Error::new(kind, format!("{}{faults}", refusal.error));
        refusal.hint.iter().fold(error, |error, hint| error.with_hint(hint))
    }
}

/// The states of a VM, as they come.
pub(crate) struct States {
    client: Client,
    states: one::States,
}

impl States {
    /// The next one; `None` when the launcher is gone, or says no more.
    pub(crate) fn next(&mut self, patience: Option<Duration>) -> Result<Option<State>> {
        match patience {
            Some(patience) => self.client.wait(self.states.next_within(patience)),
            None => self.client.wait(self.states.next()),
        }
    }
}

/// Bytes both ways.
pub(crate) struct Stream {
    /// What came before anybody read the socket.
    pub(crate) first: Vec<u8>,
    /// The rest.
    pub(crate) socket: UnixStream,
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
