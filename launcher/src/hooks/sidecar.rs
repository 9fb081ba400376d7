//! Client of one hook sidecar: its socket, its hook points, and the calls.

use super::cloud_init::Data;
use super::wire::{self, Domain, Empty, Info, Point, Texts, VERSIONS};
use super::{ANSWER, LONGEST, plain};
use crate::error::{Error, ErrorKind, Result};
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

/// Room in a message beside a text of [`LONGEST`] bytes.
const BESIDE: usize = 4096;
/// Time limit of the call `Info`.
const ABOUT: Duration = Duration::from_secs(10);
/// Pause between two checks for the socket.
const LOOK: Duration = Duration::from_millis(50);

/// A sidecar that listens.
#[derive(Debug)]
pub(super) struct Sidecar {
    container: String,
    socket: PathBuf,
    /// Name in the sidecar's own `Info`.
    pub(super) name: String,
    version: &'static str,
    points: Vec<(Point, i32)>,
}

impl Sidecar {
    /// Waits for the socket of the sidecar, and reads its `Info`.
    pub(super) fn find(container: &str, folder: &Path, until: Instant) -> Result<Sidecar> {
        let called = format!("the hook sidecar {container}");
        loop {
            let patience = ABOUT.min(until.saturating_duration_since(Instant::now())).max(LOOK);
            let why = match socket(folder) {
                Ok(Some(socket)) => match ask::<_, Info>(&socket, wire::INFO, Empty {}, patience) {
                    Ok(info) => return Sidecar::of(container, socket, &info),
                    Err(why) => format!("its socket {} does not answer: {why}", socket.display()),
                },
                Ok(None) => format!("no socket appeared in {}", folder.display()),
                Err(why) => why,
            };
            if Instant::now() >= until {
                let what = format!("{called} is not ready in time: {why}; see the log of its container");
                return Err(Error::new(ErrorKind::Failed, what));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn of(container: &str, socket: PathBuf, info: &Info) -> Result<Sidecar> {
        let refused = |why: String| Err(Error::refused(format!("the hook sidecar {container} {why}")));
        let Some(version) = VERSIONS.into_iter().find(|known| info.versions.iter().any(|said| said == known))
        else {
            let said = plain(&info.versions.join(", "));
            return refused(format!(
                "supports none of the versions {} of the interface, only: {said}",
                VERSIONS.join(", ")
            ));
        };
        let mut points = Vec::new();
        for said in &info.hook_points {
            let name = plain(&said.name);
            let Some(point) = Point::ALL.into_iter().find(|point| point.name() == said.name) else {
                let known = Point::ALL.map(Point::name).join(", ");
                return refused(format!(
                    "wants the hook point {name}, which is not known; there are {known}"
                ));
            };
            if !point.is_in(version) {
                return refused(format!(
                    "wants the hook point {name}, which its version {version} does not have"
                ));
            }
            points.push((point, said.priority));
        }
        Ok(Sidecar { container: container.to_owned(), socket, name: info.name.clone(), version, points })
    }

    /// Name of the sidecar in messages.
    pub(super) fn display_name(&self) -> String {
        format!("the hook sidecar {} ({})", self.container, plain(&self.name))
    }

    /// Priority of the sidecar at a hook point; `None` if it does not have the hook point.
    pub(super) fn priority(&self, wanted: Point) -> Option<i32> {
        self.points.iter().find(|(point, _)| *point == wanted).map(|(_, priority)| *priority)
    }

    /// The domain after the change by the sidecar.
    pub(super) fn on_define_domain(&self, xml: &str, vmi: &str) -> Result<String> {
        let question = Domain { xml: xml.into(), vmi: vmi.into() };
        let answer: Domain = self.ask(Point::OnDefineDomain, question, ANSWER)?;
        let what =
            |why: &str| Error::refused(format!("{} answered OnDefineDomain with {why}", self.display_name()));
        let xml = String::from_utf8(answer.xml).map_err(|e| what("XML that is not UTF-8").because(e))?;
        if xml.trim().is_empty() {
            return Err(what("no domain"));
        }
        Ok(xml)
    }

    /// The texts of cloud-init after the change by the sidecar.
    pub(super) fn pre_cloud_init_iso(&self, data: &Data, vmi: &str) -> Result<Texts> {
        let question = Texts { no_cloud: data.no_cloud(), vmi: vmi.into(), data: data.json() };
        self.ask(Point::PreCloudInitIso, question, ANSWER)
    }

    /// Tells the sidecar that the launcher ends.
    pub(super) fn shutdown(&self, within: Duration) -> Result<()> {
        self.ask::<Empty, Empty>(Point::Shutdown, Empty {}, within).map(drop)
    }

    fn ask<Q: prost::Message + 'static, A: prost::Message + Default + 'static>(
        &self,
        point: Point,
        question: Q,
        within: Duration,
    ) -> Result<A> {
        let method = wire::method(self.version, point);
        ask(&self.socket, &method, question, within).map_err(|why| {
            Error::new(
                ErrorKind::Failed,
                format!("{} failed at {}: {why}", self.display_name(), point.name()),
            )
        })
    }
}

/// The only socket in a sidecar's folder. The sidecar may create any files there.
fn socket(folder: &Path) -> std::result::Result<Option<PathBuf>, String> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("cannot read {}: {e}", folder.display())),
    };
    // A link does not count as a socket: its target may belong to another program.
    let sockets =
        entries.take(1000).flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    let sockets: Vec<PathBuf> = sockets.map(|entry| entry.path()).collect();
    match sockets.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        more => {
            Err(format!("there are {} sockets in {}, and a sidecar has one", more.len(), folder.display()))
        }
    }
}

/// Makes one call on its own connection. The error is the end of a sentence.
fn ask<Q: prost::Message + 'static, A: prost::Message + Default + 'static>(
    socket: &Path,
    method: &str,
    question: Q,
    within: Duration,
) -> std::result::Result<A, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("cannot begin: {e}"))?;
    let path = PathAndQuery::try_from(method).map_err(|e| e.to_string())?;
    let call = async {
        let words = |e: tonic::transport::Error| plain(&error_core::chain(&e));
        let endpoint = Endpoint::try_from(format!("unix://{}", socket.display())).map_err(words)?;
        let channel = endpoint.connect().await.map_err(words)?;
        let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(LONGEST + BESIDE);
        client.ready().await.map_err(words)?;
        let answer = client.unary(tonic::Request::new(question), path, ProstCodec::<Q, A>::default()).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| format!("{:?}: {}", status.code(), plain(status.message())))
    };
    let answer = runtime.block_on(async { tokio::time::timeout(within, call).await });
    // Remaining work of the connection must not delay the start.
    runtime.shutdown_background();
    answer.unwrap_or_else(|_| Err(format!("no answer within {} s", within.as_secs_f32().ceil())))
}
