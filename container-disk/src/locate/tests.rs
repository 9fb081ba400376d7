//! The choice of the disk in good and bad images, read in every possible way.

mod detours;

use super::*;
use crate::layout::Layout;
use crate::layout::tests::image_of;
use crate::manifest::{
    Content, Document, IMAGE_LAYER_GZIP_MEDIA_TYPE, IMAGE_LAYER_MEDIA_TYPE, IMAGE_LAYER_ZSTD_MEDIA_TYPE,
};
use crate::place::Reference;
use crate::tar::tests::Tarball;
use crate::{Error, ErrorKind};
use std::io::Write as _;
use std::sync::Mutex;

/// A place whose blobs cannot be read at an offset, like some registries.
struct InOrder(Layout);

struct BlobInOrder(Arc<dyn Blob>);

impl Place for InOrder {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn document(&self, reference: &Reference) -> Result<Document> {
        self.0.document(reference)
    }
    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
        Ok(Arc::new(BlobInOrder(self.0.blob(descriptor)?)))
    }
}

impl Blob for BlobInOrder {
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        self.0.stream(from)
    }
    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        None
    }
}

fn t() -> Tarball {
    Tarball::default()
}

fn gzip(tar: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    packed.write_all(tar).unwrap();
    packed.finish().unwrap()
}

fn zstd(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 1).unwrap()
}

fn whole(located: &mut Located) -> Result<Vec<u8>> {
    let mut bytes = vec![];
    located.stream()?.read_to_end(&mut bytes).map_err(|e| Error::io("reading", e))?;
    Ok(bytes)
}

/// Path, layer and bytes of the disk.
type Found = (String, usize, Vec<u8>);

/// The disk of these layers, found in every possible way. All must agree.
fn find(layers: &[Vec<u8>], path: Option<&str>) -> Result<Found> {
    let mut results: Vec<(String, Result<Found>)> = vec![];
    for packed in ["plain", "gzip", "zstd"] {
        let packed_layers: Vec<(&str, Vec<u8>)> = layers
            .iter()
            .map(|tar| match packed {
                "plain" => (IMAGE_LAYER_MEDIA_TYPE, tar.clone()),
                "gzip" => (IMAGE_LAYER_GZIP_MEDIA_TYPE, gzip(tar)),
                _ => (IMAGE_LAYER_ZSTD_MEDIA_TYPE, zstd(tar)),
            })
            .collect();
        let (_folder, layout, manifest) = image(&packed_layers);
        for one_pass in [false, true] {
            results.push((format!("{packed}, {one_pass}"), find_one(&layout, &manifest, one_pass, path)));
        }
        let in_order = InOrder(layout);
        for one_pass in [false, true] {
            results.push((
                format!("{packed} in order, {one_pass}"),
                find_one(&in_order, &manifest, one_pass, path),
            ));
        }
    }
    let (_, first) = results.remove(0);
    for (how, other) in results {
        match (&first, other) {
            (Ok(first), Ok(other)) => assert_eq!(*first, other, "{how}"),
            (Err(first), Err(other)) => assert_eq!(first.kind(), other.kind(), "{how}: {first} / {other}"),
            (first, other) => panic!("{how}: {other:?}, and not {first:?}"),
        }
    }
    first
}

fn image(layers: &[(&str, Vec<u8>)]) -> (tempfile::TempDir, Layout, Manifest) {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).unwrap();
    let layers: Vec<(&str, &[u8])> = layers.iter().map(|(kind, bytes)| (*kind, bytes.as_slice())).collect();
    let Content::Manifest(manifest) = image_of(&layout, &layers).content else { panic!() };
    (folder, layout, *manifest)
}

fn find_one(place: &dyn Place, manifest: &Manifest, one_pass: bool, path: Option<&str>) -> Result<Found> {
    let options = Options { path: path.map(str::to_owned), one_pass, ..Options::default() };
    let mut located = disk(place, manifest, &options)?;
    assert!(located.is_settled() || one_pass);
    let bytes = whole(&mut located)?;
    assert_eq!(bytes.len() as u64, located.size);
    assert!(whole(&mut located)? == bytes, "a second time");
    let plain = located.compression == Compression::None;
    let at_any_offset = place.blob(&manifest.layers[located.layer])?.read_at().is_some();
    assert_eq!(located.read_at().is_some(), plain && at_any_offset);
    if let Some(read_at) = located.read_at() {
        let mut again = vec![0; bytes.len()];
        read_at?.read_exact_at(&mut again, 0).unwrap();
        assert!(again == bytes, "by offset");
    }
    Ok((located.path, located.layer, bytes))
}

