//! Server for many clients of a network: TLS, HTTP/1.1 and HTTP/2, with limits that keep one client's flood from
//! harming the others. The programs of `controller/` use it; it knows nothing of Kubernetes.
//!
//! ```text
//!  accept ─► connections: a place among the connections ─► tls ─► HTTP ─► memory_budget: a share ─► Answers
//!                │ too many: one is closed                             │ too little: one is cut       │
//!                └── patience: a slow client is closed                 ├── head_memory: charged        │
//!                                                                      └── body: charged as it comes ◄┤
//!                                                                          pieces: handed on at once ◄┤
//!                                                                      streams: HTTP is left, by 101 ◄┘
//! ```
//!
//! | resource | amount | reaction when it runs out |
//! |---|---|---|
//! | connections | the number of file descriptors, at most 16,384 | `connections` closes an unproven one of the address that has most |
//! | connections that are being closed | 128, one second each | one more is dropped at once |
//! | memory of requests, from the beginning of their heads | 32 MiB | `memory_budget` cuts the request that has kept most beyond the time it takes; [`Answers::without_memory`] stays |
//! | streams, which have left HTTP | 4,096, or 512 for programs with few clients | one more is refused |
//! | requests on one HTTP/2 connection | 100 | the client waits |
//! | large bodies in work | one | the next large one waits; small ones do not |
//! | a client's time | handshake 5 s, first request 10 s, body 10 s, answer read 10 s, idle 120 s | its connection is closed |
//!
//! **Who may call**: any client that reaches the port. [`Answers`] decides which answer a client may have: by
//! a token, or by the certificate of another of our programs ([`Client`]). [`Tls`] decides which certificates of
//! clients are valid. Both are in `controller/serve`.

mod body;
mod client;
mod connections;
mod files;
mod handshakes;
mod head_memory;
mod memory_budget;
#[cfg(test)]
mod memory_tests;
mod pieces;
mod server;
mod streams;
#[cfg(test)]
mod tests;

pub use body::{Body, Whole};
pub use client::Client;
pub use connections::Patience;
pub use files::raise;
pub use handshakes::{Handshake, Handshakes};
pub use pieces::Pieces;
pub use server::{Counts, Tls, Transport};
pub use streams::{Upgrade, Upgraded};

use crate::response;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Bytes;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// An HTTP response with a complete body.
pub type HttpResponse = Response<Bytes>;

/// A request with its head, its client and the place of its body.
pub struct IncomingRequest {
    /// Head of the request.
    pub head: Parts,
    /// Body of the request, which is read only if a handler wants it.
    pub body: Body,
    /// Network address of the client.
    pub peer: Peer,
    /// Certificate of the client, if the server requests one.
    pub client: Option<Client>,
    /// Access to the connection for an upgrade.
    exit: streams::Exit,
}

impl IncomingRequest {
    /// Takes the connection, which leaves HTTP once this request is answered with 101. An error is the answer
    /// to a refused upgrade: the request does not ask for one, or too many streams are open. A request has
    /// one upgrade.
    #[allow(clippy::result_large_err, reason = "an answer is as large as an answer, and this is asked once")]
    pub fn upgrade(&mut self) -> Result<Upgrade, HttpResponse> {
        self.exit.upgrade()
    }

    /// Frees the head, which is empty from now on. A handler that makes a request wait for others should keep
    /// little of it, since a request that is being worked on cannot be cut.
    pub fn drop_head(&mut self) {
        self.head = Request::new(()).into_parts().0;
        self.body.turn.free_head();
    }
}

/// Request handler of a program.
pub trait Answers: Send + Sync + 'static {
    /// Answers a request.
    fn answer(&self, asked: IncomingRequest) -> impl Future<Output = HttpResponse> + Send;

    /// Answers a request of this path if there is no memory for it: short, and without waiting. `None` tells
    /// the client to try again.
    fn without_memory(&self, _path: &str) -> Option<HttpResponse> {
        None
    }
}

/// Limits for all clients together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of open connections.
    pub connections: usize,
    /// Open connections that have left HTTP, not counted in `connections`.
    pub streams: usize,
    /// Bytes of requests and answers.
    pub room: usize,
    /// Time limit of a handshake.
    pub handshake: Duration,
    /// Time limit of a body.
    pub body: Duration,
    /// Other time limits of a client.
    pub patience: Patience,
    /// Interval of HTTP/2 pings, and time limit of their answers.
    pub ping: (Duration, Duration),
    /// Time limit of a connection that is being closed.
    pub farewell: Duration,
    /// Time for which new work is accepted after the end was requested: until the last client knows of it.
    pub linger: Duration,
    /// Time limit of the remaining work after that.
    pub goodbye: Duration,
}

impl Limits {
    /// Limits for a program that all API servers call: as many connections as the process may have files. A
    /// stream has two, its own and the one to its destination.
    pub fn of_server() -> Limits {
        let files = files::spare();
        Limits { connections: files.min(16 << 10), streams: (files / 4).min(4 << 10), ..Limits::of_program() }
    }

    /// Limits for a program with few clients: the kubelet, monitors, and virt-api for virt-handler.
    pub fn of_program() -> Limits {
        let seconds = Duration::from_secs;
        Limits {
            connections: 256,
            streams: 512,
            room: 32 << 20,
            handshake: seconds(5),
            body: seconds(10),
            patience: Patience { first: seconds(10), idle: seconds(120), taking: seconds(10) },
            ping: (seconds(30), seconds(10)),
            farewell: seconds(1),
            linger: seconds(5),
            goodbye: seconds(10),
        }
    }
}

/// Identity of a client in the network: an address, or a network that one client owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(IpAddr);

impl Peer {
    /// Client with this address. For IPv6 the network of 64 bits counts, since one client can use any address
    /// in it.
    pub fn of(address: IpAddr) -> Peer {
        match address.to_canonical() {
            IpAddr::V6(address) => Peer(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()),
            address => Peer(address),
        }
    }
}

/// Plain-text answer of one line.
pub fn plain(status: StatusCode, text: &str) -> HttpResponse {
    response(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

/// Plain-text answer with `Retry-After: 1`: a resource is exhausted at the moment.
pub fn busy(status: StatusCode, text: &str) -> HttpResponse {
    let mut response = plain(status, text);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
