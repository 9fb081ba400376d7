//! Streams that leave HTTP: the serial console and the screen.

use super::Service;
use super::answer::{ours, refusal};
use super::body::Out;
use crate::error::{Error, Kind, Result};
use api::launcher::{Refusal, STREAM};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::path::Path;
use tokio::io::copy_bidirectional;
use tokio::net::UnixStream;

type Refused = (StatusCode, Refusal);

/// The serial console.
pub(super) async fn console(
    service: &Service,
    request: Request<Incoming>,
    _write: bool,
    _take: bool,
) -> std::result::Result<Response<Out>, Refused> {
    relay(request, &service.handle.root.socket("serial"), "the serial console").await
}

/// The screen.
pub(super) async fn vnc(
    service: &Service,
    request: Request<Incoming>,
) -> std::result::Result<Response<Out>, Refused> {
    relay(request, &service.handle.root.socket("vnc"), "the screen").await
}

async fn relay(
    mut request: Request<Incoming>,
    socket: &Path,
    what: &str,
) -> std::result::Result<Response<Out>, Refused> {
    upgrades(&request)?;
    let connected = UnixStream::connect(socket).await;
    let mut qemu = connected
        .map_err(|e| ours(&Error::new(Kind::NotFound, format!("{what} is not there")).because(e)))?;
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        match upgrade.await {
            // Either side may go at any time.
            Ok(client) => drop(copy_bidirectional(&mut TokioIo::new(client), &mut qemu).await),
            Err(e) => tracing::debug!("a stream: {e}"),
        }
    });
    Ok(switching())
}

fn upgrades(request: &Request<Incoming>) -> std::result::Result<(), Refused> {
    let wanted = request.headers().get(UPGRADE).and_then(|value| value.to_str().ok());
    match wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(STREAM)) {
        true => Ok(()),
        false => Err((
            StatusCode::UPGRADE_REQUIRED,
            refusal(format!("this is a stream: say 'Connection: Upgrade' and 'Upgrade: {STREAM}'")),
        )),
    }
}

fn switching() -> Response<Out> {
    let mut answer = Response::new(Out::Whole(None));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.headers_mut().insert(UPGRADE, HeaderValue::from_static(STREAM));
    answer
}

/// A picture of the screen for people.
pub(super) fn png(_ppm: &[u8]) -> Result<Vec<u8>> {
    Err(Error::refused("pictures: not supported yet"))
}
