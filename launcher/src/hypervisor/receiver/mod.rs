//! Reception of a domain that another launcher migrates here.
//!
//! The driver inside this process sends domains, but libvirt lets only a daemon receive one. So a daemon on the launcher's own
//! folders receives it, and ends before the driver is opened:
//!
//! ```text
//!  the source's libvirt ──► socket ── Receiver ──► libvirtd ──starts──► QEMU, which receives memory and disks
//!                                        │            ▲                    │
//!  the source closes the connection ────►│── SIGKILL ─┘                    │ runs on
//!                                        ▼                                 │
//!                    the driver opens the same folders ──finds the domain──┘
//! ```
//!
//! The domain arrives paused. The source says on a second connection (`release`) that its own domain is gone; then the guest goes on.
//!
//! **The end of the source's connection is the end of the migration,** good or bad. A daemon that is killed earlier takes the
//! result from the source, which then lets its own VM go on; the domain here stays paused, without a release. A QEMU that was still
//! receiving is ended by the daemon, or by the driver when it finds the unfinished migration in libvirt's records.
//!
//! A daemon that runs as root would use the folders of the system (`session`), so root cannot receive.

pub mod hook;
mod release;
mod rpc_filter;
mod session;

pub use release::ReleaseListener;

use crate::error::{Error, ErrorKind, Result};
use crate::hypervisor::embed::{escaped, write_whole};
use crate::root::{Root, socket_path};
use api::launcher::release_socket;
use hook::Hook;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep};

/// The daemon. Its folder is not in the `PATH` of ordinary users.
const DAEMON: &str = "/usr/sbin/libvirtd";
/// Time for the daemon to accept connections.
const START: Duration = Duration::from_secs(60);
/// Interval of looking at the daemon.
const LOOK: Duration = Duration::from_millis(20);
/// Time for a daemon that was left to end.
const LEFT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// Bytes at the end of the daemon's log in which its last message is searched.
const LAST_MESSAGE: u64 = 4 << 10;
/// Longest path of QEMU's monitor below the root, as the daemon makes it.
const MONITOR: &str = "home/config/libvirt/qemu/lib/domain-9999-12345678901234567890/monitor.sock";

/// Names of the daemon's settings and of its pid file.
const SETTINGS: &str = "libvirtd.conf";
const PID_FILE: &str = "libvirtd.pid";

fn given_up() -> Error {
    Error::new(ErrorKind::Ending, "the launcher was told to end before the VM came")
}

fn listen(socket: &Path) -> Result<UnixListener> {
    let cannot = || format!("cannot listen on {}", socket.display());
    socket_path(socket).map_err(|e| Error::refused(cannot()).because(e))?;
    UnixListener::bind(socket).map_err(|e| Error::io(cannot(), e))
}

fn folder_of(root: &Root) -> PathBuf {
    root.short().join("receive")
}

/// Ends the daemon of a launcher that was killed while it received: it holds the driver's lock. The connection of the migration's
/// source has ended with that launcher, so the daemon knows already whether the domain is here.
pub fn end_left_daemon(root: &Root) {
    let folder = folder_of(root);
    let Ok(text) = fs::read_to_string(folder.join(PID_FILE)) else { return };
    let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else { return };
    // Held before its command line is read: the number cannot become that of another process in between.
    if let Ok(daemon) = pidfd_open(pid, PidfdFlags::empty()) {
        let settings = folder.join(SETTINGS);
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default();
        let is_ours = line.split(|byte| *byte == 0).any(|word| word == settings.as_os_str().as_bytes());
        if is_ours {
            tracing::warn!(
                "ending the libvirt daemon of a launcher that was killed while it received its VM"
            );
            let _ = pidfd_send_signal(&daemon, Signal::KILL);
        }
        // A process that is ending has no command line any more, and still its locks.
        if is_ours || line.is_empty() {
            let _ = poll(&mut [PollFd::new(&daemon, PollFlags::IN)], Some(&LEFT));
        }
    }
    if let Err(e) = fs::remove_dir_all(&folder) {
        tracing::warn!("cannot remove {}: {e}", folder.display());
    }
}

/// A libvirt daemon on the folders of a launcher. It ends with the value.
pub struct Receiver {
    daemon: Child,
    folder: PathBuf,
    log: PathBuf,
    _hook: Hook,
}

