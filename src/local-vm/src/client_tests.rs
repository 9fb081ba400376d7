//! The client against a peer that says what it should, and what it should not.

use super::*;
use api::launcher::Life;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

/// A launcher that answers one question with these bytes, and tells what it was asked.
fn launcher(answer: &'static [u8]) -> (tempfile::TempDir, Client, JoinHandle<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let asked = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(socket.try_clone().unwrap());
        let (mut text, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            text += &line;
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        socket.write_all(answer).unwrap();
        text + &String::from_utf8(body).unwrap()
    });
    (folder, Client::new("m", path), asked)
}

#[test]
fn a_request_is_sent_and_its_answer_read() {
    let (_folder, client, asked) =
        launcher(b"HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\n{\"answer\":\"queued\"}");
    assert_eq!(client.request(&Request::Shutdown { grace: Some(3) }).unwrap(), Answer::Queued);
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("POST /v1/requests HTTP/1.1\r\n"), "{asked}");
    assert!(asked.ends_with("{\"request\":\"shutdown\",\"grace\":3}"), "{asked}");
}

#[test]
fn states_come_in_chunks_that_are_cut_anywhere() {
    let state = |n: u8, life: &str| {
        format!("{{\"number\":{n},\"generation\":1,\"life\":\"{life}\",\"since\":\"x\",\"agent\":false}}\n")
    };
    let text = state(1, "Preparing") + &state(2, "Running");
    let (one, two) = text.split_at(30);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:X};x=y\r\n{two}\r\n0\r\n\r\n",
        one.len(),
        two.len()
    );
    let (_folder, client, _asked) = launcher(answer.leak().as_bytes());
    let mut states = client.watch().unwrap();
    assert_eq!(states.next(None).unwrap().unwrap().life, Life::Preparing);
    assert_eq!(states.next(None).unwrap().unwrap().number, 2);
    assert_eq!(states.next(None).unwrap(), None);
}

#[test]
fn a_stream_begins_with_what_came_with_the_head() {
    let (_folder, client, _asked) =
        launcher(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: coracle-stream\r\n\r\nlogin: ");
    let mut stream = client.console(Access::Read).unwrap();
    let mut rest = Vec::new();
    stream.socket.read_to_end(&mut rest).unwrap();
    assert_eq!([stream.first, rest].concat(), b"login: ");
}

#[test]
fn a_refusal_is_told_with_its_faults_and_its_kind() {
    let body = r#"{"error":"the VM cannot be made","faults":[{"field":"spec.x","reason":"FieldValueInvalid","message":"is wrong"}],"hint":"mend it"}"#;
    let answer = format!("HTTP/1.1 422 No\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (_folder, client, _asked) = launcher(answer.leak().as_bytes());
    let e = client.state().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert_eq!(e.to_string(), "the VM cannot be made\n  spec.x: is wrong; mend it");
}

#[test]
fn whatever_else_it_says_is_an_error_and_no_panic() {
    let answers: [&[u8]; 9] = [
        b"",
        b"SSH-2.0\r\n",
        b"HTTP/1.1 2",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 500 Oh\r\n\r\n",
    ];
    for answer in answers {
        let (_folder, client, _asked) = launcher(answer);
        let e = client.state().unwrap_err();
        assert!(e.to_string().contains("launcher of m"), "{e}");
    }
    let nobody = Client::new("m", "/nowhere/s".into());
    assert_eq!(nobody.state().unwrap_err().kind(), ErrorKind::NotFound);
}
