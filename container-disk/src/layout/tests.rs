//! Layouts that this program writes, that others have changed, and that several processes write at once.

use super::*;
use crate::manifest::IMAGE_LAYER_MEDIA_TYPE;
use crate::tar::tests::Tarball;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::{fs, thread};

pub(crate) fn descriptor(media_type: &str, bytes: &[u8]) -> Descriptor {
    let digest = Digest::of(bytes).to_string();
    Descriptor { media_type: media_type.into(), digest, size: bytes.len() as i64, ..Descriptor::default() }
}

pub(crate) fn store(sink: &dyn Sink, media_type: &str, bytes: &[u8]) -> Descriptor {
    let mut blob = sink.begin(None).unwrap();
    blob.write_all(bytes).unwrap();
    assert_eq!(blob.finish().unwrap(), (Digest::of(bytes), bytes.len() as u64));
    descriptor(media_type, bytes)
}

/// An image of these layers, whatever their content is, under the tag `t`.
pub(crate) fn image_of(sink: &dyn Sink, layers: &[(&str, &[u8])]) -> Document {
    let config = store(sink, manifest::IMAGE_CONFIG_MEDIA_TYPE, br#"{"architecture":"amd64","os":"linux"}"#);
    let layers = layers.iter().map(|(media_type, bytes)| store(sink, media_type, bytes)).collect();
    let manifest = manifest::Manifest { config, layers, ..Default::default() };
    let document = Document::parse("x", serde_json::to_vec(&manifest).unwrap(), None).unwrap();
    sink.put(&document, Some("t")).unwrap();
    document
}

/// Puts an image whose config, layer and manifest are all named by SHA-512, under the tag `t`.
pub(crate) fn sha512_image(sink: &dyn Sink, disk: &[u8]) -> Document {
    let sha512 = |bytes: &[u8]| {
        let mut hash = Hasher::like(&Digest::Sha512([0; 64]));
        hash.update(bytes);
        hash.finish()
    };
    let layer = Tarball::default().with("disk/", b"").with("disk/a", disk).end();
    let diff_id = Digest::of(&layer);
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","rootfs":{{"type":"layers","diff_ids":["{diff_id}"]}}}}"#
    );
    let store = |media_type: &str, bytes: &[u8]| {
        let blob = manifest::descriptor(media_type, &sha512(bytes), bytes.len() as u64).unwrap();
        let mut writer = sink.begin(Some(&blob)).unwrap();
        writer.write_all(bytes).unwrap();
        // Another one is buffered meanwhile.
        let mut other = sink.begin(None).unwrap();
        other.write_all(b"{}").unwrap();
        other.finish().unwrap();
        writer.finish().unwrap();
        blob
    };
    let config = store(manifest::IMAGE_CONFIG_MEDIA_TYPE, config.as_bytes());
    let layers = vec![store(IMAGE_LAYER_MEDIA_TYPE, &layer)];
    let bytes = serde_json::to_vec(&manifest::Manifest { config, layers, ..Default::default() }).unwrap();
    let digest = sha512(&bytes);
    let document = Document::parse("x", bytes, None).unwrap().listed_as(digest);
    sink.put(&document, Some("t")).unwrap();
    document
}

fn new() -> (tempfile::TempDir, Layout) {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).unwrap();
    (folder, layout)
}

fn names(path: &Path) -> Vec<String> {
    Folder::open(path).unwrap().names().unwrap()
}

fn read(place: &dyn Place, descriptor: &Descriptor) -> Result<Vec<u8>> {
    let mut bytes = vec![];
    place.blob(descriptor)?.stream(0)?.read_to_end(&mut bytes).map_err(|e| Error::io("reading", e))?;
    Ok(bytes)
}

/// Its manifest was looked for, and written, by its SHA-256.
#[test]
fn an_image_whose_manifest_is_named_by_sha512_is_read_verified_and_copied() {
    let (folder, layout) = new();
    let put = sha512_image(&layout, b"a disk");
    assert!(folder.path().join("blobs/sha512").join(put.digest.hex()).exists());
    let tag = Reference::Tag("t".into());
    assert_eq!(layout.document(&tag).unwrap().digest, put.digest);
    let checks = crate::verify::verify(&layout, &tag, &Default::default()).unwrap();
    assert!(checks.iter().all(crate::verify::Check::passed), "{checks:#?}");
    let contents = crate::image::contents::Contents::below(&layout, layout.document(&tag).unwrap()).unwrap();
    let again = contents.documents[0].parse("x").unwrap();
    assert_eq!(again.digest, put.digest);
    layout.put(&again, Some("again")).unwrap();
    assert_eq!(layout.document(&Reference::Tag("again".into())).unwrap().digest, put.digest);
}

