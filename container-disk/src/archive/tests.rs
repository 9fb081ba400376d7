//! Archives that are written and read again, several blobs at once, and archives of an attacker.

use super::contents::Contents;
use super::*;
use crate::image::{self, Recipe};
use crate::layout::tests::{descriptor, image_of, sha512_image, store};
use crate::locate;
use crate::manifest::{Content, Document, IMAGE_LAYER_GZIP_MEDIA_TYPE, Manifest};
use crate::pack::{Compression, LayerWriter, Options};
use crate::place::{Place, Reference, Sink};
use crate::tar::tests::Tarball;
use crate::{Error, ErrorKind, Result};
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DISK: &[u8] = b"the bytes of a disk";

fn build(sink: &dyn Sink, compression: Compression, tag: &str) -> Document {
    let options = Options { compression, threads: 1, ..Options::default() };
    let mut layer = LayerWriter::disk(sink, &options, DISK.len() as u64).unwrap();
    layer.write_all(DISK).unwrap();
    image::write(sink, &Recipe::new("amd64", vec![layer.finish().unwrap()]), &[tag]).unwrap()
}

fn disk(place: &dyn Place, reference: &Reference) -> Result<Vec<u8>> {
    let Content::Manifest(manifest) = place.document(reference)?.content else { panic!("an index") };
    let mut bytes = vec![];
    let mut located = locate::disk(place, &manifest, &locate::Options::default())?;
    located.stream()?.read_to_end(&mut bytes).map_err(|e| Error::io("reading", e))?;
    Ok(bytes)
}

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

fn room() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tar");
    (folder, path)
}

#[test]
fn an_oci_archive_is_read_as_it_was_written_and_is_the_same_each_time() {
    let (folder, path) = room();
    let mut files = vec![];
    for _ in 0..2 {
        let sink = OciArchiveSink::create(&path).unwrap();
        let one = build(&sink, Compression::Gzip, "1");
        build(&sink, Compression::Zstd, "2");
        assert!(names(&folder).contains(&"x.tar.partial".to_owned()));
        sink.close().unwrap();
        drop(sink);
        assert_eq!(names(&folder), ["x.tar"]);
        let archive = OciArchive::open(&path).unwrap();
        assert_eq!(archive.document(&archive.reference(Some("1")).unwrap()).unwrap().digest, one.digest);
        assert_eq!(archive.reference(None).unwrap_err().kind(), ErrorKind::Usage);
        for tag in ["1", "2"] {
            assert_eq!(disk(&archive, &Reference::Tag(tag.into())).unwrap(), DISK);
        }
        files.push(fs::read(&path).unwrap());
    }
    assert!(files[0] == files[1]);
}

#[test]
fn a_docker_archive_holds_plain_layers_whatever_came() {
    let (_folder, path) = room();
    let sink = DockerArchiveSink::create(&path).unwrap();
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        build(&sink, compression, "os:1");
    }
    sink.close().unwrap();
    let archive = DockerArchive::open(&path).unwrap();
    let tags =
        ["1", "os:1", "docker.io/library/os:1", "localhost/os:1"].map(|tag| Reference::Tag(tag.into()));
    for reference in [archive.reference(None).unwrap()].into_iter().chain(tags) {
        assert_eq!(disk(&archive, &reference).unwrap(), DISK);
    }
    for tag in ["2", "os", "docker.io/os/os:1", "library/os:1"] {
        assert_eq!(
            archive.document(&Reference::Tag(tag.into())).unwrap_err().kind(),
            ErrorKind::NotFound,
            "{tag}"
        );
    }
    let contents = Contents::open("x", &path).unwrap();
    let list = String::from_utf8(contents.document("manifest.json").unwrap()).unwrap();
    assert_eq!(list.matches(".tar").count(), 1, "{list}");
    assert!(list.contains(r#""RepoTags":["os:1"]"#), "{list}");
}

#[test]
fn nothing_is_left_of_an_archive_that_is_not_closed_and_an_old_one_stays() {
    let (folder, path) = room();
    fs::write(&path, "old").unwrap();
    let sink = OciArchiveSink::create(&path).unwrap();
    build(&sink, Compression::None, "1");
    let second = OciArchiveSink::create(&path).err().unwrap();
    assert!(second.to_string().contains("another process is writing"), "{second}");
    drop(sink);
    assert_eq!(names(&folder), ["x.tar"]);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    fs::write(folder.path().join("x.tar.partial"), vec![1; 100_000]).unwrap();
    let sink = OciArchiveSink::create(&path).unwrap();
    build(&sink, Compression::None, "1");
    sink.close().unwrap();
    assert_eq!(disk(&OciArchive::open(&path).unwrap(), &Reference::Tag("1".into())).unwrap(), DISK);
}

#[test]
fn a_planted_partial_does_not_become_the_archive() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let (folder, path) = room();
    let partial = folder.path().join("x.tar.partial");
    fs::write(&partial, "planted").unwrap();
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o666)).unwrap();
    is_made_beside(&partial, &path);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o022, 0);
    assert_eq!(names(&folder).len(), 1);
}