#[test]
fn the_disk_is_found_by_the_rules() {
    let disk = |name: &str| t().with("disk/", b"").with(name, b"1").end();
    let other = || t().with("etc/", b"").with("etc/passwd", b"p").raw(b'2', b"bin", b"usr/bin", 0, b"").end();
    for (layers, path, want) in [
        (vec![disk("disk/disk.img")], None, ("disk/disk.img", 0, "1")),
        (vec![t().with("./disk/x.qcow2", b"1").end()], None, ("disk/x.qcow2", 0, "1")),
        // The base of an operating system with the disk on top of it, and the reverse.
        (vec![other(), disk("disk/a")], None, ("disk/a", 1, "1")),
        (vec![disk("disk/a"), other()], None, ("disk/a", 0, "1")),
        (vec![disk("disk/a"), t().with("disk/a", b"22").end()], None, ("disk/a", 1, "22")),
        (
            vec![disk("disk/a"), t().with("disk/.wh.a", b"").with("disk/b", b"22").end()],
            None,
            ("disk/b", 1, "22"),
        ),
        (
            vec![disk("disk/a"), t().with("disk/b", b"22").with("disk/.wh.a", b"").end()],
            None,
            ("disk/b", 1, "22"),
        ),
        (
            vec![disk("disk/a"), t().with("disk/.wh..wh..opq", b"").with("disk/b", b"2").end()],
            None,
            ("disk/b", 1, "2"),
        ),
        (vec![disk("disk/a"), t().with(".wh.disk", b"").end(), disk("disk/b")], None, ("disk/b", 2, "1")),
        (
            vec![disk("disk/a"), t().with(".wh.etc", b"").with("etc/.wh.a", b"").end()],
            None,
            ("disk/a", 0, "1"),
        ),
        // Two files, of which the upper layer deletes one.
        (
            vec![t().with("disk/a", b"1").with("disk/b", b"2").end(), t().with("disk/.wh.b", b"").end()],
            None,
            ("disk/a", 0, "1"),
        ),
        (vec![t().with("disk/empty/", b"").with("disk/a", b"1").end()], None, ("disk/a", 0, "1")),
        (vec![t().with("diskette/readme", b"r").with("disk/a", b"1").end()], None, ("disk/a", 0, "1")),
        (vec![t().with("disk.img", b"1").end()], None, ("disk.img", 0, "1")),
        (vec![t().with("disk", b"1").end()], None, ("disk", 0, "1")),
        (vec![t().with("disk/a", b"1").with("disk/b", b"2").end()], Some("/disk/b"), ("disk/b", 0, "2")),
        (
            vec![disk("disk/a"), t().with("boot/vmlinuz", b"k").end()],
            Some("boot//./vmlinuz"),
            ("boot/vmlinuz", 1, "k"),
        ),
        (
            vec![t().with("a/b/c", b"1").end(), t().with("a/b/d", b"2").end()],
            Some("/a/b/c"),
            ("a/b/c", 0, "1"),
        ),
    ] {
        let (found, layer, bytes) = find(&layers, path).unwrap();
        assert_eq!((found.as_str(), layer, bytes.as_slice()), (want.0, want.1, want.2.as_bytes()));
    }
}

