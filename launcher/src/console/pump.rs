//! The task that owns QEMU's socket.

use super::log::Log;
use super::state::Shared;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;

const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);

/// Until the relay ends: finds QEMU, passes bytes both ways, finds it again.
pub(super) async fn run(
    shared: Arc<Shared>,
    socket: PathBuf,
    mut typed: Receiver<Vec<u8>>,
    log: Option<Log>,
) {
    let mut trimmer = log.map(Trimmer::new);
    let mut pause = SHORTEST;
    while !shared.is_ending() {
        if let Some(trimmer) = &mut trimmer {
            trimmer.trim(&shared);
        }
        let mut said_something = false;
        if let Ok(stream) = UnixStream::connect(&socket).await {
            // What was typed for another QEMU is not for this one.
            while typed.try_recv().is_ok() {}
            shared.connected(true);
            said_something = talk(&shared, stream, &mut typed, trimmer.as_mut()).await;
            shared.connected(false);
        }
        if shared.is_ending() {
            break;
        }
        pause = if said_something || shared.is_expected() { SHORTEST } else { (pause * 2).min(LONGEST) };
        let drop_typed = async { while typed.recv().await.is_some() {} };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = drop_typed => {}
            () = shared.ending.notified() => {}
        }
    }
    shared.finished();
}

/// Until QEMU closes the line. True when it said anything.
async fn talk(
    shared: &Arc<Shared>,
    stream: UnixStream,
    typed: &mut Receiver<Vec<u8>>,
    mut trimmer: Option<&mut Trimmer>,
) -> bool {
    let (mut from, mut to) = stream.into_split();
    let mut said = false;
    let output = async {
        let mut buffer = vec![0; shared.piece()];
        while let Ok(size @ 1..) = from.read(&mut buffer).await {
            said = true;
            shared.publish(&buffer[..size]).await;
            if let Some(trimmer) = &mut trimmer {
                trimmer.count(size, shared);
            }
        }
    };
    let input = async {
        while let Some(piece) = typed.recv().await {
            if to.write_all(&piece).await.is_err() {
                break;
            }
        }
        // A QEMU that takes nothing may still have something to say: only its silence ends the talk.
        while typed.recv().await.is_some() {}
        std::future::pending().await
    };
    tokio::select! {
        () = output => {}
        () = input => {}
    }
    said
}

/// Keeps QEMU's log small, beside the line, since it must not wait for a disk.
struct Trimmer {
    log: Log,
    /// Bytes that were said since the last look.
    since: u64,
    running: Option<JoinHandle<()>>,
}

impl Trimmer {
    fn new(log: Log) -> Trimmer {
        Trimmer { log, since: 0, running: None }
    }

    fn count(&mut self, size: usize, shared: &Arc<Shared>) {
        self.since += size as u64;
        if self.since >= self.log.limit() / 4 {
            self.trim(shared);
        }
    }

    fn trim(&mut self, shared: &Arc<Shared>) {
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return;
        }
        self.since = 0;
        let (log, shared) = (self.log.clone(), Arc::clone(shared));
        self.running = Some(tokio::task::spawn_blocking(move || {
            shared.trouble(log.trim().err().map(|e| format!("{e:?}")));
        }));
    }
}