#[test]
fn a_file_that_another_program_made_meanwhile_is_not_replaced() {
    let (folder, path) = room();
    for old in [None, Some("old")] {
        let _ = fs::remove_file(&path);
        if let Some(old) = old {
            fs::write(&path, old).unwrap();
        }
        let sinks: [&dyn Fn() -> Box<dyn Sink>; 2] =
            [&|| Box::new(OciArchiveSink::create(&path).unwrap()), &|| {
                Box::new(DockerArchiveSink::create(&path).unwrap())
            }];
        for sink in sinks {
            let sink = sink();
            build(&*sink, Compression::None, "os:1");
            fs::write(folder.path().join("theirs"), "theirs").unwrap();
            fs::rename(folder.path().join("theirs"), &path).unwrap();
            let e = sink.close().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Failed);
            assert!(e.to_string().contains("by another program in the meantime and is kept"), "{e}");
            assert!(e.to_string().contains("x.tar.partial: rename that"), "{e}");
            drop(sink);
            assert_eq!(fs::read(&path).unwrap(), b"theirs");
            assert!(
                fs::metadata(folder.path().join("x.tar.partial")).unwrap().len() > 1024,
                "it stays, whole"
            );
            assert_eq!(names(&folder).len(), 2);
            if old.is_none() {
                fs::remove_file(&path).unwrap();
            }
        }
    }
    let sink = OciArchiveSink::create(&path).unwrap();
    build(&sink, Compression::None, "1");
    sink.close().unwrap();
    assert_eq!(names(&folder), ["x.tar"], "the same again");
}

/// A name of 141 letters was cut at 100.
#[test]
fn an_image_by_sha512_is_read_from_each_archive_as_it_was_written() {
    let (_folder, path) = room();
    let sink = OciArchiveSink::create(&path).unwrap();
    let put = sha512_image(&sink, DISK);
    sink.close().unwrap();
    drop(sink);
    let archive = OciArchive::open(&path).unwrap();
    assert_eq!(disk(&archive, &Reference::Tag("t".into())).unwrap(), DISK);
    let found = archive.document(&Reference::Digest(put.digest)).unwrap();
    assert_eq!((found.digest, found.bytes), (put.digest, put.bytes));
    let checks = crate::verify::verify(&archive, &Reference::Tag("t".into()), &Default::default()).unwrap();
    assert!(checks.iter().all(crate::verify::Check::passed), "{checks:#?}");
    let listed = std::process::Command::new("tar").arg("tf").arg(&path).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains(&format!("blobs/sha512/{}\n", put.digest.hex())), "{listed}");
    drop(archive);

    let sink = DockerArchiveSink::create(&path).unwrap();
    sha512_image(&sink, DISK);
    sink.close().unwrap();
    drop(sink);
    let archive = DockerArchive::open(&path).unwrap();
    assert_eq!(disk(&archive, &archive.reference(None).unwrap()).unwrap(), DISK);
}

/// A user removed the file of a run that had not ended, and began another one.
#[test]
fn the_partial_file_of_another_run_is_neither_published_nor_removed() {
    for is_closed in [true, false] {
        let (folder, path) = room();
        let first = OciArchiveSink::create(&path).unwrap();
        build(&first, Compression::None, "1");
        fs::remove_file(folder.path().join("x.tar.partial")).unwrap();
        let second = OciArchiveSink::create(&path).unwrap();
        if is_closed {
            let e = first.close().unwrap_err();
            assert!(e.to_string().contains("removed or replaced by another run"), "{e}");
        }
        drop(first);
        assert_eq!(names(&folder), ["x.tar.partial"]);
        build(&second, Compression::Zstd, "2");
        second.close().unwrap();
        assert_eq!(disk(&OciArchive::open(&path).unwrap(), &Reference::Tag("2".into())).unwrap(), DISK);
    }
}

