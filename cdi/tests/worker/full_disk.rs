//! Imports onto a full disk: at each file that an attempt makes, and at the first, a middle and the last of its writes.
//!
//! | phase | what is full |
//! |---|---|
//! | target | the volume: no file can be made, or the first, a middle or the last write of the disk meets no room |
//! | journal | the volume: the file cannot be made, or its first record meets no room |
//! | spool | the volume: a qcow2 whose tables come last waits there |
//! | journal of a device, settings of registries | the pod's folder of temporary files |
//! | termination message | the node |
//!
//! Only for root, who may mount a tmpfs.

use super::devices::Device;
use super::ends::mark;
use super::{MARK, PATIENCE, Pod, disk, job, names};
use api::job::{Import, Registry, Report, Source, Stage, Target};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::disk::{Noise, qemu_convert, raw_disk};
use tests::full_disk::{FullDisk, PAGE};
use tests::http::{Behaviour, Fail, Server};

/// Not a multiple of a page, a cluster or a piece that moves.
const SIZE: u64 = (2 << 20) + 512 * 7;

fn is_long() -> bool {
    std::env::var_os("CORACLE_TEST_TIER").is_some_and(|tier| tier == "all")
}

/// Waits until the pod says that its volume is full, and asks it to end: the disk has no name.
fn is_told_no_space(mut pod: Pod, volume: &Path, case: &str) -> Report {
    let told = pod.reports(|report| matches!(report.stage, Stage::Waiting | Stage::Failed | Stage::Done));
    assert_eq!((told.stage, told.reason.as_str()), (Stage::Waiting, "NoSpace"), "{case}: {told:?}");
    assert!(told.failures == 1 && !told.message.contains("--"), "{case}: {told:?}");
    let left = names(volume);
    assert!(!left.iter().any(|name| name == "disk.img" || name == "files"), "{case}: {left:?}");
    assert!(!volume.join(MARK).exists(), "{case}: a mark");
    pod.signal(Signal::TERM);
    let ended = pod.wait();
    assert_eq!(ended.code, Some(143), "{case}: {}", ended.log);
    assert!(!ended.log.contains("panicked"), "{case}: {}", ended.log);
    told
}

/// An import onto a disk without room, and the next one onto the same with room.
fn imports(case: &str, room: &FullDisk, job: &Import, wanted: &[u8]) {
    let volume = room.path();
    is_told_no_space(Pod::start(job), volume, case);
    room.grow();
    Pod::run(job).done();
    assert!(std::fs::read(disk(volume)).unwrap() == wanted, "{case}: other bytes");
    assert_eq!(names(volume), ["disk.img"], "{case}");
}

/// A disk, and its image whose tables lie behind all data.
fn disk_with_late_tables(folder: &Path) -> (Vec<u8>, Vec<u8>) {
    let raw = folder.join("disk.raw");
    raw_disk(&raw, SIZE, 41);
    let mut image = std::fs::read(qemu_convert("-O qcow2", &raw, &folder.join("disk.qcow2"))).unwrap();
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    let cluster = 1_usize << u32::from_be_bytes(image[20..24].try_into().unwrap());
    let first = usize::try_from(number(&image[40..48])).unwrap();
    // The one entry of the first table: a flag, and the place of the second.
    let entry = number(&image[first..first + 8]);
    let second = usize::try_from(entry & !(1 << 63)).unwrap();
    image.resize(image.len().next_multiple_of(cluster), 0);
    let moved = (entry & (1 << 63)) | image.len() as u64;
    image.extend_from_within(second..second + cluster);
    image[second..second + cluster].fill(0);
    image[first..first + 8].copy_from_slice(&moved.to_be_bytes());
    (std::fs::read(raw).unwrap(), image)
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

#[test]
fn a_file_that_cannot_be_made_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (raw, image) = disk_with_late_tables(folder.path());
    let (plain, packed) = (raw.clone(), compressed(&image));
    // Behind the disk both have a journal, and the other one has a spool.
    for (name, bytes, wanted) in [("/disk.img", plain, 2), ("/disk.qcow2.zst", packed, 3)] {
        let server = Server::start(bytes, Behaviour::default());
        for files in 0..wanted {
            let Some(room) = FullDisk::of_files(files) else { return };
            let job = job(room.path(), &server.url(name));
            imports(&format!("{name}: room for {files} files"), &room, &job, &raw);
        }
        // The mark has the place of what is gone by then.
        let Some(room) = FullDisk::of_files(wanted) else { return };
        Pod::run(&job(room.path(), &server.url(name))).done();
        assert!(room.path().join(MARK).exists(), "{name}");
    }
}

