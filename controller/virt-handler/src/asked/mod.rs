//! Requests of virt-api about VMIs of this node. virt-handler passes them on to launchers, and copies the
//! bytes of a console or a screen.
//!
//! ```text
//!  virt-api ── HTTPS ─► who? ─► route: VMI, question ─► launchers ─► places of this VMI
//!                        │ 401    │ 404, 403              │ 404        │ 429
//!                                                                      ├─ calls: asked by launcher_client, each in its time
//!           refused ◄─ the launcher's status and words ────────────────┤
//!                                                                      └─ streams: 101 after the launcher's own, then bytes
//! ```
//!
//! Paths are those of `launcher_client::vmi_path`, followed by the launcher's own path: virt-api uses the
//! same client of launchers. virt-api has asked the API server before whether the user may do this to the
//! VMI. Here only a client certificate with virt-api's name counts. virt-handler's own certificate is the
//! same on every node, and is not accepted.
//!
//! **Passed on** is the list in `route`, and nothing else: no program is run in a guest, and no request of a
//! keeper or of virt-controller is passed on.
//!
//! **Bounds.** A launcher belongs to a tenant. A launcher that does not answer delays requests about its own
//! VMI only: the number of waiting requests per VMI is limited, with a lower limit for streams that are being
//! opened, and open streams are limited too. Screenshots are large: three are read at a time, each of another
//! VMI, and only from launchers that have begun to answer. The total limit leaves connections free for the
//! kubelet and for monitors.

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
use refused::{Rejection, Result};
use route::{Question, route};
use serve::slots::Slots;
use serve::transport::{Answers, HttpResponse, IncomingRequest, plain};
use tokio::sync::Semaphore;

/// Concurrent requests about one VMI.
const REQUESTS: usize = 8;
/// Open streams of one VMI.
const STREAMS: usize = 32;
/// Streams of one VMI whose launcher has not answered yet. A silent launcher cannot take more of [`ALL`].
const OPENING: usize = 4;
/// Concurrent requests about all VMIs, including streams that have not begun. Each takes a connection of
/// [`Limits::of_program`](serve::transport::Limits::of_program), and working connections are never closed in
/// favour of others.
const ALL: usize = 192;

/// Screenshots that are read at the same time: a launcher that sends slowly takes one place for seconds, and
/// the others are left.
const PICTURES: usize = 3;

/// Client of a launcher with the time limits and errors of passed-on requests.
type Launcher = Client<Option<Process>>;

/// Handler of virt-api's requests.
pub(crate) struct ForVirtApi {
    launchers: Launchers,
    /// Name in virt-api's certificate.
    name: String,
    all: Semaphore,
    requests: Slots,
    streams: Slots,
    opening: Slots,
    /// At most one screenshot of each VMI waits …
    pictures: Slots,
    /// … for one of these places.
    picture: Semaphore,
}

impl ForVirtApi {
    /// A handler that passes requests of the virt-api in this namespace on to these launchers.
    pub(crate) fn new(launchers: Launchers, namespace: &str) -> ForVirtApi {
        ForVirtApi {
            launchers,
            name: format!("{}.{namespace}.svc", servers::API.program),
            all: Semaphore::new(ALL),
            requests: Slots::new(REQUESTS),
            streams: Slots::new(STREAMS),
            opening: Slots::new(OPENING),
            pictures: Slots::new(1),
            picture: Semaphore::new(PICTURES),
        }
    }

    async fn pass_on(&self, asked: IncomingRequest) -> Result<HttpResponse> {
        let path = asked.head.uri.path_and_query().map(PathAndQuery::as_str).unwrap_or_default().to_owned();
        let wanted = route(&asked.head.method, &path);
        let (vmi, question) = wanted.ok_or_else(|| Rejection::unknown(&asked.head.method, &path))?;
        let launcher = self.launchers.client(vmi.namespace, vmi.name, vmi.uid);
        let launcher = launcher.ok_or_else(|| Rejection::not_here(&vmi))?.passes_on();
        let busy =
            |_| Rejection::busy(&format!("{ALL} requests about VMIs of this node are under way already"));
        let _place = self.all.try_acquire().map_err(busy)?;
        match question {
            Question::Call(call) => self.call(asked, &vmi, &launcher, call).await,
            Question::Stream(way) => self.stream(asked, &vmi, &launcher, way).await,
        }
    }
}

impl Answers for ForVirtApi {
    async fn answer(&self, asked: IncomingRequest) -> HttpResponse {
        if !asked.client.as_ref().is_some_and(|client| client.is_called(&self.name)) {
            let said = format!("only virt-api is answered: show a client certificate of {}", self.name);
            return plain(StatusCode::UNAUTHORIZED, &said);
        }
        self.pass_on(asked).await.unwrap_or_else(|refused| refused.answer())
    }
}
