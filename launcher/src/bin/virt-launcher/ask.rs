//! `virt-launcher probe`: asks the guest for a probe of the pod. The kubelet runs it in the launcher's
//! container.
//!
//! ```text
//!  kubelet ─exec─► virt-launcher probe ──socket──► the launcher ──► the guest agent: a ping, or a program in the guest
//!     ▲                 │
//!     └── exit code ────┘ the program's own; 1 if the guest agent did not answer
//! ```
//!
//! The probe of a paused guest succeeds: nothing in it can answer, and a liveness probe that fails would end it. The readiness gate of
//! the pod keeps clients from it.
//!
//! The error becomes the text of an event. It has no times in it, so that equal events are counted as one.

use crate::args;
use api::launcher::{Exec, Executed, Life};
use launcher_client::{Client, Error, wait};
use std::io::{Write as _, stderr, stdout};
use std::time::Duration;

/// Time added to the guest's own limit, so that the launcher can still answer that the guest was late.
const BEYOND: Duration = Duration::from_millis(800);
/// The limit of a program's output that is passed on; the kubelet keeps no more.
const SAID: usize = 10 << 10;

/// Probes the guest, and returns the exit code for the kubelet.
pub(crate) fn run(args: &args::Probe) -> u8 {
    let (code, out, err) = match ask(args) {
        Ok(done) => (done.exit_code, done.stdout, done.stderr),
        Err(why) => (1, String::new(), format!("{why}\n")),
    };
    // The reader may be gone.
    let _ = stdout().write_all(start(&out)).and_then(|()| stderr().write_all(start(&err)));
    match code {
        0 => 0,
        code => u8::try_from(code).unwrap_or(1),
    }
}

fn ask(args: &args::Probe) -> Result<Executed, String> {
    let client = Client::at(format!("the launcher on {}", args.socket.display()), &args.socket);
    let within = Duration::from_secs(args.timeout).saturating_add(BEYOND);
    let success = || Executed { exit_code: 0, stdout: String::new(), stderr: String::new() };
    let is_paused = async || client.state().await.is_ok_and(|state| state.life == Life::Paused);
    let guest = async || {
        let Some((command, words)) = args.command.split_first() else {
            return client.ping(within).await.map(|()| success());
        };
        let exec =
            Exec { command: command.clone(), args: words.to_vec(), input: None, timeout: Some(args.timeout) };
        client.exec(&exec, within).await
    };
    // At the same time: the kubelet waits little longer than the guest may take.
    let done = wait(async {
        tokio::select! {
            true = is_paused() => Ok(success()),
            done = guest() => done,
        }
    });
    done.map_err(|e: Error| e.chain())
}

fn start(text: &str) -> &[u8] {
    text.as_bytes().get(..SAID).unwrap_or(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::State;
    use std::io::Read as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;

    fn question(stream: &mut UnixStream) -> String {
        let mut question = String::new();
        let is_whole = |question: &str| {
            question.ends_with('}') || question.starts_with("GET ") && question.ends_with("\r\n\r\n")
        };
        while !is_whole(&question) {
            let mut more = [0; 512];
            let count = stream.read(&mut more).unwrap();
            question.push_str(std::str::from_utf8(&more[..count]).unwrap());
        }
        question
    }

    fn tell_state(stream: &mut UnixStream, life: Life) {
        let state = serde_json::to_string(&State { life, ..State::default() }).unwrap();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{state}", state.len()).unwrap();
    }

    fn probe(socket: PathBuf, command: &[&str]) -> Result<Executed, String> {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        ask(&args::Probe { socket, timeout: 20, ping: command.is_empty(), command })
    }

    /// The request that a launcher with this answer received, and the result. Its guest runs.
    fn asked(answer: &str, command: &[&str]) -> (String, Result<Executed, String>) {
        let place = tempfile::tempdir().unwrap();
        let socket: PathBuf = place.path().join("sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let answer = answer.to_owned();
        let launcher = std::thread::spawn(move || {
            loop {
                let (mut stream, _) = listener.accept().unwrap();
                let question = question(&mut stream);
                if question.starts_with("GET /v1/state ") {
                    tell_state(&mut stream, Life::Running);
                    continue;
                }
                stream.write_all(answer.as_bytes()).unwrap();
                return question;
            }
        });
        let done = probe(socket, command);
        (launcher.join().unwrap(), done)
    }

    #[test]
    fn a_paused_guest_is_alive_though_it_does_not_answer() {
        let place = tempfile::tempdir().unwrap();
        let socket: PathBuf = place.path().join("sock");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            let mut unanswered = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                match question(&mut stream).starts_with("GET /v1/state ") {
                    true => tell_state(&mut stream, Life::Paused),
                    false => unanswered.push(stream),
                }
            }
        });
        for command in [&[][..], &["cat", "/tmp/alive"]] {
            assert_eq!(probe(socket.clone(), command).unwrap().exit_code, 0, "{command:?}");
        }
    }

    #[test]
    fn a_program_in_the_guest_is_run_with_its_arguments() {
        let answer =
            "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"exitCode\":3,\"stdout\":\"a\",\"stderr\":\"b\"}";
        let (question, done) = asked(answer, &["cat", "--ping", "/tmp/x"]);
        assert!(question.starts_with("POST /v1/guest/exec HTTP/1.1\r\n"), "{question}");
        let exec: Exec = serde_json::from_str(question.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(
            (exec.command.as_str(), exec.args, exec.timeout),
            ("cat", vec!["--ping".into(), "/tmp/x".into()], Some(20))
        );
        assert_eq!(done.unwrap().exit_code, 3);
    }

    #[test]
    fn a_refusal_is_read_even_if_the_launcher_does_not_read_the_request() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("sock");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let refusal = b"HTTP/1.1 409 Conflict\r\n\r\n{\"error\":\"not yet\"}";
                stream.unwrap().write_all(refusal).unwrap();
            }
        });
        // More than fits into the socket's buffers, so that it cannot all be sent.
        let done = probe(socket, &["echo", &"x".repeat(1 << 20)]);
        assert_eq!(done.unwrap_err(), "not yet");
    }

    #[test]
    fn a_missing_guest_agent_is_reported_in_the_launchers_words() {
        let (question, done) = asked(
            "HTTP/1.1 503 Service Unavailable\r\n\r\n{\"error\":\"the guest agent is not connected\"}",
            &[],
        );
        assert!(question.starts_with("POST /v1/guest/ping "), "{question}");
        assert_eq!(done.unwrap_err(), "the guest agent is not connected");
        assert_eq!(asked("HTTP/1.1 200 OK\r\n\r\n{}", &[]).1.unwrap().exit_code, 0);
        for nonsense in ["", "HTTP/1.1 200", "SSH-2.0-x\r\n\r\n"] {
            assert!(asked(nonsense, &[]).1.unwrap_err().contains("is not a launcher"), "{nonsense}");
        }
    }
}
