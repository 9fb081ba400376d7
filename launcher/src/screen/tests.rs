//! Clients, and a QEMU played by the test.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

#[tokio::test]
async fn each_client_has_its_own_connection() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("vnc");
    let qemu = UnixListener::bind(&path).unwrap();
    let screen = Screen::new(path.clone(), 2).unwrap();
    let mut clients = Vec::new();
    for name in [b'a', b'b'] {
        let (mut client, theirs) = tokio::io::duplex(64);
        let serving = tokio::spawn(screen.reserve().await.unwrap().serve(theirs));
        let (mut server, _) = qemu.accept().await.unwrap();
        server.write_all(b"RFB 003.008\n").await.unwrap();
        client.write_all(&[name]).await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), name);
        let mut greeting = [0; 12];
        client.read_exact(&mut greeting).await.unwrap();
        assert_eq!(&greeting, b"RFB 003.008\n");
        clients.push((client, server, serving));
    }

    let refused = screen.reserve().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    // A client that leaves frees its place; a QEMU that ends ends its clients.
    let (client, mut server, serving) = clients.remove(0);
    drop(client);
    assert_eq!(server.read(&mut [0; 1]).await.unwrap(), 0);
    drop(server);
    serving.await.unwrap();
    screen.reserve().await.unwrap();
    let (mut client, server, _) = clients.remove(0);
    drop(server);
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn an_unreachable_screen_is_an_error() {
    let screen = Screen::new("/nowhere/vnc".into(), 1).unwrap();
    let said = screen.reserve().await.unwrap_err();
    assert_eq!(
        (said.kind(), said.to_string().as_str()),
        (ErrorKind::NotFound, "cannot reach the VM's screen at /nowhere/vnc")
    );
    // A failed connection is not counted.
    assert_eq!(screen.reserve().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(Screen::new("x".repeat(108).into(), 1).is_err());
}
