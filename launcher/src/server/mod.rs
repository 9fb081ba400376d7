//! The launcher's API: HTTP and JSON on a unix socket. Types and routes are those of `api::launcher`.
//!
//! ```text
//!  socket ─► peer.rs    only root and our own user            route.rs  which request is which (pure)
//!         ─► transport ─► answer.rs    carries it out ◄─ body.rs    the body of a request
//!                         └─► stream.rs  Upgrade: the console and the screen leave HTTP (console, screen)
//! ```
//!
//! The only client is the package `launcher-client` in `lib/launcher-client`.
//!
//! The socket appears under its name when all parts behind it are ready. Bodies and connections are bounded.

mod answer;
mod body;
mod peer;
mod route;
mod stream;

use crate::console::log::Log;
use crate::console::{Lines, Options, Relay};
use crate::error::{Error, ErrorKind, Result};
use crate::redirection::{self, Redirection};
use crate::root::socket_path;
use crate::screen::Screen;
use crate::threads::Slots;
use crate::vm::Handle;
use crate::vm::credentials;
use crate::vm::metrics;
use crate::vm::thaw::Thaw;
use api::launcher::Info;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use transport::{Http1, LocalServer};

/// Most connections at once, and their limits. Clients are of our own user: a head needs no time limit.
const SERVER: LocalServer =
    LocalServer { connections: 128, http: Http1 { buffer: 408 << 10, fields: 100, head: None } };
/// Most calls of the guest agent at once: each holds a thread.
const AGENT_CALLS: usize = 4;
/// Most other calls of the hypervisor at once.
const CALLS: usize = 2;
/// Time for which a client waits for its turn, and again for the call. Our clients leave before.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most viewers of the screen at once.
const VIEWERS: usize = 16;
/// The size limit of the serial console's log, and of its old file.
const LOG: u64 = 4 << 20;

/// The parts that requests need.
#[derive(Clone)]
pub struct Service {
    pub(crate) handle: Handle,
    pub(crate) info: Arc<Info>,
    /// Slots for calls of the guest agent.
    pub(crate) agent: Slots,
    /// Slots for other calls of the hypervisor: a guest agent that hangs does not block them.
    pub(crate) calls: Slots,
    pub(crate) console: Relay,
    pub(crate) screen: Screen,
    pub(crate) redirection: Redirection,
    pub(crate) thaw: Thaw,
}

impl Service {
    /// The service of one VM. Called inside a runtime of tokio.
    pub fn new(handle: Handle, lines: Lines, info: Info) -> Result<Service> {
        let root = &handle.root;
        let log = Log::new(root.serial_log(), LOG);
        let console = Relay::start(lines, Options { log: Some(log), ..Options::default() });
        let screen = Screen::new(root.socket("vnc"), VIEWERS)?;
        let redirection = Redirection::new(redirection::sockets(root));
        let agent = Slots::new("agent", AGENT_CALLS, PATIENCE);
        let calls = Slots::new("hypervisor", CALLS, PATIENCE);
        let thaw = Thaw::start(handle.clone());
        metrics::start(handle.clone());
        credentials::start(handle.clone());
        Ok(Service { handle, info: Arc::new(info), agent, calls, console, screen, redirection, thaw })
    }

    /// Sends the last bytes of the console to its readers.
    pub async fn finish(&self) {
        self.console.finish().await;
    }
}

/// A listening socket. Its file is removed when this value is dropped.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Begins to listen. A leftover socket without a listener is replaced; one with a listener is refused.
    pub async fn bind(path: &Path) -> Result<Listener> {
        let cannot = || format!("cannot listen on {}", path.display());
        let mut name: OsString = path.into();
        name.push("~");
        let early = PathBuf::from(name);
        socket_path(&early).map_err(|e| Error::refused(cannot()).because(e))?;
        if UnixStream::connect(path).await.is_ok() {
            let why = format!("{}: another launcher listens there", cannot());
            return Err(Error::new(ErrorKind::Busy, why));
        }
        for old in [path, &early] {
            match fs::remove_file(old) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io(cannot(), e)),
                _ => {}
            }
        }
        // Renamed only after its permissions are set.
        let listener = UnixListener::bind(&early).map_err(|e| Error::io(cannot(), e))?;
        fs::set_permissions(&early, fs::Permissions::from_mode(0o600)).map_err(|e| Error::io(cannot(), e))?;
        fs::rename(&early, path).map_err(|e| Error::io(cannot(), e))?;
        Ok(Listener { listener, path: path.to_owned() })
    }

    /// Answers until the future is dropped.
    pub async fn serve(&self, service: Service) {
        let handler = move |request| {
            let service = service.clone();
            async move { answer::answer(&service, request).await }
        };
        SERVER.serve(|| self.listener.accept(), peer::check, handler).await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The file may be gone already.
        drop(fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod sync_tests;
