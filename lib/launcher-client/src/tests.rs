//! The client against launchers that behave, and launchers that misbehave. The tests of virt-handler's
//! client, against a a hostile launcher, are in `controller/virt-handler/src/launcher_client_tests.rs`.

use super::*;
use api::launcher::{Answer, Exec, Freeze, Request};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(120);

/// A launcher played by the test, and the result of its thread.
struct Fake<T> {
    client: Client,
    _place: tempfile::TempDir,
    program: JoinHandle<T>,
}

/// A launcher that does this with its first connection.
fn fake<T: Send + 'static>(does: impl FnOnce(UnixStream) -> T + Send + 'static) -> Fake<T> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let program = std::thread::spawn(move || does(listener.accept().unwrap().0));
    let patience = Timeouts { answer: LONG, sync: LONG, state: LONG };
    Fake { client: Client::at("the launcher of a", path).with(patience), _place: place, program }
}

/// The head of a request, and no more of it.
fn head(stream: &mut UnixStream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

/// A launcher that reads the head of a request, answers, and ends.
fn says(answer: impl Into<Vec<u8>>) -> Fake<String> {
    let answer = answer.into();
    fake(move |mut stream| {
        let asked = head(&mut stream);
        // A client that has read enough hangs up.
        drop(stream.write_all(&answer));
        asked
    })
}

fn http(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn exec(argument: String) -> Exec {
    Exec { command: "echo".into(), args: vec![argument], input: None, timeout: None }
}

#[test]
fn a_refusal_is_read_even_if_the_launcher_does_not_read_the_request() {
    // More than fits into the socket's buffers, so that it cannot all be sent.
    let long = || exec("x".repeat(1 << 20));
    let refusal = http("409 Conflict", r#"{"error":"not yet"}"#);
    let after_the_head = says(refusal.clone());
    assert_eq!(wait(after_the_head.client.exec(&long(), LONG)).unwrap_err().to_string(), "not yet");
    let before_the_question = fake(move |mut stream| stream.write_all(refusal.as_bytes()).unwrap());
    let asked = async {
        // The launcher answers and ends before the request is sent.
        while !before_the_question.program.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    };
    let path = before_the_question._place.path().join("s");
    let connected = AtPath(path);
    let open = wait(async { connected.open().await.map_err(|e| Error::failed("open").because(e)) }).unwrap();
    wait(asked).unwrap();
    let connector = std::sync::Arc::new(Ready(std::sync::Mutex::new(Some(open))));
    let client = Client::new("the launcher of a", connector);
    assert_eq!(wait(client.exec(&long(), LONG)).unwrap_err().to_string(), "not yet");
}

/// A connector that is open already.
struct Ready(std::sync::Mutex<Option<Open>>);

impl Connector for Ready {
    fn open(&self) -> futures_util::future::BoxFuture<'_, Result<Open, Cause>> {
        let open = self.0.lock().unwrap().take();
        Box::pin(async { open.ok_or_else(|| "it is closed".into()) })
    }
}

#[test]
fn a_launcher_that_ends_without_an_answer_is_an_error() {
    let gone = fake(drop);
    let said = wait(gone.client.exec(&exec("x".repeat(1 << 20)), LONG)).unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Failed);
    assert!(
        said.to_string().contains("the launcher of a broke off before it answered /v1/guest/exec"),
        "{said}"
    );
    let half = says("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}");
    let said = wait(half.client.info()).unwrap_err();
    assert!(said.to_string().contains("broke off while it answered /v1/info"), "{said}");
}

#[test]
fn the_longest_output_of_a_program_in_the_guest_is_read() {
    // A mebibyte of each, in bytes for which JSON needs six.
    let output = "\u{1}".repeat(1 << 20);
    let body = json!({"exitCode": 3, "stdout": output, "stderr": output}).to_string();
    assert!(body.len() > 12 << 20);
    let launcher = says(http("200 OK", &body));
    let done = wait(launcher.client.exec(&exec("x".into()), LONG)).unwrap();
    assert_eq!((done.exit_code, done.stdout.len(), done.stderr.len()), (3, 1 << 20, 1 << 20));
    let endless = says(format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat(17 << 20)));
    assert_eq!(wait(endless.client.exec(&exec("x".into()), LONG)).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn an_endless_head_is_refused() {
    let endless = says(format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(64 << 10)));
    let said = wait(endless.client.info()).unwrap_err();
    assert!(said.to_string().contains("or is not a launcher"), "{said}");
}

#[test]
fn the_error_of_a_late_answer_names_the_request() {
    let patience = Timeouts { answer: SHORT, sync: SHORT, state: SHORT };
    let silent = || fake(|mut stream| while stream.read(&mut [0; 512]).is_ok_and(|size| size > 0) {});
    let late = |launcher: &Fake<()>| launcher.client.clone().with(patience);
    let launcher = silent();
    let said = wait(late(&launcher).console(Access::Write)).unwrap_err();
    assert_eq!(said.kind(), ErrorKind::TimedOut);
    assert_eq!(said.to_string(), "the launcher of a did not answer /v1/console?write within 0 s");
    launcher.program.join().unwrap();
    let launcher = silent();
    let said = wait(late(&launcher).watch()).map(drop).unwrap_err().to_string();
    assert_eq!(said, "the launcher of a did not answer /v1/state?watch within 0 s");
    launcher.program.join().unwrap();

    // A launcher that accepts no connection, and whose queue is full.
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let mut waiting = Vec::new();
    while let Some(stream) = try_connect(&path).unwrap() {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the queue is never full");
    }
    assert!(is_listening(&path));
    let client = Client::at("the launcher of a", &path).with(patience);
    let said = wait(client.info()).unwrap_err();
    assert_eq!(said.kind(), ErrorKind::TimedOut);
    assert!(
        said.to_string().contains("accepted no connection within 0 s, so /v1/info was not requested"),
        "{said}"
    );
    drop((listener, waiting));
    assert!(!is_listening(&path));
    assert_eq!(wait(client.info()).unwrap_err().kind(), ErrorKind::NotListening);
}

#[test]
fn a_connection_is_made_as_soon_as_there_is_room_for_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let first = try_connect(&path).unwrap().unwrap();
    let client = Client::at("the launcher of a", &path);
    std::thread::spawn(move || {
        drop(first);
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            if stream.read(&mut [0; 4096]).unwrap() > 0 {
                stream.write_all(http("200 OK", r#"{"answer":"queued"}"#).as_bytes()).unwrap();
            }
        }
    });
    assert_eq!(wait(client.request(&Request::Pause)).unwrap(), Answer::Queued);
}

#[test]
fn text_of_a_launcher_has_no_control_characters() {
    let bad = "a\u{1b}[2J\nb\u{202e}";
    let ignored = says(http("200 OK", &json!({"answer": "ignored", "reason": bad}).to_string()));
    let answer = wait(ignored.client.request(&Request::Pause)).unwrap();
    assert_eq!(answer, Answer::Ignored { reason: "a [2J b ".into() });
    let fault = json!({"reason": "FieldValueInvalid", "message": bad, "field": bad, "hint": bad});
    let body = json!({"error": bad, "hint": bad, "faults": [fault]}).to_string();
    let refused = says(http("422 x", &body));
    let said = wait(refused.client.info()).unwrap_err();
    assert_eq!((said.kind(), said.to_string().as_str()), (ErrorKind::Refused, "a [2J b  (a [2J b )"));
    let refusal = said.refusal().unwrap();
    assert_eq!((refusal.error.as_str(), refusal.hint.as_deref()), ("a [2J b ", Some("a [2J b ")));
    assert_eq!(refusal.faults[0].to_string(), "a [2J b : a [2J b ");
    assert_eq!(refusal.faults[0].hint.as_deref(), Some("a [2J b "));
    let long = says(http("500 x", &json!({"error": "x".repeat(5000)}).to_string()));
    let said = wait(long.client.info()).unwrap_err().to_string();
    assert_eq!(said.chars().count(), sanitize::SENTENCE);
}

fn state(number: u64) -> String {
    json!({"number": number, "generation": 1, "life": "Running", "since": "x", "agent": false}).to_string()
}

#[test]
fn a_launcher_that_ends_within_a_state_ends_the_states() {
    let (one, two) = (state(1), state(2));
    let launcher = says(format!("HTTP/1.1 200 OK\r\n\r\n{one}\n{}", &two[..20]));
    let (mut states, ()) = wait(launcher.client.watch()).unwrap();
    assert_eq!(wait(states.next_within(LONG)).unwrap().unwrap().number, 1);
    assert_eq!(wait(states.next()).unwrap(), None);
}

#[test]
fn a_state_that_comes_late_is_still_read() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let launcher = fake(move |mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        told.recv().unwrap();
        stream.write_all((state(7) + "\n").as_bytes()).unwrap();
    });
    let (mut states, ()) = wait(launcher.client.watch()).unwrap();
    let said = wait(states.next_within(SHORT)).unwrap_err();
    assert_eq!(
        (said.kind(), said.to_string().as_str()),
        (ErrorKind::TimedOut, "the launcher of a sent no state within 0 s")
    );
    tell.send(()).unwrap();
    assert_eq!(wait(states.next_within(LONG)).unwrap().unwrap().number, 7);
}