#[test]
fn a_file_in_use_does_not_become_an_archive() {
    let (folder, path) = room();
    fs::write(&path, "of a VM").unwrap();
    let user = fs::File::open(&path).unwrap();
    user.lock_shared().unwrap();
    let created: [fn(&Path) -> Option<Error>; 2] =
        [|path| OciArchiveSink::create(path).err(), |path| DockerArchiveSink::create(path).err()];
    for create in created {
        let e = create(&path).unwrap();
        assert!(e.kind() == ErrorKind::Failed && e.to_string().contains("in use"), "{e}");
        assert_eq!(names(&folder), ["x.tar"]);
    }
    user.unlock().unwrap();
    let sink = OciArchiveSink::create(&path).unwrap();
    build(&sink, Compression::None, "1");
    user.lock_shared().unwrap();
    let e = sink.close().unwrap_err();
    assert!(e.to_string().contains("x.tar came into use in the meantime and is kept"), "{e}");
    assert_eq!(fs::read(&path).unwrap(), b"of a VM");
    user.unlock().unwrap();
    sink.close().unwrap();
    assert_eq!(disk(&OciArchive::open(&path).unwrap(), &Reference::Tag("1".into())).unwrap(), DISK);
}

#[test]
fn an_archive_is_written_into_a_new_file() {
    let (folder, path) = room();
    // Owner and mode look like this user's. On SMB every file does.
    let partial = folder.path().join("x.tar.partial");
    fs::write(&partial, "found").unwrap();
    is_made_beside(&partial, &path);
}

/// A program that has the partial file open cannot write into the archive that is made meanwhile.
fn is_made_beside(partial: &Path, path: &Path) {
    use std::os::unix::fs::FileExt;
    let theirs = fs::File::options().write(true).open(partial).unwrap();
    let sink = OciArchiveSink::create(path).unwrap();
    build(&sink, Compression::None, "1");
    sink.close().unwrap();
    let whole = fs::read(path).unwrap();
    theirs.write_all_at(b"theirs", 0).unwrap();
    assert!(fs::read(path).unwrap() == whole);
}

