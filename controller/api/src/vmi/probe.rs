//! How somebody finds out whether the guest works. The pod runs the probes.

use crate::meta::Empty;
use crate::object;
use serde_json::Value;

object! {
    /// How somebody finds out whether the guest works; exactly one way.
    pub struct Probe {
        /// A program in the guest, kept as it stands: `ExecAction`.
        pub exec: Option<Value> = "exec",
        /// The guest's agent answers.
        pub guest_agent_ping: Option<Empty> = "guestAgentPing",
        /// A request, kept as it stands: `HTTPGetAction`.
        pub http_get: Option<Value> = "httpGet",
        /// A connection, kept as it stands: `TCPSocketAction`.
        pub tcp_socket: Option<Value> = "tcpSocket",
        /// How long nobody asks at first.
        pub initial_delay_seconds: Option<i64> = "initialDelaySeconds",
        /// How long an answer may take; not said is 1.
        pub timeout_seconds: Option<i64> = "timeoutSeconds",
        /// How often it is asked; not said is 10.
        pub period_seconds: Option<i64> = "periodSeconds",
        /// How often it must go well; not said is 1.
        pub success_threshold: Option<i64> = "successThreshold",
        /// How often it may go wrong; not said is 3.
        pub failure_threshold: Option<i64> = "failureThreshold",
    }
}
