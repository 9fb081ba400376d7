//! Requests about a running VMI, sent to its launcher through the virt-handler of its node.

use crate::guest;
use crate::query;
use crate::refusal::{Refusal, Result, with_json};
use crate::stats;
use crate::vmi::subject;
use crate::websocket::Farewell;
use api::launcher::{Answer, Freeze, Request};
use api::vmi::VirtualMachineInstance;
use cluster_model::subresources::Action;
use http::{Response, StatusCode};
use hyper::body::Bytes;
use launcher_client::{Access, Client, Error, ErrorKind, Stream};
use serve::transport::{HttpResponse, response};

/// Sends a lifecycle request to the launcher.
pub(crate) async fn request(
    launcher: &Client,
    vmi: &VirtualMachineInstance,
    request: Request,
) -> Result<HttpResponse> {
    let answer = launcher.request(&request).await.map_err(|error| failed(vmi, &error))?;
    match answer {
        // A request for the present state counts as success.
        Answer::Queued | Answer::Ignored { .. } => Ok(Response::new(Bytes::new())),
        Answer::Denied(denial) => Err(Refusal::denied(subject(vmi), &denial)),
    }
}

/// Freezes the guest's file systems.
pub(crate) async fn freeze(
    launcher: &Client,
    vmi: &VirtualMachineInstance,
    freeze: &Freeze,
) -> Result<HttpResponse> {
    launcher.freeze(freeze).await.map_err(|error| failed(vmi, &error))?;
    Ok(Response::new(Bytes::new()))
}

/// Thaws the guest's file systems.
pub(crate) async fn unfreeze(launcher: &Client, vmi: &VirtualMachineInstance) -> Result<HttpResponse> {
    launcher.thaw().await.map_err(|error| failed(vmi, &error))?;
    Ok(Response::new(Bytes::new()))
}

/// Reads from the guest agent. Refusals are text, as upstream's are.
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
            // A guest agent may support one of these queries and not the others.
            let users = launcher.users().await.unwrap_or_default();
            let filesystems = launcher.filesystems().await.unwrap_or_default();
            guest::os_info(&info, &users, &filesystems)
        }
    };
    Ok(with_json(StatusCode::OK, &body))
}

/// Resource usage of the VMI since its start.
pub(crate) async fn stats(launcher: &Client, vmi: &VirtualMachineInstance) -> Result<HttpResponse> {
    let stats = launcher.stats().await.map_err(|error| failed(vmi, &error))?;
    Ok(with_json(StatusCode::OK, &stats::of(vmi, stats)))
}

/// A screenshot. The screen is woken up first if requested.
pub(crate) async fn screenshot(
    launcher: &Client,
    vmi: &VirtualMachineInstance,
    wakes: bool,
) -> Result<HttpResponse> {
    let picture = match wakes {
        true => launcher.screenshot_awake().await,
        false => launcher.screenshot().await,
    };
    let picture = picture.map_err(|error| failed(vmi, &error).into_guest_text())?;
    Ok(response(StatusCode::OK, "image/png", picture))
}

/// Mode of a stream requested by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamMode {
    access: Access,
    /// No session may be closed for it: `?preserveSession=true`.
    preserves: bool,
    /// The query has no mode: the client is upstream's.
    is_upstreams: bool,
}

impl StreamMode {
    /// The mode in a query: `?mode=read|write|take`. Upstream's clients send none: theirs is the only session
    /// of the VMI, and the previous one is closed.
    pub(crate) fn of(action: Action, query: Option<&str>) -> Result<StreamMode> {
        let preserves = action == Action::Vnc && query::is(query, "preserveSession");
        let mode = query::value(query, "mode");
        let access = match mode {
            Some("read") => Access::Read,
            Some("write") => Access::Write,
            None | Some("take") if preserves => Access::Write,
            Some("take") => Access::Take,
            None => Access::Alone,
            Some(other) => {
                let why = format!("mode may be read, write or take, not {other:?}");
                return Err(Refusal::bad_request(why));
            }
        };
        let is_upstreams = mode.is_none() && action != Action::UsbRedir;
        Ok(StreamMode { access, preserves, is_upstreams })
    }