const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: coracle-stream\r\n\r\nlogin: ";

#[test]
fn a_refused_stream_has_the_launchers_reason() {
    let body = json!({"error": "3 clients read the console already", "hint": "end one"}).to_string();
    let launcher = says(http("409 Conflict", &body));
    let said = wait(launcher.client.console(Access::Take)).unwrap_err();
    assert_eq!(said.to_string(), "3 clients read the console already (end one)");
    assert!(said.refusal().is_some());
    let asked = launcher.program.join().unwrap().to_ascii_lowercase();
    assert!(asked.starts_with("get /v1/console?take http/1.1\r\n"), "{asked}");
    assert!(
        asked.contains("upgrade: coracle-stream\r\n") && asked.contains("connection: upgrade\r\n"),
        "{asked}"
    );
}

#[tokio::test]
async fn a_stream_ends_one_way_and_goes_on_the_other() {
    let launcher = fake(|mut stream| {
        head(&mut stream);
        stream.write_all(SWITCHING).unwrap();
        let mut typed = String::new();
        stream.read_to_string(&mut typed).unwrap();
        stream.write_all(format!("{typed} was typed").as_bytes()).unwrap();
    });
    let mut stream = launcher.client.vnc(Access::Alone).await.unwrap();
    stream.write_all(b"root").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "login: root was typed");
}

