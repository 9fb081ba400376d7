//! `POST /upload` and its variants: one request, one disk.

use super::body::{Body, BodyResult, length, pour, refuse};
use super::conversion::ConversionState;
use super::form::Form;
use super::route::Kind;
use super::slot::{Turn, Unavailable};
use super::{Uploads, failure};
use crate::attempt_process::AttemptResult;
use crate::server::{Answer, Client, text};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, StatusCode};
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) async fn upload(
    site: Arc<Uploads>,
    request: Request<Incoming>,
    client: Client,
    kind: Kind,
) -> Answer {
    let form = match kind.is_form.then(|| Form::of(request.headers().get(CONTENT_TYPE))) {
        Some(Err(what)) => return refuse(request, text(StatusCode::BAD_REQUEST, format!("{what}\n"))),
        Some(Ok(form)) => Some(form),
        None => None,
    };
    let turn = match site.slot.take(None) {
        Ok(turn) => turn,
        Err(taken) => return refuse(request, refusal(&taken)),
    };
    let bytes = length(request.headers()).filter(|_| !kind.is_form);
    let body = Body::new(request, client, form);
    // A task of its own, so that it completes whatever happens to the connection.
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        let rest = receive(&site, turn, body, bytes, kind.is_async, tell).await;
        rest.drain().await;
    });
    let lost = |_| text(StatusCode::INTERNAL_SERVER_ERROR, "Saving stream failed: it was lost");
    told.await.unwrap_or_else(lost)
}

/// Sends the answer, and returns the body for its rest to be discarded.
async fn receive(
    site: &Uploads,
    turn: Turn,
    mut body: Body,
    bytes: Option<u64>,
    is_async: bool,
    tell: oneshot::Sender<Answer>,
) -> Body {
    // The client may not wait for the answer any more.
    let answer = |answer: Answer| drop(tell.send(answer));
    if let Some(earlier) = turn.earlier {
        earlier.abandon().await;
    }
    let mut conversion = match site.begin(bytes).await {
        Ok(conversion) => conversion,
        Err(fault) => {
            site.fails(&fault).await;
            answer(failure(&fault));
            return body;
        }
    };
    let told = match pour(&mut body, &mut conversion, &turn.cut, |_| Ok(())).await {
        BodyResult::Broken(why) => {
            conversion.abandon().await;
            site.breaks(&why).await;
            answer(text(StatusCode::BAD_REQUEST, format!("Saving stream failed: {why}")));
            return body;
        }
        BodyResult::Ended(ended) => ConversionState::Ended(ended),
        BodyResult::Whole => conversion.finish(is_async).await,
    };
    match told {
        ConversionState::Ended(AttemptResult::Done(disk)) => {
            site.done(None, disk, || answer(text(StatusCode::OK, ""))).await
        }
        ConversionState::Ended(AttemptResult::Failed(fault)) => {
            site.fails(&fault).await;
            answer(failure(&fault));
        }
        ConversionState::Runs | ConversionState::Whole => {
            answer(text(StatusCode::OK, ""));
            site.done_behind(conversion.end().wait().await).await;
        }
    }
    body
}

/// The answer to an upload that cannot use the slot.
pub(super) fn refusal(taken: &Unavailable) -> Answer {
    match taken {
        Unavailable::Busy => {
            text(StatusCode::SERVICE_UNAVAILABLE, "another upload of this PVC is in progress\n")
        }
        Unavailable::Done => text(StatusCode::CONFLICT, "this PVC has its disk already\n"),
        Unavailable::Shut => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "another pod takes the place of this one, whose certificates end; try again\n",
        ),
    }
}
