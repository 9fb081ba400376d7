//! Requests with one answer: each is sent to the launcher by its client, and the parsed answer is written
//! again.

use super::refused::{Rejection, Result};
use super::route::{Call, Vmi, is_passed_on};
use super::{ForVirtApi, Launcher, REQUESTS};
use api::launcher::{Freeze, Request};
use http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serve::transport::{HttpResponse, IncomingRequest, response};
use std::time::Duration;
use tokio::time::timeout;

/// Largest body of a request.
const BODY: usize = 4 << 10;
/// Maximum size of a screenshot.
const PICTURE: usize = 16 << 20;
/// Time limit of a screenshot, including the wait for others: a little less than virt-api waits.
const WAITS: Duration = Duration::from_secs(18);

impl ForVirtApi {
    pub(super) async fn call(
        &self,
        asked: IncomingRequest,
        vmi: &Vmi<'_>,
        launcher: &Launcher,
        call: Call,
    ) -> Result<HttpResponse> {
        let body = match asked.body.whole(BODY).await {
            Ok(body) => body,
            Err(answer) => return Ok(answer),
        };
        let busy = || Rejection::busy(&format!("{REQUESTS} requests about {vmi} are under way already"));
        let _place = self.requests.take(vmi.uid).ok_or_else(busy)?;
        match call {
            Call::State => json_response(&launcher.state().await?),
            Call::Stats => json_response(&launcher.stats().await?),
            Call::Screenshot(wake) => self.screenshot(vmi, launcher, wake).await,
            Call::GuestInfo => json_response(&launcher.guest_info().await?),
            Call::Users => json_response(&launcher.users().await?),
            Call::Filesystems => json_response(&launcher.filesystems().await?),
            Call::Freeze => {
                let freeze: Freeze = read(body.as_ref(), vmi, "a freeze")?;
                json_response(&launcher.freeze(&freeze).await.map(|()| json!({}))?)
            }
            Call::Thaw => json_response(&launcher.thaw().await.map(|()| json!({}))?),
            Call::Request => request(body.as_ref(), vmi, launcher).await,
        }
    }

    async fn screenshot(&self, vmi: &Vmi<'_>, launcher: &Launcher, wake: bool) -> Result<HttpResponse> {
        let busy = || Rejection::busy(&format!("a screenshot of {vmi} is being taken already"));
        let _place = self.pictures.take(vmi.uid).ok_or_else(busy)?;
        let taken = timeout(WAITS, launcher.screenshot_in(wake, PICTURE, self.picture.acquire())).await;
        // The place is kept while the picture is read from the launcher; the memory of the answer is counted
        // by the server.
        let (picture, _room) = taken.map_err(|_| {
            Rejection::busy("screenshots of other VMIs on this node are being taken; try again")
        })??;
        Ok(response(StatusCode::OK, "image/png", picture))
    }
}

/// Passes a request to the VM on.
async fn request(body: &[u8], vmi: &Vmi<'_>, launcher: &Launcher) -> Result<HttpResponse> {
    let request: Request = read(body, vmi, "a request")?;
    if !is_passed_on(&request) {
        let why = format!("virt-handler does not pass {request:?} on to the launcher of {vmi}");
        return Err(Rejection::new(StatusCode::FORBIDDEN, &why));
    }
    let answer = launcher.request(&request).await?;
    tracing::info!("passed {request:?} of virt-api on to {vmi}: {answer:?}");
    json_response(&answer)
}

fn read<T: DeserializeOwned>(body: &[u8], vmi: &Vmi<'_>, what: &str) -> Result<T> {
    serde_json::from_slice(body).map_err(|e| {
        Rejection::new(StatusCode::BAD_REQUEST, &format!("the body is not {what} for the VM of {vmi}: {e}"))
    })
}

fn json_response(what: &impl Serialize) -> Result<HttpResponse> {
    let text = serde_json::to_vec(what).map_err(|e| {
        Rejection::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            &format!("cannot write the answer of the launcher as JSON: {e}"),
        )
    })?;
    Ok(response(StatusCode::OK, "application/json", text))
}
