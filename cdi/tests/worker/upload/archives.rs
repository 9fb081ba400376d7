//! Uploads of archives into a folder.

use super::super::archives::archive;
use super::*;

#[test]
fn an_archive_goes_its_own_way_and_no_disk_goes_it() {
    let bytes = pattern(3 << 20);
    let mut server = Server::of_archives();
    for path in ["upload", "upload-async", "upload-form"] {
        server.post(&format!("/v1beta1/{path}"), &bytes).is(400).says("upload-archive");
    }
    server.post("/v1beta1/upload-archive", &bytes).is(500).says("not a tar archive");
    let body = archive(&bytes);
    let broken = server.begin("/v1beta1/upload-archive", body.len(), &body[..2 << 20]);
    server.pod.reports(|report| report.stage == Stage::Moving && report.done >= 1 << 20);
    broken.breaks();
    server.pod.reports(|report| report.failures == 2);
    assert!(server.names().is_empty(), "{:?}", server.names());
    server.post("/v1beta1/upload-archive", &body).is(200);
    assert_eq!(server.names(), ["images", "notes"]);
    assert!(std::fs::read(server.volume.path().join("images/disk.img")).unwrap() == bytes);
    assert_eq!(server.done().done, (3 << 20) + 5);
}