#[tokio::test]
async fn an_unread_stream_holds_its_writer_back() {
    let launcher = fake(|mut stream| {
        head(&mut stream);
        stream.write_all(SWITCHING).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(size) = stream.write(&[b'x'; 4096]) {
            sent += size;
            assert!(sent < 64 << 20, "unread bytes are kept somewhere");
        }
        stream.set_nonblocking(false).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // The answer is not read until the writer waits.
        std::io::copy(&mut stream, &mut std::io::sink()).map(|taken| (sent, taken)).unwrap()
    });
    let mut stream = launcher.client.console(Access::Read).await.unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await.unwrap();
    let typed = vec![b'y'; 8 << 20];
    stream.write_all(&typed).await.unwrap();
    drop(stream);
    let (sent, taken) = launcher.program.join().unwrap();
    assert_eq!((said.len(), taken), ("login: ".len() + sent, typed.len() as u64));
}

#[test]
fn a_blocking_stream_has_the_bytes_that_arrived_already() {
    let launcher = fake(|mut stream| {
        head(&mut stream);
        stream.write_all(SWITCHING).unwrap();
        let mut key = [0];
        stream.read_exact(&mut key).unwrap();
        stream.write_all(&key).unwrap();
    });
    let (first, mut socket) = wait(launcher.client.console(Access::Write)).unwrap().into_blocking().unwrap();
    socket.write_all(b"k").unwrap();
    let mut rest = Vec::new();
    socket.read_to_end(&mut rest).unwrap();
    assert_eq!([first, rest].concat(), b"login: k");
}

/// A launcher that is reached by something that is not a unix socket.
struct Elsewhere(std::sync::Mutex<Option<tokio::io::DuplexStream>>);

impl Connector for Elsewhere {
    fn open(&self) -> futures_util::future::BoxFuture<'_, Result<Open, Cause>> {
        let end = self.0.lock().unwrap().take();
        Box::pin(async { Ok(Open { stream: Box::new(end.ok_or("it is closed")?).into(), peer: () }) })
    }
}

#[tokio::test]
async fn a_launcher_is_asked_below_a_path_and_by_any_connection() {
    let (ours, mut theirs) = tokio::io::duplex(64);
    let connector = std::sync::Arc::new(Elsewhere(std::sync::Mutex::new(Some(ours))));
    let client = Client::new("the launcher of n/web", connector).below(vmi_path("n", "web", "u"));
    let launcher = async {
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            asked.push(theirs.read_u8().await.unwrap());
        }
        theirs.write_all(SWITCHING).await.unwrap();
        let mut typed = String::new();
        theirs.read_to_string(&mut typed).await.unwrap();
        (String::from_utf8(asked).unwrap(), typed)
    };
    let types = async {
        let mut stream = client.console(Access::Take).await.unwrap();
        let mut said = [0; 7];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"login: ");
        stream.write_all(b"root").await.unwrap();
        stream.shutdown().await.unwrap();
        stream
    };
    let ((asked, typed), stream) = tokio::join!(launcher, types);
    let path = "/v1/namespaces/n/virtualmachineinstances/web/u/v1/console?take";
    assert!(asked.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{asked}");
    assert_eq!(typed, "root");
    assert_eq!(stream.into_blocking().unwrap_err().kind(), std::io::ErrorKind::Unsupported);
}

