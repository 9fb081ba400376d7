//! Properties that must hold for any client of the launcher's socket: it is answered or cut off, and others are answered
//! as before.

use crate::tasks::run;
use api::launcher::Info;
use launcher::hypervisor::fake::Fake;
use launcher::root::Root;
use launcher::server::{Listener, Service};
use launcher::vm::{Parts, drive};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// A VM that exists already, for half of the inputs.
const VM: &str = r#"{"generation":1,"resolved":{"accelerator":"emulation"},"vmi":{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"vm","namespace":"default"},"spec":{"terminationGracePeriodSeconds":0,"domain":{"firmware":{"uuid":"5d307ca9-b3ef-428c-8861-06e72d69f223"},"memory":{"guest":"64Mi"},"devices":{"autoattachPodInterface":false,"disks":[{"name":"cd","cdrom":{"bus":"sata"}}]}},"volumes":[{"name":"cd","cloudInitNoCloud":{"userData":"a"}}]}}}"#;

/// A byte that chooses whether there is a VM and the size of the pieces; then the client's bytes.
pub(crate) fn server(input: &[u8]) {
    // A host disk may be made at any path, as its field says.
    let Some((&how, said)) = input.split_first() else { return };
    if said.windows(8).any(|word| word.eq_ignore_ascii_case(b"hostDisk")) || said.contains(&b'\\') {
        return;
    }
    run(serve(how, said.to_vec()));
}

async fn serve(how: u8, said: Vec<u8>) {
    let folder = tempfile::Builder::new().prefix("f").tempdir_in("/tmp").expect("a folder");
    let root = Root::open(&folder.path().join("r"), folder.path()).expect("a root");
    let (give, lines) = launcher::console::lines();
    let info = Info {
        version: "1".into(),
        pid: 1,
        libvirt: "0".into(),
        uri: "fake:///".into(),
        root: folder.path().into(),
    };
    let fake = Arc::new(Fake::default());
    fake.agent_says("guest-ping", r#"{"return":{}}"#);
    let parts = Parts { hypervisor: fake, root, lines: give, clock: || "2026-01-01T00:00:00Z".to_owned() };
    let (handle, driver) = drive(parts).expect("a loop");
    let driver = tokio::spawn(driver);
    let service = Service::new(handle.clone(), lines, info).expect("a service");
    let path = folder.path().join("s");
    let listener = Listener::bind(&path).await.expect("a socket");
    let serving = tokio::spawn({
        let service = service.clone();
        async move { listener.serve(service).await }
    });
    if how & 1 != 0 {
        let request = format!("PUT /v1/vm HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{VM}", VM.len());
        let answer = asked(&path, request.as_bytes()).await;
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    }

    let client = UnixStream::connect(&path).await.expect("a connection");
    let (mut from, mut to) = client.into_split();
    let answers = tokio::spawn(async move {
        let mut answers = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(size @ 1..) = from.read(&mut piece).await {
            answers.extend_from_slice(&piece[..size.min((64_usize << 10).saturating_sub(answers.len()))]);
        }
        answers
    });
    let piece = [usize::MAX, 1, 7, 100][usize::from(how >> 1 & 3)].min(said.len().max(1));
    for piece in said.chunks(piece) {
        // The connection may have been closed.
        if to.write_all(piece).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    for _ in 0..3 {
        let answer = asked(&path, b"GET /v1/info HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    }
    drop(to);
    // A stream goes on as long as there is a VM: its end is not waited for.
    answers.abort();
    if let Ok(answers) = answers.await {
        assert!(
            answers.is_empty() || answers.starts_with(b"HTTP/1.1 ") || answers.starts_with(b"HTTP/1.0 "),
            "{}",
            String::from_utf8_lossy(&answers)
        );
    }
    serving.abort();
    // The loop ends with the launcher, after any request.
    handle.end().await;
    driver.await.expect("the loop has no fault");
    service.finish().await;
}

/// The first bytes of the answer to one request of an honest client.
async fn asked(path: &Path, request: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(path).await.expect("a connection");
    stream.write_all(request).await.expect("it is read");
    let mut answer = vec![0; 16];
    stream.read_exact(&mut answer).await.expect("it is answered");
    answer
}
