use super::*;
use container_disk::archive::OciArchiveSink;
use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Duration;

#[test]
fn a_file_is_read_at_any_offset_and_as_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, b"0123456789").unwrap();
    let source = FileSource::open(&path).unwrap();
    let facts = source.facts();
    assert_eq!((facts.size, facts.seekable, facts.remote), (Some(10), true, false));
    assert!(facts.identity.as_ref().unwrap().is_proof());
    let mut buf = [0; 4];
    source.read_at().unwrap().read_exact_at(&mut buf, 3).unwrap();
    assert_eq!(&buf, b"3456");
    for from in [0, 4, 10, 11] {
        let mut rest = Vec::new();
        source.stream(from).unwrap().read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"0123456789"[(from as usize).min(10)..], "from {from}");
    }
    source.unchanged().unwrap();
}

#[test]
fn holes_are_known_beforehand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    let file = File::create(&path).unwrap();
    file.set_len(100 << 20).unwrap();
    file.write_all_at(&[1; 4096], 1 << 20).unwrap();
    file.write_all_at(&[1; 4096], 50 << 20).unwrap();
    let source = FileSource::open(&path).unwrap();
    let map: Vec<_> = source.data_map().unwrap().collect();
    let total: u64 = map.iter().map(|r| r.end - r.start).sum();
    if total == 100 << 20 {
        assert_eq!(map.len(), 1, "a file system that does not tell gives one range");
    } else {
        assert!(total <= 1 << 20, "{map:?}");
    }
    for at in [1 << 20, (1 << 20) + 4095, 50 << 20] {
        assert!(map.iter().any(|r| r.contains(&at)), "{at} is missing in {map:?}");
    }
    assert!(map.windows(2).all(|w| w[0].end < w[1].start) && map.iter().all(|r| r.end <= 100 << 20));

    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    assert_eq!(FileSource::open(&empty).unwrap().data_map().unwrap().count(), 0);
    let hole = folder.path().join("hole");
    File::create(&hole).unwrap().set_len(1 << 40).unwrap();
    assert!(FileSource::open(&hole).unwrap().data_map().unwrap().count() <= 1);
}

#[test]
fn a_change_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, [1; 100]).unwrap();
    let source = FileSource::open(&path).unwrap();
    // Times have the resolution of a clock tick.
    std::thread::sleep(Duration::from_millis(20));
    File::options().write(true).open(&path).unwrap().write_all_at(b"x", 5).unwrap();
    let e = source.unchanged().unwrap_err();
    assert!(e.kind() == ErrorKind::Failed && e.to_string().contains("times have changed"), "{e}");
    let source = FileSource::open(&path).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(60).unwrap();
    let e = source.unchanged().unwrap_err();
    assert!(e.to_string().contains("had 100 bytes and now has 60"), "{e}");
    let short = source.stream(0).unwrap().read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let kind = |path: &Path| {
        let e = FileSource::open(path).unwrap_err();
        assert!(e.to_string().contains(path.to_str().unwrap()), "{e}");
        e.kind()
    };
    assert_eq!(kind(&folder.path().join("no")), ErrorKind::NotFound);
    assert_eq!(kind(folder.path()), ErrorKind::Refused);
    assert_eq!(kind(Path::new("/dev/null")), ErrorKind::Refused);
    // No file system takes such a name, whenever it is asked.
    assert_eq!(kind(&folder.path().join("x".repeat(300))), ErrorKind::Refused);
}

#[test]
fn a_named_pipe_is_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let writer = {
        let path = path.clone();
        std::thread::spawn(move || fs::write(path, b"through the pipe").unwrap())
    };
    let source = FileSource::open(&path).unwrap();
    assert!(!source.facts().seekable && source.read_at().is_none());
    assert!(!source.marks_its_end(), "a writer that fails closes it, too");
    let mut all = String::new();
    source.stream(0).unwrap().read_to_string(&mut all).unwrap();
    writer.join().unwrap();
    assert_eq!(all, "through the pipe");
}

/// A sink that begins anew replaces an unfinished file of its name, unless another process has a lock on it.
#[test]
fn an_unfinished_file_keeps_its_name_while_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (partial, other) = (folder.path().join("x.tar.partial"), folder.path().join("disk.img"));
    for path in [&partial, &other] {
        fs::write(path, "a disk").unwrap();
    }
    let sources = [&partial, &other].map(|path| FileSource::open(path).unwrap());
    let e = OciArchiveSink::create(&folder.path().join("x.tar")).err().unwrap();
    assert!(e.to_string().contains("or it is what is read"), "{e}");
    assert_eq!(fs::read(&partial).unwrap(), b"a disk");
    File::open(&other).unwrap().try_lock().unwrap();
    drop(sources);
    OciArchiveSink::create(&folder.path().join("x.tar")).unwrap();
}
