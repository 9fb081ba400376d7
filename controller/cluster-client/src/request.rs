//! A request to the API server, with its metric and its error.

use crate::error::{Error, ErrorKind, Result};
use cluster_model::answer::BoundedObject;
use cluster_model::objects::Key;
use futures_util::AsyncReadExt as _;
use http::request::Builder;
use serde_json::Value;
use std::time::{Duration, Instant};

/// The content type of JSON objects.
pub(super) const JSON: &str = "application/json";

/// Maximum length of a response. An object has 3 MiB at most.
pub(super) const LONGEST: usize = 16 << 20;

/// Sends a request about an object, with a body of this content type and this time-out.
pub(super) async fn send(
    client: &kube::Client,
    doing: &str,
    key: &Key,
    request: Builder,
    body: Option<(&str, &Value)>,
    patience: Duration,
) -> Result<Value> {
    ask(client, doing, key, request, body, patience).await?.ok_or_else(|| {
        let what =
            format!("cannot {doing} {key}: the answer of the API server is longer than {LONGEST} bytes");
        Error::new(ErrorKind::Refused, what)
    })
}

/// The same, but `None` if the response is longer than [`LONGEST`].
pub(super) async fn ask(
    client: &kube::Client,
    doing: &str,
    key: &Key,
    request: Builder,
    body: Option<(&str, &Value)>,
    patience: Duration,
) -> Result<Option<Value>> {
    let (kind, bytes) = match body {
        Some((kind, body)) => (kind, body.to_string().into_bytes()),
        None => (JSON, Vec::new()),
    };
    let request = request
        .header(http::header::CONTENT_TYPE, kind)
        .body(bytes)
        .map_err(|e| Error::setup(format!("cannot {doing} {key}: its name is not valid in a URL"), e))?;
    let verb = request.method().to_string();
    let began = Instant::now();
    let answer = tokio::time::timeout(patience, read(client, request)).await;
    crate::metrics::request(&verb, began, answer.as_ref().ok().map(|answer| answer.as_ref()));
    match answer {
        Ok(answer) => answer.map_err(|error| Error::of_client(doing, key, error)),
        Err(_) => {
            let seconds = patience.as_secs();
            let what = format!("cannot {doing} {key}: the API server did not answer within {seconds} s");
            Err(Error::new(ErrorKind::Unreachable, what))
        }
    }
}

async fn read(client: &kube::Client, request: http::Request<Vec<u8>>) -> kube::Result<Option<Value>> {
    let answer = std::pin::pin!(client.request_stream(request).await?);
    let mut bytes = Vec::new();
    let most = u64::try_from(LONGEST).unwrap_or(u64::MAX);
    let read = answer.take(most.saturating_add(1)).read_to_end(&mut bytes).await;
    read.map_err(|e| kube::Error::Service(Box::new(e)))?;
    if bytes.len() > LONGEST {
        return Ok(None);
    }
    // Some servers store and return invalid UTF-8 unchanged.
    let text = String::from_utf8_lossy(&bytes);
    serde_json::from_str(&text).map(|BoundedObject(value)| Some(value)).map_err(kube::Error::SerdeError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::objects::Kind;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_not_read_to_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let endless = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"items\": [").await.unwrap();
            while stream.write_all(&[b' '; 65536]).await.is_ok() {}
        });
        let config = kube::Config::new(format!("http://{address}").parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let key = Key::new(Kind::Pod, "n", "(all)");
        let patience = Duration::from_secs(60);
        let asked = ask(&client, "list", &key, http::Request::get("/api/v1/pods"), None, patience);
        assert_eq!(asked.await.unwrap(), None);
        endless.await.unwrap();
    }
}
