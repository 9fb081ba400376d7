//! Reception of a running VM from another launcher, before libvirt's driver is opened in this process.
//!
//! ```text
//!  daemon started ─► QEMU probed ─► the source's connection, to its end ─► the domain is looked for
//!    ─► the source's release ─► the guest goes on ─► daemon killed
//! ```

use super::Libvirt;
use launcher::error::{Error, ErrorKind, Result};
use launcher::hypervisor::receiver::Receiver;
use launcher::hypervisor::{Condition, ErrorKind as Cause, Hypervisor as _, Pause};
use launcher::root::Root;
use std::path::Path;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Time for the daemon to end what has not arrived, after the source's connection has ended.
const SETTLE: Duration = Duration::from_secs(10);
/// Time for the source to say, behind the end of its connection, that its domain is gone.
const RELEASE: Duration = Duration::from_secs(3);
/// Interval of looking at the domain.
const LOOK: Duration = Duration::from_millis(20);

/// Word of a source about a domain that has arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// None: the source may still have the domain.
    None,
    /// The source has none any more. `resumed`: libvirt has let the guest go on; else it may have.
    Released { resumed: bool },
}

/// Reception of a VM into the folder of a launcher.
pub(super) struct Reception {
    root: Root,
    gives_up: watch::Sender<bool>,
}

impl Reception {
    pub(super) fn new(root: Root) -> Reception {
        Reception { root, gives_up: watch::Sender::new(false) }
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Ends the reception. The guest goes on at the source, unless it has gone from there already.
    pub(super) fn give_up(&self) {
        self.gives_up.send_replace(true);
    }

    /// Receives the domain, as this one. The source's libvirt connects to `socket` once `listens` was called. An error means that the domain is
    /// not here.
    pub(super) fn receive(
        &self,
        name: &str,
        domain: &str,
        socket: &Path,
        listens: &mut dyn FnMut(),
    ) -> Result<Word> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Error::io("cannot begin to receive", e))?;
        runtime.block_on(self.receive_from(name, domain, socket, listens))
    }

    async fn receive_from(
        &self,
        name: &str,
        domain: &str,
        socket: &Path,
        listens: &mut dyn FnMut(),
    ) -> Result<Word> {
        let mut receiver = Receiver::start(&self.root, domain).await?;
        let failed = |e: launcher::hypervisor::Error| {
            Error::new(ErrorKind::Failed, "the libvirt daemon does not answer").because(e)
        };
        // The daemon probes QEMU now, not while a source waits.
        let libvirt = Libvirt::open(&receiver.uri(), None).map_err(failed)?;
        libvirt.has_iothread_mapping().map_err(failed)?;
        tracing::info!("waiting for {name}, which is received through {}", socket.display());
        let mut gives_up = self.gives_up.subscribe();
        let give_up = async move { drop(gives_up.wait_for(|gives_up| *gives_up).await) };
        let source = receiver.serve(socket, listens, give_up).await?;
        if arrived(&libvirt, name).await? == Condition::Running {
            return Ok(Word::Released { resumed: true });
        }
        let Some(release) = source.message(RELEASE).await else { return Ok(Word::None) };
        // The daemon is here already, and the driver would take half a second to be opened. What fails is tried again by the driver.
        let resumed = if release.runs { libvirt.resume(name) } else { Ok(()) };
        let _ = resumed.as_ref().inspect_err(|e| tracing::warn!("{e}"));
        Ok(Word::Released { resumed: resumed.is_ok() })
    }
}

/// True for a domain that runs here, or that is paused for a reason of its own.
pub(super) fn has_arrived(condition: Condition) -> bool {
    matches!(
        condition,
        Condition::Running
            | Condition::Paused(Pause::Asked | Pause::IoError | Pause::Watchdog | Pause::Panicked)
    )
}

/// Waits until the domain is either here or not.
async fn arrived(libvirt: &Libvirt, name: &str) -> Result<Condition> {
    let not_here = |why: String| {
        let said =
            format!("{name} was not received: the migration failed; its cause is told where the VM runs");
        Error::new(ErrorKind::Failed, said).because(Error::new(ErrorKind::Failed, why))
    };
    let until = Instant::now() + SETTLE;
    loop {
        match libvirt.state(name).map(|seen| seen.condition) {
            // Paused for the migration.
            Ok(Condition::Paused(Pause::Passing)) if Instant::now() < until => sleep(LOOK).await,
            Ok(condition) if has_arrived(condition) => return Ok(condition),
            Ok(condition) => return Err(not_here(format!("the domain is {condition:?}"))),
            Err(e) if e.kind() == Cause::NotFound => return Err(not_here(e.to_string())),
            Err(e) => return Err(Error::new(ErrorKind::Failed, format!("cannot look for {name}")).because(e)),
        }
    }
}
