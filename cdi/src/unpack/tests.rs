//! Archives of GNU tar come out as they went in; hostile ones leave nothing, inside of the folder and outside.

use super::disk::Disk;
use super::folder::kill;
use super::*;
use crate::ErrorKind;
use ::tests::layout::Tar;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

const OWNER: &str = "0b5c-uid";
const MARK: &str = ".cdi-0b5c-uid.done";

/// A volume, an archive beside it, and a place that nothing may reach.
struct Place {
    at: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let at = tempfile::tempdir().unwrap();
        for folder in ["volume", "packed", "outside"] {
            fs::create_dir(at.path().join(folder)).unwrap();
        }
        fs::create_dir(at.path().join("volume/lost+found")).unwrap();
        Place { at }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.at.path().join(name)
    }

    /// Packs the folder `packed`.
    fn tar(&self, args: &[&str]) -> Vec<u8> {
        let made =
            Command::new("tar").args(["-c", "-C"]).arg(self.path("packed")).args(args).arg(".").output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        made.stdout
    }

    fn request(&self, archive: &[u8]) -> Request {
        let source = self.path("archive");
        fs::write(&source, archive).unwrap();
        Request {
            source: SourceSpec::Path(source),
            folder: self.path("volume"),
            options: Options::default(),
            convert_options: ConvertOptions { owner: Some(OWNER.into()), ..ConvertOptions::with_threads(2) },
        }
    }

    fn unpack(&self, archive: &[u8]) -> Result<Unpacked> {
        run(&self.request(archive))
    }

    #[track_caller]
    fn refuses(&self, archive: &[u8], needle: &str) {
        let e = self.unpack(archive).expect_err("it was taken");
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains(needle) && !e.to_string().contains("--"), "{e}");
        assert_eq!(self.names("volume"), ["lost+found"], "{e}");
        assert!(self.names("outside").is_empty(), "{e}");
    }

    /// True if the mark exists.
    fn is_done(&self) -> bool {
        fs::symlink_metadata(self.path("volume").join(MARK)).is_ok_and(|found| found.is_dir())
    }

    /// The names in a folder, but for the mark.
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != MARK);
        names.sort();
        names
    }
}

