//! `virt-launcher run`: creates all parts, in this order, and connects them.
//!
//! ```text
//!  root (locked) ─► environment ─► cache seeded ─► files of a dead QEMU removed ─► libvirt ─► driver ─► server
//!                                             └─ --receive: libvirt is opened when the VM has arrived ──┘
//!  the cache is saved when a VM has started
//! ```

use crate::libvirt::Libvirt;
use crate::{args, memory, remains, surroundings};
use api::launcher::{Info, Life};
use launcher::error::{Error, ErrorKind, Result};
use launcher::hypervisor::{Hypervisor, embed, receiver};
use launcher::root::Root;
use launcher::server::{Listener, Service};
use launcher::termination::Termination;
use launcher::vm::{Handle, Parts, drive_or_receive, farewell};
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

/// Time for a watcher to read the last state before the launcher is gone.
const LAST_WORDS: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &args::Run) -> Result<()> {
    let termination = args.termination_log.as_deref().map(Termination::open);
    let done = begin(args, termination.as_ref());
    if let (Err(e), Some(termination)) = (&done, &termination) {
        termination.fail(&e.chain());
    }
    done
}

fn begin(args: &args::Run, termination: Option<&Termination>) -> Result<()> {
    if args.simulate_crash {
        return Err(Error::new(ErrorKind::Failed, "the launcher was told to fail (--simulate-crash)"));
    }
    let cache = args.cache.clone().or_else(default_cache);
    let root = open_root(&args.root)?;
    let _lock = lock(&root)?;
    if args.libvirt_uri.is_none() {
        surroundings(&root)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .thread_keep_alive(Duration::from_secs(2))
        .build()
        .map_err(|e| Error::io("cannot begin", e))?;
    let done = runtime.block_on(serve(args, root, cache.as_deref(), termination));
    // A call that still blocks inside libvirt must not delay the end of the process.
    runtime.shutdown_background();
    done
}

async fn serve(
    args: &args::Run,
    root: Root,
    cache: Option<&Path>,
    termination: Option<&Termination>,
) -> Result<()> {
    let mut term = signal(SignalKind::terminate()).map_err(|e| Error::io("cannot wait for signals", e))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|e| Error::io("cannot wait for signals", e))?;
    if args.libvirt_uri.is_none() {
        seed(&root, cache);
    }
    // The VM of an earlier launcher on this folder has arrived by now, or never does.
    let receive = args.receive.clone().filter(|_| !root.vm().exists());
    let hypervisor = Arc::new(match &receive {
        Some(_) => Libvirt::receiving(&root),
        None => connect(args.libvirt_uri.as_deref(), &root)?,
    });
    let about = hypervisor
        .about()
        .map_err(|e| Error::new(ErrorKind::Failed, "libvirt does not answer").because(e))?;
    let info = Info {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        libvirt: about.version,
        uri: about.uri,
        root: root.folder().to_owned(),
    };
    let own = (args.libvirt_uri.is_none(), root.clone());
    let kept_in = root.clone();
    let (give, lines) = launcher::console::lines();
    let parts = Parts { hypervisor, root, lines: give, clock: launcher::clock::now };
    let (handle, driver) = drive_or_receive(parts, receive)?;
    let driver = tokio::spawn(driver);
    tokio::spawn(memory::give_back(handle.state()));
    if let (true, Some(cache)) = (own.0, cache) {
        tokio::spawn(keep_findings(handle.clone(), own.1, cache.to_owned()));
    }
    let listener = Listener::bind(&args.socket).await?;
    tracing::info!("listening on {}, libvirt {} at {}", args.socket.display(), info.libvirt, info.uri);
    let service = Service::new(handle.clone(), lines, info)?;
    let serving = listener.serve(service.clone());
    tokio::pin!(serving);
    tokio::pin!(driver);
    let mut once = args.once;
    let mut lifeline = args.lifeline;
    let abandoned = abandoned(&handle);
    tokio::pin!(abandoned);
    loop {
        tokio::select! {
            () = &mut serving => {}
            ended = &mut driver => {
                write_termination(termination, &handle);
                // The message ends the sidecars, and so the pod.
                let told = tokio::task::spawn_blocking(move || farewell(&kept_in));
                let last_words = tokio::time::timeout(LAST_WORDS, serving);
                tokio::join!(service.finish(), async { last_words.await.ok() }, async { told.await.ok() });
                return ended.map_err(|e| Error::new(ErrorKind::Failed, "the launcher has a fault").because(e));
            }
            _ = term.recv() => handle.end().await,
            _ = interrupt.recv() => handle.end().await,
            () = vm_ended(&handle), if once => {
                once = false;
                write_termination(termination, &handle);
                if args.keep_after_failure && handle.state().borrow().life == Life::Failed {
                    tracing::warn!("the VM has failed: the launcher stays until a signal ends it (--keep-after-failure)");
                } else {
                    handle.end().await;
                }
            }
            abandoned = &mut abandoned, if lifeline => {
                lifeline = false;
                if abandoned? {
                    handle.end().await;
                }
            }
        }
    }
}

