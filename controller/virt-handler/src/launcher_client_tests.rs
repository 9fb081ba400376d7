use super::*;
use crate::pod::folder::Open;
use ::launcher_client::{Cause, Connector};
use ::launcher_client::{LARGEST, LONGEST, Timeouts};
use futures_util::future::BoxFuture;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// A launcher that answers each connection with the next of these texts, and closes it.
struct Fake(tempfile::TempDir);

impl Connector<Option<Process>> for Fake {
    fn open(&self) -> BoxFuture<'_, Result<Open, Cause>> {
        Box::pin(async {
            let stream = UnixStream::connect(self.0.path().join("s")).await;
            let peer = Some(Process::of(std::process::id())?);
            let stream = stream.map_err(|e| Error::io("cannot connect", e))?;
            Ok(Open { stream: stream.into(), peer })
        })
    }
}

fn fake(answers: Vec<Vec<u8>>) -> Client {
    let place = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(place.path().join("s")).unwrap();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).unwrap();
            // The client closes the connection after the answer.
            drop(stream.write_all(&answer));
        }
    });
    Client::new("test/a", Arc::new(Fake(place)))
}

fn http(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[tokio::test]
async fn a_refusal_is_told_in_its_own_words() {
    let refusal = json!({"error": "the VMI has 2 faults", "hint": "mend them", "faults": [
        {"reason": "FieldValueInvalid", "message": "one", "field": "spec.a"},
        {"reason": "FieldValueInvalid", "message": "two", "field": "spec.b"}
    ]});
    let client = fake(vec![http("422 Unprocessable Entity", &refusal.to_string()), http("500 x", "no JSON")]);
    let said = client.request(&Request::Pause).await.unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Refused);
    assert!(said.to_string().contains("one") && said.to_string().contains("two"), "{said}");
    let said = client.info().await.unwrap_err().to_string();
    assert!(said.contains("the launcher of test/a answers /v1/info with 500"), "{said}");
}

/// Only faults of a VMI are final. A full node is not, nor is a launcher of an older version, which answers
/// with the same status for every failure.
#[tokio::test]
async fn a_vmi_is_refused_for_its_faults_alone() {
    let fault = json!([{"reason": "FieldValueInvalid", "message": "no", "field": "spec.a"}]);
    let full = json!({"error": "cannot keep the VM in /r/vm.json: No space left on device"}).to_string();
    let faulty = json!({"error": "spec.a: no", "faults": fault}).to_string();
    let sync = Sync { vmi: json!({}), generation: 1, resolved: api::launcher::Resolved::default() };
    for (status, body, kind) in [
        ("422 Unprocessable Entity", faulty.as_str(), ErrorKind::Refused),
        ("422 Unprocessable Entity", &full, ErrorKind::Failed),
        ("422 Unprocessable Entity", "no JSON", ErrorKind::Failed),
        ("507 Insufficient Storage", &full, ErrorKind::Failed),
        ("500 Internal Server Error", &full, ErrorKind::Failed),
        ("503 Service Unavailable", &full, ErrorKind::Failed),
        ("400 Bad Request", &full, ErrorKind::Failed),
        ("200 OK", &"x".repeat(LARGEST + 1), ErrorKind::Failed),
    ] {
        let said = fake(vec![http(status, body)]).sync(&sync).await.unwrap_err();
        assert_eq!(said.kind(), kind, "{status}: {said}");
    }
}

/// Text from a launcher ends up in virt-handler's log.
#[tokio::test]
async fn a_launchers_words_are_one_short_line() {
    let long = format!("a\nINFO forged: all is well{}", "x".repeat(LARGEST / 2));
    let ignored = json!({"answer": "ignored", "reason": long}).to_string();
    let denied = json!({"answer": "denied", "reason": long}).to_string();
    let refusal = json!({"error": long, "hint": long}).to_string();
    let unknown = json!({"answer": long}).to_string();
    let mut state = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
    state.extend(format!("{}\n", json!({"life": "a\nb", "number": 1})).into_bytes());
    let client = fake(vec![
        http("200 OK", &ignored),
        http("200 OK", &denied),
        http("422 Unprocessable Entity", &refusal),
        http("200 OK", &unknown),
        state,
    ]);
    let mut said = Vec::new();
    for _ in 0..4 {
        said.push(match client.request(&Request::Pause).await {
            Ok(Answer::Ignored { reason }) => reason,
            Ok(Answer::Denied(denial)) => denial.to_string(),
            Ok(other) => panic!("{other:?}"),
            Err(e) => e.chain(),
        });
    }
    let (mut states, _) = client.watch().await.unwrap();
    said.push(states.next().await.unwrap_err().chain());
    for said in said {
        assert!(!said.contains('\n') && said.chars().count() < 4096, "{} characters", said.len());
    }
}