#[test]
fn what_is_written_is_read_by_tag_and_by_digest() {
    let (folder, layout) = new();
    let put = image_of(&layout, &[(IMAGE_LAYER_MEDIA_TYPE, b"layer")]);
    drop(layout);
    let layout = Layout::open(folder.path()).unwrap();
    for reference in
        [Reference::Tag("t".into()), Reference::Digest(put.digest), layout.reference(None).unwrap()]
    {
        assert_eq!(layout.document(&reference).unwrap().bytes, put.bytes);
    }
    let Content::Manifest(manifest) = &put.content else { panic!() };
    assert_eq!(read(&layout, &manifest.layers[0]).unwrap(), b"layer");
    assert_eq!(layout.tags().unwrap(), ["t"]);
    assert_eq!(names(folder.path()), ["blobs", "index.json", "oci-layout"]);
}

#[test]
fn a_folder_that_has_nothing_to_sync_takes_blobs() {
    Folder::open(Path::new("/proc/self/fd")).unwrap().sync().unwrap();
}

#[test]
fn a_blob_that_is_not_what_was_promised_leaves_nothing() {
    let (folder, layout) = new();
    let promised = descriptor("x", b"abc");
    for (bytes, why) in
        [(&b"abd"[..], "have the digest"), (b"ab", "ends after 2 of its 3"), (b"abcd", "longer")]
    {
        let mut blob = layout.begin(Some(&promised)).unwrap();
        let result = blob.write_all(bytes).map_err(|e| Error::io("writing", e)).and_then(|()| blob.finish());
        let e = result.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains(why), "{e}");
    }
    drop(layout.begin(None).unwrap());
    assert_eq!(names(&folder.path().join("blobs/sha256")), [""; 0]);
    assert_eq!(names(&folder.path().join("ingest")), [""; 0]);
}