/// Writes the end of the VM to the termination message, for the kubelet.
fn write_termination(termination: Option<&Termination>, handle: &Handle) {
    if let Some(termination) = termination {
        termination.leave(&handle.state().borrow());
    }
}

/// Saves libvirt's capabilities of this host for the next VM, as soon as they exist: libvirt reads them when
/// a VM starts.
async fn keep_findings(handle: Handle, root: Root, cache: PathBuf) {
    let began = |life| !matches!(life, Life::Empty | Life::Preparing);
    if handle.state().wait_for(|state| began(state.life)).await.is_ok() {
        let saved = tokio::task::spawn_blocking(move || embed::save(&root, &cache)).await;
        if let Ok(Err(e)) = saved {
            tracing::warn!("libvirt's findings about this host are not kept: {e}");
        }
    }
}

/// Waits for the end of the VM.
async fn vm_ended(handle: &Handle) {
    // An error is the end of the driver; another task waits for it.
    if handle.state().wait_for(|state| Life::is_final(state.life)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// True if the program that started this one ended without passing a VM: standard input is a pipe that only
/// that program can write to.
async fn abandoned(handle: &Handle) -> Result<bool> {
    let cannot = |e| Error::io("cannot watch the standard input (--lifeline wants a pipe)", e);
    let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(cannot)?;
    let mut input = pipe::Receiver::from_owned_fd(input).map_err(cannot)?;
    let mut byte = [0];
    while input.read(&mut byte).await.map_err(cannot)? > 0 {}
    Ok(handle.state().borrow().life == Life::Empty)
}

fn open_root(folder: &Path) -> Result<Root> {
    let user = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute() && guard::folder::is_private(folder))
        .unwrap_or_else(|| PathBuf::from(format!("/tmp/.coracle-{user}")));
    Root::open(folder, &runtime)
        .map_err(|e| Error::refused(format!("the folder {} cannot be used", folder.display())).because(e))
}

/// Locks the folder for one launcher, as long as the file is open.
fn lock(root: &Root) -> Result<File> {
    let path = root.folder().join("lock");
    let cannot = || format!("cannot lock {}", path.display());
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|e| Error::io(cannot(), e))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::new(
            ErrorKind::Busy,
            format!("another launcher uses the folder {}", root.folder().display()),
        )),
        Err(e) => Err(Error::io(cannot(), e)),
    }
}

/// Gives libvirt its cached findings about this host. A start without them takes longer, and works the same.
fn seed(root: &Root, cache: Option<&Path>) {
    if let Some(Err(e)) = cache.map(|cache| embed::seed(root, cache)) {
        tracing::warn!("the cache of libvirt's findings is not used: {e}");
    }
}

fn connect(uri: Option<&str>, root: &Root) -> Result<Libvirt> {
    let failed =
        |e: launcher::hypervisor::Error| Error::new(ErrorKind::Failed, "libvirt cannot be used").because(e);
    let Some(uri) = uri else {
        receiver::end_left_daemon(root);
        remains::clear(root);
        return Libvirt::open(&embed::uri(root), Some(root.pids())).map_err(failed);
    };
    Libvirt::open(uri, None).map_err(failed)
}

/// Default folder of the cache: `$XDG_CACHE_HOME/coracle/libvirt`.
pub(crate) fn default_cache() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    cache.is_absolute().then(|| cache.join("coracle/libvirt"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::Ending;
    use clap::Parser as _;

    #[test]
    fn a_launcher_that_fails_leaves_why_to_the_kubelet() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("termination-log");
        std::fs::write(&log, "").unwrap();
        let words =
            ["virt-launcher", "run", "--root", "/nowhere", "--socket", "/nowhere/s", "--simulate-crash"];
        let words = words
            .into_iter()
            .map(Into::into)
            .chain(["--termination-log".into(), log.clone().into_os_string()]);
        let args::Command::Run(args) = args::Args::parse_from(words).command else {
            panic!("another command")
        };
        run(&args).unwrap_err();
        let left = Ending::of_termination(&std::fs::read_to_string(&log).unwrap()).unwrap();
        assert_eq!(left.life, Life::Failed);
        assert!(left.message.unwrap().contains("--simulate-crash"));
    }
}
