use super::*;
use crate::pod::Folder;
use std::fs;
use std::os::unix::net::UnixListener;

fn connected(tried: ConnectResult) -> (UnixStream, Process) {
    match tried {
        ConnectResult::Connected(stream, process) => (stream, process.unwrap()),
        ConnectResult::Full(socket) => panic!("the queue of {} is full", socket.display_path().display()),
    }
}

#[test]
fn a_socket_is_reached_by_what_is_held_and_tells_who_listens() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path()).unwrap();
    // A path that is too long for a socket's address.
    let deep = "d".repeat(60);
    fs::create_dir_all(place.path().join(&deep).join(&deep)).unwrap();
    let short = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(short.path().join("s")).unwrap();
    let path = format!("{deep}/{deep}/s");
    fs::rename(short.path().join("s"), place.path().join(&path)).unwrap();
    let (_stream, process) = connected(try_connect(folder.held(&path).unwrap()).unwrap());
    let own = Process::of(std::process::id()).unwrap();
    assert_eq!(process.display_path("root"), own.display_path("root"));
    drop(listener);
    let said = try_connect(folder.held(&path).unwrap()).unwrap_err();
    assert_eq!(said.kind(), ErrorKind::NotFound);
    assert!(said.to_string().contains("no process listens"), "{said}");
}

#[test]
fn a_full_queue_is_an_answer_and_not_a_wait() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path()).unwrap();
    let listener = UnixListener::bind(place.path().join("s")).unwrap();
    listen(&listener, 0).unwrap();
    let mut waiting = Vec::new();
    let socket = loop {
        match try_connect(folder.held("s").unwrap()).unwrap() {
            ConnectResult::Connected(stream, _) => waiting.push(stream),
            ConnectResult::Full(socket) => break socket,
        }
        assert!(waiting.len() < 100, "the queue is never full");
    };
    // The held socket is retried, and works once a connection of the queue is accepted.
    listener.accept().unwrap();
    connected(try_connect(socket).unwrap());
}