#[test]
fn what_is_not_one_disk_is_refused_with_the_reason() {
    let a = || t().with("disk/a", b"1");
    let link = |to: &[u8]| t().raw(b'2', b"disk/a", to, 0, b"").end();
    for (why, layers, path) in [
        ("is not a containerDisk", vec![t().end()], None),
        ("is not a containerDisk", vec![], None),
        ("2 entries at its root", vec![t().with("a", b"1").with("b", b"2").end()], None),
        ("1 entries at its root", vec![t().with("a/", b"").end()], None),
        ("no file in /disk", vec![t().with("disk/", b"").end()], None),
        ("2 files in /disk", vec![a().with("disk/b", b"2").end()], None),
        ("2 files in /disk", vec![a().with("disk/sub/b", b"2").end()], None),
        ("2 files in /disk", vec![a().end(), t().with("disk/b", b"2").end()], None),
        ("\"disk/a\", \"disk/b\"; name one", vec![a().with("disk/b", b"2").end()], None),
        ("does not lie in /disk itself", vec![t().with("disk/sub/a", b"1").end()], None),
        ("(layer 2 deletes \"disk/a\")", vec![a().end(), t().with("disk/.wh.a", b"").end()], None),
        ("(layer 2 deletes \"disk/a\")", vec![a().end(), t().with(".wh.disk", b"").end()], None),
        ("(layer 2 deletes \"disk/a\")", vec![a().end(), t().with("disk/.wh..wh..opq", b"").end()], None),
        ("is empty", vec![t().with("disk/a", b"").end()], None),
        ("a link to \"/etc/shadow\"", vec![link(b"/etc/shadow")], None),
        ("a link to \"../../x\"", vec![link(b"../../x")], None),
        ("a hard link to", vec![t().with("x", b"1").raw(b'1', b"disk/a", b"x", 0, b"").end()], None),
        ("a block device", vec![t().raw(b'4', b"disk/a", b"", 0, b"").end()], None),
        ("a pipe", vec![t().raw(b'6', b"disk/a", b"", 0, b"").end()], None),
        ("/disk of oci:", vec![t().raw(b'2', b"disk", b"/var", 0, b"").end()], None),
        ("which is not a folder", vec![t().raw(b'2', b"disk", b"/var", 0, b"").end(), a().end()], None),
        ("which is not a folder", vec![t().with("disk", b"1").end(), a().end()], None),
        ("twice", vec![a().with("disk/a", b"2").end()], None),
        ("twice", vec![a().with("./disk//a", b"2").end()], None),
        ("leads out", vec![a().with("disk/../../x", b"2").end()], None),
        ("absolute name", vec![a().with("/etc/passwd", b"2").end()], None),
        ("sparse", vec![a().raw(b'S', b"disk/b", b"", 0, b"").end()], None),
        ("sparse", vec![t().pax(b"22 GNU.sparse.major=1\n").with("disk/b", b"2").end()], None),
        ("ends too early", vec![a().raw(b'0', b"disk/b", b"", 1 << 40, b"2").end()], None),
        ("after the archive's end", vec![a().bytes(&[0; 1024]).with("disk/b", b"2").end()], None),
        ("is a folder", vec![t().with("disk/a/", b"").end()], Some("disk/a")),
        (
            "a link to \"b\"",
            vec![t().with("disk/b", b"1").raw(b'2', b"disk/a", b"b", 0, b"").end()],
            Some("disk/a"),
        ),
        (
            "links on the way",
            vec![t().raw(b'2', b"d", b"disk", 0, b"").with("disk/a", b"1").end()],
            Some("d/a"),
        ),
    ] {
        let e = find(&layers, path).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused, "{why}: {e}");
        assert!(e.to_string().contains(why), "{why}: {e}");
    }
}

#[test]
fn a_path_that_leads_nowhere_is_not_found_and_one_that_leads_out_makes_no_sense() {
    let layers = [t().with("disk/a", b"1").end()];
    let e = find(&layers, Some("/disk/b")).unwrap_err();
    assert_eq!((e.kind(), e.to_string().contains("no file \"disk/b\"")), (ErrorKind::NotFound, true), "{e}");
    for path in ["", "/", "../a", "disk/../a", "."] {
        assert_eq!(find(&layers, Some(path)).unwrap_err().kind(), ErrorKind::Usage, "{path:?}");
    }
}

#[test]
fn in_one_pass_what_follows_the_disk_ends_its_stream() {
    let disks = [0u8, 1].map(|n| vec![n + 1; 300_000]);
    let late = t().with("disk/a", &disks[0]).with("disk/b", &disks[1]).end();
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).unwrap();
    let document = image_of(&layout, &[(IMAGE_LAYER_GZIP_MEDIA_TYPE, &gzip(&late))]);
    let Content::Manifest(manifest) = document.content else { panic!() };
    let options = Options { one_pass: true, ..Options::default() };
    let mut located = disk(&layout, &manifest, &options).unwrap();
    assert!(!located.is_settled());
    let mut bytes = vec![0; 300_000];
    let mut stream = located.stream().unwrap();
    stream.read_exact(&mut bytes).unwrap();
    assert!(bytes == disks[0], "the bytes come before the judgement");
    let e = Error::io("reading", stream.read(&mut [0]).unwrap_err());
    assert!(e.to_string().contains("2 files in /disk"), "{e}");
}

