//! Clients, and a QEMU played by the test.

use super::*;
use tokio::io::DuplexStream;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

/// Long enough for a busy host; only a test that fails waits so long.
const SOON: Duration = Duration::from_secs(60);

/// A viewer of RFB 3.8 that wants the screen for itself, as it says hello …
const HELLO: &[u8] = b"RFB 003.008\n\x01\x00";
/// … and as QEMU hears it.
const SHARED: &[u8] = b"RFB 003.008\n\x01\x01";
const KEY: [u8; 8] = [4, 1, 0, 0, 0, 0, 0, b'a'];
const UPDATE: [u8; 10] = [3, 1, 0, 0, 0, 0, 4, 0, 3, 0];

/// QEMU's VNC socket, and the screen before it.
struct Scene {
    qemu: UnixListener,
    screen: Screen,
    _folder: tempfile::TempDir,
}

/// A viewer, QEMU's side of its connection, and the task between them.
struct Viewer {
    client: DuplexStream,
    server: UnixStream,
    serving: JoinHandle<()>,
}

impl Scene {
    fn new(most: usize) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vnc");
        let qemu = UnixListener::bind(&path).unwrap();
        Scene { qemu, screen: Screen::new(path, most).unwrap(), _folder: folder }
    }

    async fn viewer(&self, mode: Mode) -> Viewer {
        let connection = self.screen.reserve(mode).await.unwrap();
        let (mut client, theirs) = tokio::io::duplex(64);
        let serving = tokio::spawn(connection.serve(theirs));
        let (server, _) = self.qemu.accept().await.unwrap();
        client.write_all(HELLO).await.unwrap();
        let mut viewer = Viewer { client, server, serving };
        viewer.heard(SHARED).await;
        viewer
    }
}

impl Viewer {
    async fn says(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).await.unwrap();
    }

    /// QEMU hears this next.
    async fn heard(&mut self, wanted: &[u8]) {
        let mut heard = vec![0; wanted.len()];
        soon("QEMU to hear", self.server.read_exact(&mut heard)).await.unwrap();
        assert_eq!(heard, wanted);
    }

    /// The client sees the end of its stream, and QEMU of its own.
    async fn ends(mut self) {
        assert_eq!(soon("the client's end", self.client.read(&mut [0; 1])).await.unwrap(), 0);
        assert_eq!(soon("QEMU's end", self.server.read(&mut [0; 1])).await.unwrap(), 0);
        soon("the task's end", self.serving).await.unwrap();
    }
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(done) => done,
        Err(_) => panic!("waited {SOON:?} for {what}"),
    }
}

