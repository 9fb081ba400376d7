//! The task that owns the line to QEMU.

use super::line::{self, Lines};
use super::log::Log;
use super::state::Shared;
use crate::threads::{self, Running};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

/// Time for which bytes are gathered after the first of them was passed on. A guest writes byte by byte, and
/// a wake-up for each byte would take CPU time from the guest itself.
const GATHER: Duration = Duration::from_millis(1);
/// Reads of fewer bytes are gathered.
const DROPS: usize = 1 << 10;

/// Length of QEMU's last output that is searched in its log, to find the bytes after it.
const KNOWN: usize = 4 << 10;

/// Time for the last read of QEMU's log: the next QEMU must not wait for a disk that hangs.
const LAST_READ: Duration = Duration::from_secs(10);

/// Until the relay ends: takes a line, passes bytes both ways, takes the next line.
pub(super) async fn run(
    shared: Arc<Shared>,
    mut lines: Lines,
    mut typed: Receiver<Vec<u8>>,
    log: Option<Log>,
) {
    let mut trimmer = log.map(Trimmer::new);
    if let Some(trimmer) = &mut trimmer {
        trimmer.trim(&shared);
    }
    loop {
        let drop_typed = async { while typed.recv().await.is_some() {} };
        let end = tokio::select! {
            // A line that came before the end is still used.
            biased;
            Some(end) = lines.recv() => end,
            () = shared.ending.notified(), if !shared.is_ending() => continue,
            () = std::future::ready(()), if shared.is_ending() => break,
            () = drop_typed => break,
        };
        // Keys typed for an earlier QEMU are not for this one.
        while typed.try_recv().is_ok() {}
        talk(&shared, end, &mut typed, trimmer.as_mut()).await;
    }
    shared.finished();
}

/// Passes bytes until QEMU closes the line.
async fn talk(
    shared: &Arc<Shared>,
    end: OwnedFd,
    typed: &mut Receiver<Vec<u8>>,
    mut trimmer: Option<&mut Trimmer>,
) {
    let (mut from, mut to) = match line::open(end) {
        Ok(line) => line,
        Err(e) => return shared.trouble(Some(format!("the serial console cannot be read: {e}"))),
    };
    let before = trimmer.as_ref().map_or(0, |trimmer| trimmer.log.size());
    let mut heard = 0;
    shared.connected(true);
    let output = async {
        let mut buffer = vec![0; shared.piece()];
        // A terminal whose other side is gone is an error, not an end.
        while let Ok(size @ 1..) = from.read(&mut buffer).await {
            heard += size;
            shared.publish(&buffer[..size]).await;
            if size < DROPS {
                tokio::time::sleep(GATHER).await;
            }
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
        // A QEMU that no longer reads may still write, so only its end of output ends this.
        while typed.recv().await.is_some() {}
        std::future::pending().await
    };
    tokio::select! {
        () = output => {}
        () = input => {}
    }
    shared.connected(false);
    if let Some(trimmer) = trimmer {
        let known = match heard {
            0 => ReadPosition::Size(before),
            heard => ReadPosition::End(shared.last(heard.min(KNOWN))),
        };
        trimmer.last_words(known, shared).await;
    }
}

fn late() -> String {
    format!("QEMU's last words are not read: its log gives no answer for {} s", LAST_READ.as_secs())
}

/// Part of QEMU's log that the readers already have.
enum ReadPosition {
    /// Number of bytes that they have.
    Size(u64),
    /// Last bytes that they have.
    End(Vec<u8>),
}

/// Trims QEMU's log on its own thread: the line must not wait for a disk.
struct Trimmer {
    log: Log,
    /// Bytes written since the last trim.
    since: u64,
    running: Option<Running<()>>,
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

    /// Passes on the output of QEMU that is in its log, but was gone before it could be read from the line.
    async fn last_words(&mut self, known: ReadPosition, shared: &Arc<Shared>) {
        if let Some(running) = self.running.take() {
            // The thread logs its own error.
            let _ = timeout(LAST_READ, running).await;
        }
        let log = self.log.clone();
        let read = move || match known {
            ReadPosition::Size(size) => log.from(size),
            ReadPosition::End(last) => log.after(&last),
        };
        match timeout(LAST_READ, threads::run("log", read)).await.unwrap_or_else(|_| Err(late())) {
            Ok(Ok(rest)) => {
                for piece in rest.chunks(shared.piece()) {
                    shared.publish(piece).await;
                }
            }
            Ok(Err(e)) => shared.trouble(Some(format!("{e:?}"))),
            Err(why) => shared.trouble(Some(why)),
        }
    }

    fn trim(&mut self, shared: &Arc<Shared>) {
        if self.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return;
        }
        self.since = 0;
        let (log, shared) = (self.log.clone(), Arc::clone(shared));
        self.running = Some(threads::run("log", move || {
            shared.trouble(log.trim().err().map(|e| format!("{e:?}")));
        }));
    }
}
