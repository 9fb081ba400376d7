//! Events of a watch: one per line, read within bounds.
//!
//! Some servers store and return invalid UTF-8 unchanged. Such bytes do not end the watch: listing all
//! objects again would not remove them.

use super::request::LONGEST;
use cluster_model::answer::BoundedObject;
use futures_util::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use http::{HeaderValue, Request, header};
use kube::core::{Status, WatchEvent};
use std::error::Error as StdError;
use std::io;
use std::pin::Pin;

pub(super) struct Events(Pin<Box<dyn AsyncBufRead + Send>>);

impl Events {
    pub(super) async fn open(client: &kube::Client, mut request: Request<Vec<u8>>) -> kube::Result<Events> {
        // Newer servers compress each event separately, which this client does not decode.
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok(Events(Box::pin(client.request_stream(request).await?)))
    }

    /// The next event; `None` after the server has ended the watch.
    pub(super) async fn next(&mut self) -> kube::Result<Option<WatchEvent<BoundedObject>>> {
        loop {
            let mut line = Vec::new();
            let most = u64::try_from(LONGEST).unwrap_or(u64::MAX);
            match (&mut self.0).take(most.saturating_add(1)).read_until(b'\n', &mut line).await {
                Ok(0) => return Ok(None),
                Ok(_) if line.len() > LONGEST => return Err(kube::Error::LinesCodecMaxLineLengthExceeded),
                Ok(_) => {}
                Err(error) if is_end(&error) => return Ok(None),
                Err(error) => return Err(kube::Error::ReadEvents(error)),
            }
            let text = String::from_utf8_lossy(&line);
            if text.trim().is_empty() {
                continue;
            }
            return match serde_json::from_str(&text) {
                Ok(event) => Ok(Some(event)),
                // The connection broke within a line.
                Err(error) if error.is_eof() => Ok(None),
                Err(error) => match serde_json::from_str::<Status>(&text) {
                    Ok(status) => Err(kube::Error::Api(Box::new(status))),
                    Err(_) => Err(kube::Error::SerdeError(error)),
                },
            };
        }
    }
}

/// True if the connection was closed between two events, as after the watch's time-out.
fn is_end(error: &io::Error) -> bool {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        let of_stream = error.downcast_ref::<io::Error>();
        if of_stream.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
            || error.to_string().contains("unexpected EOF during chunk")
        {
            return true;
        }
        // The inner error of an `io::Error` is not its source.
        let within = of_stream.and_then(io::Error::get_ref).map(|error| error as &(dyn StdError + 'static));
        next = within.or_else(|| error.source());
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// The events read from a watch that sends these bytes and then breaks.
    async fn read(sent: Vec<u8>) -> Vec<kube::Result<Option<WatchEvent<BoundedObject>>>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            let head = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n", sent.len());
            for part in [head.as_bytes(), &sent, b"\r\n"] {
                // A reader that has seen enough closes the connection.
                let _ = stream.write_all(part).await;
            }
        });
        let client = kube::Client::try_from(kube::Config::new(format!("http://{address}").parse().unwrap()));
        let mut events =
            Events::open(&client.unwrap(), Request::get("/w").body(Vec::new()).unwrap()).await.unwrap();
        let mut all = Vec::new();
        loop {
            let event = events.next().await;
            let is_last = !matches!(event, Ok(Some(_)));
            all.push(event);
            if is_last {
                return all;
            }
        }
    }

    #[tokio::test]
    async fn an_event_of_an_object_that_is_too_deep_has_its_metadata() {
        for (levels, is_read) in [(100, true), (200, false), (100_000, false)] {
            let deep = format!("{}0{}", "[".repeat(levels), "]".repeat(levels));
            let object = format!(r#"{{"metadata":{{"name":"a"}},"more":{deep}}}"#);
            let event = format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n");
            let all = read(event.into_bytes()).await;
            let [Ok(Some(WatchEvent::Modified(BoundedObject(told)))), Ok(None)] = all.as_slice() else {
                panic!("{all:?}")
            };
            let expected = match is_read {
                true => serde_json::from_str(&object).unwrap(),
                false => serde_json::json!({"metadata": {"name": "a"}, "metadataAlone": true}),
            };
            assert_eq!(*told, expected, "{levels} levels");
        }
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_end_no_watch() {
        let event = |data: &[u8]| {
            let (begin, end) = (br#"{"type":"MODIFIED","object":{"metadata":{"name":"a"},"data":"#, b"}}\n");
            [begin.as_slice(), data, end].concat()
        };
        let all = read([event(b"\"\xff\""), b"\n".to_vec(), event(b"7")].concat()).await;
        let [
            Ok(Some(WatchEvent::Modified(BoundedObject(first)))),
            Ok(Some(WatchEvent::Modified(BoundedObject(second)))),
            Ok(None),
        ] = all.as_slice()
        else {
            panic!("{all:?}")
        };
        assert_eq!((&first["data"], &second["data"]), (&"\u{fffd}".into(), &7.into()));
    }

    #[tokio::test]
    async fn a_line_that_is_cut_is_an_end_and_one_that_is_wrong_or_endless_is_not() {
        let all = read(br#"{"type":"MODIFIED","object":{"metadata""#.to_vec()).await;
        assert!(matches!(all.as_slice(), [Ok(None)]), "{all:?}");
        let status = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Expired","code":410}"#;
        let all = read([status.as_slice(), b"\n"].concat()).await;
        assert!(matches!(all.as_slice(), [Err(kube::Error::Api(status))] if status.code == 410), "{all:?}");
        let all = read(b"seven\n".to_vec()).await;
        assert!(matches!(all.as_slice(), [Err(kube::Error::SerdeError(_))]), "{all:?}");
        let all = read(vec![b' '; LONGEST + 2]).await;
        assert!(matches!(all.as_slice(), [Err(kube::Error::LinesCodecMaxLineLengthExceeded)]), "{all:?}");
    }
}