fn run(request: &Request) -> Result<Unpacked> {
    let watch = Watch::default();
    prepare(request, &watch)?.run(&watch)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn files_come_out_as_they_went_in_whatever_is_around_the_archive() {
    let place = Place::new();
    let long = format!("{}/{}", "l".repeat(120), "o".repeat(200));
    let packed = place.path("packed");
    fs::create_dir_all(packed.join("a/b")).unwrap();
    fs::create_dir_all(packed.join(&long)).unwrap();
    let content = |n: usize| (0..n).map(|i| ((i * i) >> 3) as u8).collect::<Vec<_>>();
    let far = format!("{long}/x");
    for (name, size) in [("a/empty", 0), ("a/b/größe 日本.bin", 700_000), ("top", 1), (far.as_str(), 3)] {
        fs::write(packed.join(name), content(size)).unwrap();
    }
    let holey = fs::File::create(packed.join("a/holey")).unwrap();
    holey.set_len(40 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&holey, b"data", 20 << 20).unwrap();
    for (name, mode) in [("top", 0o4751), ("a/b", 0o500), ("a/empty", 0o400)] {
        fs::set_permissions(packed.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let plain = place.tar(&["-S"]);
    for args in [
        &["-S"][..],
        &["-S", "--format=gnu"],
        &["-S", "--format=posix"],
        &["--format=posix"],
        &["-S", "-z"],
        &["-S", "-J"],
    ] {
        let volume = place.path("volume");
        fs::remove_dir_all(&volume).unwrap();
        fs::create_dir_all(volume.join("lost+found")).unwrap();
        let unpacked = place.unpack(&place.tar(args)).unwrap();
        assert_eq!(unpacked.files, 5, "{args:?}");
        assert_eq!(place.names("volume"), ["a", "l".repeat(120).as_str(), "lost+found", "top"], "{args:?}");
        let same = Command::new("diff")
            .arg("-r")
            .args([&packed, &volume])
            .args(["-x", "lost+found", "-x", MARK])
            .output();
        assert!(same.unwrap().status.success(), "{args:?}");
        assert_eq!(mode(&volume.join("top")), 0o751, "never setuid");
        assert_eq!(mode(&volume.join("a/b")), 0o700, "its owner can make files in it");
        assert_eq!(mode(&volume.join("a/empty")), 0o400);
        if args.contains(&"-S") {
            assert!(fs::metadata(volume.join("a/holey")).unwrap().blocks() < 2048, "{args:?}");
        }
    }
    let zst = zstd::encode_all(&plain[..], 1).unwrap();
    let place = Place::new();
    assert_eq!(place.unpack(&zst).unwrap().files, 5);
}

#[test]
fn links_devices_and_names_that_lead_out_are_refused_and_leave_nothing() {
    let place = Place::new();
    let begin = || Tar::default().other(b'5', "d", "").file("d/first", b"bytes");
    let outside = place.path("outside");
    let out = outside.to_str().unwrap();
    place.refuses(&begin().other(b'2', "link", out).file("link/x", b"x").end(), "a symbolic link to");
    place.refuses(&begin().other(b'1', "d/hard", "d/first").end(), "a hard link to \"d/first\"");
    for (kind, word) in [(b'3', "character device"), (b'4', "block device"), (b'6', "pipe")] {
        place.refuses(&begin().other(kind, "d/special", "").end(), word);
    }
    place.refuses(&begin().file("d/../../outside/x", b"x").end(), "leads outside");
    place.refuses(&begin().file("/outside/x", b"x").end(), "absolute");
    place.refuses(&begin().file("d/first", b"other").end(), "comes twice");
    place.refuses(&begin().file("d/first/x", b"x").end(), "is a file in the archive, too");
    place.refuses(&begin().file("d", b"x").end(), "comes twice");
    let deep = "d/".repeat(49) + "x";
    assert!(place.unpack(&begin().file(&deep, b"x").end()).is_ok());
    let place = Place::new();
    let deep = Tar::default().pax(&format!("path={}x", "e/".repeat(members::DEEPEST))).file("short", b"x");
    place.refuses(&deep.end(), "folders deep");
}

#[test]
fn what_is_on_the_volume_stays_and_is_not_followed() {
    let place = Place::new();
    fs::write(place.path("volume/mine"), "mine").unwrap();
    symlink(place.path("outside"), place.path("volume/out")).unwrap();
    for (archive, name) in [
        (Tar::default().file("mine", b"theirs"), "mine"),
        (Tar::default().file("out/x", b"x"), "out"),
        (Tar::default().other(b'5', "out", ""), "out"),
        (Tar::default().other(b'5', "lost+found", ""), "lost+found"),
    ] {
        let e = place.unpack(&archive.file("z", b"z").end()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains(&format!("{name:?} is in the archive, and on the volume")), "{e}");
        assert_eq!(place.names("volume"), ["lost+found", "mine", "out"], "{e}");
    }
    assert_eq!(fs::read(place.path("volume/mine")).unwrap(), b"mine");
    assert!(place.names("outside").is_empty());
}

#[test]
fn an_archive_that_is_cut_too_large_or_none_leaves_nothing() {
    let place = Place::new();
    let whole = Tar::default().file("a", &[7; 3000]).file("b", &[7; 3000]).end();
    for cut in [600, 4000, whole.len() - 1024] {
        place.refuses(&whole[..cut], "truncated");
    }
    for no_tar in [&b"QFI\xfb and more"[..], b"", &[1; 4096]] {
        place.refuses(no_tar, "not a tar archive");
    }
    place.refuses(&[&whole[..], b"more"].concat(), "after the archive's end mark");
    let mut request = place.request(&whole);
    request.convert_options.resize = Some(5000);
    let e = run(&request).unwrap_err();
    let expected = "the archive is larger than its volume: with \"b\" its files have 6000 bytes, the volume holds 5000, \
                    1000 are missing";
    assert!(e.to_string().ends_with(expected), "{e}");
    let mut request = place.request(&whole);
    request.convert_options.checksum = Some(format!("sha256:{}", "0".repeat(64)).parse().unwrap());
    assert!(run(&request).unwrap_err().to_string().contains("checksum mismatch"));
    assert_eq!(place.names("volume"), ["lost+found"]);
    // An archive of nothing has no files.
    assert_eq!(place.unpack(&[0; 10_240]).unwrap(), Unpacked::default());
}

#[test]
fn a_run_that_broke_off_is_begun_anew_and_one_that_was_whole_is_not_read_again() {
    let place = Place::new();
    let left = place.path("volume/.cdi-0b5c-uid.partial/d/e");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("old"), "old").unwrap();
    symlink(place.path("outside"), left.join("link")).unwrap();
    fs::write(place.path("outside/kept"), "kept").unwrap();
    let archive = Tar::default().file("d/new", b"new").end();
    place.unpack(&archive).unwrap();
    assert_eq!(
        (place.names("volume/d"), place.names("volume")),
        (vec!["new".into()], vec!["d".into(), "lost+found".into()])
    );
    assert_eq!(place.names("outside"), ["kept"], "a link is removed and not followed");

    let whole = place.path("volume/.cdi-0b5c-uid.whole");
    fs::create_dir_all(whole.join("later/x")).unwrap();
    fs::write(whole.join("file"), "whole").unwrap();
    // Files of another PVC's run on the same volume are ignored.
    fs::create_dir_all(place.path("volume/.cdi-other.whole/planted")).unwrap();
    let mut request = place.request(b"");
    request.source = SourceSpec::Path(place.path("gone"));
    run(&request).unwrap();
    assert_eq!(place.names("volume"), [".cdi-other.whole", "d", "file", "later", "lost+found"]);
    assert!(place.is_done());
    run(&request).unwrap();
    request.convert_options.owner = Some("another-uid".into());
    assert!(run(&request).is_err(), "that of another PVC wants its source");
}

#[test]
fn a_run_that_is_stopped_leaves_nothing() {
    let place = Place::new();
    let request = place.request(&Tar::default().file("a", &[7; 3000]).end());
    let watch = Watch::default();
    let prepared = prepare(&request, &watch).unwrap();
    assert!(prepared.plan_text().contains("is unpacked into"), "{}", prepared.plan_text());
    watch.interrupt();
    assert_eq!(prepared.run(&watch).unwrap_err().kind(), ErrorKind::Interrupted);
    assert_eq!(place.names("volume"), ["lost+found"]);
}

#[test]
fn names_that_are_taken_meanwhile_leave_nothing_of_the_archive() {
    for taken in ["n0", "n1"] {
        let place = Place::new();
        let whole = place.path("volume/.cdi-0b5c-uid.whole");
        fs::create_dir_all(&whole).unwrap();
        for i in 0..20 {
            fs::write(whole.join(format!("n{i}")), "new").unwrap();
        }
        fs::write(place.path("volume").join(taken), "old").unwrap();
        let told = run(&place.request(b"")).unwrap_err().to_string();
        assert!(told.contains("on the volume already"), "{told}");
        assert_eq!(place.names("volume"), ["lost+found", taken]);
        assert!(!place.is_done());
        // The next archive is taken.
        place.unpack(&Tar::default().file("other", b"x").end()).unwrap();
    }
}

#[test]
fn an_archive_that_names_what_is_ours_is_refused() {
    for own in ["partial", "whole", "naming", "done"] {
        let place = Place::new();
        let archive = Tar::default().file("a", b"a").file(&format!(".cdi-{OWNER}.{own}"), b"x");
        place.refuses(&archive.end(), "on the volume already");
        assert!(!place.is_done());
    }
}

/// An archive with a few names at the top.
fn several() -> Vec<u8> {
    let mut archive = Tar::default().other(b'5', "d", "");
    for i in 0..4 {
        archive = archive.file(&format!("n{i}"), b"new");
    }
    archive.file("d/inner", b"new").end()
}

fn is_all_there(place: &Place) {
    assert_eq!(place.names("volume"), ["d", "lost+found", "n0", "n1", "n2", "n3"]);
    assert_eq!(place.names("volume/d"), ["inner"]);
    assert!(place.is_done());
}

#[test]
fn a_run_that_is_killed_at_any_step_is_finished_by_the_next() {
    for is_upload in [false, true] {
        let (mut steps, mut without_source) = (0, 0);
        loop {
            let place = Place::new();
            kill::after(steps, true);
            let ended = place.unpack(&several());
            kill::never();
            if ended.is_ok() {
                is_all_there(&place);
                break;
            }
            // The check that the upload server of the next pod makes first.
            if is_upload && go_on(&place.path("volume"), OWNER).unwrap() {
                without_source += 1;
            } else {
                let is_left = is_left_whole(&place.path("volume"), OWNER).unwrap();
                without_source += u32::from(is_left);
                let mut request = place.request(&several());
                if is_left {
                    request.source = SourceSpec::Path(place.path("gone"));
                }
                run(&request).unwrap();
            }
            is_all_there(&place);
            assert!(go_on(&place.path("volume"), OWNER).unwrap());
            steps += 1;
        }
        assert!(steps > 10 && without_source > 5, "{steps} {without_source}");
    }
}

/// The error of a sync is reported once: the next run would trust a name that may be lost with the power.
#[test]
fn a_seal_that_is_not_durable_is_taken_back() {
    let mut failed = 0;
    for steps in 0.. {
        let place = Place::new();
        kill::after(steps, false);
        let ended = place.unpack(&several());
        kill::never();
        let Err(e) = ended else { break };
        if e.to_string().contains("cannot make the files durable") {
            failed += 1;
            assert!(!is_left_whole(&place.path("volume"), OWNER).unwrap(), "step {steps}: {e}");
            assert_eq!(place.names("volume"), ["lost+found"], "step {steps}: {e}");
        }
    }
    assert_eq!(failed, 3, "the sync of the file system, the rename, the sync of its folder");
}

#[test]
fn names_that_find_no_room_are_given_by_the_next_run_without_the_source() {
    let (mut steps, mut halves) = (0, 0);
    loop {
        let place = Place::new();
        kill::after(steps, false);
        let ended = place.unpack(&several());
        kill::never();
        let Err(e) = ended else { break };
        halves += u32::from(e.to_string().contains("the next run gives the names that are left"));
        assert_eq!(e.kind(), ErrorKind::Failed, "{e}");
        run(&place.request(&several())).unwrap();
        is_all_there(&place);
        steps += 1;
    }
    assert!(halves > 5, "{halves} of {steps}");
}

#[test]
fn an_upload_is_not_taken_over_an_archive_that_is_whole() {
    for (left, is_whole) in [("whole", true), ("naming", true), ("done", false)] {
        let place = Place::new();
        fs::create_dir(place.path("volume").join(format!(".cdi-{OWNER}.{left}"))).unwrap();
        assert_eq!(is_left_whole(&place.path("volume"), OWNER).unwrap(), is_whole);
        let mut request = place.request(b"");
        request.source = SourceSpec::Upload(None);
        let told = prepare(&request, &Watch::default()).err().unwrap().to_string();
        assert!(told.contains("has its archive already"), "{told}");
    }
}

/// A sync of the file system says nothing of lost bytes on FUSE, and on old kernels.
#[test]
fn every_file_and_every_folder_is_synced_before_the_archive_is_whole() {
    let place = Place::new();
    let disk = Disk::of_this_thread();
    disk.begins(None, None);
    let mut archive = Tar::default().other(b'5', "empty/folder", "").file("d/e/f/deep", &[7; 100_000]);
    for i in 0..200 {
        archive = archive.file(&format!("d/n{i}"), b"new");
    }
    place.unpack(&archive.file("top", b"x").end()).unwrap();
    let (mut folders, mut seen) = (vec![place.path("volume/d"), place.path("volume/empty")], 0);
    let is_synced = |path: &Path| disk.has_synced(fs::metadata(path).unwrap().ino());
    assert!(is_synced(&place.path("volume/top")));
    // The folder from which the names were published.
    assert!(is_synced(&place.path("volume").join(MARK)));
    while let Some(folder) = folders.pop() {
        assert!(is_synced(&folder), "{}", folder.display());
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            seen += 1;
            match path.is_dir() {
                true => folders.push(path),
                false => assert!(is_synced(&path), "{}", path.display()),
            }
        }
    }
    assert_eq!(seen, 200 + 4);
}

#[test]
fn an_error_of_a_sync_or_of_a_close_leaves_nothing_and_names_the_file() {
    let disk = Disk::of_this_thread();
    for (sync, close, needle) in [
        (Some(2), None, "cannot make \"n2\" durable"),
        (None, Some(3), "cannot make \"n3\" durable"),
        // All five files are durable, and then a folder is not.
        (Some(5), None, "cannot make the folders durable"),
    ] {
        let place = Place::new();
        disk.begins(sync, close);
        let e = place.unpack(&several()).expect_err(needle);
        disk.begins(None, None);
        assert_eq!(e.kind(), ErrorKind::Failed, "{e}");
        assert!(e.to_string().contains(needle), "{e}");
        assert_eq!(place.names("volume"), ["lost+found"], "{e}");
        place.unpack(&several()).unwrap();
        is_all_there(&place);
    }
}

/// A file with one hole of so many bytes.
fn hole(archive: Tar, name: &str, bytes: u64) -> Tar {
    let records = [
        "GNU.sparse.major=1".to_owned(),
        "GNU.sparse.minor=0".to_owned(),
        format!("GNU.sparse.name={name}"),
        format!("GNU.sparse.realsize={bytes}"),
    ];
    let line = |record: String| {
        let length = (record.len() + 3..).find(|n| n.to_string().len() + record.len() + 2 == *n).unwrap();
        format!("{length} {record}\n")
    };
    let records: String = records.into_iter().map(line).collect();
    let mut map = b"0\n".to_vec();
    map.resize(512, 0);
    let archive = archive.member(b'x', "PaxHeader", "", records.len() as u64, records.as_bytes());
    archive.member(b'0', name, "", map.len() as u64, &map)
}

#[test]
fn holes_longer_than_any_disk_are_refused_for_good() {
    let place = Place::new();
    for bytes in [1 << 62, i64::MAX as u64, (16 << 40) + 1] {
        place.refuses(&hole(Tar::default(), "absurd", bytes).end(), "more than the limit of");
    }
    let many = (0..20).fold(Tar::default(), |tar, i| hole(tar, &format!("n{i}"), 1 << 40));
    place.refuses(&many.end(), "with \"n16\" the files of the archive have");
    let fits = hole(Tar::default(), "holey", 1 << 40).end();
    assert_eq!(place.unpack(&fits).unwrap().bytes, 0);
    assert_eq!(fs::metadata(place.path("volume/holey")).unwrap().len(), 1 << 40);
}