    /// The way to signal the end of the stream to the client, whether by the end of the VMI or by another
    /// client.
    pub(crate) fn farewell(self) -> Farewell {
        if self.is_upstreams { Farewell::Eof } else { Farewell::Frame }
    }
}

/// Opens the stream of a console, a screen or a USB device.
pub(crate) async fn stream(
    launcher: &Client,
    vmi: &VirtualMachineInstance,
    action: Action,
    way: StreamMode,
) -> Result<Stream> {
    let opened = match action {
        Action::Vnc => launcher.vnc(way.access).await,
        Action::UsbRedir => launcher.usbredir().await,
        _ => launcher.console(way.access).await,
    };
    opened.map_err(|error| match error.status() {
        Some(409) if way.preserves => Refusal::unavailable("Active VNC connection. Request denied."),
        // There are few USB places, which may soon be free again.
        Some(409) if action == Action::UsbRedir => Refusal::unavailable(error.to_string()),
        _ => failed(vmi, &error),
    })
}

/// The refusal for an error on the way to the launcher, or for its own refusal.
fn failed(vmi: &VirtualMachineInstance, error: &Error) -> Refusal {
    match (error.kind(), error.status()) {
        // virt-handler has no place for another request. The message tells the client to retry.
        (_, Some(429)) => Refusal::too_many(error.to_string()),
        (_, Some(503)) => Refusal::unavailable(error.to_string()),
        (_, Some(409)) | (ErrorKind::Refused | ErrorKind::NotFound, Some(_)) => {
            Refusal::conflict(subject(vmi), &error.to_string())
        }
        _ => Refusal::internal(&error.chain()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;

    #[test]
    fn upstreams_clients_want_to_be_alone_and_ours_say_how_they_share() {
        let way = |action, query| StreamMode::of(action, query).map(|way| (way.access, way.preserves));
        for action in [Action::Console, Action::Vnc] {
            assert_eq!(way(action, None), Ok((Access::Alone, false)));
            assert_eq!(way(action, Some("preserveSession=false")), Ok((Access::Alone, false)));
            assert_eq!(way(action, Some("x=1&mode=read")), Ok((Access::Read, false)));
            assert_eq!(way(action, Some("mode=write")), Ok((Access::Write, false)));
            assert_eq!(way(action, Some("mode=take")), Ok((Access::Take, false)));
            assert_eq!(way(action, Some("mode=steal")).unwrap_err().status, 400);
        }
        for (query, access) in [
            ("preserveSession=true", Access::Write),
            ("mode=take&preserveSession=true", Access::Write),
            ("mode=read&preserveSession=true", Access::Read),
        ] {
            assert_eq!(way(Action::Vnc, Some(query)), Ok((access, true)), "{query}");
        }
        assert_eq!(way(Action::Console, Some("preserveSession=true")), Ok((Access::Alone, false)));
    }

    #[test]
    fn who_says_nothing_of_sharing_hears_the_end_as_upstreams_clients_do() {
        let farewell = |action, query| StreamMode::of(action, query).unwrap().farewell();
        for action in [Action::Console, Action::Vnc] {
            for query in [None, Some("preserveSession=true")] {
                assert_eq!(farewell(action, query), Farewell::Eof);
            }
            for query in ["mode=read", "mode=write", "mode=take"] {
                assert_eq!(farewell(action, Some(query)), Farewell::Frame);
            }
        }
        assert_eq!(farewell(Action::UsbRedir, None), Farewell::Frame);
    }

    /// A launcher that refuses all requests with this status.
    fn answers(status: &'static str) -> (Client, tempfile::TempDir) {
        responds(status, json!({"error": "taken"}))
    }

    /// A launcher that gives the same response to all requests.
    fn responds(status: &'static str, body: Value) -> (Client, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("launcher");
        let listener = UnixListener::bind(&path).unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let body = body.to_string();
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        (Client::at("the launcher of n/web", path), folder)
    }

    /// For requests, streams, and reads from the guest, whose other refusals are 500.
    #[tokio::test]
    async fn a_virt_handler_that_has_no_place_is_told_as_429_with_its_words_and_when_to_try_again() {
        let vmi = api::wire::read(json!({"metadata": {"name": "web"}, "spec": {}})).unwrap();
        let (launcher, _folder) = answers("429 Too Many Requests");
        let way = StreamMode::of(Action::Console, None).unwrap();
        for refused in [
            request(&launcher, &vmi, Request::Pause).await.unwrap_err(),
            unfreeze(&launcher, &vmi).await.unwrap_err(),
            stream(&launcher, &vmi, Action::Console, way).await.unwrap_err(),
            guest(&launcher, &vmi, Action::UserList).await.unwrap_err(),
            screenshot(&launcher, &vmi, false).await.unwrap_err(),
        ] {
            let answer = refused.answer();
            let body = String::from_utf8_lossy(answer.body()).into_owned();
            let retry = answer.headers().get(header::RETRY_AFTER);
            assert_eq!((answer.status().as_u16(), retry.is_some()), (429, true), "{body}");
            assert!(body.contains("taken"), "{body}");
        }
    }

    /// The status follows from the code of the launcher; one without a known code is a conflict. The message does
    /// not change.
    #[tokio::test]
    async fn a_request_that_the_launcher_denies_has_the_status_of_its_reason() {
        let vmi = api::wire::read(json!({"metadata": {"name": "web"}, "spec": {}})).unwrap();
        for (code, status, reason) in [
            (Value::Null, 409, "Conflict"),
            (json!("Stopping"), 409, "Conflict"),
            (json!("NotInvented"), 409, "Conflict"),
            (json!("TooManyRequests"), 429, "TooManyRequests"),
        ] {
            let mut body = json!({"answer": "denied", "reason": "no"});
            if !code.is_null() {
                body["code"] = code.clone();
            }
            let (launcher, _folder) = responds("200 OK", body);
            let answer = request(&launcher, &vmi, Request::Pause).await.unwrap_err().answer();
            let body: Value = serde_json::from_slice(answer.body()).unwrap();
            assert_eq!((answer.status().as_u16(), body["reason"].as_str()), (status, Some(reason)), "{code}");
            assert_eq!(answer.headers().contains_key(header::RETRY_AFTER), status == 429);
            let message = "Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io \"web\": no";
            assert_eq!(body["message"], message);
        }
    }

    #[tokio::test]
    async fn places_for_usb_devices_that_are_taken_may_be_free_again() {
        let vmi = api::wire::read(json!({"metadata": {"name": "web"}, "spec": {}})).unwrap();
        let way = || StreamMode::of(Action::UsbRedir, None).unwrap();
        for (answer, status) in [("409 Conflict", 503), ("404 Not Found", 409)] {
            let (launcher, _folder) = answers(answer);
            let refused = stream(&launcher, &vmi, Action::UsbRedir, way()).await.unwrap_err();
            assert_eq!(refused.status, status, "{}", refused.message);
        }
    }

    #[tokio::test]
    async fn a_stream_that_somebody_has_is_a_conflict_or_a_session_that_is_preserved() {
        let vmi = api::wire::read(json!({"metadata": {"name": "web"}, "spec": {}})).unwrap();
        let (launcher, _folder) = answers("409 Conflict");
        let refused = async |action, query| {
            let way = StreamMode::of(action, Some(query)).unwrap();
            stream(&launcher, &vmi, action, way).await.unwrap_err()
        };
        let denied = refused(Action::Vnc, "preserveSession=true").await;
        let said = (denied.status.as_u16(), denied.message.as_str());
        assert_eq!(said, (503, "Active VNC connection. Request denied."));
        for action in [Action::Console, Action::Vnc] {
            let taken = refused(action, "mode=write").await;
            assert_eq!(taken.status, 409);
            assert!(taken.message.ends_with("\"web\": taken"), "{}", taken.message);
        }
    }
}
