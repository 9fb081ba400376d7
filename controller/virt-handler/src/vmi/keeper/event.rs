//! Events of a keeper: observations, and results of its actions.

use super::migration::MigrationEnd;
use super::state::{GuestReport, Links};
use crate::vmi::decide::{Event, HandOverFailure};
use api::launcher::{self, Request};
use tokio::time::Instant;

/// Event of a keeper. `C` and `R` as in [`super::state::State`].
#[derive(Debug)]
pub(super) enum KeeperEvent<C, R> {
    /// The VMI or its pod changed, or a pause is over.
    Changed,
    /// The settings of the cluster changed.
    SettingsChanged,
    /// States from the launcher.
    Heard {
        /// Newest state; earlier ones are skipped.
        newest: Option<Box<launcher::State>>,
        /// False: the connection broke off after it.
        is_open: bool,
    },

    // ---- Results ----
    Connected {
        connection: C,
        first: Box<launcher::State>,
    },
    /// The launcher's socket does not exist.
    NotListening,
    /// The launcher listens, and was not connected.
    NotConnected,
    /// The last state of the VMI was looked for.
    LastState {
        last: Option<Box<launcher::State>>,
        /// End of the launcher's container according to the kubelet.
        why: Option<String>,
    },
    HandedOver {
        links: Links,
        events: Vec<Event>,
    },
    NotHandedOver {
        /// Links, if they were made before the failure.
        links: Option<Links>,
        failure: HandOverFailure,
    },
    /// The launcher took a request.
    Requested(Request),
    /// The launcher refused a request, or did not answer.
    NotRequested(Request),
    /// The status was written; the VMI is the new one.
    Written,
    /// The status was not written: the VMI changed meanwhile, or the API server did not take it.
    NotWritten,
    /// The status may be written later only.
    WriteDelayed,
    /// The guest agent was asked; `None` if it did not answer.
    Asked(Option<GuestReport>),
    /// The guest agent may be asked at this time only.
    AskDelayed(Instant),
    /// A certificate was made for the migration of this uid away from the node.
    Announced {
        uid: String,
        certificate: String,
    },
    /// The launcher was told to migrate the VMI; `refused` if it was not.
    Ordered {
        uid: String,
        refused: Option<String>,
    },
    /// The source of a migration may connect.
    Opened(Box<MigrationEnd>),
    /// The source of a migration may not connect, and the target tries again.
    NotOpened,
    Advertised(R),
    NotAdvertised,
}
