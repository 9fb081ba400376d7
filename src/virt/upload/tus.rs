//! Upload by tus 1.0, which resumes after the last byte that the server has.
//!
//! ```text
//!  POST upload-tus (Upload-Length) ─► Location ─► PATCH (Upload-Offset, bytes) ─► 204, the new Upload-Offset
//!        ▲ 404: the server lost it                  ▲        │ broken
//!        └───────────────────── HEAD ───────────────┴────────┘ 409: it is at another offset
//! ```

use super::attempt::{AttemptResult, lost, unexpected};
use super::attempts::Attempts;
use super::proxy::{Answer, Proxy};
use super::source::Form;
use super::{Bytes, address};
use crate::error::Result;
use reqwest::header::{CONTENT_TYPE, HeaderName};
use reqwest::{Method, RequestBuilder, Url};

const RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const VERSION: &str = "1.0.0";
const LENGTH: HeaderName = HeaderName::from_static("upload-length");
const OFFSET: &str = "upload-offset";
/// Content type of a PATCH.
const PART: &str = "application/offset+octet-stream";
/// Maximum number of offset changes in one attempt that do not go forward.
const MOVES: u32 = 3;

/// An upload that can be resumed.
pub(super) struct Upload {
    uploads: Url,
    place: Option<Url>,
    size: u64,
}

impl Upload {
    /// An upload of this size, not yet created on the server.
    pub(super) fn new(uploads: Url, size: u64) -> Upload {
        Upload { uploads, place: None, size }
    }

    /// Sends the bytes that the server does not have yet.
    pub(super) async fn attempt(
        &mut self,
        proxy: &Proxy,
        token: &str,
        bytes: &Bytes,
        attempts: &mut Attempts,
    ) -> Result<AttemptResult> {
        let place = match self.place.clone() {
            Some(place) => place,
            None => match self.create(proxy, token).await {
                Ok(place) => place,
                Err(ended) => return Ok(ended),
            },
        };
        let is_new = self.place.replace(place.clone()).is_none();
        let mut offset = match is_new {
            true => 0,
            false => match self.offset(proxy, token, &place).await {
                Ok(offset) => offset,
                Err(ended) => return Ok(ended),
            },
        };
        let mut moves = 0;
        loop {
            attempts.reached(offset);
            let request = with_version(proxy.request(Method::PATCH, &place, token))
                .header(CONTENT_TYPE, PART)
                .header(OFFSET, offset);
            let length = Some(self.size.saturating_sub(offset));
            let answer = match proxy.pour(request, bytes.body(Form::WithoutHoles, offset)?, length).await {
                Ok(answer) => answer,
                Err(said) => return Ok(lost(said)),
            };
            match step(&answer, offset, self.size) {
                Step::To(next) if next > offset => offset = next,
                Step::To(next) if moves < MOVES => (offset, moves) = (next, moves + 1),
                Step::To(next) => {
                    let what = format!("the server is at byte {next} of {}, and accepts no more", self.size);
                    return Ok(AttemptResult::Broken(what));
                }
                Step::Gone(said) => {
                    self.place = None;
                    return Ok(AttemptResult::Broken(said));
                }
                Step::End(ended) => return Ok(ended),
            }
        }
    }

    /// Creates the upload on the server.
    async fn create(&self, proxy: &Proxy, token: &str) -> Result<Url, AttemptResult> {
        let request = proxy.request(Method::POST, &self.uploads, token).header(LENGTH, self.size);
        let answer = proxy.ask(with_version(request)).await.map_err(lost)?;
        created(&answer, &self.uploads)
    }

    /// Number of bytes that the server has.
    async fn offset(&mut self, proxy: &Proxy, token: &str, place: &Url) -> Result<u64, AttemptResult> {
        let request = with_version(proxy.request(Method::HEAD, place, token));
        let answer = proxy.ask(request).await.map_err(lost)?;
        match answer.number(OFFSET).filter(|offset| *offset <= self.size) {
            Some(offset) if answer.status == 200 => Ok(offset),
            _ if is_gone(answer.status) => {
                self.place = None;
                Err(AttemptResult::Broken("the server does not know the upload any more".to_owned()))
            }
            _ => Err(unexpected(&answer)),
        }
    }
}

/// Next step after a PATCH.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    To(u64),
    /// The server no longer knows the upload.
    Gone(String),
    End(AttemptResult),
}

