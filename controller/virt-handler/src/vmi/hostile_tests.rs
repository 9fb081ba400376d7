//! Hostile launchers: each delays its own VMI, and no other.

use super::*;
use std::os::unix::net::UnixListener as Listener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

/// Far more time than any step takes, on a busy host too.
const LONG: Duration = Duration::from_secs(120);
const HOSTILE: usize = 50;

/// Behaviour of a launcher that tries to block its node.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Accepts no connection, and its queue is full.
    Full,
    /// Accepts no connection; its queue has room.
    Silent,
    /// Answers with an endless head, one byte from time to time.
    Trickle,
    /// Begins the stream of states and sends none.
    NoState,
    /// Sends an endless state, as fast as it can.
    EndlessState,
    /// Sends changing states, as fast as it can.
    Flood,
    /// Accepts the hand-over, and does not finish its answer.
    EndlessSync,
    /// Closes the connection at each request.
    Hangup,
}

const ALL: [Does; 8] = [
    Does::Full,
    Does::Silent,
    Does::Trickle,
    Does::NoState,
    Does::EndlessState,
    Does::Flood,
    Does::EndlessSync,
    Does::Hangup,
];

const HEAD: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";

fn state(number: u64, life: &str) -> String {
    let state = json!({"number": number, "generation": 0, "life": life, "since": "x", "agent": false});
    format!("{state}\n")
}

impl Does {
    /// Listens in the pod's folder. `reached` counts connections from the node.
    fn listen(self, pods: &Path, reached: &Arc<AtomicUsize>) {
        let empty = pods.join("pod-uid/volumes/kubernetes.io~empty-dir");
        std::fs::create_dir_all(empty.join("private/root")).unwrap();
        std::fs::create_dir_all(empty.join("sockets")).unwrap();
        let path = empty.join("sockets/launcher-sock");
        let listener = Listener::bind(&path).unwrap();
        if matches!(self, Does::Full) {
            rustix::net::listen(&listener, 0).unwrap();
            // Such a queue has one place; a second client waits.
            let first = std::os::unix::net::UnixStream::connect(&path).unwrap();
            std::mem::forget((listener, first));
            return;
        }
        if matches!(self, Does::Silent) {
            std::mem::forget(listener);
            return;
        }
        listener.set_nonblocking(true).unwrap();
        let listener = UnixListener::from_std(listener).unwrap();
        let reached = reached.clone();
        tokio::spawn(async move {
            let mut first = true;
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                reached.fetch_add(usize::from(std::mem::take(&mut first)), Ordering::Relaxed);
                // The client closes the connection after its time limit.
                tokio::spawn(async move { drop(self.serve(stream).await) });
            }
        });
    }

    async fn serve(self, mut stream: UnixStream) -> std::io::Result<()> {
        let mut asked = vec![0; 64 << 10];
        let length = tokio::io::AsyncReadExt::read(&mut stream, &mut asked).await?;
        let is_sync = asked.get(..length).is_some_and(|asked| asked.starts_with(b"PUT"));
        match self {
            Does::Full | Does::Silent | Does::Hangup => return Ok(()),
            Does::Trickle => stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await?,
            _ => stream.write_all(HEAD.as_bytes()).await?,
        }
        match self {
            Does::EndlessSync if !is_sync => stream.write_all(state(0, "Empty").as_bytes()).await?,
            Does::Flood => {
                for number in 0.. {
                    stream.write_all(state(number, "Preparing").as_bytes()).await?;
                }
            }
            _ => {}
        }
        loop {
            match self {
                Does::EndlessState => stream.write_all(&[b' '; 4096]).await?,
                Does::Trickle | Does::EndlessSync if is_sync || matches!(self, Does::Trickle) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    stream.write_all(b" ").await?;
                }
                _ => std::future::pending().await,
            }
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// The programs of the control plane have two workers, and so has the node here. Launchers, hostile and
/// honest, run on threads of their own. The test itself waits on neither: a blocked node makes the test fail
/// instead of hang.
#[test]
fn fifty_hostile_launchers_do_not_hold_up_an_honest_vmi() {
    let (node, outside) = (runtime(), runtime());
    let reached = Arc::new(AtomicUsize::new(0));
    let hostile: Vec<(Does, Scene)> = ALL
        .into_iter()
        .cycle()
        .take(HOSTILE)
        .map(|does| {
            let place = tempfile::tempdir().unwrap();
            let launcher = outside.enter();
            does.listen(place.path(), &reached);
            drop(launcher);
            let _node = node.enter();
            (does, Scene::at(place, vmi(), |place| Pods::played(place)))
        })
        .collect();
    let accepts = |does: &Does| !matches!(does, Does::Full | Does::Silent);
    let wanted = hostile.iter().filter(|(does, _)| accepts(does)).count();
    let (tell, told) = mpsc::channel();
    let (launchers, counts) = (outside.handle().clone(), reached.clone());
    node.spawn(async move {
        // Every hostile launcher is connected before the honest one comes.
        while counts.load(Ordering::Relaxed) < wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let scene = Scene::of(vmi());
        let _listening = {
            let _outside = launchers.enter();
            scene.launcher.listen(scene.place.path())
        };
        scene.server.until("Running", |object| object["status"]["phase"] == "Running").await;
        tell.send(()).unwrap();
    });
    let told = told.recv_timeout(LONG);
    let reached = reached.load(Ordering::Relaxed);
    let phases: Vec<(Does, bool, Value)> = hostile
        .iter()
        .map(|(does, scene)| (*does, scene.keeper.is_finished(), scene.server.status("phase")))
        .collect();
    // A blocked worker never returns, so it is not waited for.
    node.shutdown_background();
    outside.shutdown_background();
    assert!(told.is_ok(), "the honest VMI did not start; {reached} of {wanted} others were spoken to");
    for (does, finished, phase) in phases {
        assert!(!finished, "{does:?}: its keeper has gone");
        assert_eq!(phase, "Scheduled", "{does:?}");
    }
}