#[tokio::test]
async fn states_come_one_by_one_and_end_with_the_launcher() {
    let state = |number: u64| {
        json!({"number": number, "generation": 1, "life": "Running", "since": "x", "agent": false})
            .to_string()
    };
    let (one, two) = (state(1), state(2));
    let (half, rest) = two.split_at(9);
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in [format!("{one}\n{half}"), format!("{rest}\n")] {
        answer.extend(format!("{:x}\r\n{piece}\r\n", piece.len()).into_bytes());
    }
    let client = fake(vec![answer]);
    let (mut states, process) = client.watch().await.unwrap();
    assert!(process.unwrap().is_alive());
    assert_eq!(states.next().await.unwrap().unwrap().number, 1);
    assert_eq!(states.next().await.unwrap().unwrap().number, 2);
    assert_eq!(states.next().await.unwrap(), None, "it broke off: an end");
}

#[tokio::test]
async fn what_a_launcher_sends_is_bounded() {
    let huge = vec![b'x'; LARGEST + (1 << 20)];
    let mut whole = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", huge.len()).into_bytes();
    whole.extend(&huge);
    let mut line = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
    line.extend(&huge);
    let client = fake(vec![whole, line, http("200 OK", "{}")]);
    assert_eq!(client.info().await.unwrap_err().kind(), ErrorKind::Refused);
    let (mut states, _) = client.watch().await.unwrap();
    assert_eq!(states.next().await.unwrap_err().kind(), ErrorKind::Refused);
    drop(states);
    assert!(client.info().await.unwrap_err().to_string().contains("another version"));
}

#[tokio::test]
async fn a_state_is_shorter_than_an_answer() {
    let state = |targets: usize| {
        let targets: serde_json::Map<_, _> =
            (0..targets).map(|n| (format!("a{n:05}"), json!("vda"))).collect();
        json!({"number": 1, "generation": 1, "life": "Running", "since": "x", "agent": false, "targets": targets})
            .to_string()
    };
    let told = |state: String| {
        let mut line = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
        line.extend(format!("{state}\n").into_bytes());
        line
    };
    let (most, more) = (state(512), state(30_000));
    assert!(most.len() < LONGEST && more.len() > LONGEST && more.len() < LARGEST);
    let client = fake(vec![told(most), told(more)]);
    let (mut states, _) = client.watch().await.unwrap();
    assert_eq!(states.next().await.unwrap().unwrap().targets.len(), 512);
    drop(states);
    let (mut states, _) = client.watch().await.unwrap();
    assert_eq!(states.next().await.unwrap_err().kind(), ErrorKind::Refused);
}

/// A launcher that begins an answer, and sends a piece of it on demand. The client has this time limit.
fn slow(patience: Timeouts) -> (Client, mpsc::Sender<Vec<u8>>) {
    let place = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(place.path().join("s")).unwrap();
    let (tell, told) = mpsc::channel::<Vec<u8>>();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").unwrap();
        // The client closes the connection after its time limit.
        while told.recv().is_ok_and(|piece| stream.write_all(&piece).is_ok()) {}
    });
    let Client(client) = Client::new("test/a", Arc::new(Fake(place)));
    (Client(client.with(patience)), tell)
}

#[tokio::test]
async fn an_answer_that_comes_byte_by_byte_has_a_time_for_all_of_it() {
    let answer = Duration::from_millis(500);
    let (client, tell) = slow(Timeouts { answer, ..Timeouts::default() });
    let trickle = async {
        // The receiver is dropped when the connection is closed.
        while tell.send(b" ".to_vec()).is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        said = client.info() => {
            let said = said.unwrap_err().to_string();
            assert!(said.contains("did not answer /v1/info within"), "{said}");
        }
        () = trickle => {}
    }
}

#[tokio::test]
async fn a_state_that_has_begun_comes_to_its_end_or_is_given_up_however_often_it_is_asked_for() {
    // The beginning of an answer may take its time on a busy host; a state has its own limit.
    let state = Duration::from_millis(200);
    let (client, tell) = slow(Timeouts { state, ..Timeouts::default() });
    let (mut states, _) = client.watch().await.unwrap();
    let silent = timeout(state * 3, states.next()).await;
    assert!(silent.is_err(), "to say nothing is no fault");
    // The keeper cancels and repeats the read at any other event.
    let said = loop {
        // One byte from time to time, always before the time limit of a whole state.
        drop(tell.send(b" ".to_vec()));
        if let Ok(said) = timeout(Duration::from_millis(20), states.next()).await {
            break said.unwrap_err().to_string();
        }
    };
    assert!(said.contains("sent no complete state within"), "{said}");
}
