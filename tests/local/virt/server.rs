//! A small API server on loopback: it records requests, gives prepared answers, and opens WebSockets.

use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

/// Server side of a client's WebSocket.
pub(crate) type Stream = WebSocket<TcpStream>;

/// Answer to one request for a stream.
pub(crate) enum Answer {
    /// The request is refused with this status and message.
    Refused(u16, &'static str),
    /// The stream is opened, and passed to this function.
    Open(Box<dyn FnOnce(Stream) + Send>),
}

/// Opens the stream, and passes it to this function.
pub(crate) fn open(does: impl FnOnce(Stream) + Send + 'static) -> Answer {
    Answer::Open(Box::new(does))
}

#[derive(Default)]
struct State {
    answers: Mutex<BTreeMap<String, (u16, String)>>,
    once: Mutex<Vec<(String, u16, String)>>,
    streams: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<String>>,
}

#[derive(Clone)]
pub(crate) struct ApiServer {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

impl ApiServer {
    /// Serves until the test ends.
    pub(crate) fn start() -> ApiServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let server = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&server);
                thread::spawn(move || state.serve(stream.unwrap()));
            }
        });
        ApiServer { address, state }
    }

    /// Sets the answer to a request like `GET /path`.
    pub(crate) fn answers(&self, request: &str, status: u16, body: impl Into<String>) {
        self.state.answers.lock().unwrap().insert(request.to_owned(), (status, body.into()));
    }

    /// Sets the answer to the next such request, once; several answers are given in order.
    pub(crate) fn answers_once(&self, request: &str, status: u16, body: impl Into<String>) {
        self.state.once.lock().unwrap().push((request.to_owned(), status, body.into()));
    }

    /// Adds an object.
    pub(crate) fn has(&self, path: &str, object: &Value) {
        self.answers(&format!("GET {path}"), 200, object.to_string());
    }

    /// Removes an object.
    pub(crate) fn forgets(&self, path: &str) {
        self.state.answers.lock().unwrap().remove(&format!("GET {path}"));
    }

    /// Sets the answers to the next requests for streams.
    pub(crate) fn streams(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state.streams.lock().unwrap().extend(answers);
    }

    /// Returns the recorded requests, and clears the record.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state.asked.lock().unwrap())
    }
}

/// A refusal, as the API server writes it.
pub(crate) fn status(code: u16, message: &str) -> String {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})
        .to_string()
}

impl State {
    fn serve(&self, stream: TcpStream) {
        let head = peeked(&stream);
        let lower = head.to_lowercase();
        assert!(lower.contains("authorization: bearer secret"), "{head}");
        if lower.contains("upgrade: websocket") {
            return self.open(stream, &head);
        }
        let mut stream = stream;
        let mut request = vec![0; head.len()];
        stream.read_exact(&mut request).unwrap();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
        stream.read_exact(&mut body).unwrap();
        let asked = target(&head);
        let body = String::from_utf8(body).unwrap();
        self.asked.lock().unwrap().push(format!("{asked} {body}").trim_end().to_owned());
        let without_query = asked.split('?').next().unwrap().to_owned();
        let answers = self.answers.lock().unwrap();
        let found =
            self.once(&without_query).or(answers.get(&asked).or(answers.get(&without_query)).cloned());
        drop(answers);
        let (code, text) = found.unwrap_or_else(|| (404, status(404, &format!("{without_query} not found"))));
        respond(&mut stream, code, &text);
    }

    fn once(&self, request: &str) -> Option<(u16, String)> {
        let mut once = self.once.lock().unwrap();
        let at = once.iter().position(|(told, ..)| told == request)?;
        let (_, status, body) = once.remove(at);
        Some((status, body))
    }

    fn open(&self, mut stream: TcpStream, head: &str) {
        self.asked.lock().unwrap().push(target(head));
        assert!(head.to_lowercase().contains("sec-websocket-protocol: plain.kubevirt.io"), "{head}");
        let next = self.streams.lock().unwrap().pop_front();
        match next.unwrap_or(Answer::Refused(503, "no more streams in this test")) {
            Answer::Refused(code, message) => {
                let mut request = vec![0; head.len()];
                stream.read_exact(&mut request).unwrap();
                respond(&mut stream, code, &status(code, message));
            }
            Answer::Open(does) => {
                #[allow(clippy::result_large_err, reason = "the library's own type")]
                let confirm = |_: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
                    let name = "Sec-WebSocket-Protocol";
                    response.headers_mut().insert(name, "plain.kubevirt.io".parse().unwrap());
                    Ok(response)
                };
                does(tungstenite::accept_hdr(stream, confirm).unwrap());
            }
        }
    }
}

/// The header of a request, which stays unread.
fn peeked(stream: &TcpStream) -> String {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let count = stream.peek(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            return format!("{head}\r\n\r\n");
        }
        assert!(count > 0 && count < buffer.len(), "no head: {text}");
        thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Method and path in a header.
fn target(head: &str) -> String {
    head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned()
}

fn respond(stream: &mut TcpStream, code: u16, body: &str) {
    let head = format!(
        "HTTP/1.1 {code} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // The client may have closed the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

/// Sends bytes.
pub(crate) fn says(stream: &mut Stream, text: &[u8]) {
    stream.send(Message::Binary(text.to_vec().into())).unwrap();
}

/// The next bytes; `None` when the client has closed the stream.
pub(crate) fn hears(stream: &mut Stream) -> Option<Vec<u8>> {
    loop {
        match stream.read() {
            Ok(Message::Binary(bytes)) => return Some(bytes.to_vec()),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Echoes all bytes until the client closes the stream.
pub(crate) fn echoes(mut stream: Stream) {
    while let Some(bytes) = hears(&mut stream) {
        says(&mut stream, &bytes);
    }
}