impl Receiver {
    /// Starts the daemon, which receives nothing but this domain, and returns when it accepts connections. The environment of this process must be that of
    /// [`environment`](super::embed::environment), and no driver may be open on these folders.
    pub async fn start(root: &Root, domain: &str) -> Result<Receiver> {
        if rustix::process::geteuid().is_root() {
            return Err(Error::refused(
                "root cannot receive a VM: its libvirt daemon would use the folders of the system; run the launcher as another user",
            ));
        }
        let monitor = root.short().join(MONITOR);
        socket_path(&monitor).map_err(|e| Error::refused("a VM cannot be received here").because(e))?;
        session::ready(root)?;
        // The daemon looks for its hook once, when it starts.
        let hook = Hook::install(root, domain)?;
        let (folder, log) = (folder_of(root), root.folder().join("log/libvirtd.log"));
        let cannot = |e| Error::io(format!("cannot start {DAEMON}, which receives the VM"), e);
        // Files of an earlier daemon.
        match fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(cannot(e)),
            _ => {}
        }
        session::make(&folder)?;
        let settings = folder.join(SETTINGS);
        write_whole(&settings, settings_of(&folder).as_bytes()).map_err(cannot)?;
        let output = File::create(&log).map_err(cannot)?;
        let daemon = Command::new(DAEMON)
            .arg("--config")
            .arg(&settings)
            .arg("--pid-file")
            .arg(folder.join(PID_FILE))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(cannot)?)
            .stderr(output)
            .spawn()
            .map_err(cannot)?;
        let mut receiver = Receiver { daemon, folder, log, _hook: hook };
        receiver.accepts().await?;
        Ok(receiver)
    }

    /// URI of the daemon.
    pub fn uri(&self) -> String {
        format!("qemu+unix:///session?socket={}", escaped(&self.own_socket()))
    }

    /// Connects the source's libvirt, the one client of `socket`, with the daemon. `listens` is called when it may connect. Returns
    /// when that connection has ended: the daemon knows by then whether the domain has arrived. `give_up` ends it earlier.
    pub async fn serve(
        &mut self,
        socket: &Path,
        listens: &mut dyn FnMut(),
        give_up: impl Future<Output = ()>,
    ) -> Result<ReleaseListener> {
        let cannot = || format!("cannot listen on {}", socket.display());
        let released = ReleaseListener::bind(&release_socket(socket))?;
        let listener = listen(socket)?;
        listens();
        let mut give_up = pin!(give_up);
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted.map_err(|e| Error::io(cannot(), e)),
            ended = self.ended() => Err(ended),
            () = &mut give_up => Err(given_up()),
        };
        drop(listener);
        // One source has one connection; the next client is refused.
        drop(fs::remove_file(socket));
        let (source, _) = accepted?;
        let daemon = self.connect().await.map_err(|e| Error::io("the libvirt daemon does not answer", e))?;
        let copied = tokio::select! {
            copied = rpc_filter::connect(source, daemon) => copied,
            // The guest goes on at the source, which has not released it.
            () = give_up => return Err(given_up()),
        };
        if let Err(e) = copied {
            tracing::warn!("the connection of the migration's source ended: {e}");
        }
        match self.status() {
            Some(ended) => Err(ended),
            None => Ok(released),
        }
    }

    async fn accepts(&mut self) -> Result<()> {
        let until = Instant::now() + START;
        loop {
            let refused = match self.connect().await {
                Ok(_) => return Ok(()),
                Err(e) => e,
            };
            if let Some(ended) = self.status() {
                return Err(ended);
            }
            if Instant::now() > until {
                let told = format!("the libvirt daemon does not answer within {} s", START.as_secs());
                return Err(Error::io(told, refused));
            }
            sleep(LOOK).await;
        }
    }

    async fn ended(&mut self) -> Error {
        loop {
            if let Some(ended) = self.status() {
                return ended;
            }
            sleep(LOOK * 10).await;
        }
    }

    async fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(self.own_socket()).await
    }

    fn own_socket(&self) -> PathBuf {
        self.folder.join("libvirt-sock")
    }

    /// The error of a daemon that has ended, with its last message.
    fn status(&mut self) -> Option<Error> {
        let how = match self.daemon.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(e) => e.to_string(),
        };
        let told = last_message(&self.log).unwrap_or_else(|| "it left no message".to_owned());
        Some(Error::new(ErrorKind::Failed, format!("the libvirt daemon ended ({how}): {told}")))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // Killed, not asked: an orderly end of a session's daemon is no business of its domains. They run on either way.
        let _ = self.daemon.kill();
        // The driver cannot be opened while this process holds the lock on its folders.
        let _ = self.daemon.wait();
        if let Err(e) = fs::remove_dir_all(&self.folder) {
            tracing::warn!("cannot remove {}: {e}", self.folder.display());
        }
    }
}

/// The daemon's settings: one socket, which only our own user can reach, and few threads.
fn settings_of(folder: &Path) -> String {
    format!(
        "# Written by virt-launcher.\n\
         unix_sock_dir = \"{}\"\n\
         auth_unix_rw = \"none\"\n\
         max_clients = 4\n\
         max_anonymous_clients = 4\n\
         min_workers = 2\n\
         max_workers = 4\n\
         prio_workers = 2\n\
         admin_min_workers = 1\n\
         admin_max_workers = 1\n",
        folder.display()
    )
}

/// The last line of the daemon's log.
fn last_message(log: &Path) -> Option<String> {
    let mut file = File::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_MESSAGE))).ok()?;
    let mut bytes = Vec::new();
    file.take(LAST_MESSAGE).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_of_a_long_log_is_found() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        assert_eq!(last_message(&log), None);
        fs::write(&log, "\n \n").unwrap();
        assert_eq!(last_message(&log), None);
        fs::write(&log, format!("{}\nerror: the end\n\n", "x".repeat(10_000))).unwrap();
        assert_eq!(last_message(&log).as_deref(), Some("error: the end"));
    }

    #[test]
    fn the_launcher_pod_has_room_for_the_path_of_the_monitor() {
        let root = Path::new("/var/run/kubevirt-private/root");
        assert!(socket_path(&root.join(MONITOR)).is_ok());
    }
}