#[test]
fn a_wrong_digest_ends_the_stream_too() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).unwrap();
    // Noise is stored uncompressed, so that a changed byte changes the disk and only the digest reveals it.
    let noise: Vec<u8> = (0..200u32).flat_map(|i| Digest::of(&i.to_be_bytes()).hex().into_bytes()).collect();
    let noise: Vec<u8> = noise
        .chunks(2)
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect();
    let tar = t().with("disk/a", &noise).end();
    for (media_type, mut bytes) in
        [(IMAGE_LAYER_MEDIA_TYPE, tar.clone()), (IMAGE_LAYER_ZSTD_MEDIA_TYPE, zstd(&tar))]
    {
        let Content::Manifest(manifest) = image_of(&layout, &[(media_type, &bytes)]).content else {
            panic!()
        };
        let digest: Digest = manifest.layers[0].digest.parse().unwrap();
        bytes[3000] ^= 1;
        std::fs::write(folder.path().join("blobs/sha256").join(digest.hex()), &bytes).unwrap();
        for one_pass in [true, false] {
            let options = Options { one_pass, ..Options::default() };
            let result = disk(&layout, &manifest, &options).and_then(|mut located| whole(&mut located));
            let e = result.unwrap_err();
            assert!(e.to_string().contains("has the digest"), "{media_type} {one_pass}: {e}");
        }
    }
}

#[test]
fn a_bomb_ends_at_the_limit() {
    let tar = t().with("disk/a", &vec![0; 1 << 20]).with("x", &vec![0; 1 << 20]).end();
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).unwrap();
    for (media_type, bytes) in
        [(IMAGE_LAYER_GZIP_MEDIA_TYPE, gzip(&tar)), (IMAGE_LAYER_ZSTD_MEDIA_TYPE, zstd(&tar))]
    {
        let Content::Manifest(manifest) = image_of(&layout, &[(media_type, &bytes)]).content else {
            panic!()
        };
        let options = Options { limit: 1 << 20, ..Options::default() };
        let e = disk(&layout, &manifest, &options).err().unwrap();
        assert!(e.to_string().contains("more than the allowed 1048576 bytes"), "{e}");
        let options = Options { limit: 3 << 20, ..Options::default() };
        assert_eq!(whole(&mut disk(&layout, &manifest, &options).unwrap()).unwrap().len(), 1 << 20);
    }
}

#[test]
fn a_media_type_that_lies_is_refused_by_name() {
    let tar = t().with("disk/a", b"1").end();
    for (media_type, bytes, why) in [
        (IMAGE_LAYER_MEDIA_TYPE, gzip(&tar), "its bytes are gzip"),
        (IMAGE_LAYER_GZIP_MEDIA_TYPE, tar.clone(), "its bytes are not compressed"),
        (IMAGE_LAYER_GZIP_MEDIA_TYPE, zstd(&tar), "its bytes are zstd"),
        (IMAGE_LAYER_GZIP_MEDIA_TYPE, gzip(&tar)[..60].to_vec(), "broken or cut short"),
        (IMAGE_LAYER_ZSTD_MEDIA_TYPE, zstd(&tar)[..20].to_vec(), "broken or cut short"),
        (IMAGE_LAYER_GZIP_MEDIA_TYPE, gzip(b"no tar at all, and that for long enough"), "ends too early"),
        ("application/vnd.oci.image.layer.v1.tar+encrypted", tar.clone(), "not a layer"),
        (IMAGE_LAYER_MEDIA_TYPE, b"QFI\xfb and so on".to_vec(), "not a tar"),
    ] {
        let (_folder, layout, manifest) = image(&[(media_type, bytes)]);
        let at_offsets = [true, false].map(|one_pass| find_one(&layout, &manifest, one_pass, None));
        let in_order = InOrder(layout);
        let in_order = [true, false].map(|one_pass| find_one(&in_order, &manifest, one_pass, None));
        for e in at_offsets.into_iter().chain(in_order).map(Result::unwrap_err) {
            assert_eq!(e.kind(), ErrorKind::Refused);
            assert!(e.to_string().contains(why), "{why}: {e}");
        }
    }
}

