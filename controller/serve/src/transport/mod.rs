//! How our programs are reached: TLS, HTTP/1.1 and HTTP/2, and limits that nobody's flood turns against the others. All
//! our programs stand on it; it knows nothing of Kubernetes.
//!
//! ```text
//!  accept ─► connections: a place among the connections ─► tls ─► HTTP ─► room: a share of the memory ─► Answers
//!                │ too many: one is closed                             │ too little: one is cut       │
//!                └── patience: who keeps us waiting is closed          ├── heads: charged as they come │
//!                                                                      └── body: charged as it comes ◄┤
//!                                                                          pieces: handed on at once ◄┤
//!                                                                      streams: HTTP is left, by 101 ◄┘
//! ```
//!
//! | what is short | how much there is | who gives way |
//! |---|---|---|
//! | connections | as many as there are file descriptors, at most 16,384 | `connections`: of the address with most, what proves nothing |
//! | connections that are being closed | 128, one second each | one more is dropped without a word |
//! | memory of requests, from the beginning of their heads | 32 MiB | `room`: who has kept most beyond the time it takes; [`Answers::without_memory`] stays |
//! | streams, which have left HTTP | 4,096, or 512 where few ask | one more is refused |
//! | requests on one HTTP/2 connection | 100 | the client waits |
//! | large bodies in work | one | the next large one waits; small ones do not |
//! | a client's time | handshake 5 s, first request 10 s, body 10 s, answer taken 10 s, idle 120 s | itself |
//!
//! **Who may call**: whoever reaches the port. Who may have which answer is for [`Answers`] to say: by a token
//! ([`authentication`](crate::authentication)), or by the certificate that another program of ours shows
//! ([`Authorities`]).

mod body;
mod clients;
mod connections;
mod files;
mod heads;
mod keepalive;
#[cfg(test)]
mod memory_tests;
mod missed;
mod pieces;
mod room;
mod server;
mod streams;
#[cfg(test)]
mod tests;
pub mod tls;

pub use body::{Body, Whole};
pub use clients::{Authorities, Client};
pub use connections::Patience;
pub use files::raise;
pub use keepalive::probe;
pub use pieces::Pieces;
pub use server::{Counts, Transport, everywhere, listen};
pub use streams::{Upgrade, Upgraded};

use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Bytes;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// An answer.
pub type HttpResponse = Response<Bytes>;

/// A request.
pub struct Asked {
    /// All but its body.
    pub head: Parts,
    /// Its body, which is read only where somebody wants it.
    pub body: Body,
    /// Who asks.
    pub peer: Peer,
    /// The certificate that the client has shown, where the server asks for one.
    pub client: Option<Client>,
    /// The way out of HTTP for the connection.
    exit: streams::Exit,
}

impl Asked {
    /// Takes the connection, which leaves HTTP once this request is answered with 101; or the answer that says why not: the
    /// request does not ask for it, or too many streams are open. A request has one.
    #[allow(clippy::result_large_err, reason = "an answer is as large as an answer, and this is asked once")]
    pub fn upgrade(&mut self) -> Result<Upgrade, HttpResponse> {
        self.exit.upgrade()
    }

    /// Lets go of the head, which is empty from now on: whoever makes a request wait for others keeps no more of it than
    /// must be, for nobody can cut what is worked on.
    pub fn drop_head(&mut self) {
        self.head = Request::new(()).into_parts().0;
        self.body.turn.has_no_head();
    }
}

/// What a program answers.
pub trait Answers: Send + Sync + 'static {
    /// The answer to one request.
    fn answer(&self, asked: Asked) -> impl Future<Output = HttpResponse> + Send;

    /// The answer to a request of this path that there is no memory for: a short one, which is there at once. Nothing: it is
    /// told to come again.
    fn without_memory(&self, _path: &str) -> Option<HttpResponse> {
        None
    }
}

/// What there is for all clients together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Connections at once that have left HTTP, beside those.
    pub streams: usize,
    /// Bytes of requests and answers at once.
    pub room: usize,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long a body may take.
    pub body: Duration,
    /// How long a client may otherwise keep us waiting.
    pub patience: Patience,
    /// How often an HTTP/2 client is asked whether it is still there, and how long it may take to say so.
    pub ping: (Duration, Duration),
    /// How long a connection that is closed may take to end.
    pub farewell: Duration,
    /// How long work is taken on after the end was asked for: until the last client knows that we go.
    pub linger: Duration,
    /// How long what is worked on then may take to end.
    pub goodbye: Duration,
}

impl Limits {
    /// For a program that all API servers ask: as many connections as the process may have files. A stream has two, its own
    /// and that of where it leads.
    pub fn of_server() -> Limits {
        let files = files::spare();
        Limits { connections: files.min(16 << 10), streams: (files / 4).min(4 << 10), ..Limits::of_program() }
    }

    /// For a program that few ask: the kubelet, monitors, and virt-api where it has VMIs.
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

/// Who asks, as far as the network tells: an address, or a network where one client has all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(IpAddr);

impl Peer {
    /// Whoever has this address. Of IPv6 a client has 64 bits to choose from.
    pub fn of(address: IpAddr) -> Peer {
        match address.to_canonical() {
            IpAddr::V6(address) => Peer(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into()),
            address => Peer(address),
        }
    }
}

/// A sentence.
pub fn plain(status: StatusCode, text: &str) -> HttpResponse {
    let mut response = Response::new(Bytes::from(format!("{text}\n")));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// There is not enough of something now; in a second there may be.
pub fn busy(status: StatusCode, text: &str) -> HttpResponse {
    let mut response = plain(status, text);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
