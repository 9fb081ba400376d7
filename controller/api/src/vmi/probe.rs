//! How somebody finds out whether the guest works. The pod runs the probes.

use crate::meta::Empty;
use crate::object;
use crate::pod::{Exec, HttpGet, TcpSocket};
use serde_json::Value;

object! {
    /// How somebody finds out whether the guest works; exactly one way.
    pub struct Probe {
        /// A program in the guest whose exit code says it, as in a pod: `ExecAction`.
        pub exec: Option<Value> = "exec" as Option<Exec>,
        /// The guest's agent answers.
        pub guest_agent_ping: Option<Empty> = "guestAgentPing",
        /// A request that is answered, as in a pod: `HTTPGetAction`.
        pub http_get: Option<Value> = "httpGet" as Option<HttpGet>,
        /// A port that can be connected to, as in a pod: `TCPSocketAction`.
        pub tcp_socket: Option<Value> = "tcpSocket" as Option<TcpSocket>,
        /// How many seconds nobody asks at first.
        pub initial_delay_seconds: Option<i64> = "initialDelaySeconds",
        /// How many seconds an answer may take; not said is 1.
        pub timeout_seconds: Option<i64> = "timeoutSeconds",
        /// Every how many seconds it is asked; not said is 10.
        pub period_seconds: Option<i64> = "periodSeconds",
        /// How often it must go well; not said is 1.
        pub success_threshold: Option<i64> = "successThreshold",
        /// How often it may go wrong; not said is 3.
        pub failure_threshold: Option<i64> = "failureThreshold",
    }
}
