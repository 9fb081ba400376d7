//! `virt-launcher freeze` and `thaw`: the guest's file systems, before and after a backup. Backup programs
//! run them in the launcher's container (the annotations `pre.hook.backup.velero.io/*` of its pod).
//!
//! A guest without a guest agent cannot be frozen. The command reports that and succeeds; otherwise the
//! backup of every guest without an agent would fail. The launcher thaws frozen file systems by itself after
//! a time, in case the backup program is gone by then.

use crate::args;
use api::launcher::Freeze;
use launcher::error::{Error, ErrorKind, Result};
use launcher_client::{Client, wait};
use std::path::Path;

/// Freezes the guest's file systems.
pub(crate) fn freeze(args: &args::Freeze) -> Result<()> {
    let freeze = Freeze { thaw_after_ms: Some(args.thaw_after.saturating_mul(1000)) };
    ask_launcher(&args.socket, "frozen", async |client| client.freeze(&freeze).await)
}

/// Thaws the guest's file systems.
pub(crate) fn thaw(args: &args::Thaw) -> Result<()> {
    ask_launcher(&args.socket, "thawed", async |client| client.thaw().await)
}

fn ask_launcher(
    socket: &Path,
    what: &str,
    ask: impl AsyncFnOnce(&Client) -> launcher_client::Result<()>,
) -> Result<()> {
    let client = Client::at(format!("the launcher on {}", socket.display()), socket);
    let done = wait(async {
        if !client.state().await?.agent {
            return Ok(false);
        }
        ask(&client).await.map(|()| true)
    });
    match done {
        Ok(true) => tracing::info!("the guest's file systems are {what}"),
        Ok(false) => tracing::warn!("no guest agent is connected: the guest's file systems are not {what}"),
        Err(e) => {
            let failed = Error::new(ErrorKind::Failed, format!("the guest's file systems are not {what}"));
            return Err(failed.because(e));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;

    /// The requests that a launcher received which has these answers, and what became of the command.
    fn ask(answers: &[&str], run: impl FnOnce(&Path) -> Result<()>) -> (Vec<String>, Result<()>) {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let launcher = std::thread::spawn(move || {
            let heard = |answer: String| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut question = Vec::new();
                while !question.windows(4).any(|end| end == b"\r\n\r\n") {
                    let mut more = [0; 512];
                    let count = stream.read(&mut more).unwrap();
                    question.extend_from_slice(&more[..count]);
                }
                let length = answer.len();
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n";
                write!(stream, "{head}content-length: {length}\r\n\r\n{answer}").unwrap();
                // What is left of the question is read, or the client is cut off before it has the answer.
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                stream.read_to_end(&mut Vec::new()).unwrap();
                let question = String::from_utf8(question).unwrap();
                question.lines().next().unwrap().to_owned()
            };
            answers.into_iter().map(heard).collect::<Vec<_>>()
        });
        let done = run(&socket);
        (launcher.join().unwrap(), done)
    }

    fn state(agent: bool) -> String {
        format!(r#"{{"number":1,"generation":1,"life":"Running","since":"x","agent":{agent}}}"#)
    }

    #[test]
    fn a_guest_with_an_agent_is_frozen_and_one_without_is_left() {
        let frozen = |socket: &Path| freeze(&args::Freeze { socket: socket.to_owned(), thaw_after: 300 });
        let (asked, done) = ask(&[&state(true), "{}"], frozen);
        assert!(done.is_ok(), "{done:?}");
        assert!(asked[1].starts_with("POST /v1/guest/freeze"), "{asked:?}");
        let (asked, done) = ask(&[&state(false)], frozen);
        assert!(done.is_ok() && asked.len() == 1, "{asked:?}");
        let (asked, _) = ask(&[&state(true), "{}"], |socket| thaw(&args::Thaw { socket: socket.to_owned() }));
        assert!(asked[1].starts_with("POST /v1/guest/thaw"), "{asked:?}");
        assert!(frozen(Path::new("/nowhere/sock")).is_err());
    }
}