#[test]
fn blobs_may_be_written_at_once_and_given_up() {
    let (folder, path) = room();
    let sink = OciArchiveSink::create(&path).unwrap();
    let bytes: Vec<Vec<u8>> = (0..5u8).map(|n| vec![n; 1000 + usize::from(n) * 333]).collect();
    let mut writers: Vec<_> = bytes.iter().map(|_| sink.begin(None).unwrap()).collect();
    for (writer, bytes) in writers.iter_mut().zip(&bytes) {
        writer.write_all(bytes).unwrap();
    }
    assert!(sink.close().unwrap_err().to_string().contains("while a blob is written"));
    let mut given_up = writers.remove(0);
    given_up.write_all(&[9; 9000]).unwrap();
    writers.pop().unwrap().finish().unwrap();
    drop(given_up);
    for writer in writers {
        writer.finish().unwrap();
    }
    image_of(&sink, &[("application/vnd.oci.image.layer.v1.tar", &bytes[4])]);
    sink.close().unwrap();
    assert_eq!(names(&folder), ["x.tar"]);
    let archive = OciArchive::open(&path).unwrap();
    for bytes in &bytes[1..] {
        let mut read = vec![];
        let blob = archive.blob(&descriptor("x", bytes)).unwrap();
        blob.stream(0).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == *bytes);
    }
    assert_eq!(archive.blob(&descriptor("x", &bytes[0])).err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn what_is_not_as_promised_is_no_part_of_an_archive() {
    let (_folder, path) = room();
    for sink in [
        Box::new(OciArchiveSink::create(&path).unwrap()) as Box<dyn Sink>,
        Box::new(DockerArchiveSink::create(&path.with_extension("2")).unwrap()),
    ] {
        let promised = descriptor("x", b"abc");
        for wrong in [&b"abd"[..], b"ab", b"abcd"] {
            let mut blob = sink.begin(Some(&promised)).unwrap();
            let e = blob.write_all(wrong).map_err(|e| Error::io("writing", e)).and_then(|()| blob.finish());
            assert_eq!(e.unwrap_err().kind(), ErrorKind::Refused);
        }
        assert!(!sink.has(&promised).unwrap());
        let config = store(&*sink, "x", br#"{"rootfs":{"diff_ids":["sha256:00"]}}"#);
        let layer = descriptor("x", b"lost");
        let manifest = Manifest { config, layers: vec![layer], ..Default::default() };
        let document = Document::parse("x", serde_json::to_vec(&manifest).unwrap(), None).unwrap();
        assert!(sink.put(&document, Some("a:1")).is_err());
    }
}

#[test]
fn a_docker_archive_refuses_an_index_and_a_layer_that_its_config_does_not_know() {
    let (_folder, path) = room();
    let sink = DockerArchiveSink::create(&path).unwrap();
    let one = build(&sink, Compression::Zstd, "os:1");
    let index = image::index(&one, "amd64", None).unwrap();
    assert!(sink.put(&index, None).unwrap_err().to_string().contains("--arch"));
    let Content::Manifest(mut manifest) = one.content else { panic!() };
    manifest.config =
        store(&sink, "x", format!(r#"{{"rootfs":{{"diff_ids":["{}"]}}}}"#, one.digest).as_bytes());
    let document = Document::parse("x", serde_json::to_vec(&manifest).unwrap(), None).unwrap();
    assert!(sink.put(&document, None).unwrap_err().to_string().contains("diff-id"));
}

fn contents(tar: Vec<u8>) -> Result<Contents> {
    Contents::index("docker-archive:x".into(), Arc::new(tar))
}

/// Archives of the Go library behind crane (compressed layers), and of old Docker (links to layers).
#[test]
fn docker_archives_of_others_are_read() {
    let layer = Tarball::default().with("disk/disk.img", DISK).end();
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    packed.write_all(&layer).unwrap();
    let diff_id = crate::Digest::of(&layer);
    let config = format!(r#"{{"rootfs":{{"type":"layers","diff_ids":["{diff_id}","{diff_id}"]}}}}"#);
    let list = br#"[{"Config":"c.json","RepoTags":null,"Layers":["l.tar.gz","old/layer.tar"]}]"#;
    let tar = Tarball::default()
        .with("c.json", config.as_bytes())
        .with("l.tar.gz", &packed.finish().unwrap())
        .raw(b'2', b"old/layer.tar", b"../real/layer.tar", 0, b"")
        .with("real/layer.tar", &layer)
        .with("manifest.json", list);
    let archive = DockerArchive::from_contents(contents(tar.end()).unwrap()).unwrap();
    let reference = archive.reference(None).unwrap();
    assert_eq!(disk(&archive, &reference).unwrap(), DISK);
    let Content::Manifest(manifest) = archive.document(&reference).unwrap().content else { panic!() };
    assert_eq!(manifest.layers[0].media_type, IMAGE_LAYER_GZIP_MEDIA_TYPE);
    assert_eq!(manifest.layers[1].digest, diff_id.to_string());
}

#[test]
fn hostile_archives_are_refused_with_the_reason() {
    let t = Tarball::default;
    let config = br#"{"rootfs":{"diff_ids":["sha256:00"]}}"#;
    let with = |list: &[u8]| t().with("c.json", config).with("manifest.json", list).end();
    let docker = |tar: Vec<u8>| {
        let archive = contents(tar).and_then(DockerArchive::from_contents);
        archive.and_then(|archive| archive.reference(None)).err().unwrap()
    };
    let oci = |tar: Vec<u8>| contents(tar).and_then(OciArchive::from_contents).err().unwrap();
    let layout = |index: &[u8]| {
        t().with("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#).with("index.json", index).end()
    };
    for (why, e) in [
        ("is not a docker archive", docker(t().end())),
        ("cannot be read", docker(with(b"{}"))),
        ("has no file \"d.json\"", docker(with(br#"[{"Config":"d.json"}]"#))),
        ("lists 0 layers", docker(with(br#"[{"Config":"c.json","Layers":[]}]"#))),
        ("digest", docker(with(br#"[{"Config":"c.json","Layers":["c.json"]}]"#))),
        ("larger than the 4 MiB", docker(t().with("manifest.json", &vec![b' '; 5 << 20]).end())),
        ("twice", docker(t().with("a", b"").with("a", b"").end())),
        ("a hard link", docker(t().raw(b'1', b"a", b"b", 0, b"").end())),
        ("a block device", docker(t().raw(b'4', b"a", b"", 0, b"").end())),
        ("leads out", docker(t().raw(b'2', b"a", b"../b", 0, b"").end())),
        ("leads out", docker(t().raw(b'2', b"a", b"/etc/passwd", 0, b"").end())),
        (
            "link to a link",
            docker(
                t().raw(b'2', b"manifest.json", b"b", 0, b"").raw(b'2', b"b", b"manifest.json", 0, b"").end(),
            ),
        ),
        ("unpack it first: gunzip", docker(vec![0x1f, 0x8b, 8, 0])),
        ("is not an OCI archive", oci(t().end())),
        ("is not an OCI archive", oci(t().with("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#).end())),
        ("version", oci(t().with("oci-layout", br#"{"imageLayoutVersion":"9"}"#).end())),
        ("not the index", oci(layout(b"[]"))),
        ("digest", oci(layout(br#"{"schemaVersion":2,"manifests":[{"digest":"../../etc","size":1}]}"#))),
        ("ends too early", oci(layout(b"{}")[..1000].to_vec())),
    ] {
        assert!(e.to_string().contains(why), "{why}: {e}");
    }
}

#[test]
fn an_oci_archive_whose_blob_was_changed_is_refused() {
    let (_folder, path) = room();
    let sink = OciArchiveSink::create(&path).unwrap();
    build(&sink, Compression::None, "1");
    sink.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(DISK.len()).position(|window| window == DISK).unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let e = disk(&OciArchive::open(&path).unwrap(), &Reference::Tag("1".into())).unwrap_err();
    assert!(e.to_string().contains("has the digest"), "{e}");
}

/// The new archive would take its place at once, and a write that fails later would leave neither of them.
#[test]
fn an_archive_that_is_read_is_not_the_partial_file_of_another() {
    let (folder, path) = room();
    let sink = OciArchiveSink::create(&path).unwrap();
    build(&sink, Compression::Zstd, "1");
    sink.close().unwrap();
    drop(sink);
    let partial = folder.path().join("x.tar.partial");
    fs::rename(&path, &partial).unwrap();
    let archive = OciArchive::open(&partial).unwrap();
    let e = OciArchiveSink::create(&path).err().unwrap();
    assert!(e.to_string().contains("x.tar.partial, or it is what is read"), "{e}");
    assert_eq!(disk(&archive, &Reference::Tag("1".into())).unwrap(), DISK);
    assert_eq!(names(&folder), ["x.tar.partial"]);
    drop(archive);
    OciArchiveSink::create(&path).unwrap();
}

#[test]
fn an_archive_of_docker_is_read_no_further_than_the_image_that_is_wanted() {
    let layer = Tarball::default().with("disk/disk.img", DISK).end();
    let diff_id = crate::Digest::of(&layer);
    let config = format!(r#"{{"rootfs":{{"type":"layers","diff_ids":["{diff_id}"]}}}}"#);
    let archive = |list: &str| {
        let tar = Tarball::default().with("c.json", config.as_bytes()).with("l.tar", &layer);
        contents(tar.with("manifest.json", list.as_bytes()).end()).and_then(DockerArchive::from_contents)
    };
    let good = r#"{"Config":"c.json","RepoTags":["a:1"],"Layers":["l.tar"]}"#;
    let broken = r#"{"Config":"gone","RepoTags":["b:1"],"Layers":["l.tar"]}"#;
    for list in [format!("[{good},{broken}]"), format!("[{broken},{good}]")] {
        let archive = archive(&list).unwrap();
        let one = Reference::Tag("a:1".into());
        assert_eq!(disk(&archive, &one).unwrap(), DISK);
        let digest = archive.document(&one).unwrap().digest;
        assert_eq!(disk(&archive, &Reference::Digest(digest)).unwrap(), DISK);
        let e = archive.document(&Reference::Tag("b:1".into())).unwrap_err();
        assert!(e.to_string().contains("has no file \"gone\""), "{e}");
        assert_eq!(archive.reference(None).unwrap_err().kind(), ErrorKind::Usage);
    }
    // By its digest an image is found in an archive that was opened for it.
    let digest = archive(&format!("[{good}]")).unwrap().reference(None).unwrap();
    assert_eq!(disk(&archive(&format!("[{good},{good}]")).unwrap(), &digest).unwrap(), DISK);

    let layers = vec![r#""gone""#; 129].join(",");
    let many_layers = format!(r#"[{{"Config":"c.json","Layers":[{layers}]}}]"#);
    let e = archive(&many_layers).and_then(|archive| archive.reference(None)).unwrap_err();
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("129 layers; at most 128"), "{e}");
    let many_images = format!("[{}]", vec![good; 257].join(","));
    let e = archive(&many_images).err().unwrap();
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("257 images; at most 256"), "{e}");
}

#[test]
fn an_archive_of_docker_takes_no_heap_of_blobs_that_are_not_layers() {
    let (_folder, path) = room();
    let sink = DockerArchiveSink::create(&path).unwrap();
    let mut taken = 0;
    let e = loop {
        assert!(taken < 64 << 20, "{taken} bytes were taken");
        let mut bytes = vec![b'x'; 4 << 20];
        bytes[..8].copy_from_slice(&u64::to_be_bytes(taken));
        let mut blob = sink.begin(Some(&descriptor("x", &bytes))).unwrap();
        blob.write_all(&bytes).unwrap();
        match blob.finish() {
            Ok((_, size)) => taken += size,
            Err(e) => break e,
        }
    };
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("neither layers nor"), "{e}");
    assert_eq!(taken, 32 << 20);
}

#[test]
fn a_layer_that_is_not_a_tar_is_no_part_of_an_archive_of_docker() {
    let (_folder, path) = room();
    let sink = DockerArchiveSink::create(&path).unwrap();
    let layer = store(&sink, "x", b"not a tar");
    let config = format!(r#"{{"rootfs":{{"diff_ids":["{}"]}}}}"#, layer.digest);
    let config = store(&sink, "x", config.as_bytes());
    let manifest = Manifest { config, layers: vec![layer], ..Default::default() };
    let document = Document::parse("x", serde_json::to_vec(&manifest).unwrap(), None).unwrap();
    let e = sink.put(&document, Some("a:1")).unwrap_err();
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("layer 1 is not a tar"), "{e}");
}

#[test]
fn a_layer_that_decompresses_without_end_is_no_part_of_an_archive_of_docker() {
    let (folder, path) = room();
    let tar = Tarball::default().with("disk/disk.img", &vec![0; 1 << 20]).end();
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    for packed in [gzip.finish().unwrap(), zstd::encode_all(&tar[..], 1).unwrap()] {
        for (limit, is_refused) in [(tar.len() as u64, false), (tar.len() as u64 - 1, true)] {
            let sink = DockerArchiveSink::limited(&path, limit).unwrap();
            let mut blob = sink.begin(Some(&descriptor("x", &packed))).unwrap();
            let written = blob.write_all(&packed).map_err(|e| Error::io("writing", e));
            let e = written.and_then(|()| blob.finish()).err();
            assert_eq!(e.is_some(), is_refused, "{e:?}");
            let Some(e) = e else { continue };
            assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
            assert!(e.to_string().contains("decompresses to more than"), "{e}");
        }
    }
    assert_eq!(names(&folder), [""; 0]);
}

#[test]
fn only_a_regular_file_is_replaced_by_an_archive() {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    use std::os::unix::net::UnixListener;
    let node =
        |path: &Path, kind| mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), makedev(1, 3)).unwrap();
    type Make<'a> = &'a dyn Fn(&Path);
    let table: [(&str, Make<'_>); 6] = [
        ("a symbolic link", &|path| symlink("elsewhere", path).unwrap()),
        ("a folder", &|path| fs::create_dir(path).unwrap()),
        ("a named pipe", &|path| node(path, FileType::Fifo)),
        ("a socket", &|path| drop(UnixListener::bind(path).unwrap())),
        ("a character device", &|path| node(path, FileType::CharacterDevice)),
        ("a block device", &|path| node(path, FileType::BlockDevice)),
    ];
    let sinks: [fn(&Path) -> Option<Error>; 2] =
        [|path| OciArchiveSink::create(path).err(), |path| DockerArchiveSink::create(path).err()];
    let is_root = rustix::process::geteuid().is_root();
    for (kind, make) in table {
        if kind.ends_with("device") && !is_root {
            eprintln!("skipped: only root can make {kind}");
            continue;
        }
        let (folder, path) = room();
        make(&path);
        let before = fs::symlink_metadata(&path).unwrap().file_type();
        for create in sinks {
            let e = create(&path).unwrap_or_else(|| panic!("{kind} would be replaced"));
            assert!(e.to_string().contains(kind) && e.to_string().contains("x.tar"), "{kind}: {e}");
            assert_eq!(
                (names(&folder), before),
                (vec!["x.tar".to_owned()], fs::symlink_metadata(&path).unwrap().file_type())
            );
        }
        assert!(!before.is_file() && (before.is_char_device() == kind.starts_with("a char")));
    }
}