#[test]
fn the_first_a_middle_and_the_last_write_wait_for_room() {
    let raw = Noise::new(42).bytes(usize::try_from(SIZE).unwrap());
    let pages = SIZE.div_ceil(PAGE);
    let server = Server::start(raw.clone(), Behaviour::default());
    // The first record of the journal, the first write, a middle one, the last one.
    for room in [0, 1, pages / 2, pages] {
        let Some(full) = FullDisk::of_bytes(room * PAGE) else { return };
        let job = job(full.path(), &server.url("/disk.img"));
        imports(&format!("room for {room} of {pages} pages"), &full, &job, &raw);
    }
    // One page more, for the journal, is enough.
    let Some(room) = FullDisk::of_bytes((pages + 1) * PAGE) else { return };
    Pod::run(&job(room.path(), &server.url("/disk.img"))).done();
}

#[test]
fn a_spool_without_room_and_a_stream_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (raw, image) = disk_with_late_tables(folder.path());
    let spooled = Server::start(compressed(&image), Behaviour::default());
    let stream = Server::start(compressed(&raw), Behaviour::default());
    let step = if is_long() { 32 } else { 256 };
    for (server, name, disks) in [(&spooled, "/disk.qcow2.zst", 2), (&stream, "/disk.img.zst", 1)] {
        // All data waits in the spool before the first byte of it is placed.
        let mut room = 1 + step;
        while room < disks * SIZE / PAGE / 2 {
            let Some(full) = FullDisk::of_bytes(room * PAGE) else { return };
            let job = job(full.path(), &server.url(name));
            imports(&format!("{name}: room for {room} pages"), &full, &job, &raw);
            room += step;
        }
    }
}

#[test]
fn blocks_that_cannot_be_reserved_are_waited_for() {
    let raw = Noise::new(43).bytes(1 << 20);
    let server = Server::start(raw.clone(), Behaviour::default());
    let Some(room) = FullDisk::of_bytes(2 << 20) else { return };
    let mut job = job(room.path(), &server.url("/disk.img"));
    (job.preallocate, job.size) = (true, Some(4 << 20));
    let mut wanted = raw;
    wanted.resize(4 << 20, 0);
    imports("preallocated", &room, &job, &wanted);
}

#[test]
fn an_archive_without_room_leaves_none_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    std::fs::create_dir(&files).unwrap();
    for number in 0..100 {
        std::fs::write(files.join(number.to_string()), number.to_string()).unwrap();
    }
    let made = std::process::Command::new("tar").arg("-cC").arg(folder.path()).arg("files").output();
    let server = Server::start(made.unwrap().stdout, Behaviour::default());
    // The folder of what is unpacked, a file in it; the first file and a middle one have no block.
    let disks =
        [FullDisk::of_files(0), FullDisk::of_files(50), FullDisk::of_bytes(0), FullDisk::of_bytes(50 * PAGE)];
    for (case, room) in disks.into_iter().enumerate() {
        let Some(room) = room else { return };
        let volume = room.path();
        let job = super::archives::into_folder(volume, &server.url("/files.tar"));
        let job = Import { size: Some(1 << 20), ..job };
        is_told_no_space(Pod::start(&job), volume, &format!("archive, case {case}"));
        room.grow();
        Pod::run(&job).done();
        assert_eq!(names(volume), ["files"]);
        for number in 0..100 {
            let file = volume.join("files").join(number.to_string());
            assert_eq!(std::fs::read_to_string(file).unwrap(), number.to_string());
        }
    }
}

/// The same pod goes on by itself, and moves nothing again that has a mark.
#[test]
fn a_disk_that_fills_up_is_gone_on_with_from_its_mark() {
    let bytes = Noise::new(44).bytes(32 << 20);
    let slow = Behaviour { rate: Some(1 << 20), ..Behaviour::default() };
    let server = Server::start(bytes.clone(), slow);
    let Some(room) = FullDisk::of_bytes(48 << 20) else { return };
    let mut pod = Pod::start(&job(room.path(), &server.url("/disk.img")));
    let until = Instant::now() + PATIENCE;
    while mark(room.path()).is_none_or(|done| done < 4 << 20) {
        assert!(Instant::now() < until, "no mark: {:?}", names(room.path()));
        std::thread::sleep(Duration::from_millis(10));
    }
    room.fill_but(0);
    server.hurry();
    let told = pod.reports(|report| report.stage == Stage::Waiting);
    assert_eq!((told.reason.as_str(), told.failures), ("NoSpace", 1), "{told:?}");
    assert!(told.retry_at.is_some() && told.message.contains("make room there"), "{told:?}");
    let mark = mark(room.path()).unwrap();
    assert!(!disk(room.path()).exists());
    room.grow();
    let report = pod.wait().done();
    assert!(report.resumed >= mark && report.failures == 1, "{mark}: {report:?}");
    assert!(std::fs::read(disk(room.path())).unwrap() == bytes);
    assert_eq!(names(room.path()), ["disk.img"]);
}

