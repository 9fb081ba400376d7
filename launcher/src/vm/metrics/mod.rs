//! Metrics of the node and of the VM for its guest (`downwardMetrics`), in the forms of vhostmd, which its
//! clients (`vm-dump-metrics`) read.
//!
//! ```text
//!  /proc of the node ─┐            ┌─► a disk of 256 KiB, written anew every 5 s   volumes[].downwardMetrics
//!  hypervisor: stats ─┴─► XML ─────┴─► a channel: `GET /metrics/XML` is answered   devices.downwardMetrics
//! ```
//!
//! **Trust.** The guest learns the load of the node, which the feature gate `DownwardMetrics` permits. Its
//! requests are lines of
//! bounded length, which are answered once a second at most. If it writes to its disk, it reads its own data
//! for 5 s.
//!
//! One task, from the start of the launcher. It reads the metrics that the VM asks for when the VM runs. A
//! launcher that takes a running VM over begins with the same.

mod node;
mod text;

use super::handle::Handle;
use crate::root::Root;
use api::launcher::{Life, State, Sync};
use api::machine::{Machine, Volume};
use node::Node;
use std::fs;
use std::future::pending;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Time between two writes of a disk.
const PERIOD: Duration = Duration::from_secs(5);
/// Time between two answers, and between two attempts to connect to QEMU.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest line of a guest.
const LINE: u64 = 1024;
/// Request of a guest.
const QUESTION: &str = "GET /metrics/XML";
/// Name of the channel's socket among the VM's sockets.
pub(crate) const CHANNEL: &str = "metrics";

/// Metrics for a guest.
#[derive(Clone, Debug, Default, PartialEq)]
struct Metrics {
    /// Name of the node.
    name: String,
    node: Node,
    guest: Guest,
    /// Time of the measurement, in seconds since 1970.
    time: u64,
}

/// Resources and usage of the VM; memory in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Guest {
    cpu_ns: u64,
    cpus: u32,
    memory: u64,
}

/// Ways in which a VM gets metrics.
#[derive(Clone, Debug, PartialEq)]
struct MetricsRequest {
    name: String,
    cpus: u32,
    memory: u64,
    disks: Vec<PathBuf>,
    channel: bool,
}

/// Starts the task, which waits for a VM with metrics. Called inside a runtime of tokio.
pub(crate) fn start(handle: Handle) {
    tokio::spawn(run(handle));
}

/// Creates the disk of a VM that starts. It is complete before the guest reads it.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    fs::write(path, text::disk(""))
}

async fn run(handle: Handle) {
    let mut state = handle.state();
    let runs = |state: &State| matches!(state.life, Life::Running | Life::Paused | Life::Stopping);
    // The state has no publisher, so the launcher is ending.
    while state.wait_for(|state| runs(state)).await.is_ok() {
        let root = handle.root.clone();
        let wishes = spawn_blocking(move || wishes(&root)).await.ok().flatten();
        let tell = async {
            match &wishes {
                Some(wishes) => tokio::join!(write(&handle, wishes), answer(&handle, wishes)),
                None => pending().await,
            }
        };
        tokio::select! {
            ((), ()) = tell => {}
            over = state.wait_for(|state| !runs(state)) => {
                if over.is_err() {
                    return;
                }
            }
        }
    }
}

/// Ways in which the VM in a folder gets metrics; `None` if it asks for none. Blocks.
fn wishes(root: &Root) -> Option<MetricsRequest> {
    let sync: Sync = serde_json::from_slice(&fs::read(root.vm()).ok()?).ok()?;
    let name = sync.vmi.pointer("/status/nodeName").and_then(|name| name.as_str()).map(str::to_owned);
    let machine = Machine::check_again(&api::wire::read(sync.vmi).ok()?).ok()?;
    let disks = machine.disks.iter().filter(|disk| disk.volume == Volume::DownwardMetrics);
    let disks: Vec<PathBuf> = disks.map(|disk| root.seed(&disk.name)).collect();
    let wanted = machine.downward_metrics || !disks.is_empty();
    wanted.then(|| MetricsRequest {
        name: name.unwrap_or_else(|| fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()),
        cpus: machine.cpu.count(),
        memory: machine.memory.guest,
        disks,
        channel: machine.downward_metrics,
    })
}

/// The current metrics as text.
async fn metrics_text(handle: &Handle, wishes: &MetricsRequest) -> String {
    let (handle, wishes) = (handle.clone(), wishes.clone());
    let gathered = spawn_blocking(move || {
        let stats = handle.name().and_then(|name| handle.hypervisor.stats(name).ok()).unwrap_or_default();
        let guest = Guest { cpu_ns: stats.cpu_ns, cpus: wishes.cpus, memory: wishes.memory };
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        text::xml(&Metrics { name: wishes.name, node: Node::read(), guest, time })
    });
    gathered.await.unwrap_or_default()
}

/// Writes the disks again and again.
async fn write(handle: &Handle, wishes: &MetricsRequest) {
    if wishes.disks.is_empty() {
        return pending().await;
    }
    loop {
        let bytes = text::disk(&metrics_text(handle, wishes).await);
        for path in wishes.disks.clone() {
            let bytes = bytes.clone();
            let shown = path.display().to_string();
            if let Ok(Err(e)) = spawn_blocking(move || rewrite(&path, &bytes)).await {
                tracing::warn!("cannot write metrics to {shown}: {e}");
            }
        }
        sleep(PERIOD).await;
    }
}

/// Overwrites a disk in place. The head is marked as invalid first and written last, so a guest that reads
/// meanwhile tries again.
fn rewrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).open(path)?;
    let (head, body) = bytes.split_at(16.min(bytes.len()));
    file.write_all_at(&1_u32.to_be_bytes(), 4)?;
    file.write_all_at(body, 16)?;
    file.write_all_at(head, 0)
}

/// Answers the guest's requests on its channel, as long as there is one.
async fn answer(handle: &Handle, wishes: &MetricsRequest) {
    if !wishes.channel {
        return pending().await;
    }
    loop {
        match UnixStream::connect(handle.root.socket(CHANNEL)).await {
            Ok(stream) => {
                if let Err(e) = answers(handle, wishes, stream).await {
                    tracing::debug!("the channel of metrics: {e}");
                }
            }
            Err(e) => tracing::debug!("the channel of metrics: {e}"),
        }
        sleep(PAUSE).await;
    }
}

async fn answers(handle: &Handle, wishes: &MetricsRequest, stream: UnixStream) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let size = (&mut read).take(LINE).read_until(b'\n', &mut line).await?;
        if size == 0 {
            return Ok(());
        }
        // An empty line ends a request; any other line gets no answer.
        if line.trim_ascii() == QUESTION.as_bytes() {
            let text = metrics_text(handle, wishes).await;
            write.write_all(format!("{text}\n\n").as_bytes()).await?;
            write.flush().await?;
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_written_in_place_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics");
        make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), text::DISK as u64);
        for words in ["<metrics/>", "<metrics>longer</metrics>", "<m/>"] {
            rewrite(&path, &text::disk(words)).unwrap();
            assert_eq!(fs::read(&path).unwrap(), text::disk(words));
        }
        assert!(rewrite(&folder.path().join("none"), &[]).is_err(), "it is made before the VM starts");
    }
}
