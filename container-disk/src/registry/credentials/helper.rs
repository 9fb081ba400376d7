//! Credential helpers: the program `docker-credential-NAME get` reads a server name and prints JSON.

use super::Credential;
use crate::{Error, Result};
use fetch::Secret;
use serde::Deserialize;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of a helper. Some ask a cloud service or the user.
const TIME_OUT: Duration = Duration::from_secs(60);

/// Maximum size of a helper's output.
const MOST: u64 = 64 << 10;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperOutput {
    #[serde(default)]
    username: String,
    secret: String,
}

/// Runs a helper. `None` if it has no credentials for the server.
pub(super) fn ask(name: &str, server: &str) -> Result<Option<Credential>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(plain) {
        return Err(Error::usage(format!(
            "{name:?} is not the name of a credential helper: it may have letters, digits, '-', '_' and '.'"
        )));
    }
    run(Command::new(format!("docker-credential-{name}")), name, server, TIME_OUT)
}

fn run(mut command: Command, name: &str, server: &str, time_out: Duration) -> Result<Option<Credential>> {
    let says = |what: &str| Error::new(crate::ErrorKind::Auth, format!("docker-credential-{name} {what}"));
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| {
        says(&format!("cannot be started, but has the password for {server}; install it")).because(e)
    })?;
    let ended = talk(&mut child, server, time_out);
    // The helper must not stay behind, whatever its result.
    let killed = child.kill();
    let status = child.wait().map_err(|e| says("cannot be waited for").because(e))?;
    let Some((text, whole)) = ended else {
        let what = format!("gave no password for {server} within {} s", time_out.as_secs());
        return Err(says(&what));
    };
    drop(killed);
    if text.len() as u64 > MOST {
        return Err(says("printed more than 64 KiB"));
    }
    if !whole || !status.success() {
        // The message of all helpers for a server without credentials.
        if String::from_utf8_lossy(&text).contains("credentials not found") {
            return Ok(None);
        }
        return Err(says(&format!("failed for {server} ({status}); run it by hand to see its error")));
    }
    // The output is not quoted, since it may contain part of a password.
    let answer: HelperOutput = serde_json::from_slice(&text).map_err(|_| says("printed invalid JSON"))?;
    let secret = Secret::new(answer.secret);
    Ok(Some(match answer.username.as_str() {
        "<token>" => Credential::Identity(secret),
        _ => Credential::Basic(answer.username, secret),
    }))
}

/// Sends the server name and reads the output. `None` after the timeout. The flag is true if the program
/// ended by itself.
fn talk(child: &mut Child, server: &str, time_out: Duration) -> Option<(Vec<u8>, bool)> {
    let until = Instant::now() + time_out;
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let line = format!("{server}\n");
    let (tell, told) = mpsc::channel();
    // A helper may leave a child process that keeps the pipes open, so this thread is never joined.
    thread::spawn(move || {
        // A helper may end without reading its input. Its output shows the reason.
        let _ = stdin.map(|mut stdin| stdin.write_all(line.as_bytes()));
        let mut text = Vec::new();
        let read = stdout.map(|stdout| stdout.take(MOST + 1).read_to_end(&mut text));
        let _ = tell.send((text, matches!(read, Some(Ok(_)))));
    });
    let (text, whole) = told.recv_timeout(time_out).ok()?;
    // A program closes its output just before it ends.
    while text.len() as u64 <= MOST && Instant::now() < until {
        match child.try_wait() {
            Ok(None) => thread::sleep(Duration::from_millis(2)),
            Ok(Some(_)) => return Some((text, whole)),
            Err(_) => break,
        }
    }
    (text.len() as u64 > MOST).then_some((text, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper(script: &str, time_out: u64) -> Result<Option<Credential>> {
        let mut command = Command::new("sh");
        command.args(["-c", script, "docker-credential-test"]);
        run(command, "test", "h:5000", Duration::from_millis(time_out))
    }

    #[test]
    fn what_it_gives_is_who_we_are() {
        let script =
            r#"read server; echo "{\"ServerURL\":\"$server\",\"Username\":\"$1\",\"Secret\":\"$server\"}""#;
        let basic = Credential::Basic("get".into(), Secret::new("h:5000"));
        assert_eq!(helper(script, 10_000).unwrap(), Some(basic));
        let script = r#"echo '{"Username":"<token>","Secret":"t"}'"#;
        assert_eq!(helper(script, 10_000).unwrap(), Some(Credential::Identity(Secret::new("t"))));
        let script = "echo 'credentials not found in native keychain'; exit 1";
        assert_eq!(helper(script, 10_000).unwrap(), None);
    }

    #[test]
    fn one_that_misbehaves_is_named_and_nothing_it_said_is_repeated() {
        for (script, says) in [
            ("echo topsecret; exit 1", "failed for h:5000 (exit status: 1)"),
            ("echo topsecret", "invalid JSON"),
            ("echo '{\"Username\": \"topsecret\"}'", "invalid JSON"),
            ("head -c 100000 /dev/zero", "more than 64 KiB"),
            ("kill -9 $$", "failed for h:5000 (signal: 9"),
        ] {
            let e = format!("{:?}", helper(script, 10_000).unwrap_err());
            assert!(e.contains(says) && e.contains("docker-credential-test"), "{script}: {e}");
            assert!(!e.contains("topsecret"), "{e}");
        }
        let e = helper("exec sleep 1000", 50).unwrap_err();
        assert!(e.to_string().contains("no password for h:5000 within"), "{e}");
        let e = ask("no-such-helper-here", "h").unwrap_err();
        assert!(e.to_string().contains("cannot be started"), "{e}");
        assert!(ask("../x", "h").is_err() && ask("", "h").is_err());
    }
}