#[test]
fn kernels_are_found_by_labels() {
    let config = |labels: &str| {
        Config::parse("x", format!(r#"{{"config":{{"Labels":{labels}}}}}"#).as_bytes()).unwrap()
    };
    assert_eq!(boot(&config("{}")), None);
    let some = boot(&config(r#"{"io.coracle.kernel":"/boot/k","io.coracle.initrd":"/boot/i"}"#)).unwrap();
    let want =
        Boot { kernel: "/boot/k".into(), initrd: Some("/boot/i".into()), cmdline: "console=ttyS0".into() };
    assert_eq!(some, want);
}

#[test]
fn an_image_costs_no_more_than_a_disk_is_worth() {
    let disk = t().with("disk/", b"").with("disk/a", b"1").end();
    let (_folder, layout, mut manifest) = image(&[(IMAGE_LAYER_MEDIA_TYPE, disk)]);
    let layer = manifest.layers[0].clone();
    manifest.layers = vec![layer; 129];
    let bytes = serde_json::to_vec(&manifest).unwrap();
    let entered = Document::parse("x", bytes, None).map(drop);
    let e = entered.and_then(|()| find_one(&layout, &manifest, false, None).map(drop)).unwrap_err();
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("has 129 layers"), "{e}");
    // The limits of names per layer: their number and their length.
    for (count, len) in [(4098, 5), (75, 3900)] {
        let name = |at: usize| {
            let mut parts = vec!["x".repeat(250); len / 250];
            parts.push(format!("{at:05}"));
            parts.join("/")
        };
        let tar = (0..count).fold(t(), |tar, at| {
            let path = format!("disk/{}", name(at));
            let record = format!(" path={path}\n");
            let digits = (record.len() + 4).to_string().len();
            tar.pax(format!("{}{record}", record.len() + digits).as_bytes()).with("a", b"")
        });
        let e = find(&[tar.end()], None).unwrap_err();
        assert!(
            e.kind() == ErrorKind::Refused && e.to_string().contains("too large for a containerDisk"),
            "{e}"
        );
    }
    // The limits of all layers together.
    for (layers, count, len) in [(5, 4000, 8), (5, 1000, 240)] {
        let layer = |layer: usize| {
            let name = |at: usize| format!("{}{layer}-{at}", "x".repeat(len));
            (0..count).fold(t(), |tar, at| tar.with(&name(at), b"")).end()
        };
        let layers: Vec<_> = (0..layers).map(|at| (IMAGE_LAYER_MEDIA_TYPE, layer(at))).collect();
        let (_folder, layout, manifest) = image(&layers);
        let e = find_one(&layout, &manifest, false, None).unwrap_err();
        assert!(
            e.kind() == ErrorKind::Refused && e.to_string().contains("too many names in its layers"),
            "{e}"
        );
    }
}

#[test]
fn a_disk_is_read_on_from_each_place_that_was_told_and_both_readings_are_judged() {
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i ^ (i >> 7)) as u8).collect();
    let tar = t().with("disk/a", &bytes).end();
    let units = |pack: fn(&[u8]) -> Vec<u8>| tar.chunks(1_200_000).flat_map(pack).collect::<Vec<u8>>();
    let options = Options { one_pass: true, reentry: true, ..Options::default() };
    for (media_type, layer) in [
        (IMAGE_LAYER_MEDIA_TYPE, tar.clone()),
        (IMAGE_LAYER_GZIP_MEDIA_TYPE, units(gzip)),
        (IMAGE_LAYER_ZSTD_MEDIA_TYPE, units(zstd)),
    ] {
        let (_folder, layout, manifest) = image(&[(media_type, layer)]);
        let place = InOrder(layout);
        let told: Arc<Mutex<Vec<Reentry>>> = Arc::default();
        let to = Arc::clone(&told);
        let mut located = disk(&place, &manifest, &options).unwrap();
        let mut stream = located.stream_noting(Arc::new(move |one| to.lock().unwrap().push(one))).unwrap();
        let mut whole = vec![];
        stream.read_to_end(&mut whole).unwrap();
        assert!(whole == bytes, "{media_type}");
        let told = told.lock().unwrap().clone();
        assert!(told.len() >= 3, "{media_type}: {told:?}");
        let rest = |reentry: &Reentry| {
            let mut rest = vec![];
            let mut located = disk(&place, &manifest, &options)?;
            let mut stream = located.enter(reentry, Arc::new(|_| ()))?;
            stream.read_to_end(&mut rest).map_err(|e| Error::io("reading", e))?;
            Ok::<_, Error>(rest)
        };
        for reentry in &told {
            let from = usize::try_from(reentry.disk).unwrap();
            assert!(rest(reentry).unwrap() == bytes[from..], "{media_type} from {from}");
            // The earlier run has hashed other bytes.
            let mut other = reentry.clone();
            let digit = if other.before.state.starts_with('0') { "1" } else { "0" };
            other.before.state.replace_range(..1, digit);
            if other.after.at == other.before.at {
                other.after = other.before.clone();
            }
            let e = rest(&other).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Changed, "{media_type}: {e}");
        }
    }
}
