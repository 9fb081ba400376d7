//! Streams that leave HTTP: the serial console, the screen, and USB devices of clients.
//!
//! The console ends with the VM: a client that wants the next start's console connects again. A slot is
//! reserved before HTTP is left, so that a refusal is an HTTP answer.

use super::Service;
use super::answer::{HttpRefusal, ours, refusal};
use crate::console::{Begin, Relay};
use crate::seats::Mode;
use api::launcher::{STREAM, State};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use std::future::pending;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;
use transport::{AnswerBody, upgrade, wants_upgrade};

/// Time for readers to read the last bytes of a VM.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Serves the serial console.
pub(super) fn console(
    service: &Service,
    request: Request<Incoming>,
    mode: Mode,
) -> Result<Response<AnswerBody>, HttpRefusal> {
    upgrades(&request)?;
    let connection = service.console.reserve(mode, Begin::Screen).map_err(|e| ours(&e))?;
    let (state, relay) = (service.handle.state(), service.console.clone());
    Ok(upgrade(request, STREAM, async move |client| {
        tokio::select! {
            left = connection.serve(client) => tracing::debug!("the console: {left:?}"),
            () = vm_ended(state, relay) => tracing::debug!("the console: the VM has ended"),
        }
    }))
}

/// Waits until the VM has ended, QEMU's output is complete, and readers had time to read it. If the VM starts
/// again at once, the wait goes on.
async fn vm_ended(mut state: watch::Receiver<State>, relay: Relay) {
    loop {
        // The state has no publisher, so the launcher is ending, and the relay itself ends its readers.
        if state.wait_for(|state| state.life.is_final()).await.is_err() {
            return pending().await;
        }
        while relay.status().connected {
            sleep(LAST_WORDS).await;
        }
        sleep(LAST_WORDS).await;
        if state.borrow().life.is_final() {
            return;
        }
    }
}

/// Upgrades the connection to a stream of the screen (VNC).
pub(super) async fn vnc(
    service: &Service,
    request: Request<Incoming>,
    mode: Mode,
) -> Result<Response<AnswerBody>, HttpRefusal> {
    upgrades(&request)?;
    let connection = service.screen.reserve(mode).await.map_err(|e| ours(&e))?;
    Ok(upgrade(request, STREAM, async move |client| connection.serve(client).await))
}

/// Serves the USB device of a client.
pub(super) async fn usbredir(
    service: &Service,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, HttpRefusal> {
    upgrades(&request)?;
    let place = service.redirection.reserve().await.map_err(|e| ours(&e))?;
    Ok(upgrade(request, STREAM, async move |client| place.serve(client).await))
}

fn upgrades(request: &Request<Incoming>) -> Result<(), HttpRefusal> {
    match wants_upgrade(request.headers(), STREAM) {
        true => Ok(()),
        false => Err((
            StatusCode::UPGRADE_REQUIRED,
            refusal(format!(
                "this is a stream: send the headers 'Connection: Upgrade' and 'Upgrade: {STREAM}'"
            )),
        )),
    }
}
