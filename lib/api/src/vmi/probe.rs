//! Probes of the guest, run by the launcher pod.

use crate::meta::Empty;
use crate::object;
use crate::pod::{Exec, HttpGet, TcpSocket};
use serde_json::Value;

object! {
    /// Health check of the guest with exactly one of `exec`, `guestAgentPing`, `httpGet` and `tcpSocket`.
    pub struct Probe {
        /// Command that the guest agent runs in the guest; exit code 0 means success.
        pub exec: Option<Value> = "exec" as Option<Exec>,
        /// Ping of the guest agent; an answer means success.
        pub guest_agent_ping: Option<Empty> = "guestAgentPing",
        /// HTTP request to the guest; a status from 200 to 399 means success. Requires the pod network.
        pub http_get: Option<Value> = "httpGet" as Option<HttpGet>,
        /// TCP connection to the guest; an open port means success. Requires the pod network.
        pub tcp_socket: Option<Value> = "tcpSocket" as Option<TcpSocket>,
        /// Seconds to wait after the start before the first probe. Default: 0.
        pub initial_delay_seconds: Option<i64> = "initialDelaySeconds",
        /// Seconds after which a probe without an answer has failed. Default: 1.
        pub timeout_seconds: Option<i64> = "timeoutSeconds",
        /// Seconds between two probes. Default: 10.
        pub period_seconds: Option<i64> = "periodSeconds",
        /// Number of consecutive successes that end a failure. Default: 1.
        pub success_threshold: Option<i64> = "successThreshold",
        /// Number of consecutive failures before the probe counts as failed. Default: 3.
        pub failure_threshold: Option<i64> = "failureThreshold",
    }
}
