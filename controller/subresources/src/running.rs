//! Requests about a VMI that runs: virt-handler of its node is asked, which asks the launcher.

use crate::guest;
use crate::refused::{Refused, Result, with_json};
use crate::vmi::subject;
use api::launcher::{Answer, Request};
use api::vmi::VirtualMachineInstance;
use http::{HeaderValue, Response, StatusCode, header};
use hyper::body::Bytes;
use kubernetes::subresources::Action;
use launcher_client::{Client, Console, Error, ErrorKind, Stream};
use serve::transport::HttpResponse;

/// Sends a request to the VM.
pub(crate) async fn request(
    launcher: &Client,
    vmi: &VirtualMachineInstance,
    request: Request,
) -> Result<HttpResponse> {
    let answer = launcher.request(&request).await.map_err(|error| failed(vmi, &error))?;
    match answer {
        // What is so already is as good as done.
        Answer::Queued | Answer::Ignored { .. } => Ok(Response::new(Bytes::new())),
        Answer::Denied { reason } => Err(Refused::conflict(subject(vmi), &reason)),
    }
}

/// Freezes the guest's file systems, or lets them go on.
pub(crate) async fn freeze(
    launcher: &Client,
    vmi: &VirtualMachineInstance,
    action: Action,
) -> Result<HttpResponse> {
    let done = match action {
        Action::Unfreeze => launcher.thaw().await,
        _ => launcher.freeze().await,
    };
    done.map_err(|error| failed(vmi, &error))?;
    Ok(Response::new(Bytes::new()))
}

/// Reads from the guest agent. Its refusals are text, as upstream's are.
pub(crate) async fn guest(
    launcher: &Client,
    vmi: &VirtualMachineInstance,
    action: Action,
) -> Result<HttpResponse> {
    let refused = |error: Error| failed(vmi, &error).into_guest_text();
    let body = match action {
        Action::UserList => guest::user_list(&launcher.users().await.map_err(refused)?),
        Action::FilesystemList => guest::filesystem_list(&launcher.filesystems().await.map_err(refused)?),
        _ => {
            let info = launcher.guest_info().await.map_err(refused)?;
            // A guest agent that knows one of them need not know the others.
            let users = launcher.users().await.unwrap_or_default();
            let filesystems = launcher.filesystems().await.unwrap_or_default();
            guest::os_info(&info, &users, &filesystems)
        }
    };
    Ok(with_json(StatusCode::OK, &body))
}

/// A picture of the screen.
pub(crate) async fn screenshot(launcher: &Client, vmi: &VirtualMachineInstance) -> Result<HttpResponse> {
    let picture = launcher.screenshot().await.map_err(|error| failed(vmi, &error).into_guest_text())?;
    let mut response = Response::new(Bytes::from(picture));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("image/png"));
    Ok(response)
}

/// The stream of a console or of a screen.
pub(crate) async fn stream(
    launcher: &Client,
    vmi: &VirtualMachineInstance,
    action: Action,
    mode: Console,
) -> Result<Stream> {
    let opened = match action {
        Action::Vnc => launcher.vnc().await,
        _ => launcher.console(mode).await,
    };
    opened.map_err(|error| failed(vmi, &error))
}

/// The way that a client wants a console: `?mode=read|write|take`. Upstream's clients say nothing, and take it over.
pub(crate) fn mode(query: Option<&str>) -> Result<Console> {
    let mode =
        query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("mode="));
    match mode {
        None | Some("take") => Ok(Console::Take),
        Some("read") => Ok(Console::Read),
        Some("write") => Ok(Console::Write),
        Some(other) => Err(Refused::bad_request(format!("mode may be read, write or take, not {other:?}"))),
    }
}

/// An error on the way to the launcher, or a refusal of it.
fn failed(vmi: &VirtualMachineInstance, error: &Error) -> Refused {
    match (error.kind(), error.status()) {
        (_, Some(429 | 503)) => Refused::unavailable(error.to_string()),
        (ErrorKind::Refused | ErrorKind::NotFound, Some(_)) => {
            Refused::conflict(subject(vmi), &error.to_string())
        }
        _ => Refused::internal(&error.chain()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_taken_over_unless_something_else_is_said() {
        assert_eq!(mode(None), Ok(Console::Take));
        assert_eq!(mode(Some("x=1&mode=read")), Ok(Console::Read));
        assert_eq!(mode(Some("mode=write")), Ok(Console::Write));
        assert_eq!(mode(Some("mode=steal")).unwrap_err().status, 400);
    }
}
