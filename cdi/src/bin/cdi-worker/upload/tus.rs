//! Resumable uploads: the core of tus 1.0, with its extensions `creation` and `termination`.
//!
//! | request | answer |
//! |---|---|
//! | POST `/upload-tus`, Upload-Length | 201, Location: the ID, which contains the length, so that a new pod has it, too |
//! | HEAD `/upload-tus/ID` | 200, Upload-Offset; a connection that still sends it is cut first |
//! | PATCH `/upload-tus/ID`, Upload-Offset | 204, the new Upload-Offset; with the last byte, when the disk is durable |
//! | DELETE `/upload-tus/ID` | 204 |
//!
//! Nothing is begun before the first PATCH. A byte that was taken is in the pipe of the conversion, which
//! lives as long as this process: after its end the offset is 0 again.

use super::body::{Body, BodyResult, length, pour, refuse};
use super::conversion::{Conversion, ConversionState};
use super::plain::refusal;
use super::route::TUS;
use super::slot::{Unavailable, UploadState, WaitingUpload};
use super::{Uploads, failure};
use crate::attempt_process::AttemptResult;
use crate::fault::INTERRUPTED;
use crate::pod;
use crate::protocol::Fault;
use crate::server::{Answer, Client, text};
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Method, Request, StatusCode};
use jiff::Timestamp;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

const RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const VERSIONS: HeaderName = HeaderName::from_static("tus-version");
const EXTENSIONS: HeaderName = HeaderName::from_static("tus-extension");
const OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const LENGTH: HeaderName = HeaderName::from_static("upload-length");
const VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
/// The content type of a PATCH.
const BYTES: &str = "application/offset+octet-stream";
/// Time for a connection that is cut to release the upload; also for a disk that is made durable meanwhile.
const HANDOVER: Duration = Duration::from_secs(10);

/// Answers a request of the tus protocol. `id`: the ID of the upload, if the path has one.
pub(super) async fn answer(
    site: Arc<Uploads>,
    request: Request<Incoming>,
    client: Client,
    id: Option<&str>,
) -> Answer {
    let mut answer = match (request.method(), id) {
        (&Method::OPTIONS, _) => {
            let mut answer = text(StatusCode::NO_CONTENT, "");
            answer.headers_mut().insert(VERSIONS, VERSION);
            answer.headers_mut().insert(EXTENSIONS, HeaderValue::from_static("creation,termination"));
            answer
        }
        _ if request.headers().get(RESUMABLE) != Some(&VERSION) => {
            let mut answer =
                text(StatusCode::PRECONDITION_FAILED, "the header Tus-Resumable must be 1.0.0\n");
            answer.headers_mut().insert(VERSIONS, VERSION);
            refuse(request, answer)
        }
        (&Method::POST, None) => {
            let answer = create(&site, &request);
            refuse(request, answer)
        }
        (_, None) => refuse(request, text(StatusCode::METHOD_NOT_ALLOWED, "an upload is made by POST\n")),
        (_, Some(id)) => match Id::of(id) {
            None => refuse(request, text(StatusCode::NOT_FOUND, "there is no such upload\n")),
            Some(id) => match *request.method() {
                Method::HEAD => head(&site, &id).await,
                Method::PATCH => patch(site, request, client, id).await,
                Method::DELETE => delete(&site, &id).await,
                _ => refuse(
                    request,
                    text(StatusCode::METHOD_NOT_ALLOWED, "HEAD, PATCH and DELETE are answered\n"),
                ),
            },
        },
    };
    answer.headers_mut().insert(RESUMABLE, VERSION);
    answer
}

/// The ID of an upload: `LENGTH.RANDOM`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Id {
    text: String,
    length: u64,
}

impl Id {
    fn new(length: u64) -> Id {
        // The ID is not secret, and differs from all others.
        let random = RandomState::new().build_hasher().finish();
        Id { text: format!("{length}.{random:016x}"), length }
    }

    fn of(text: &str) -> Option<Id> {
        let (length, random) = text.split_once('.')?;
        let is_plain = length.bytes().all(|byte| byte.is_ascii_digit())
            && random.len() == 16
            && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        let length = length.parse().ok().filter(|&length| is_plain && length > 0)?;
        Some(Id { text: text.to_owned(), length })
    }
}

