//! Write-back errors. Linux reports each once, and keeps the pages that it could not write in the page cache,
//! where they read as if they had been written. No blob and no archive may get its name with such pages.

#![allow(clippy::unwrap_used)]

use container_disk::archive::OciArchiveSink;
use container_disk::manifest::{Descriptor, IMAGE_LAYER_MEDIA_TYPE};
use container_disk::place::Sink;
use container_disk::store::Store;
use container_disk::{Digest, ErrorKind};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tests::failing_disk::{FailingDisk, evict};
use tests::full_disk::{FullDisk, PAGE};

const SIZE: usize = 4 << 20;

fn bytes(seed: u64) -> Vec<u8> {
    (0..SIZE as u64).map(|i| ((i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn promised(bytes: &[u8]) -> Descriptor {
    let (media_type, digest) = (IMAGE_LAYER_MEDIA_TYPE.to_owned(), Digest::of(bytes).to_string());
    Descriptor { media_type, digest, size: bytes.len() as i64, ..Descriptor::default() }
}

/// A pull of one blob: its result, and the number of bytes from an earlier attempt.
fn pull(store: &Store, bytes: &[u8]) -> (u64, container_disk::Result<()>) {
    let (have, mut blob) = store.resume(&promised(bytes)).unwrap();
    blob.write_all(&bytes[have as usize..]).unwrap();
    (have, blob.finish().map(drop))
}

fn half(store: &Path, bytes: &[u8]) -> PathBuf {
    store.join("ingest").join(format!("part-sha256-{}", Digest::of(bytes).hex()))
}

fn is_on_the_disk(store: &Path, bytes: &[u8]) -> bool {
    let blob = store.join("blobs/sha256").join(Digest::of(bytes).hex());
    evict(&blob);
    fs::read(blob).unwrap() == bytes
}

#[test]
fn nothing_is_resumed_from_a_half_blob_whose_sync_failed() {
    let Some(disk) = FailingDisk::new() else { return };
    let path = disk.path().join("store");
    let (store, bytes) = (Store::open(&path).unwrap(), bytes(1));
    disk.fail();
    let (_, failed) = pull(&store, &bytes);
    let e = failed.unwrap_err();
    assert!(e.to_string().contains("durable"), "{e}");
    assert!(!half(&path, &bytes).exists(), "what could not be synced is kept");
    disk.heal();
    let (have, done) = pull(&store, &bytes);
    done.unwrap();
    assert!(is_on_the_disk(&path, &bytes), "{have} bytes were taken from the page cache");
    assert_eq!(have, 0);
}

/// The process that received the error was killed before it could remove the file.
#[test]
fn a_half_blob_of_another_process_is_judged_by_what_the_disk_holds() {
    let Some(disk) = FailingDisk::new() else { return };
    let path = disk.path().join("store");
    let (store, bytes) = (Store::open(&path).unwrap(), bytes(2));
    disk.fail();
    let mut left = File::create(half(&path, &bytes)).unwrap();
    left.write_all(&bytes).unwrap();
    left.sync_all().unwrap_err();
    left.sync_all().expect("Linux reports the error once");
    drop(left);
    disk.heal();
    let (_, done) = pull(&store, &bytes);
    let e = done.expect_err("the disk never got these bytes");
    assert_eq!(e.kind(), ErrorKind::Failed, "{e}");
    assert!(e.to_string().contains("was resumed at byte"), "{e}");
    let (have, done) = pull(&store, &bytes);
    done.unwrap();
    assert_eq!(have, 0);
    assert!(is_on_the_disk(&path, &bytes));
}

/// The process was killed before its bytes were written back, and no process received the error.
#[test]
fn a_half_blob_that_cannot_be_synced_is_begun_anew() {
    let Some(disk) = FailingDisk::new() else { return };
    let path = disk.path().join("store");
    let (store, bytes) = (Store::open(&path).unwrap(), bytes(3));
    disk.fail();
    fs::write(half(&path, &bytes), &bytes[..SIZE / 2]).unwrap();
    let (have, mut blob) = store.resume(&promised(&bytes)).unwrap();
    assert_eq!(have, 0);
    disk.heal();
    blob.write_all(&bytes).unwrap();
    blob.finish().unwrap();
    assert!(is_on_the_disk(&path, &bytes));
    // Bytes that were or are now written back are used to resume.
    let bytes = self::bytes(4);
    fs::write(half(&path, &bytes), &bytes[..SIZE / 2 + 7]).unwrap();
    let (have, done) = pull(&store, &bytes);
    done.unwrap();
    assert_eq!(have, SIZE as u64 / 2 + 7);
    assert!(is_on_the_disk(&path, &bytes));
}

#[test]
fn an_archive_whose_sync_failed_gets_no_name_at_the_second_attempt_either() {
    let Some(disk) = FailingDisk::new() else { return };
    let path = disk.path().join("image.tar");
    let sink = OciArchiveSink::create(&path).unwrap();
    disk.fail();
    let bytes = bytes(5);
    let mut blob = sink.begin(Some(&promised(&bytes))).unwrap();
    blob.write_all(&bytes).unwrap();
    blob.finish().unwrap();
    let e = sink.close().unwrap_err();
    assert!(e.to_string().contains("durable"), "{e}");
    disk.heal();
    sink.close().expect_err("the archive would hold bytes that the disk never got");
    drop(sink);
    assert_eq!(fs::read_dir(disk.path()).unwrap().filter(|e| is_archive(e.as_ref().unwrap())).count(), 0);
}

fn is_archive(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with("image.tar")
}

/// A blob that is written while another one grows at the end of the archive is buffered in an anonymous file.
#[test]
fn a_blob_that_waited_beside_an_archive_and_was_lost_there_is_not_written_into_it() {
    let Some(disk) = FailingDisk::new() else { return };
    let path = disk.path().join("image.tar");
    let sink = OciArchiveSink::create(&path).unwrap();
    let (first, second) = (bytes(6), bytes(7));
    let mut growing = sink.begin(Some(&promised(&first))).unwrap();
    let mut waiting = sink.begin(Some(&promised(&second))).unwrap();
    disk.fail();
    waiting.write_all(&second).unwrap();
    waiting.finish().unwrap();
    let anonymous_file = fs::read_dir(format!("/proc/{}/fd", std::process::id()))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|fd| {
            fs::read_link(fd)
                .is_ok_and(|to| to.starts_with(disk.path()) && to.to_string_lossy().ends_with("(deleted)"))
        });
    let anonymous_file = anonymous_file.unwrap();
    File::open(&anonymous_file).unwrap().sync_all().unwrap_err();
    evict(&anonymous_file);
    disk.heal();
    growing.write_all(&first).unwrap();
    let e = growing.finish().expect_err("the bytes of the second blob are lost");
    assert!(e.to_string().contains("was damaged"), "{e}");
    sink.close().expect_err("the archive lacks a blob");
}

/// A build asks a second sink again for what that has not got, when there is room again.
#[test]
fn an_archive_whose_blob_met_no_room_at_its_end_gets_no_name() {
    // Two folders, and a blob that ends with the page.
    let Some(disk) = FullDisk::of_bytes(PAGE) else { return };
    let path = disk.path().join("image.tar");
    let sink = OciArchiveSink::create(&path).unwrap();
    let put = |bytes: &[u8]| {
        let mut blob = sink.begin(Some(&promised(bytes))).unwrap();
        blob.write_all(bytes).unwrap();
        blob.finish().map(drop)
    };
    put(&[1; PAGE as usize - 3 * 512]).unwrap();
    let e = put(b"").expect_err("its header has no room");
    assert!(e.to_string().contains("cannot write"), "{e}");
    disk.grow();
    if !sink.has(&promised(b"")).unwrap() {
        put(b"").unwrap();
    }
    sink.close().expect_err("the archive lacks a blob");
    drop(sink);
    assert!(!path.exists());
}
