//! Requests of virt-api about VMIs of this node: virt-handler passes them on to launchers, and the bytes of a console or a
//! screen.
//!
//! ```text
//!  virt-api ── HTTPS ─► who? ─► route: VMI, question ─► launchers ─► places of this VMI
//!                        │ 401    │ 404, 403              │ 404        │ 429
//!                                                                      ├─ calls: asked by launcher_client, each in its time
//!           refused ◄─ the launcher's status and words ────────────────┤
//!                                                                      └─ streams: 101 after the launcher's own, then bytes
//! ```
//!
//! Paths are those of `launcher_client::vmi_path`, the launcher's own below it: virt-api has the one client of launchers.
//! Whether a person may do this to that VMI, virt-api has asked the API server before; here a certificate for clients with
//! its name is all that counts. virt-handler's own is the same on every node, and opens nothing.
//!
//! **Passed on** is the list in `route`, and nothing else: no program is run in a guest, and nothing is asked for that a
//! keeper or virt-controller asks for.
//!
//! **Bounds.** A launcher is a tenant's. One that does not answer holds up requests about its own VMI alone, of which so
//! many wait at once, and fewer where a stream is to be opened; so are streams counted. Pictures of screens are large: three
//! are read at a time, each of another VMI, and only of launchers that have begun to answer. All that wait together leave connections free for the kubelet and for monitors.

mod calls;
#[cfg(test)]
mod played;
mod refused;
mod route;
mod streams;
#[cfg(test)]
mod tests;

use crate::launchers::Launchers;
use crate::pod::Process;
use cluster_model::servers;
use http::StatusCode;
use http::uri::PathAndQuery;
use launcher_client::Client;
use refused::{Refused, Result};
use route::{Question, route};
use serve::places::Places;
use serve::transport::{Answers, Asked, HttpResponse, plain};
use tokio::sync::Semaphore;

/// Requests at once about one VMI.
const REQUESTS: usize = 8;
/// Streams at once of one VMI.
const STREAMS: usize = 32;
/// Streams at once of one VMI whose launcher has not answered yet: as it may be silent, no more of [`ALL`].
const OPENING: usize = 4;
/// Requests at once about all VMIs, streams that have not begun among them. Each is a connection of
/// [`Limits::of_program`](serve::transport::Limits::of_program), and those that are worked on are closed for nobody.
const ALL: usize = 192;

/// Pictures that are read at once: a launcher whose picture trickles holds one for seconds, and others have the rest.
const PICTURES: usize = 3;

/// A launcher, with time limits and errors for what is passed on.
type Launcher = Client<Option<Process>>;

/// The answers to virt-api.
pub(crate) struct ForVirtApi {
    launchers: Launchers,
    /// The name in virt-api's certificate.
    name: String,
    all: Semaphore,
    requests: Places,
    streams: Places,
    opening: Places,
    /// One of each VMI waits …
    pictures: Places,
    /// … until there is one free here.
    picture: Semaphore,
}

impl ForVirtApi {
    /// Passes on to these launchers what virt-api of this namespace asks.
    pub(crate) fn new(launchers: Launchers, namespace: &str) -> ForVirtApi {
        ForVirtApi {
            launchers,
            name: format!("{}.{namespace}.svc", servers::API.program),
            all: Semaphore::new(ALL),
            requests: Places::new(REQUESTS),
            streams: Places::new(STREAMS),
            opening: Places::new(OPENING),
            pictures: Places::new(1),
            picture: Semaphore::new(PICTURES),
        }
    }

    async fn pass_on(&self, asked: Asked) -> Result<HttpResponse> {
        let path = asked.head.uri.path_and_query().map(PathAndQuery::as_str).unwrap_or_default().to_owned();
        let wanted = route(&asked.head.method, &path);
        let (vmi, question) = wanted.ok_or_else(|| Refused::unknown(&asked.head.method, &path))?;
        let launcher = self.launchers.of(vmi.namespace, vmi.name, vmi.uid);
        let launcher = launcher.ok_or_else(|| Refused::not_here(&vmi))?.passes_on();
        let busy =
            |_| Refused::busy(&format!("{ALL} requests about VMIs of this node are under way already"));
        let _place = self.all.try_acquire().map_err(busy)?;
        match question {
            Question::Call(call) => self.call(asked, &vmi, &launcher, call).await,
            Question::Stream(way) => self.stream(asked, &vmi, &launcher, way).await,
        }
    }
}

impl Answers for ForVirtApi {
    async fn answer(&self, asked: Asked) -> HttpResponse {
        if !asked.client.as_ref().is_some_and(|client| client.is_called(&self.name)) {
            let said = format!("only virt-api is answered: the certificate of {} must be shown", self.name);
            return plain(StatusCode::UNAUTHORIZED, &said);
        }
        self.pass_on(asked).await.unwrap_or_else(|refused| refused.answer())
    }
}
