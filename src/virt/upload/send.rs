//! The attempts of an upload, until the server has all bytes.
//!
//! ```text
//!  token ─► attempt ─┬─ Done ─────────► is the source still the same? It was before its last bytes were sent
//!    ▲               ├─ Unauthorized ─► another token, if it was not the first attempt
//!    │               ├─ Broken ───────► a pause; waits for the pod; perhaps the disk is complete already
//!    └───────────────┤
//!                    └─ Refused ──────► the end
//! ```

use super::attempt::{self, AttemptResult};
use super::attempts::Attempts;
use super::proxy::Proxy;
use super::ready::is_done_meanwhile;
use super::source::Form;
use super::tus::Upload;
use super::{Bytes, UploadContext, UploadParams, address, bodies, doing, plain, proxy};
use crate::error::{Error, ErrorKind, Result};
use cdi::size::human;
use cluster_model::objects::Kind;
use http::Method;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::sleep;

/// Protocol of an upload.
enum UploadProtocol {
    Tus(Upload),
    Plain,
}

/// Sends all bytes, in as many attempts as the user allows.
pub(crate) async fn send_bytes(context: UploadContext<'_>, proxy: &Proxy, bytes: &Bytes) -> Result<()> {
    let params = context.params;
    let mut token = token(context).await?;
    let mut protocol = choose_protocol(params, proxy, bytes);
    let mut attempts = Attempts::new(params.attempts);
    loop {
        bytes.wait_for_bytes().await;
        let ended = match &mut protocol {
            UploadProtocol::Tus(upload) => upload.attempt(proxy, &token, bytes, &mut attempts).await?,
            UploadProtocol::Plain => plain::attempt(proxy, &token, bytes).await?,
        };
        if ended == AttemptResult::Done {
            return bytes.unchanged();
        }
        if let Some(fault) = bytes.fault() {
            return Err(bytes.unchanged().err().unwrap_or(fault));
        }
        match ended {
            AttemptResult::Done => {}
            AttemptResult::Unsupported => protocol = UploadProtocol::Plain,
            AttemptResult::Unauthorized(said) => match attempts.refused() {
                true => token = self::token(context).await?,
                false => return Err(proxy::unauthorized(&said)),
            },
            AttemptResult::Refused(said) => {
                return Err(failed(&said, attempts.failures() + 1, ErrorKind::Refused));
            }
            AttemptResult::Broken(said) => {
                // An absent browser does not count as a failed attempt: it may come back at any time.
                let pause = if bytes.are_away() { Some(Duration::ZERO) } else { attempts.failed() };
                let goes_on = bytes.is_repeatable();
                if pause.is_some() && goes_on {
                    say(context, bytes, &said, attempts.failures());
                }
                sleep(pause.unwrap_or_default()).await;
                // The answer to a complete upload may have been lost.
                if is_done_meanwhile(context).await? {
                    return bytes.unchanged();
                }
                if !goes_on {
                    return Err(failed(&said, attempts.failures(), ErrorKind::Failed).with_hint(format!(
                        "{} cannot be read again; start the upload again",
                        bytes.name()
                    )));
                }
                if pause.is_none() {
                    return Err(failed(&said, attempts.failures(), ErrorKind::Failed));
                }
            }
        }
    }
}

/// tus if the bytes can be read again and are a disk. Archives, and bytes that can be read once, go by one
/// plain request.
fn choose_protocol(params: &UploadParams, proxy: &Proxy, bytes: &Bytes) -> UploadProtocol {
    let uploads = address::resumable(proxy.base()).filter(|_| !params.is_archive && bytes.is_repeatable());
    match (uploads, bytes.length(Form::WithoutHoles)) {
        (Some(uploads), Some(size)) if size > 0 => UploadProtocol::Tus(Upload::new(uploads, size)),
        _ => UploadProtocol::Plain,
    }
}

fn say(context: UploadContext<'_>, bytes: &Bytes, said: &str, failures: u32) {
    let (sent, most) = (human(bytes.sent().load(Relaxed)), context.params.attempts);
    context
        .observer
        .say(&format!("the upload broke off after {sent} ({failures} of {most} attempts): {said}"));
}

fn failed(said: &str, attempts: u32, kind: ErrorKind) -> Error {
    let tries = if attempts == 1 { "retry" } else { "retries" };
    let error = Error::new(kind, format!("error uploading image after {attempts} {tries}: {said}"));
    match attempt::hint(said).or_else(|| proxy::hint(said)) {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// A token for the upload proxy.
async fn token(UploadContext { cluster, params, .. }: UploadContext<'_>) -> Result<String> {
    let what = format!("{}: no token", doing(params, cluster));
    let (path, request) = (
        Kind::UploadTokenRequest.collection(cluster.namespace()),
        bodies::token_request(params, cluster.namespace()),
    );
    let answer = cluster.answer(Method::POST, &path, &request).await.map_err(|e| {
        let is_absent = e.code() == 404;
        match is_absent {
            true => e.into_error(&what).with_hint(
                "'kubectl get apiservice v1beta1.upload.cdi.kubevirt.io' shows whether uploads are served",
            ),
            false => e.into_error(&what),
        }
    })?;
    let token = answer["status"]["token"].as_str().filter(|token| !token.is_empty());
    token
        .map(str::to_owned)
        .ok_or_else(|| Error::failed(format!("{what} is in the answer of the API server")))
}