#[test]
fn what_the_guest_agent_says_and_does_is_told() {
    let users = says(http("200 OK", &json!([{"name": "root", "loginTime": 1.5}]).to_string()));
    let users = wait(users.client.users()).unwrap();
    assert_eq!((users[0].name.as_str(), users[0].login_time), ("root", Some(1.5)));
    let one = json!({"name": "vda1", "mountpoint": "/", "type": "ext4", "usedBytes": 7});
    let found = says(http("200 OK", &json!([one]).to_string()));
    let found = wait(found.client.filesystems()).unwrap();
    assert_eq!((found[0].kind.as_str(), found[0].used_bytes, found[0].total_bytes), ("ext4", Some(7), None));
    let (freezes, thaws) =
        (says(http("200 OK", r#"{"frozen":2}"#)), says(http("503 x", r#"{"error":"no agent"}"#)));
    wait(freezes.client.freeze(&Freeze { thaw_after_ms: Some(1500) })).unwrap();
    let asked = freezes.program.join().unwrap();
    assert!(asked.starts_with("POST /v1/guest/freeze HTTP/1.1\r\n"), "{asked}");
    let said = wait(thaws.client.thaw()).unwrap_err();
    assert_eq!((said.status(), said.to_string().as_str()), (Some(503), "no agent"));
}

#[test]
fn the_status_of_a_refusal_is_told_whatever_its_text_is() {
    for (status, body, told) in [
        ("404 Not Found", "no JSON", Some(404)),
        ("409 Conflict", r#"{"error":"not yet"}"#, Some(409)),
        ("200 OK", "no JSON", None),
    ] {
        let launcher = says(http(status, body));
        assert_eq!(wait(launcher.client.info()).unwrap_err().status(), told, "{status}");
    }
    let refused = says(http("409 Conflict", r#"{"error":"3 clients read the console already"}"#));
    assert_eq!(wait(refused.client.console(Access::Read)).unwrap_err().status(), Some(409));
    let gone = fake(drop);
    assert_eq!(wait(gone.client.info()).unwrap_err().status(), None);
}

#[test]
fn a_picture_is_read_when_there_is_room_for_it() {
    let picture = || says(http("200 OK", "a picture"));
    let (told, room) = wait(picture().client.screenshot_in(false, 9, async { 7 })).unwrap();
    assert_eq!((told.as_slice(), room), (b"a picture".as_slice(), 7));
    let said = wait(picture().client.screenshot_in(false, 8, async {})).unwrap_err();
    assert_eq!(said.kind(), ErrorKind::TooLarge);
    let refused = says(http("409 Conflict", r#"{"error":"there is no VM yet"}"#));
    let said = wait(refused.client.screenshot_in(false, 9, async {})).unwrap_err();
    assert_eq!((said.status(), said.to_string().as_str()), (Some(409), "there is no VM yet"));
    // No room is taken for a launcher that does not answer.
    let silent = fake(|mut stream| while stream.read(&mut [0; 512]).is_ok_and(|size| size > 0) {});
    let client = silent.client.clone().with(Timeouts { answer: SHORT, sync: SHORT, state: SHORT });
    let taken = std::sync::atomic::AtomicBool::new(false);
    let room = async { taken.store(true, std::sync::atomic::Ordering::Relaxed) };
    assert_eq!(wait(client.screenshot_in(false, 9, room)).unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(!taken.into_inner());
    silent.program.join().unwrap();
}

#[test]
fn several_threads_wait_at_once() {
    // A thread waits for a late state, while others send requests.
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let watched = fake(move |mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        told.recv().unwrap();
        stream.write_all((state(7) + "\n").as_bytes()).unwrap();
    });
    let (mut states, ()) = wait(watched.client.watch()).unwrap();
    let watcher = std::thread::spawn(move || wait(states.next()).unwrap().unwrap().number);
    for _ in 0..3 {
        let asked = says(http("200 OK", r#"{"answer":"queued"}"#));
        assert_eq!(wait(asked.client.request(&Request::Pause)).unwrap(), Answer::Queued);
    }
    tell.send(()).unwrap();
    assert_eq!(watcher.join().unwrap(), 7);
}
