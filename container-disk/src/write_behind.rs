//! Write-behind: the kernel writes a file's dirty pages to the device, and drops them from the page cache,
//! while the program is still writing.
//!
//! The last sync is short then, and a disk of any size goes through the same few pages. New pages cost more
//! than they seem to (far more on a host with memory ballooning), and other content stays in the page cache.
//! The next reader of the file reads it from the device. The request to the kernel is made on a thread of its
//! own, because that call blocks while the device's queue is full. Measured on ext4 with 1.9 GiB and the
//! sync: 1.0 s, against 2.5 to 7.4 s when all of it stays in the cache.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// Bytes between two requests to the kernel. Small enough for a short last sync, large enough for long
/// sequential writes.
const EVERY: u64 = 8 << 20;

type Kick = Box<dyn Fn() + Send + Sync>;

/// Starts writing a file's dirty pages, without waiting, and drops the clean ones from the page cache. This
/// is a hint only: it promises nothing about durability. A file system that ignores it writes everything at
/// the sync.
pub fn write_out(file: impl AsFd) {
    if let Err(e) = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed) {
        tracing::debug!("no write-behind: {e}");
    }
}

/// Counter of written bytes that starts the write-out at every 8 MiB.
pub struct WriteBehind {
    written: AtomicU64,
    helper: OnceLock<Option<Helper>>,
    kick: Arc<Kick>,
}

struct Helper {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl WriteBehind {
    /// A counter that runs `kick` at every 8 MiB; `kick` should call [`write_out`] on the file. The closure,
    /// and the file it owns, is dropped together with this value.
    pub fn new(kick: impl Fn() + Send + Sync + 'static) -> Self {
        let kick: Kick = Box::new(kick);
        WriteBehind { written: AtomicU64::new(0), helper: OnceLock::new(), kick: Arc::new(kick) }
    }

    /// A counter for a file that is being written.
    pub fn for_file(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        Ok(WriteBehind::new(move || write_out(&file)))
    }

    /// Counts `len` more written bytes.
    pub fn count(&self, len: u64) {
        let before = self.written.fetch_add(len, Ordering::Relaxed);
        if before / EVERY == (before + len) / EVERY {
            return;
        }
        let helper = self.helper.get_or_init(|| Helper::start(self.kick.clone()));
        if let Some(wake) = helper.as_ref().and_then(|h| h.wake.as_ref()) {
            // The channel is full: the helper handles this piece at its next wake-up too.
            let _already_woken = wake.try_send(());
        }
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl Helper {
    /// Starts the helper thread. If that fails, everything is written at the sync, which is slower and just
    /// as correct.
    fn start(kick: Arc<Kick>) -> Option<Helper> {
        let (wake, woken) = sync_channel(1);
        let thread = std::thread::Builder::new().name("write-behind".into()).spawn(move || {
            for () in woken {
                kick();
            }
        });
        match thread {
            Ok(thread) => Some(Helper { wake: Some(wake), thread: Some(thread) }),
            Err(e) => {
                tracing::debug!("no write-behind: {e}");
                None
            }
        }
    }
}

impl Drop for Helper {
    /// Waits for the thread, because it holds the file open, and with the file the lock on it.
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::warn!("the write-behind thread panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn kicks_now_and_then_and_lets_go_at_the_end() {
        let kicks = Arc::new(AtomicU64::new(0));
        let behind = {
            let kicks = kicks.clone();
            WriteBehind::new(move || {
                kicks.fetch_add(1, Ordering::Relaxed);
            })
        };
        behind.count(EVERY - 1);
        assert!(behind.helper.get().is_none(), "no thread for small disks");
        for _ in 0..64 {
            behind.count(EVERY / 4);
        }
        assert_eq!(behind.written(), EVERY - 1 + 16 * EVERY);
        drop(behind);
        let kicks_seen = kicks.load(Ordering::Relaxed);
        assert!((1..=17).contains(&kicks_seen), "{kicks_seen}");
        assert_eq!(Arc::strong_count(&kicks), 1);
    }

    #[test]
    fn what_is_on_the_device_leaves_the_memory() {
        // The build folder, since the folder for temporary files may be a tmpfs.
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; 4 * EVERY as usize]).unwrap();
        file.as_file().sync_data().unwrap();
        let in_memory = || {
            let args = ["--bytes", "--noheadings", "--output", "RES"];
            let told = std::process::Command::new("fincore").args(args).arg(file.path()).output().unwrap();
            String::from_utf8(told.stdout).unwrap().trim().parse::<u64>().unwrap()
        };
        let before = in_memory();
        write_out(file.as_file());
        let after = in_memory();
        assert!(after <= before / 4, "{before} bytes were in memory, {after} still are");
    }
}