#[test]
fn a_document_without_its_blobs_gets_no_name() {
    let (_folder, layout) = new();
    let manifest = manifest::Manifest { config: descriptor("x", b"gone"), ..Default::default() };
    let document = Document::parse("x", serde_json::to_vec(&manifest).unwrap(), None).unwrap();
    let e = layout.put(&document, Some("t")).unwrap_err();
    assert!(e.to_string().contains("does not contain it"), "{e}");
    assert_eq!(layout.document(&Reference::Tag("t".into())).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_others_wrote_into_the_index_stays() {
    let (folder, layout) = new();
    let put = image_of(&layout, &[]);
    let path = folder.path().join("index.json");
    let index = fs::read_to_string(&path).unwrap();
    let foreign = index.replace(r#""manifests":["#, r#""annotations":{"who":"else"},"manifests":["#);
    let foreign =
        foreign.replace(r#""size":"#, r#""platform":{"architecture":"amd64","os":"linux"},"size":"#);
    assert_ne!(foreign, index);
    fs::write(&path, foreign).unwrap();
    layout.put(&put, Some("second")).unwrap();
    let now = fs::read_to_string(&path).unwrap();
    assert!(now.contains(r#"{"who":"else"}"#) && now.contains("platform") && now.contains("second"), "{now}");
}

#[test]
fn a_tag_moves_and_several_images_want_a_name() {
    let (_folder, layout) = new();
    let first = image_of(&layout, &[(IMAGE_LAYER_MEDIA_TYPE, b"1")]);
    let second = image_of(&layout, &[(IMAGE_LAYER_MEDIA_TYPE, b"2")]);
    assert_eq!(layout.document(&Reference::Tag("t".into())).unwrap().digest, second.digest);
    layout.put(&first, Some("u")).unwrap();
    assert_eq!(layout.tags().unwrap(), ["t", "u"]);
    let e = layout.reference(None).unwrap_err();
    assert_eq!((e.kind(), e.to_string().contains("t, u")), (ErrorKind::Usage, true), "{e}");
    let e = layout.document(&Reference::Tag("v".into())).unwrap_err();
    assert_eq!((e.kind(), e.to_string().contains("t, u")), (ErrorKind::NotFound, true), "{e}");
}

#[test]
fn a_layout_that_was_tampered_with_is_refused_with_the_reason() {
    let hex = |d: &Digest| format!("blobs/sha256/{}", d.hex());
    type Tamper = fn(&Path, &str, &str);
    let table: [(&str, Tamper); 9] = [
        ("were changed", |dir, document, _| fs::write(dir.join(document), "{}").unwrap()),
        ("not the 5", |dir, _, layer| fs::write(dir.join(layer), "longer").unwrap()),
        ("has the digest", |dir, _, layer| fs::write(dir.join(layer), "LAYER").unwrap()),
        ("has no blob", |dir, _, layer| fs::remove_file(dir.join(layer)).unwrap()),
        ("links in an image layout", |dir, _, layer| {
            fs::rename(dir.join(layer), dir.join("elsewhere")).unwrap();
            symlink("../../elsewhere", dir.join(layer)).unwrap();
        }),
        ("links in an image layout", |dir, _, _| {
            fs::rename(dir.join("blobs"), dir.join("elsewhere")).unwrap();
            symlink("elsewhere", dir.join("blobs")).unwrap();
        }),
        ("not a regular file", |dir, _, layer| {
            fs::remove_file(dir.join(layer)).unwrap();
            fs::create_dir(dir.join(layer)).unwrap();
        }),
        ("not the index", |dir, _, _| fs::write(dir.join("index.json"), "[]").unwrap()),
        ("larger than the 4 MiB", |dir, _, _| {
            fs::write(dir.join("index.json"), vec![b' '; 5 << 20]).unwrap()
        }),
    ];
    for (why, tamper) in table {
        let (folder, layout) = new();
        let put = image_of(&layout, &[(IMAGE_LAYER_MEDIA_TYPE, b"layer")]);
        let Content::Manifest(manifest) = &put.content else { panic!() };
        let layer: Digest = manifest.layers[0].digest.parse().unwrap();
        tamper(folder.path(), &hex(&put.digest), &hex(&layer));
        let result =
            layout.document(&Reference::Tag("t".into())).and_then(|_| read(&layout, &manifest.layers[0]));
        let e = result.unwrap_err();
        assert!(e.to_string().contains(why), "{why}: {e}");
    }
}

#[test]
fn what_is_no_layout_is_not_taken_for_one() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Layout::open(&folder.path().join("none")).err().unwrap().kind(), ErrorKind::NotFound);
    assert!(Layout::open(folder.path()).err().unwrap().to_string().contains("no file oci-layout"));
    fs::write(folder.path().join("precious"), "").unwrap();
    assert_eq!(Layout::create(folder.path()).err().unwrap().kind(), ErrorKind::Usage);
    fs::write(folder.path().join("oci-layout"), r#"{"imageLayoutVersion":"2.0.0"}"#).unwrap();
    assert!(Layout::open(folder.path()).err().unwrap().to_string().contains("version \"2.0.0\""));
}

#[test]
fn no_change_of_the_index_is_lost_when_many_write() {
    let (folder, layout) = new();
    let put = image_of(&layout, &[]);
    thread::scope(|scope| {
        for writer in 0..8 {
            let put = &put;
            let path = folder.path();
            scope.spawn(move || {
                let layout = Layout::create(path).unwrap();
                for i in 0..10 {
                    layout.put(put, Some(&format!("{writer}-{i}"))).unwrap();
                }
            });
        }
    });
    assert_eq!(layout.tags().unwrap().len(), 81);
}

#[test]
fn a_folder_with_files_of_others_is_not_made_a_layout() {
    use crate::store::{Store, prune};
    for name in
        ["ingest/1-1", "ingest/notes", "blobs/notes", "blobs/sha256/notes", "lock", "index.json", "notes"]
    {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "precious").unwrap();
        let before = names(folder.path());
        for e in [
            Layout::create(folder.path()).err(),
            Store::open(folder.path()).err(),
            prune(folder.path()).err(),
        ] {
            let e = e.unwrap_or_else(|| panic!("{name} was taken for a part of a layout"));
            assert!(e.kind() == ErrorKind::Usage && e.to_string().contains("is not an image layout"), "{e}");
            assert_eq!(
                (names(folder.path()), fs::read_to_string(&file).unwrap().as_str()),
                (before.clone(), "precious")
            );
        }
    }
}

#[test]
fn a_folder_with_a_name_that_is_not_text_is_not_empty() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    for name in [&b"\xff"[..], b"ingest/\xff", b"blobs/\xff"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(OsStr::from_bytes(name));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "precious").unwrap();
        let e = Layout::create(folder.path()).err().unwrap_or_else(|| panic!("{name:?} was not seen"));
        assert!(e.kind() == ErrorKind::Usage && e.to_string().contains("is not an image layout"), "{e}");
        assert_eq!((names(folder.path()).len(), fs::read(&file).unwrap()), (1, b"precious".to_vec()));
    }
}

#[test]
fn a_layout_whose_making_was_interrupted_is_made() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
    fs::create_dir(folder.path().join("ingest")).unwrap();
    fs::write(folder.path().join("lock"), "").unwrap();
    fs::write(folder.path().join("ingest/coracle-1-1"), "half").unwrap();
    fs::write(folder.path().join("index.json"), index::Index::new().bytes()).unwrap();
    drop(Layout::create(folder.path()).unwrap());
    assert_eq!(names(folder.path()), ["blobs", "index.json", "lock", "oci-layout"]);
}

#[test]
fn only_unfinished_files_of_this_program_go_from_a_layout_of_others() {
    let (folder, layout) = new();
    drop(layout);
    let ingest = folder.path().join("ingest");
    fs::create_dir(&ingest).unwrap();
    for name in ["1-1", "coracle-1", "coracle-1-1", "coracle-x-1"] {
        fs::write(ingest.join(name), "file").unwrap();
    }
    drop(Layout::create(folder.path()).unwrap());
    assert_eq!(names(&ingest), ["1-1", "coracle-1", "coracle-x-1"]);
}
