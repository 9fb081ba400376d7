//! The attempts of an upload, until the server has all bytes.
//!
//! ```text
//!  token ─► attempt ─┬─ Done ─────────► is the source still the same?
//!    ▲               ├─ Unauthorized ─► another token, if it was not the first attempt
//!    │               ├─ Broken ───────► a pause; waits for the pod; perhaps the disk is complete already
//!    └───────────────┤
//!                    └─ Refused ──────► the end
//! ```

use super::ended::{self, Ended};
use super::proxy::Proxy;
use super::ready::is_done_meanwhile;
use super::source::Form;
use super::tries::Tries;
use super::tus::Upload;
use super::{Bytes, Errand, Wish, address, bodies, doing, plain, proxy};
use crate::virt::object::Kind;
use cdi::size::human;
use cdi::{Error, ErrorKind, Result};
use http::Method;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::sleep;

/// Protocol of an upload.
enum Way {
    Tus(Upload),
    Plain,
}

/// Sends all bytes, in as many attempts as the user allows.
pub(crate) async fn send_bytes(errand: Errand<'_>, proxy: &Proxy, bytes: &Bytes) -> Result<()> {
    let wish = errand.wish;
    let mut token = token(errand).await?;
    let mut way = first_way(wish, proxy, bytes);
    let mut tries = Tries::new(wish.attempts);
    loop {
        bytes.are_there().await;
        let ended = match &mut way {
            Way::Tus(upload) => upload.attempt(proxy, &token, bytes, &mut tries).await?,
            Way::Plain => plain::attempt(proxy, &token, bytes).await?,
        };
        if ended == Ended::Done {
            return bytes.unchanged();
        }
        if let Some(fault) = bytes.fault() {
            return Err(bytes.unchanged().err().unwrap_or(fault));
        }
        match ended {
            Ended::Done => {}
            Ended::NoSuchWay => way = Way::Plain,
            Ended::Unauthorized(said) => match tries.refused() {
                true => token = self::token(errand).await?,
                false => return Err(proxy::unauthorized(&said)),
            },
            Ended::Refused(said) => return Err(failed(&said, tries.failures() + 1, ErrorKind::Refused)),
            Ended::Broken(said) => {
                // An absent browser does not count as a failed attempt: it may come back at any time.
                let pause = if bytes.are_away() { Some(Duration::ZERO) } else { tries.failed() };
                let goes_on = bytes.is_repeatable();
                if pause.is_some() && goes_on {
                    say(errand, bytes, &said, tries.failures());
                }
                sleep(pause.unwrap_or_default()).await;
                // The answer to a complete upload may have been lost.
                if is_done_meanwhile(errand).await? {
                    return bytes.unchanged();
                }
                if !goes_on {
                    return Err(failed(&said, tries.failures(), ErrorKind::Failed)
                        .with_hint(format!("{} cannot be read again; begin the upload anew", bytes.name())));
                }
                if pause.is_none() {
                    return Err(failed(&said, tries.failures(), ErrorKind::Failed));
                }
            }
        }
    }
}

/// tus if the bytes can be read again and are a disk. Archives, and bytes that can be read once, go by one
/// plain request.
fn first_way(wish: &Wish, proxy: &Proxy, bytes: &Bytes) -> Way {
    let uploads = address::resumable(proxy.base()).filter(|_| !wish.is_archive && bytes.is_repeatable());
    match (uploads, bytes.length(Form::WithoutHoles)) {
        (Some(uploads), Some(size)) if size > 0 => Way::Tus(Upload::new(uploads, size)),
        _ => Way::Plain,
    }
}

fn say(errand: Errand<'_>, bytes: &Bytes, said: &str, failures: u32) {
    let (sent, most) = (human(bytes.sent().load(Relaxed)), errand.wish.attempts);
    errand.hears.say(&format!("the upload broke off after {sent} ({failures} of {most} attempts): {said}"));
}

fn failed(said: &str, attempts: u32, kind: ErrorKind) -> Error {
    let tries = if attempts == 1 { "retry" } else { "retries" };
    let error = Error::new(kind, format!("error uploading image after {attempts} {tries}: {said}"));
    match ended::hint(said).or_else(|| proxy::hint(said)) {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// A token for the upload proxy.
async fn token(Errand { cluster, wish, .. }: Errand<'_>) -> Result<String> {
    let what = format!("{}: no token", doing(wish, cluster));
    let (path, request) = (
        Kind::UploadTokenRequest.list(cluster.namespace()),
        bodies::token_request(wish, cluster.namespace()),
    );
    let answer = cluster.answer(Method::POST, &path, &request).await.map_err(|e| {
        let is_absent = e.code() == 404;
        match is_absent {
            true => e.of(&what).with_hint(
                "'kubectl get apiservice v1beta1.upload.cdi.kubevirt.io' shows whether uploads are served",
            ),
            false => e.of(&what),
        }
    })?;
    let token = answer["status"]["token"].as_str().filter(|token| !token.is_empty());
    token
        .map(str::to_owned)
        .ok_or_else(|| Error::failed(format!("{what} is in the answer of the API server")))
}
