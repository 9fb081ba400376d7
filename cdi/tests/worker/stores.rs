//! Imports from object stores: a small store that checks signatures by its own reckoning.

use super::{Pod, disk, job, names};
use api::job::{Confidential, Files, Gcs, Import, S3, SecretFiles, Source};
use sha2::{Digest as _, Sha256};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use tests::http::pattern;

const ID: &str = "AKID";
const KEY: &str = "s3cret-key";
const TOKEN: &str = "s3cret-token";

/// A store with one object under every path, on a loopback port until the process ends.
struct Store {
    url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

/// The expected request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    /// Signatures for this region.
    Region(&'static str),
    /// A token that it gives itself.
    Token,
}

#[derive(Clone, Debug, Default)]
struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Request {
    fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
        let mut request = Request::default();
        stream.read_line(&mut request.line).ok().filter(|&n| n > 0)?;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok().filter(|&n| n > 0)?;
            let Some((name, value)) = line.split_once(':') else { break };
            request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = request.header("content-length").map_or(0, |length| length.parse().unwrap_or(0));
        let mut body = vec![0; length];
        std::io::Read::read_exact(stream, &mut body).ok()?;
        request.body = String::from_utf8_lossy(&body).into_owned();
        Some(request)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// The region that it is signed for, where its signature is right.
    fn signed_for(&self) -> Option<String> {
        let said = self.header("authorization")?;
        let part = |name: &str| said.split([' ', ',']).find_map(|part| part.strip_prefix(name));
        let scope = part("Credential=")?.strip_prefix(&format!("{ID}/"))?;
        let names = part("SignedHeaders=")?;
        let headers: Option<String> =
            names.split(';').map(|name| Some(format!("{name}:{}\n", self.header(name)?))).collect();
        let canonical = format!(
            "GET\n{}\n\n{}\n{names}\n{}",
            self.path(),
            headers?,
            self.header("x-amz-content-sha256")?
        );
        let time = self.header("x-amz-date")?;
        let text = format!(
            "AWS4-HMAC-SHA256\n{time}\n{scope}\n{}",
            hex::encode(Sha256::digest(canonical.as_bytes()))
        );
        let mut key = format!("AWS4{KEY}").into_bytes();
        for part in scope.split('/') {
            key = hmac(&key, part.as_bytes());
        }
        let is_right =
            part("Signature=")? == hex::encode(hmac(&key, text.as_bytes())) && time.starts_with(&scope[..8]);
        is_right.then(|| scope.split('/').nth(1).unwrap_or_default().to_owned())
    }
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let pad = |with: u8| -> Vec<u8> { (0..64).map(|i| key.get(i).copied().unwrap_or(0) ^ with).collect() };
    let inner = Sha256::digest([pad(0x36), text.to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

impl Store {
    fn start(object: Vec<u8>, wants: Wants) -> Store {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(vec![]));
        let (object, noted) = (Arc::new(object), Arc::clone(&seen));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (object, noted) = (Arc::clone(&object), Arc::clone(&noted));
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
                    let mut stream = stream;
                    while let Some(request) = Request::read(&mut reader) {
                        let answer = answer(&request, &object, wants);
                        noted.lock().expect("no panic").push(request);
                        if stream.write_all(&answer).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Store { url, seen }
    }

    fn seen(&self) -> Vec<Request> {
        self.seen.lock().expect("no panic").clone()
    }
}

fn answer(request: &Request, object: &[u8], wants: Wants) -> Vec<u8> {
    let short = |status: &str, text: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{text}", text.len()).into_bytes()
    };
    if request.line.starts_with("POST /token ") {
        return short("200 OK", &format!("{{\"access_token\": \"{TOKEN}\", \"expires_in\": 3600}}"));
    }
    match wants {
        Wants::Region(region) => match request.signed_for() {
            Some(signed) if signed == region => {}
            Some(_) => {
                let code = "<Code>AuthorizationHeaderMalformed</Code>";
                let text = format!("<?xml version=\"1.0\"?><Error>{code}<Region>{region}</Region></Error>");
                return short("400 Bad Request", &text);
            }
            None => return short("403 Forbidden", "<Error><Code>SignatureDoesNotMatch</Code></Error>"),
        },
        Wants::Token if request.header("authorization") != Some(&format!("Bearer {TOKEN}")) => {
            return short("401 Unauthorized", "");
        }
        Wants::Token => {}
    }
    let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((first, last)) = range else { return short("416 Range Not Satisfiable", "") };
    let (first, last): (usize, usize) =
        (first.parse().unwrap_or(0), last.parse().unwrap_or(usize::MAX).min(object.len() - 1));
    let (bytes, size) = (&object[first..=last], object.len());
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\nContent-Length: {}\r\nContent-Range: bytes {first}-{last}/{size}\r\n\r\n",
        bytes.len()
    );
    [head.as_bytes(), bytes].concat()
}

fn secret(files: &[(&str, &str)]) -> Option<SecretFiles> {
    let files = files.iter().map(|(key, value)| ((*key).to_owned(), Confidential(value.as_bytes().to_vec())));
    Some(SecretFiles { secret: "keys".into(), files: Files::Values(files.collect()) })
}

#[test]
fn an_object_of_s3_is_signed_for_in_ranges_and_for_the_region_that_the_store_wants() {
    let bytes = pattern(20 << 20);
    for region in ["us-east-1", "eu-far-1"] {
        let volume = tempfile::tempdir().unwrap();
        let store = Store::start(bytes.clone(), Wants::Region(region));
        let url = format!("{}/bucket/my%20disk.img", store.url);
        let login = secret(&[("accessKeyId", ID), ("secretKey", KEY)]);
        let source = Source::S3(S3 { url: url.as_str().into(), login, ca: None });
        let mut pod =
            Pod::start_with(&Import { source, ..job(volume.path(), &url) }, &[("CORACLE_LOG", "debug")]);
        let page = pod.page("/v1/report").unwrap_or_default();
        let ended = pod.wait();
        assert!(!page.contains("s3cret") && !ended.log.contains("s3cret"), "{}", ended.log);
        ended.done();
        assert!(std::fs::read(disk(volume.path())).unwrap() == bytes);
        let seen = store.seen();
        assert!(seen.len() > 2, "in ranges");
        let refused = seen.iter().filter(|request| request.signed_for().as_deref() != Some(region)).count();
        assert_eq!(refused, usize::from(region != "us-east-1"), "it is told once");
        assert!(!format!("{seen:?}").contains("s3cret"), "the key stays here");
    }
}

#[test]
fn a_wrong_key_ends_the_job() {
    let volume = tempfile::tempdir().unwrap();
    let store = Store::start(pattern(1 << 20), Wants::Region("us-east-1"));
    let url = format!("{}/bucket/disk.img", store.url);
    for login in [secret(&[("accessKeyId", ID), ("secretKey", "other")]), None] {
        let source = Source::S3(S3 { url: url.as_str().into(), login, ca: None });
        let report = Pod::run(&Import { source, ..job(volume.path(), &url) }).failed("Forbidden");
        assert!(report.message.contains("403"), "{report:?}");
    }
    assert_eq!(store.seen().len(), 2);
    assert!(names(volume.path()).is_empty());
}

#[test]
fn an_object_of_google_is_asked_for_with_the_token_of_its_account() {
    let bytes = pattern(20 << 20);
    let store = Store::start(bytes.clone(), Wants::Token);
    let key_file = serde_json::json!({
        "type": "service_account",
        "client_email": "reader@project.example",
        "private_key": include_str!("../../../lib/fetch/src/authorize/test-account.pem"),
        "token_uri": format!("{}/token", store.url),
    });
    let volume = tempfile::tempdir().unwrap();
    let url = format!("{}/bucket/disk.img", store.url);
    let gcs = |login| Source::Gcs(Gcs { url: url.as_str().into(), login });
    let login = secret(&[("credentials.json", &key_file.to_string())]);
    let ended = Pod::start_with(
        &Import { source: gcs(login), ..job(volume.path(), &url) },
        &[("CORACLE_LOG", "debug")],
    )
    .wait();
    assert!(!ended.log.contains("s3cret"), "{}", ended.log);
    ended.done();
    assert!(std::fs::read(disk(volume.path())).unwrap() == bytes);
    let tokens: Vec<_> = store.seen().into_iter().filter(|request| request.path() == "/token").collect();
    assert_eq!(tokens.len(), 1, "a token serves many requests");
    assert!(tokens[0].body.starts_with("grant_type=urn%3Aietf"), "{}", tokens[0].body);
    let volume = tempfile::tempdir().unwrap();
    Pod::run(&Import { source: gcs(None), ..job(volume.path(), &url) }).failed("Forbidden");
}