#[tokio::test]
async fn each_client_has_its_own_connection() {
    let scene = Scene::new(2);
    let (mut one, mut two) = (scene.viewer(Mode::Write).await, scene.viewer(Mode::Read).await);
    for viewer in [&mut one, &mut two] {
        viewer.says(&UPDATE).await;
        viewer.heard(&UPDATE).await;
        viewer.server.write_all(b"a picture").await.unwrap();
        let mut picture = [0; 9];
        viewer.client.read_exact(&mut picture).await.unwrap();
        assert_eq!(&picture, b"a picture");
    }
    let refused = scene.screen.reserve(Mode::Read).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    // Its connection was made before it was refused.
    drop(scene.qemu.accept().await.unwrap());
    // A client that leaves frees its place; a QEMU that ends ends its clients.
    let Viewer { client, mut server, serving } = one;
    drop(client);
    assert_eq!(server.read(&mut [0; 1]).await.unwrap(), 0);
    drop(server);
    serving.await.unwrap();
    scene.screen.reserve(Mode::Write).await.unwrap();
    let Viewer { mut client, server, .. } = two;
    drop(server);
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn one_viewer_types_and_those_that_read_do_not() {
    let scene = Scene::new(9);
    let mut first = scene.viewer(Mode::Write).await;
    let mut reader = scene.viewer(Mode::Read).await;
    let refused = scene.screen.reserve(Mode::Write).await.unwrap_err();
    drop(scene.qemu.accept().await.unwrap());
    assert!(refused.to_string().contains("another client types on this screen"), "{refused}");
    reader.says(&[&KEY[..], &UPDATE].concat()).await;
    reader.heard(&UPDATE).await;
    first.says(&KEY).await;
    first.heard(&KEY).await;
    let mut second = scene.viewer(Mode::Take).await;
    second.says(&KEY).await;
    second.heard(&KEY).await;
    first.says(&[&KEY[..], &UPDATE].concat()).await;
    first.heard(&UPDATE).await;
    // Whoever types last leaves, and the keyboard is free.
    drop(second.client);
    soon("the task's end", async {
        drop(second.server);
        second.serving.await
    })
    .await
    .unwrap();
    let mut third = scene.viewer(Mode::Write).await;
    third.says(&KEY).await;
    third.heard(&KEY).await;
}

#[tokio::test]
async fn a_viewer_that_wants_to_be_alone_closes_the_one_before_and_no_reader() {
    let scene = Scene::new(9);
    let mut reader = scene.viewer(Mode::Read).await;
    let first = scene.viewer(Mode::Alone).await;
    let mut second = scene.viewer(Mode::Alone).await;
    first.ends().await;
    second.says(&KEY).await;
    second.heard(&KEY).await;
    reader.says(&UPDATE).await;
    reader.heard(&UPDATE).await;
}

#[tokio::test]
async fn a_reader_whose_words_are_not_known_is_closed() {
    let scene = Scene::new(9);
    let mut reader = scene.viewer(Mode::Read).await;
    reader.says(&[99]).await;
    reader.ends().await;
}

#[tokio::test]
async fn an_unreachable_screen_is_an_error() {
    let screen = Screen::new("/nowhere/vnc".into(), 1).unwrap();
    let said = screen.reserve(Mode::Read).await.unwrap_err();
    assert_eq!(
        (said.kind(), said.to_string().as_str()),
        (ErrorKind::NotFound, "cannot reach the VM's screen at /nowhere/vnc")
    );
    // A failed connection is not counted.
    assert_eq!(screen.reserve(Mode::Read).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(screen.wake().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(Screen::new("x".repeat(108).into(), 1).is_err());
}

#[tokio::test]
async fn the_pointer_is_moved_as_a_viewer_moves_it() {
    let scene = Scene::new(1);
    // All places are taken: who moves the pointer needs none.
    let _viewer = scene.viewer(Mode::Write).await;
    let waking = tokio::spawn({
        let screen = scene.screen.clone();
        async move { screen.wake().await }
    });
    let (mut server, _) = scene.qemu.accept().await.unwrap();
    server.write_all(b"RFB 003.008\n\x01\x01\0\0\0\0").await.unwrap();
    server.write_all(&[&[4, 0, 3, 0][..], &[0; 16], &[0, 0, 0, 4], b"QEMU"].concat()).await.unwrap();
    let mut heard = vec![0; SHARED.len() + 22];
    server.read_exact(&mut heard).await.unwrap();
    let moves = [[5, 0, 2, 0, 1, 128], [5, 0, 2, 1, 1, 129]].concat();
    assert_eq!(heard, [SHARED, &moves, &[3, 0, 0, 0, 0, 0, 0, 1, 0, 1]].concat());
    assert!(!waking.is_finished());
    server.write_all(&[0]).await.unwrap();
    soon("the move", waking).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_screen_that_lets_nobody_in_is_an_error() {
    for said in [&b"RFB 003.008\n\x01\x02"[..], b"HTTP/1.1 400 x\r\n", b"RFB 003.008\n\x01\x01\0\0\0\x01"] {
        let scene = Scene::new(1);
        let waking = scene.screen.wake();
        let serving = async {
            let (mut server, _) = scene.qemu.accept().await.unwrap();
            server.write_all(said).await.unwrap();
            // Until it leaves.
            let mut rest = Vec::new();
            let _ = server.read_to_end(&mut rest).await;
        };
        let (woken, ()) = soon("the refusal", async { tokio::join!(waking, serving) }).await;
        let error = woken.unwrap_err();
        assert!(error.to_string().contains("cannot move the pointer"), "{error}");
    }
}
