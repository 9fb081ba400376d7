//! Parts of a VM that are found or made for its start.

use super::*;
use serde_json::json;
use std::os::unix::net::UnixListener;

#[test]
fn a_file_system_is_found_by_the_socket_that_is_listened_on() {
    let vmi = json!({
        "metadata": {"name": "a", "namespace": "test"},
        "spec": {
            "domain": {
                "memory": {"guest": "128Mi"},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"filesystems": [{"name": "files", "virtiofs": {}}]},
            },
            "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": "pvc"}}],
        },
    });
    let machine = Machine::check_again(&api::wire::read(vmi).unwrap()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let root = Root::open(&place.path().join("root"), place.path()).unwrap();
    let mut resolved = Resolved::default();
    let said = prepare(&machine, &resolved, &root, PrepareMode::Start(&Hooks::default())).unwrap_err();
    assert_eq!(said.to_string(), "no virtiofsd serves the file system 'files' on this host");

    let socket = place.path().join("files.sock");
    resolved.filesystems.insert("files".into(), socket.clone());
    let late = {
        let socket = socket.clone();
        // The container begins when it does.
        std::thread::spawn(move || UnixListener::bind(socket).unwrap())
    };
    let (host, _) = prepare(&machine, &resolved, &root, PrepareMode::Start(&Hooks::default())).unwrap();
    assert_eq!(host.filesystems, [("files".to_owned(), socket.clone())].into());
    let listener = late.join().unwrap();
    // Nobody has knocked: virtiofsd would be gone.
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err());
    // A VM that runs keeps its file system, whose socket is gone with its first client.
    fs::remove_file(&socket).unwrap();
    assert!(prepare(&machine, &resolved, &root, PrepareMode::TakeOver).is_ok());
}
