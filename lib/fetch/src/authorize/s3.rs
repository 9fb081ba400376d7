//! An object in an S3 store. Each request for it is signed (AWS Signature Version 4), and the key does not
//! leave this host.
//!
//! ```text
//!  method, path, query, host, time, hash of no body ──► canonical request ─┐
//!  key ─► HMAC date ─► HMAC region ─► HMAC "s3" ─► HMAC "aws4_request" ─────┴─► signature
//! ```
//!
//! **The region** is a part of the signature. It is in the host's name, or is `us-east-1`. A store that needs
//! another region names it in its refusal (a header, or the body of a 400), and that is tried once. This is
//! safe, since the signature is of no use for another object.
//!
//! Ranges are not signed: they need not be, and the same signature serves while it is fresh.

use super::{Answer, Authorizer, Server, secret};
use crate::{Error, Fault, Location, Result, Secret};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use ring::{digest, hmac};
use std::sync::{Mutex, PoisonError};

/// The region if the host's name has none.
const DEFAULT_REGION: &str = "us-east-1";
/// Most characters of a region's name.
const LONGEST: usize = 64;
/// Bytes of a refusal that are read; it is a short XML document.
const EXCERPT: usize = 16 << 10;
/// SHA-256 of no bytes.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// The characters that the canonical form leaves as they are.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// Credentials of an S3 store for one object.
pub struct S3 {
    id: String,
    key: Secret,
    object: Location,
    region: Mutex<String>,
}

impl S3 {
    /// The user of an access key, for the object at this URL.
    pub fn new(id: &str, key: Secret, object: Location) -> Result<S3> {
        let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ',');
        if id.is_empty() || !id.chars().all(is_plain) {
            return Err(Error::usage(
                "the id of the access key is empty, or holds a character that none has",
            ));
        }
        let region = Mutex::new(region_of(object.host()).to_owned());
        Ok(S3 { id: id.to_owned(), key, object, region })
    }

    fn region(&self) -> String {
        self.region.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn signed(&self, now: Timestamp) -> Result<HeaderMap> {
        let url = self.object.url();
        let host = match (url.host_str().unwrap_or_default(), url.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let headers =
            [("host", host.as_str()), ("x-amz-content-sha256", NOTHING), ("x-amz-date", time.as_str())];
        let asked =
            SignedRequest { path: url.path(), query: url.query().unwrap_or_default(), headers: &headers };
        let region = self.region();
        let scope = Scope { time: &time, region: &region };
        let said = format!(
            "AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}",
            self.id,
            scope.text(),
            asked.names(),
            scope.signature(&asked, &self.key)
        );
        let plain = |text: &str| {
            HeaderValue::try_from(text).map_err(|e| Error::failed("a time makes no valid header").because(e))
        };
        Ok(HeaderMap::from_iter([
            (AUTHORIZATION, secret(&said, "the id of the access key")?),
            (HeaderName::from_static("x-amz-content-sha256"), HeaderValue::from_static(NOTHING)),
            (HeaderName::from_static("x-amz-date"), plain(&time)?),
        ]))
    }
}

impl Authorizer for S3 {
    type Scope = ();

    async fn headers(&self, _: &Server<'_>, (): &()) -> Result<HeaderMap, Fault> {
        Ok(self.signed(Timestamp::now())?)
    }

    fn is_challenge(&self, status: StatusCode) -> bool {
        matches!(status.as_u16(), 301 | 307 | 400 | 403)
    }

    fn excerpt(&self) -> usize {
        EXCERPT
    }

    async fn challenged(
        &self,
        _: &Server<'_>,
        answer: &Answer<'_>,
        _: &HeaderMap,
        (): &(),
    ) -> Result<Option<HeaderMap>, Fault> {
        let Some(told) = requested_region(answer).filter(|told| *told != self.region()) else {
            return Ok(None);
        };
        tracing::debug!(region = told, "{} is signed for another region", self.object.shown());
        *self.region.lock().unwrap_or_else(PoisonError::into_inner) = told;
        Ok(Some(self.signed(Timestamp::now())?))
    }
}

/// The region that a refusal names.
fn requested_region(answer: &Answer<'_>) -> Option<String> {
    let header = answer.headers.get("x-amz-bucket-region").and_then(|value| value.to_str().ok());
    let text = String::from_utf8_lossy(answer.excerpt);
    let element =
        || text.split_once("<Region>")?.1.split_once("</Region>").map(|(region, _)| region.to_owned());
    let is_name = |region: &String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        (1..=LONGEST).contains(&region.len()) && region.chars().all(is_plain)
    };
    header.map(str::to_owned).or_else(element).filter(is_name)
}

/// The region in the name of a host: `s3.REGION.…`, `BUCKET.s3.REGION.…`, `s3-REGION.amazonaws.com`.
fn region_of(host: &str) -> &str {
    let mut labels =
        host.split('.').skip_while(|label| *label != "s3").skip(1).filter(|label| *label != "dualstack");
    let is_region = |label: &&str| label.contains('-');
    if let Some(region) = labels.next().filter(is_region) {
        return region;
    }
    let old = || host.split('.').find_map(|label| label.strip_prefix("s3-").filter(is_region));
    let is_amazons = host.ends_with(".amazonaws.com");
    is_amazons.then(old).flatten().unwrap_or(DEFAULT_REGION)
}

/// A GET request in the form that is signed.
struct SignedRequest<'a> {
    /// The path as it is sent.
    path: &'a str,
    query: &'a str,
    /// Headers with names in lower case, sorted by name.
    headers: &'a [(&'a str, &'a str)],
}