fn step(answer: &Answer, sent_from: u64, size: u64) -> Step {
    let offset = answer.number(OFFSET).filter(|offset| *offset <= size);
    match (answer.status, offset) {
        (204, Some(offset)) if offset == size => Step::End(AttemptResult::Done),
        (204, Some(offset)) if offset >= sent_from => Step::To(offset),
        (409, Some(offset)) => Step::To(offset),
        (204, _) => {
            let what = "the server does not say with Upload-Offset how many bytes it has";
            Step::End(AttemptResult::Broken(what.to_owned()))
        }
        (status, _) if is_gone(status) => {
            Step::Gone(format!("unexpected return value {status}, {}", answer.text))
        }
        _ => Step::End(unexpected(answer)),
    }
}

/// Address of a created upload, or the outcome if the server did not create one.
fn created(answer: &Answer, uploads: &Url) -> Result<Url, AttemptResult> {
    let speaks_tus = answer.header(RESUMABLE.as_str()) == Some(VERSION);
    match answer.status {
        201 if speaks_tus => {
            let place = answer.header("location").and_then(|place| address::of_upload(uploads, place));
            place.ok_or(AttemptResult::Unsupported)
        }
        401 => Err(unexpected(answer)),
        _ if speaks_tus => Err(unexpected(answer)),
        // A proxy in front of the server reports that it is down; that says nothing about tus.
        429 | 502..=504 => Err(unexpected(answer)),
        _ => Err(AttemptResult::Unsupported),
    }
}

fn is_gone(status: u16) -> bool {
    matches!(status, 404 | 410)
}

fn with_version(request: RequestBuilder) -> RequestBuilder {
    request.header(RESUMABLE, VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)]) -> Answer {
        let mut answer = Answer::of(status, "no");
        for (name, value) in headers {
            answer.headers.insert(*name, value.parse().unwrap());
        }
        answer
    }

    #[test]
    fn an_upload_goes_to_where_the_server_stands() {
        let step = |status: u16, offset: &str| step(&answer(status, &[(OFFSET, offset)]), 10, 100);
        assert_eq!(step(204, "100"), Step::End(AttemptResult::Done));
        assert_eq!((step(204, "50"), step(204, "10")), (Step::To(50), Step::To(10)));
        assert_eq!((step(409, "0"), step(409, "70")), (Step::To(0), Step::To(70)));
        for wrong in ["101", "9", "", "x"] {
            assert!(matches!(step(204, wrong), Step::End(AttemptResult::Broken(_))), "{wrong}");
        }
        // A conflict about the disk, and not about the offset.
        assert!(matches!(step(409, "x"), Step::End(AttemptResult::Broken(_))));
        assert!(matches!(step(404, "x"), Step::Gone(_)));
        assert!(matches!(step(401, "x"), Step::End(AttemptResult::Unauthorized(_))));
        assert!(matches!(step(413, "x"), Step::End(AttemptResult::Refused(_))));
        assert!(matches!(step(500, "x"), Step::End(AttemptResult::Broken(_))));
    }

    #[test]
    fn a_server_without_tus_is_recognised_by_what_it_does_not_say() {
        let uploads = Url::parse("https://h/v1beta1/upload-tus").unwrap();
        let tus = ("tus-resumable", "1.0.0");
        let place = ("location", "/v1beta1/upload-tus/5.a");
        let made = created(&answer(201, &[tus, place]), &uploads).unwrap();
        assert_eq!(made.as_str(), "https://h/v1beta1/upload-tus/5.a");
        for (status, headers) in [
            (404, vec![]),
            (405, vec![]),
            (400, vec![]),
            (200, vec![place]),
            (201, vec![place]),
            (201, vec![tus, ("location", "/elsewhere")]),
        ] {
            assert_eq!(
                created(&answer(status, &headers), &uploads),
                Err(AttemptResult::Unsupported),
                "{status}"
            );
        }
        for (status, headers) in [(503, vec![]), (503, vec![tus]), (409, vec![tus]), (502, vec![])] {
            let ended = created(&answer(status, &headers), &uploads);
            assert!(matches!(ended, Err(AttemptResult::Broken(_))), "{status}");
        }
        assert!(matches!(created(&answer(401, &[]), &uploads), Err(AttemptResult::Unauthorized(_))));
    }
}