fn create(site: &Uploads, request: &Request<Incoming>) -> Answer {
    let Some(length) = number(request, &LENGTH).filter(|&length| length > 0) else {
        let what = "an upload must announce its bytes with the header Upload-Length\n";
        return text(StatusCode::BAD_REQUEST, what);
    };
    if let Some(taken) = site.slot.unavailable() {
        return refusal(&taken);
    }
    let location = format!("{TUS}/{}", Id::new(length).text);
    let mut answer = text(StatusCode::CREATED, "");
    if let Ok(location) = HeaderValue::try_from(location) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

async fn head(site: &Uploads, id: &Id) -> Answer {
    let offset = match find(site, id).await {
        UploadState::Nothing => 0,
        UploadState::At(offset) => offset,
        UploadState::Whole => id.length,
        UploadState::Not(taken) => return refused(&taken),
    };
    let mut answer = with_offset(StatusCode::OK, offset);
    answer.headers_mut().insert(LENGTH, HeaderValue::from(id.length));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

async fn delete(site: &Uploads, id: &Id) -> Answer {
    match find(site, id).await {
        UploadState::Nothing => return text(StatusCode::NOT_FOUND, "there is no such upload\n"),
        UploadState::Not(taken) => return refused(&taken),
        UploadState::Whole => return refused(&Unavailable::Done),
        UploadState::At(_) => {}
    }
    let Some(conversion) = site.slot.evict(&id.text) else { return refused(&Unavailable::Busy) };
    conversion.abandon().await;
    site.breaks("the client gave the upload up").await;
    text(StatusCode::NO_CONTENT, "")
}

async fn patch(site: Arc<Uploads>, request: Request<Incoming>, client: Client, id: Id) -> Answer {
    if request.headers().get(CONTENT_TYPE).is_none_or(|kind| kind != BYTES) {
        let what = format!("the content type of a PATCH must be {BYTES}\n");
        return refuse(request, text(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    let Some(offset) = number(&request, &OFFSET) else {
        let what = "a PATCH must say where its bytes belong with the header Upload-Offset\n";
        return refuse(request, text(StatusCode::BAD_REQUEST, what));
    };
    let found = find(&site, &id).await;
    let here = match &found {
        UploadState::Nothing => 0,
        UploadState::At(offset) => *offset,
        UploadState::Whole => id.length,
        UploadState::Not(taken) => return refuse(request, refused(taken)),
    };
    if offset != here {
        return refuse(request, elsewhere(here));
    }
    if length(request.headers()).is_some_and(|bytes| bytes > id.length - here) {
        let what = format!("{here} bytes of {} are here: this PATCH has too many\n", id.length);
        return refuse(request, text(StatusCode::PAYLOAD_TOO_LARGE, what));
    }
    let turn = match found {
        UploadState::Whole | UploadState::Not(_) => {
            return refuse(request, with_offset(StatusCode::NO_CONTENT, here));
        }
        UploadState::At(_) => match site.slot.resume(&id.text, here) {
            Some((conversion, cut)) => {
                site.progress().resume_upload();
                Turn { conversion: Ok(conversion), cut }
            }
            None => return refuse(request, refused(&Unavailable::Busy)),
        },
        UploadState::Nothing => match site.slot.take(Some(&id.text)) {
            Ok(turn) => Turn { conversion: Err(turn.earlier), cut: turn.cut },
            Err(taken) => return refuse(request, refused(&taken)),
        },
    };
    let body = Body::new(request, client, None);
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        let rest = receive(site, turn, id, here, body, tell).await;
        rest.drain().await;
    });
    told.await
        .unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "Saving stream failed: it was lost"))
}

/// The slot, for one PATCH.
struct Turn {
    /// The conversion that waited; or none yet, and perhaps another one that must be abandoned first.
    conversion: Result<Conversion, Option<Conversion>>,
    cut: Arc<Notify>,
}

async fn receive(
    site: Arc<Uploads>,
    turn: Turn,
    id: Id,
    mut offset: u64,
    mut body: Body,
    tell: oneshot::Sender<Answer>,
) -> Body {
    // The client may not wait for the answer any more.
    let answer = |answer: Answer| drop(tell.send(answer));
    let begun = match turn.conversion {
        Ok(conversion) => Ok(conversion),
        Err(earlier) => {
            if let Some(earlier) = earlier {
                earlier.abandon().await;
            }
            site.begin(Some(id.length)).await
        }
    };
    let mut conversion = match begun {
        Ok(conversion) => conversion,
        Err(fault) => {
            site.fails(&fault).await;
            answer(failure(&fault));
            return body;
        }
    };
    let mut is_over = false;
    let poured = pour(&mut body, &mut conversion, &turn.cut, |bytes| {
        let next = offset.checked_add(bytes).filter(|&next| next <= id.length);
        is_over = next.is_none();
        offset =
            next.ok_or_else(|| format!("more bytes came than the {} of its Upload-Length", id.length))?;
        Ok(())
    });
    let told = match poured.await {
        BodyResult::Broken(why) if is_over => {
            conversion.abandon().await;
            site.breaks(&why).await;
            answer(text(StatusCode::BAD_REQUEST, format!("Saving stream failed: {why}")));
            return body;
        }
        // All bytes are here. A client that asks for the offset then takes the disk for complete, and sends no
        // further PATCH.
        BodyResult::Broken(why) if offset == id.length => {
            tracing::info!("{}; all bytes of the upload are here", printable::line(&why));
            conversion.finish(false).await
        }
        BodyResult::Broken(why) => {
            hold(site, id, offset, conversion, &why);
            answer(text(StatusCode::BAD_REQUEST, format!("{why}\n")));
            return body;
        }
        BodyResult::Whole if offset < id.length => {
            hold(site, id, offset, conversion, "the client sends the upload in parts");
            answer(with_offset(StatusCode::NO_CONTENT, offset));
            return body;
        }
        BodyResult::Whole => conversion.finish(false).await,
        BodyResult::Ended(ended) => ConversionState::Ended(ended),
    };
    match told {
        ConversionState::Ended(AttemptResult::Failed(fault)) => {
            site.fails(&fault).await;
            answer(failure(&fault));
        }
        ConversionState::Ended(AttemptResult::Done(disk)) => {
            site.done(Some(id.text), disk, || answer(with_offset(StatusCode::NO_CONTENT, offset))).await;
        }
        // `finish` has waited for its end.
        ConversionState::Runs | ConversionState::Whole => site.breaks("the upload was lost").await,
    }
    body
}

/// Makes the upload wait for its next connection, for a limited time.
fn hold(site: Arc<Uploads>, id: Id, offset: u64, conversion: Conversion, why: &str) {
    let patience = until(site.patience, site.deadline, Timestamp::now());
    let length = id.length;
    site.progress().hold_connection(format!(
        "{why}; {offset} of {length} bytes are here, and the upload can go on within {}",
        time(patience)
    ));
    let (waits, over) = oneshot::channel();
    let mut end = conversion.end();
    site.slot.hold(WaitingUpload { id: id.text.clone(), offset, conversion, _guard: waits });
    tokio::spawn(async move {
        let fault = tokio::select! {
            biased;
            // Another connection continues, or another upload took the slot.
            _ = over => return,
            ended = end.wait() => match ended {
                AttemptResult::Failed(fault) => Some(fault),
                AttemptResult::Done(_) => None,
            },
            () = tokio::time::sleep(patience) => None,
            // The deadline is of another clock than the sleep.
            () = pod::until(site.deadline) => None,
        };
        let Some(conversion) = site.slot.evict(&id.text) else { return };
        conversion.abandon().await;
        let fault = fault.unwrap_or_else(|| Fault {
            reason: INTERRUPTED.to_owned(),
            message: format!(
                "no client continued the upload within {}; the next one begins anew",
                time(patience)
            ),
            may_retry: true,
            ..Fault::default()
        });
        site.fails(&fault).await;
    });
}

/// The time that an upload waits: at most until the end of the pod.
fn until(patience: Duration, deadline: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = deadline.map(|deadline| Duration::try_from(deadline.duration_since(now)).unwrap_or_default());
    left.map_or(patience, |left| left.min(patience))
}

/// A duration as text.
fn time(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

async fn find(site: &Uploads, id: &Id) -> UploadState {
    timeout(HANDOVER, site.slot.find(&id.text)).await.unwrap_or(UploadState::Not(Unavailable::Busy))
}

fn with_offset(status: StatusCode, offset: u64) -> Answer {
    let mut answer = text(status, "");
    answer.headers_mut().insert(OFFSET, HeaderValue::from(offset));
    answer
}

/// The answer to a PATCH whose offset is not that of the upload.
fn elsewhere(here: u64) -> Answer {
    let mut answer = text(StatusCode::CONFLICT, format!("the upload stands at byte {here}\n"));
    answer.headers_mut().insert(OFFSET, HeaderValue::from(here));
    answer
}

fn refused(taken: &Unavailable) -> Answer {
    let mut answer = refusal(taken);
    if *taken != Unavailable::Done {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}

fn number(request: &Request<Incoming>, name: &HeaderName) -> Option<u64> {
    request.headers().get(name)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_the_length_to_every_pod() {
        let id = Id::new(5 << 30);
        assert_eq!(Id::of(&id.text), Some(id.clone()));
        assert_ne!(Id::new(5 << 30), id);
        for wrong in [
            "",
            "5",
            "5.",
            "0.0123456789abcdef",
            "+5.0123456789abcdef",
            "5.0123456789abcdeg",
            "5.0123456789abcde",
        ] {
            assert_eq!(Id::of(wrong), None, "{wrong}");
        }
    }

    /// The certificate of the pod expires soon after its deadline: a later connection would not reach it.
    #[test]
    fn an_upload_waits_no_longer_than_its_pod() {
        let (now, hour) = (Timestamp::UNIX_EPOCH, Duration::from_secs(3600));
        let at = |seconds| Some(Timestamp::from_second(seconds).unwrap());
        assert_eq!(until(hour, None, now), hour);
        assert_eq!(until(hour, at(7200), now), hour);
        assert_eq!(until(hour, at(60), now), Duration::from_secs(60));
        assert_eq!(until(hour, at(-60), now), Duration::ZERO);
        let said = [0, 119, 120, 7199, 7200, 21_600].map(|seconds| time(Duration::from_secs(seconds)));
        assert_eq!(said, ["0 s", "119 s", "2 min", "119 min", "2 h", "6 h"]);
    }
}
