//! Limits on streams: consoles, screens and ports of guests.
//!
//! ```text
//!  begin() ─► Begun ── dials: the port, or the launcher by virt-handler ─► opened() ─► Opened ── carries ─► ends
//!               │ 16 of a VMI, 128 in all                                     │ 64 of a VMI, a quarter of all of a namespace
//! ```
//!
//! A guest or a launcher is under a tenant's control, and may leave a connection without an answer. Streams
//! that wait for it hold a request in memory each, without a time-out. Open streams hold a place among the
//! streams of virt-api, which all namespaces share. A request without a free place is refused at once (429),
//! and other requests do not wait.

use crate::refusal::{Refusal, Result};
use crate::sessions::Session;
use cluster_model::subresources::Action;
use serve::slots::{Slot, Slots};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of streams of a VMI that are being opened.
const OPENING_OF_VMI: usize = 16;
/// Maximum number of streams that are being opened.
const OPENING: usize = 128;
/// Maximum number of streams of a VMI, including those being opened. Forwarded ports may use all of them. For
/// consoles and screens, virt-handler has a lower limit of 32 (`asked` of package `virt-handler`).
const OF_VMI: usize = 64;
/// Share of all streams that one namespace may have, as a divisor.
const PART: usize = 4;

/// Slots of all streams.
#[derive(Debug)]
pub(crate) struct Streams {
    opening: Arc<Semaphore>,
    opening_of_vmi: Slots,
    of_vmi: Slots,
    of_namespace: Slots,
}

/// A stream that is being opened. Its places are released on drop.
#[derive(Debug)]
pub(crate) struct Begun {
    opened: (Slot, Slot),
    action: Action,
    vmi: (String, String),
    _opening: (OwnedSemaphorePermit, Slot),
}

/// An open stream. Its places are released on drop.
#[derive(Debug)]
pub(crate) struct Opened {
    _of_vmi: Slot,
    _of_namespace: Slot,
    _session: Session,
}

impl Streams {
    /// Slots for so many streams in all.
    pub(crate) fn new(all: usize) -> Streams {
        Streams {
            opening: Arc::new(Semaphore::new(OPENING)),
            opening_of_vmi: Slots::new(OPENING_OF_VMI),
            of_vmi: Slots::new(OF_VMI),
            of_namespace: Slots::new((all / PART).max(1)),
        }
    }

    /// Takes places for a stream of this kind to this VMI. The error names the limit.
    pub(crate) fn begin(&self, action: Action, namespace: &str, name: &str) -> Result<Begun> {
        let vmi = format!("{namespace}/{name}");
        let of_vmi = self.of_vmi.take(&vmi).ok_or_else(|| {
            let open = format!("{} streams (consoles, screens, ports) of VMI {vmi} are open", OF_VMI);
            Refusal::too_many(format!("{open}, and no VMI may have more: end one, then try again"))
        })?;
        let of_namespace = self.of_namespace.take(namespace).ok_or_else(|| {
            let most = self.of_namespace.most();
            let open = format!("{most} streams (consoles, screens, ports) to VMIs of namespace {namespace}");
            Refusal::too_many(format!(
                "{open} are open, and no namespace may have more: end one, then try again"
            ))
        })?;
        let opening_of_vmi = self.opening_of_vmi.take(&vmi).ok_or_else(|| {
            let wait = format!("{OPENING_OF_VMI} streams of VMI {vmi} are being opened already");
            Refusal::too_many(format!(
                "{wait}, and its guest or its launcher has answered none yet; try again"
            ))
        })?;
        let opening = Arc::clone(&self.opening).try_acquire_owned().map_err(|_| {
            Refusal::too_many(format!("{OPENING} streams of VMIs are being opened already; try again"))
        })?;
        let vmi = (namespace.to_owned(), name.to_owned());
        Ok(Begun { opened: (of_vmi, of_namespace), action, vmi, _opening: (opening, opening_of_vmi) })
    }
}

impl Begun {
    /// The stream is open: its places for opening are released.
    pub(crate) fn opened(self) -> Opened {
        let (of_vmi, of_namespace) = self.opened;
        let session = Session::opened(self.action, &self.vmi.0, &self.vmi.1);
        Opened { _of_vmi: of_vmi, _of_namespace: of_namespace, _session: session }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(result: Result<Begun>) -> String {
        let refused = result.unwrap_err();
        assert_eq!(refused.status, 429, "{}", refused.message);
        refused.message
    }

    #[test]
    fn a_vmi_that_answers_nobody_has_so_many_places_and_leaves_the_others() {
        let streams = Streams::new(4096);
        let mut begun: Vec<Begun> =
            (0..OPENING_OF_VMI).map(|_| streams.begin(Action::Console, "n", "silent").unwrap()).collect();
        let said = refused(streams.begin(Action::Console, "n", "silent"));
        assert!(said.starts_with("16 streams of VMI n/silent are being opened already"), "{said}");
        // A VMI of the same name in another namespace has its own places.
        drop(streams.begin(Action::Console, "other", "silent").unwrap());
        for at in 0..OPENING - OPENING_OF_VMI {
            begun.push(streams.begin(Action::Console, "n", &format!("vm-{}", at % 60)).unwrap());
        }
        let said = refused(streams.begin(Action::Console, "other", "web"));
        assert_eq!(said, "128 streams of VMIs are being opened already; try again");
        let opened = begun.pop().unwrap().opened();
        let _web = streams.begin(Action::Console, "other", "web").unwrap();
        drop((opened, begun));
        assert_eq!(streams.opening.available_permits(), OPENING - 1);
    }

    #[test]
    fn no_vmi_and_no_namespace_has_all_streams() {
        let streams = Streams::new(400);
        let open =
            |namespace: &str, name: &str| streams.begin(Action::Console, namespace, name).map(Begun::opened);
        let mut of_web: Vec<Opened> = (0..OF_VMI).map(|_| open("n", "web").unwrap()).collect();
        let said = refused(streams.begin(Action::Console, "n", "web"));
        assert!(said.starts_with("64 streams (consoles, screens, ports) of VMI n/web are open"), "{said}");
        of_web.extend((0..100 - OF_VMI).map(|_| open("n", "db").unwrap()));
        let said = refused(streams.begin(Action::Console, "n", "another"));
        assert!(
            said.starts_with("100 streams (consoles, screens, ports) to VMIs of namespace n are"),
            "{said}"
        );
        let _other = open("m", "web").unwrap();
        of_web.pop();
        open("n", "another").unwrap();
    }
}