/// A device has no room for a journal: it lies in the pod's own folder, which is the node's.
#[test]
fn a_journal_of_a_device_without_room_is_waited_for() {
    let volume = tempfile::tempdir().unwrap();
    let Some(device) = Device::of(2 << 20) else { return eprintln!("skipped: no loop device") };
    let bytes = Noise::new(45).bytes(2 << 20);
    let server = Server::start(bytes.clone(), Behaviour::default());
    for room in [FullDisk::of_files(0), FullDisk::of_bytes(0)] {
        let Some(room) = room else { return };
        let target = Target::Device(device.path.clone());
        let job = Import { target, ..job(volume.path(), &server.url("/disk.img")) };
        let temp = [("TMPDIR", room.path().to_str().unwrap())];
        is_told_no_space(Pod::start_with(&job, &temp), volume.path(), "device");
        room.grow();
        Pod::start_with(&job, &temp).wait().done();
        assert!(device.bytes() == bytes);
    }
}

/// Nothing was begun: another pod takes the place of this one, and the DataVolume has not failed.
#[test]
fn settings_of_registries_without_room_end_the_pod_and_not_the_job() {
    for room in [FullDisk::of_files(0), FullDisk::of_files(1), FullDisk::of_bytes(0)] {
        let Some(room) = room else { return };
        let volume = tempfile::tempdir().unwrap();
        let registry = Registry {
            url: "docker://registry.invalid/os:1".into(),
            architecture: None,
            login: None,
            ca: None,
            insecure: false,
            settings: BTreeMap::from([("registries.toml".to_owned(), "# none\n".to_owned())]),
        };
        let source = Source::Registry(registry);
        let target = Target::File(disk(volume.path()));
        let job = Import { source, target, size: None, preallocate: false };
        let ended = Pod::start_with(&job, &[("TMPDIR", room.path().to_str().unwrap())]).wait();
        let report = ended.report.unwrap_or_else(|| panic!("no report: {}", ended.log));
        assert_eq!((report.stage, report.reason.as_str()), (Stage::Waiting, "NoSpace"), "{report:?}");
        assert_eq!(ended.code, Some(143), "{}", ended.log);
        assert!(report.message.contains("settings of registries"), "{report:?}");
    }
}

/// The last words are lost, and what was done is not: the next pod knows it.
#[test]
fn a_termination_message_without_room_costs_no_disk() {
    let Some(node) = FullDisk::of_bytes(0) else { return };
    let message = node.path().join("message");
    // The kubelet makes it.
    std::fs::File::create(&message).unwrap();
    let own = [("TERMINATION_LOG", message.to_str().unwrap())];
    let bytes = Noise::new(46).bytes(1 << 20);
    let server = Server::start(bytes.clone(), Behaviour::default());
    let volume = tempfile::tempdir().unwrap();
    let import = job(volume.path(), &server.url("/disk.img"));
    let ended = Pod::start_with(&import, &own).wait();
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    assert!(ended.log.contains("cannot write the termination message"), "{}", ended.log);
    assert_eq!(std::fs::read(&message).unwrap(), b"", "no part of a message");
    assert!(std::fs::read(disk(volume.path())).unwrap() == bytes);
    let asked = server.requests().len();
    assert_eq!(Pod::run(&import).done().done, 1 << 20);
    assert_eq!(server.requests().len(), asked, "the next pod finds the mark");

    // Of a job that fails, the log has the reason, which the kubelet tells in place of a message that is empty.
    let gone = Fail { status: 404, times: u32::MAX, skip: 0, retry_after: None };
    server.set(Behaviour { fail: Some(gone), ..Behaviour::default() });
    let volume = tempfile::tempdir().unwrap();
    let ended = Pod::start_with(&job(volume.path(), &server.url("/disk.img")), &own).wait();
    assert_eq!(ended.code, Some(1), "{}", ended.log);
    let last = ended.log.lines().last().unwrap_or_default();
    assert!(last.contains("404") && last.contains("NotFound"), "{}", ended.log);
    assert!(names(volume.path()).is_empty());
}