impl SignedRequest<'_> {
    fn names(&self) -> String {
        self.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";")
    }

    fn canonical(&self) -> String {
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let path = reescape(self.path, PATH);
        let mut query: Vec<(String, String)> = self
            .query
            .split('&')
            .filter(|part| !part.is_empty())
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(name, value)| (reescape(name, QUERY), reescape(value, QUERY)))
            .collect();
        query.sort();
        let query: Vec<String> = query.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("GET\n{path}\n{}\n{headers}\n{}\n{NOTHING}", query.join("&"), self.names())
    }
}

/// A part of a URL, escaped as the signature needs it: the server does the same with the received URL.
fn reescape(part: &str, set: &'static AsciiSet) -> String {
    let bytes: Vec<u8> = percent_decode_str(part).collect();
    match std::str::from_utf8(&bytes) {
        Ok(text) => utf8_percent_encode(text, set).to_string(),
        // Not UTF-8: no object has such a name, and the server will report that.
        Err(_) => part.to_owned(),
    }
}

/// The scope of a signature: a day, a region, the service.
struct Scope<'a> {
    /// Time of the signature, as `20260102T030405Z`.
    time: &'a str,
    region: &'a str,
}

impl Scope<'_> {
    fn date(&self) -> &str {
        self.time.split_once('T').map_or(self.time, |(date, _)| date)
    }

    fn text(&self) -> String {
        format!("{}/{}/s3/aws4_request", self.date(), self.region)
    }

    fn signature(&self, asked: &SignedRequest<'_>, key: &Secret) -> String {
        let hash = hex::encode(digest::digest(&digest::SHA256, asked.canonical().as_bytes()));
        let text = format!("AWS4-HMAC-SHA256\n{}\n{}\n{hash}", self.time, self.text());
        let sign =
            |key: &[u8], text: &str| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
        let mut key = sign(format!("AWS4{}", key.reveal()).as_bytes(), self.date());
        for part in [self.region, "s3", "aws4_request"] {
            key = sign(key.as_ref(), part);
        }
        hex::encode(sign(key.as_ref(), &text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of Amazon's documentation ("Signature Calculations for the Authorization Header").
    #[test]
    fn signatures_are_those_of_the_documentation() {
        let headers = [
            ("host", "examplebucket.s3.amazonaws.com"),
            ("x-amz-content-sha256", NOTHING),
            ("x-amz-date", "20130524T000000Z"),
        ];
        let with_range = [&headers[..1], &[("range", "bytes=0-9")], &headers[1..]].concat();
        let key = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let scope = Scope { time: "20130524T000000Z", region: DEFAULT_REGION };
        for (path, query, headers, expected) in [
            (
                "/test.txt",
                "",
                &with_range[..],
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "/",
                "lifecycle",
                &headers[..],
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "/",
                "prefix=J&max-keys=2",
                &headers[..],
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            assert_eq!(
                scope.signature(&SignedRequest { path, query, headers }, &key),
                expected,
                "{path}?{query}"
            );
        }
    }

    #[test]
    fn names_are_escaped_as_the_server_escapes_them() {
        let canonical = |path, query| SignedRequest { path, query, headers: &[] }.canonical();
        let text = canonical("/a/b%20c+(1)=%C3%A4~.img", "x=%2F&a=b%20c&a=+");
        assert!(text.starts_with("GET\n/a/b%20c%2B%281%29%3D%C3%A4~.img\na=%2B&a=b%20c&x=%2F\n"), "{text}");
    }

    #[test]
    fn the_region_is_that_of_the_host_or_of_a_refusal() {
        for (host, region) in [
            ("s3.eu-central-1.amazonaws.com", "eu-central-1"),
            ("bucket.s3.eu-west-2.amazonaws.com", "eu-west-2"),
            ("s3.dualstack.us-west-2.amazonaws.com", "us-west-2"),
            ("s3-ap-south-1.amazonaws.com", "ap-south-1"),
            ("s3.amazonaws.com", DEFAULT_REGION),
            ("bucket.s3.amazonaws.com", DEFAULT_REGION),
            ("s3.fr-par.scw.cloud", "fr-par"),
            ("s3.example", DEFAULT_REGION),
            ("127.0.0.1", DEFAULT_REGION),
        ] {
            assert_eq!(region_of(host), region, "{host}");
        }
        let mut headers = HeaderMap::new();
        let told =
            |headers: &HeaderMap, text: &str| requested_region(&Answer { headers, excerpt: text.as_bytes() });
        let text = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-north-1</Region></Error>";
        assert_eq!(told(&headers, text).as_deref(), Some("eu-north-1"));
        for text in ["", "<Region></Region>", "<Region>a b</Region>", "<Region>eu", "<Region>a\nb</Region>"] {
            assert_eq!(told(&headers, text), None, "{text}");
        }
        headers.insert("x-amz-bucket-region", HeaderValue::from_static("eu-south-1"));
        assert_eq!(told(&headers, text).as_deref(), Some("eu-south-1"));
    }

    #[test]
    fn no_key_is_in_what_is_sent_and_none_is_shown() {
        let object = Location::parse("http://127.0.0.1:9000/bucket/disk.img").unwrap().0;
        let s3 = S3::new("AKID", Secret::new("s3cret"), object.clone()).unwrap();
        let headers = s3.signed(Timestamp::from_second(0).unwrap()).unwrap();
        let said = headers[AUTHORIZATION].to_str().unwrap();
        assert!(
            said.starts_with("AWS4-HMAC-SHA256 Credential=AKID/19700101/us-east-1/s3/aws4_request,"),
            "{said}"
        );
        assert!(!said.contains("s3cret") && headers[AUTHORIZATION].is_sensitive());
        assert_eq!(headers["x-amz-date"], "19700101T000000Z");
        for id in ["", "a/b", "a b", "a\n"] {
            assert!(S3::new(id, Secret::new("s3cret"), object.clone()).is_err(), "{id:?}");
        }
    }
}
