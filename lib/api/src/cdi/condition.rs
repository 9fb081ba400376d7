//! Conditions of the kinds of this module.

use crate::object;

object! {
    /// Condition of an object, one entry per type.
    pub struct Condition by "type" {
        /// Type of the condition, unique within the list.
        pub r#type: String = "type",
        /// Status of the condition: `True`, `False` or `Unknown`.
        pub status: String = "status",
        /// Time of the latest change of the condition's status (RFC 3339).
        pub last_transition_time: Option<String> = "lastTransitionTime",
        /// Time of the latest check of the condition (RFC 3339).
        pub last_heartbeat_time: Option<String> = "lastHeartbeatTime",
        /// Reason for the condition in one word, for programs.
        pub reason: Option<String> = "reason",
        /// Message about the condition, for people.
        pub message: Option<String> = "message",
    }
}
