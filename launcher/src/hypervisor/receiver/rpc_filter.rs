//! The calls of a migration's source to the libvirt daemon, and no others: a source that was taken over must not make the daemon start
//! a domain of its own, or send commands to QEMU.
//!
//! A message of libvirt's protocol is a length, a header of six numbers and a payload. The header has the program, the procedure and
//! the type; payloads pass unread (the domain in them is replaced, see [`super::hook`]).

use std::io::{self, ErrorKind};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy};
use tokio::net::UnixStream;

/// Bytes of a length, and of a header behind it.
const LENGTH: usize = 4;
const HEADER: usize = 24;
/// Longest message, as libvirt has it.
const LONGEST: u32 = 32 << 20;
/// Program of libvirt's own calls.
const REMOTE: u32 = 0x2000_8086;
/// Program that looks whether the other end is alive.
const KEEP_ALIVE: u32 = 0x6b65_6570;
/// Type of a call without open files.
const CALL: u32 = 0;
/// Procedures of a peer-to-peer migration with parameters: open, close, supported features, ways to authenticate, URI, prepare, finish,
/// and the callback about the end of the connection (to and fro).
const PROCEDURES: [u32; 9] = [1, 2, 60, 66, 110, 303, 306, 360, 361];

/// Connects the source with the daemon until both directions have ended.
pub(super) async fn connect(source: UnixStream, daemon: UnixStream) -> io::Result<()> {
    let (mut from_source, mut to_source) = source.into_split();
    let (mut from_daemon, mut to_daemon) = daemon.into_split();
    let asks = async {
        pass(&mut from_source, &mut to_daemon).await?;
        to_daemon.shutdown().await
    };
    let answers = async {
        copy(&mut from_daemon, &mut to_source).await?;
        to_source.shutdown().await
    };
    tokio::try_join!(asks, answers).map(drop)
}

/// Passes on the messages of a source, up to the first that no migration needs.
async fn pass(
    source: &mut (impl AsyncRead + Unpin),
    daemon: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    loop {
        let mut begin = [0; LENGTH + HEADER];
        let (length, header) = begin.split_at_mut(LENGTH);
        match source.read(&mut length[..1]).await? {
            0 => return Ok(()),
            _ => source.read_exact(&mut length[1..]).await.map(drop)?,
        }
        source.read_exact(header).await?;
        let payload = payload(&begin)?;
        daemon.write_all(&begin).await?;
        let passed = copy(&mut (&mut *source).take(payload), daemon).await?;
        if passed < payload {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Length of the payload behind a header, where a migration needs the message.
fn payload(begin: &[u8; LENGTH + HEADER]) -> io::Result<u64> {
    let mut numbers =
        begin.chunks_exact(4).map(|four| four.iter().fold(0, |all, one| all << 8 | u32::from(*one)));
    let mut next = || numbers.next().unwrap_or_default();
    let (length, program, _version, procedure, kind) = (next(), next(), next(), next(), next());
    let refused = |why: String| Err(io::Error::new(ErrorKind::PermissionDenied, why));
    let own = u32::try_from(begin.len()).unwrap_or(u32::MAX);
    if !(own..=LONGEST).contains(&length) {
        return refused(format!("a message of libvirt's protocol cannot have {length} bytes"));
    }
    match program {
        KEEP_ALIVE => {}
        REMOTE if kind == CALL && PROCEDURES.contains(&procedure) => {}
        _ => {
            return refused(format!(
                "a migration has no use for procedure {procedure} of program {program:#x} (type {kind})"
            ));
        }
    }
    Ok(u64::from(length - own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(program: u32, procedure: u32, kind: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(LENGTH + HEADER + payload.len()).unwrap();
        let numbers = [length, program, 1, procedure, kind, 7, 0];
        numbers.iter().flat_map(|number| number.to_be_bytes()).chain(payload.iter().copied()).collect()
    }

    async fn passed(bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
        let (mut source, mut daemon) = (bytes, Vec::new());
        let result = pass(&mut source, &mut daemon).await;
        (daemon, result)
    }

    #[tokio::test]
    async fn the_calls_of_a_migration_pass_and_the_first_other_one_ends_the_connection() {
        let mut good = message(REMOTE, 1, CALL, b"open");
        good.extend(message(KEEP_ALIVE, 2, 2, b""));
        good.extend(message(REMOTE, 303, CALL, &vec![7; 300_000]));
        let (daemon, result) = passed(&good).await;
        assert_eq!(daemon, good);
        result.unwrap();
        // A domain is started from XML; a call with files; a command for QEMU's monitor.
        for (program, procedure, kind) in [(REMOTE, 10, CALL), (REMOTE, 303, 4), (0x2000_8087, 1, CALL)] {
            let bad = [good.clone(), message(program, procedure, kind, b"x")].concat();
            let (daemon, result) = passed(&bad).await;
            assert_eq!(daemon, good, "{procedure}");
            assert!(result.unwrap_err().to_string().contains(&format!("procedure {procedure} ")));
        }
    }

    #[tokio::test]
    async fn a_message_that_is_cut_short_or_has_an_impossible_length_ends_the_connection() {
        let good = message(REMOTE, 1, CALL, b"open");
        for end in 1..good.len() {
            assert_eq!(passed(&good[..end]).await.1.unwrap_err().kind(), ErrorKind::UnexpectedEof, "{end}");
        }
        for length in [0, 27, LONGEST + 1, u32::MAX] {
            let mut bad = good.clone();
            bad[..4].copy_from_slice(&length.to_be_bytes());
            let (daemon, result) = passed(&bad).await;
            assert_eq!((daemon.len(), result.unwrap_err().kind()), (0, ErrorKind::PermissionDenied));
        }
    }

    #[tokio::test]
    async fn the_end_of_each_direction_is_passed_on() {
        let ((mut source, source_end), (daemon_end, mut daemon)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let relay = tokio::spawn(connect(source_end, daemon_end));
        let call = message(REMOTE, 66, CALL, b"");
        source.write_all(&call).await.unwrap();
        source.shutdown().await.unwrap();
        let mut got = Vec::new();
        daemon.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, call);
        daemon.write_all(b"answer").await.unwrap();
        drop(daemon);
        let mut answer = String::new();
        source.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        relay.await.unwrap().unwrap();
    }
}
