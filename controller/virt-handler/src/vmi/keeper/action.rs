//! Actions of a keeper.

use super::migration::Order;
use crate::vmi::decide::Event;
use api::launcher::Request;
use api::machine::Machine;
use api::vmi::Status;

/// Action of a keeper, performed by [`super::effects`].
#[derive(Clone, Debug)]
pub(super) enum KeeperAction {
    /// Retry failed work after a pause, which is longer each time.
    RetryLater,
    /// Begin with the shortest pause again.
    ForgetRetry,
    /// Record these events, within the rate limits.
    Record(Vec<Event>),

    /// End the connections of a migration.
    CloseMigration,

    // ---- Actions with a result ----
    /// Connect to the launcher, and wait for its first state.
    Connect,
    /// Look for the last state of the VMI.
    ReadLastState {
        /// End of the launcher's container according to the kubelet.
        why: Option<String>,
    },
    /// Prepare volumes and networks, and hand the VMI to its launcher.
    HandOver,
    /// Send a request to the launcher, and record the event if it was taken.
    Request { request: Request, event: Option<Event> },
    /// Write the status, and record the events if it was written.
    WriteStatus {
        status: Box<Status>,
        events: Vec<Event>,
        /// The status is the final one: no rate limit applies.
        is_last: bool,
    },
    /// Source of a migration: make a certificate for it.
    Announce(String),
    /// Source of a migration: open the way to the target, and tell the launcher.
    Order(Box<Order>),
    /// Target of a migration: accept connections of the source that has this certificate.
    Open { uid: String, source: String },
    /// Start router advertisements for the guest.
    Advertise(Box<Machine>),
    /// Ask the guest agent for its report.
    AskAgent,
}
