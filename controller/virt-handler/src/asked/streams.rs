//! Streams: bytes in both directions between virt-api and a launcher, once both connections have left HTTP.
//!
//! A slow end slows down the other: only one piece is buffered in each direction. When one end finishes its
//! direction, the other is told, and may continue for [`LAST_WORDS`]. A broken connection ends both at once.

use super::refused::{Rejection, Result};
use super::route::{StreamKind, Vmi};
use super::{ForVirtApi, Launcher, OPENING, STREAMS};
use api::launcher::STREAM;
use http::StatusCode;
use launcher_client::Stream;
use serve::transport::{HttpResponse, IncomingRequest, Upgrade, upgrade_response, wants_upgrade};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::time::timeout;

/// Size of one read.
const PIECE: usize = 16 << 10;
/// Time limit of one direction after the other has ended: the peer may be gone altogether without notice.
const LAST_WORDS: Duration = Duration::from_secs(60);
/// Time limit for writing one piece: meanwhile the other end is not monitored.
const STUCK: Duration = Duration::from_secs(300);
/// Time limit for the end of the stream to be sent to virt-api.
const GOODBYE: Duration = Duration::from_secs(1);

impl ForVirtApi {
    /// Answers 101 after the launcher has.
    pub(super) async fn stream(
        &self,
        mut asked: IncomingRequest,
        vmi: &Vmi<'_>,
        launcher: &Launcher,
        way: StreamKind,
    ) -> Result<HttpResponse> {
        if !wants_upgrade(&asked.head.headers, STREAM) {
            let why =
                format!("this is a stream: send the headers 'Connection: Upgrade' and 'Upgrade: {STREAM}'");
            return Err(Rejection::new(StatusCode::UPGRADE_REQUIRED, &why));
        }
        let busy = || Rejection::busy(&format!("{STREAMS} streams of {vmi} are open already; end one"));
        let place = self.streams.take(vmi.uid).ok_or_else(busy)?;
        let waits = || {
            let why = "wait for the launcher to answer already; try again";
            Rejection::busy(&format!("{OPENING} streams of {vmi} {why}"))
        };
        let opening = self.opening.take(vmi.uid).ok_or_else(waits)?;
        let upgrade = match asked.upgrade() {
            Ok(upgrade) => upgrade,
            Err(answer) => return Ok(answer),
        };
        let stream = match way {
            StreamKind::Console(how) => launcher.console(how).await?,
            StreamKind::Vnc(how) => launcher.vnc(how).await?,
            StreamKind::UsbRedir => launcher.usbredir().await?,
        };
        drop(opening);
        tokio::spawn(async move {
            pass(upgrade, stream).await;
            drop(place);
        });
        Ok(upgrade_response(STREAM))
    }
}

/// Copies bytes until both directions have ended, a connection breaks, or the program ends.
async fn pass(upgrade: Upgrade, launcher: Stream) {
    let client = match upgrade.begin().await {
        Ok(client) => client,
        Err(error) => return tracing::debug!("{error}"),
    };
    let ends = client.ends();
    let (of_client, mut to_client) = split(client);
    let (of_launcher, to_launcher) = split(launcher);
    tokio::select! {
        done = run_both(copy(of_client, to_launcher), copy(of_launcher, &mut to_client)) => {
            tracing::debug!("a stream has ended: {done:?}");
        }
        () = ends => {}
    }
    // If the client is gone, nothing is lost.
    let _ = timeout(GOODBYE, to_client.shutdown()).await;
}

/// Waits for both directions. When one has ended, the other has a limited time left.
async fn run_both(
    one: impl Future<Output = io::Result<()>>,
    other: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    tokio::pin!(one, other);
    let rest = tokio::select! {
        done = &mut one => {
            done?;
            timeout(LAST_WORDS, other).await
        }
        done = &mut other => {
            done?;
            timeout(LAST_WORDS, one).await
        }
    };
    rest.unwrap_or(Ok(()))
}

/// Copies one direction, and passes its end on.
async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let size = from.read(&mut piece).await?;
        let bytes = piece.get(..size).unwrap_or_default();
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        let sent = async {
            to.write_all(bytes).await?;
            to.flush().await
        };
        timeout(STUCK, sent).await??;
    }
}
