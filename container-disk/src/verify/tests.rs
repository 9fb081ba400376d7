//! Good images pass all checks. Bad images fail exactly the check for their defect.

use super::*;
use crate::image::{self, Recipe};
use crate::layout::Layout;
use crate::layout::tests::{descriptor, store};
use crate::manifest::{
    Descriptor, IMAGE_LAYER_GZIP_MEDIA_TYPE, IMAGE_LAYER_MEDIA_TYPE, IMAGE_LAYER_ZSTD_MEDIA_TYPE,
};
use crate::pack::{Compression, LayerWriter};
use crate::place::{Blob, Sink as _};
use crate::tar::tests::Tarball;
use crate::{Digest, Error, pack};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// The checks of an image with one layer.
const ALL: [&str; 13] = [
    "manifest",
    "config",
    "platform",
    "a diff-id for each layer",
    "layer 1: blob",
    "layer 1: media type",
    "layer 1: tar",
    "layer 1: diff-id",
    "one disk in its place",
    "owner",
    "mode",
    "format",
    "no outside references",
];

/// An image that is being built.
struct Spec {
    /// Media type, blob, diff-id.
    layers: Vec<(&'static str, Vec<u8>, Digest)>,
    config: Value,
    config_type: &'static str,
}

fn t() -> Tarball {
    Tarball::default().with("disk/", b"")
}

fn gzip(tar: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    packed.write_all(tar).unwrap();
    packed.finish().unwrap()
}

fn zstd(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 1).unwrap()
}

impl Spec {
    /// These tars as layers.
    fn of(tars: &[Vec<u8>]) -> Spec {
        let layer = |tar: &Vec<u8>| (IMAGE_LAYER_GZIP_MEDIA_TYPE, gzip(tar), Digest::of(tar));
        let config = json!({"architecture": "amd64", "os": "linux"});
        Spec { layers: tars.iter().map(layer).collect(), config, config_type: IMAGE_CONFIG_MEDIA_TYPE }
    }

    fn good() -> Spec {
        Spec::of(&[t().with("disk/a", b"a disk").end()])
    }

    fn with(mut self, change: impl FnOnce(&mut Spec)) -> Spec {
        change(&mut self);
        self
    }

    fn image(&self, layout: &Layout) -> Document {
        let mut config = self.config.clone();
        if config.get("rootfs").is_none() {
            let told: Vec<String> = self.layers.iter().map(|layer| layer.2.to_string()).collect();
            config["rootfs"] = json!({"type": "layers", "diff_ids": told});
        }
        let config = store(layout, self.config_type, config.to_string().as_bytes());
        let layers =
            self.layers.iter().map(|(media_type, blob, _)| store(layout, media_type, blob)).collect();
        let manifest = Manifest { config, layers, ..Default::default() };
        put(layout, &manifest)
    }

    /// The checks of this image.
    fn checks(&self) -> Vec<Check> {
        self.spoiled(|_, _| {})
    }

    /// The checks after the image's files were changed.
    fn spoiled(&self, spoil: impl FnOnce(&Path, &Manifest)) -> Vec<Check> {
        let (folder, layout) = new();
        let document = self.image(&layout);
        let Content::Manifest(manifest) = &document.content else { panic!() };
        spoil(&folder.path().join("blobs/sha256"), manifest);
        verify(&layout, &tag(), &Options::default()).unwrap()
    }
}

fn new() -> (TempDir, Layout) {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).unwrap();
    (folder, layout)
}

fn tag() -> Reference {
    Reference::Tag("t".into())
}

fn put(layout: &Layout, value: &impl serde::Serialize) -> Document {
    let document = Document::parse("x", serde_json::to_vec(value).unwrap(), None).unwrap();
    layout.put(&document, Some("t")).unwrap();
    document
}

fn names(checks: &[Check]) -> Vec<&str> {
    checks.iter().map(|check| check.name.as_str()).collect()
}

#[track_caller]
fn all_pass(checks: &[Check]) {
    assert!(checks.iter().all(Check::passed), "{checks:#?}");
}

/// Asserts that only this check fails, for this reason.
#[track_caller]
fn fails(checks: &[Check], name: &str, why: &str) {
    let failed = checks.iter().filter_map(|check| match &check.outcome {
        Outcome::Failed(reason) => Some((check.name.as_str(), reason.as_str())),
        _ => None,
    });
    let failed: Vec<_> = failed.collect();
    let [(failed, reason)] = failed.as_slice() else { panic!("{name}: {failed:#?}") };
    assert_eq!(*failed, name, "{reason}");
    assert!(reason.contains(why), "{name}: {why}: {reason}");
}

fn build(layout: &Layout, compression: Compression, kind: image::ManifestFormat, disk: &[u8]) -> Document {
    let options = pack::Options { compression, ..pack::Options::default() };
    let mut layer = LayerWriter::disk(layout, &options, disk.len() as u64).unwrap();
    layer.write_all(disk).unwrap();
    let mut recipe = Recipe::new("amd64", vec![layer.finish().unwrap()]);
    recipe.kind = kind;
    image::write(layout, &recipe, &["t"]).unwrap()
}

/// A folder with `disk.qcow2` and the files that it may refer to.
fn qemu(args: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let noise: Vec<u8> = (0..640u32 << 10).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    fs::write(folder.path().join("disk.raw"), noise).unwrap();
    let out = Command::new("qemu-img").args(args).current_dir(folder.path()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let path = folder.path().join("disk.qcow2");
    (folder, path)
}

fn disk(bytes: &[u8]) -> Vec<Check> {
    Spec::of(&[t().with("disk/a", bytes).end()]).checks()
}

#[test]
fn what_we_build_passes_all_checks() {
    let (_folder, qcow2) = qemu(&["convert", "-O", "qcow2", "-c", "disk.raw", "disk.qcow2"]);
    for disk in [vec![7; 100_000], fs::read(qcow2).unwrap()] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            for kind in [image::ManifestFormat::Oci, image::ManifestFormat::Docker] {
                if (compression, kind) == (Compression::Zstd, image::ManifestFormat::Docker) {
                    continue;
                }
                let (_folder, layout) = new();
                let document = build(&layout, compression, kind, &disk);
                for reference in [tag(), Reference::Digest(document.digest)] {
                    let checks = verify(&layout, &reference, &Options::default()).unwrap();
                    assert_eq!(names(&checks), ALL);
                    all_pass(&checks);
                }
            }
        }
    }
}

#[test]
fn what_others_build_well_passes_too() {
    for spec in [
        Spec::good(),
        Spec::of(&[t().with("disk/a", b"1").end(), Tarball::default().with("disk/a", b"2").end()]),
        Spec::of(&[t().with("disk/a", b"1").end(), t().with("disk/.wh.a", b"").with("disk/b", b"2").end()]),
        Spec::of(&[Tarball::default().with("disk/a", b"1").with("etc/passwd", b"p").end()]),
        // QEMU's user may read the disk as its owner, as a member of its group, or like any user.
        Spec::of(&[t().owned("disk/a", 107, 0o400, b"1").end()]),
        Spec::of(&[Tarball::default().owned("disk/", 0, 0o711, b"").with("disk/a", b"1").end()]),
        // A disk whose tables follow its data.
        Spec::of(&[t().with("disk/a", &tables_last(1 << 20)).end()]),
    ] {
        all_pass(&spec.checks());
    }
}

#[test]
fn a_bad_image_fails_the_check_that_is_about_it() {
    let good = Spec::good;
    let tar = |tar: Tarball| Spec::of(&[tar.end()]);
    let sparse = t().raw(b'S', b"disk/a", b"", 0, b"");
    let cut = t().with("disk/a", &[1; 2000]).end()[..2000].to_vec();
    let root = Tarball::default().with("disk.img", b"1");
    let no_way = Tarball::default().owned("disk/", 107, 0o400, b"").with("disk/a", b"1");
    let deleted = Spec::of(&[t().with("disk/a", b"1").end(), t().with("disk/.wh.a", b"").end()]);
    let labels = |labels: Value| good().with(|s| s.config["config"] = json!({"Labels": labels}));
    for (name, why, spec) in [
        ("config", "has the type application/x", good().with(|s| s.config_type = "application/x")),
        ("config", "not the config", good().with(|s| s.config["os"] = json!(7))),
        ("platform", "\"windows\"", good().with(|s| s.config["os"] = json!("windows"))),
        ("platform", "no architecture", good().with(|s| s.config["architecture"] = json!(""))),
        (
            "a diff-id for each layer",
            "1 layers, but the config has 2",
            good().with(|s| {
                let digest = s.layers[0].2.to_string();
                s.config["rootfs"] = json!({"type": "layers", "diff_ids": [digest, digest]});
            }),
        ),
        (
            "layer 1: media type",
            "its bytes are gzip",
            good().with(|s| s.layers[0].0 = IMAGE_LAYER_MEDIA_TYPE),
        ),
        (
            "layer 1: media type",
            "bytes are gzip",
            good().with(|s| s.layers[0].0 = IMAGE_LAYER_ZSTD_MEDIA_TYPE),
        ),
        ("layer 1: media type", "not a layer", good().with(|s| s.layers[0].0 = "application/x")),
        ("layer 1: media type", "not a tar", good().with(|s| s.layers[0].1 = b"QFI\xfb".to_vec())),
        ("layer 1: media type", "xz", good().with(|s| s.layers[0].1 = b"\xfd7zXZ\0".to_vec())),
        ("layer 1: tar", "cut short", good().with(|s| s.layers[0].1.truncate(60))),
        ("layer 1: tar", "ends too early", Spec::of(&[cut])),
        ("layer 1: tar", "leads out", tar(t().with("disk/a", b"1").with("../b", b"2"))),
        ("layer 1: tar", "absolute name", tar(t().with("/disk/a", b"1"))),
        ("layer 1: tar", "sparse", tar(sparse)),
        ("layer 1: tar", "twice", tar(t().with("disk/a", b"1").with("disk/a", b"2"))),
        (
            "layer 1: tar",
            "after the archive's end",
            tar(t().with("disk/a", b"1").bytes(&[0; 1024]).with("b", b"2")),
        ),
        (
            "layer 1: diff-id",
            "the config has",
            good().with(|s| {
                let tar = t().with("disk/a", b"1").end();
                s.layers[0] = (IMAGE_LAYER_MEDIA_TYPE, tar, Digest::of(b"other"));
            }),
        ),
        ("layer 1: diff-id", "the config has", good().with(|s| s.layers[0].2 = Digest::of(b"other"))),
        ("one disk in its place", "no file in /disk", tar(t())),
        ("one disk in its place", "2 files in /disk", tar(t().with("disk/a", b"1").with("disk/b", b"2"))),
        ("one disk in its place", "layer 2 deletes", deleted),
        ("one disk in its place", "lies at the root", tar(root)),
        ("one disk in its place", "is empty", tar(t().with("disk/a", b""))),
        ("one disk in its place", "a link to", tar(t().raw(b'2', b"disk/a", b"/b", 0, b""))),
        ("one disk in its place", "block device", tar(t().raw(b'4', b"disk/a", b"", 0, b""))),
        ("owner", "0:0", tar(t().owned("disk/a", 0, 0o444, b"1"))),
        ("mode", "mode 0040 does not let", tar(t().owned("disk/a", 107, 0o040, b"1"))),
        ("mode", "0400 of the folder \"disk\"", tar(no_way)),
        ("format", "vmdk", tar(t().with("disk/a", &[b"KDMV".as_slice(), &[1; 2000]].concat()))),
        (
            "format",
            "version",
            tar(t().with("disk/a", &[b"QFI\xfb\0\0\0\x09".as_slice(), &[1; 200]].concat())),
        ),
        ("kernel", "\"/boot/k\" is not a file", labels(json!({"io.coracle.kernel": "/boot/k"}))),
        ("kernel", "is not a file", labels(json!({"io.coracle.kernel": "/disk"}))),
        ("kernel", "is not a file", labels(json!({"io.coracle.kernel": "../disk/a"}))),
        (
            "initrd",
            "\"/boot/i\" is not a file",
            labels(json!({"io.coracle.kernel": "/disk/a", "io.coracle.initrd": "/boot/i"})),
        ),
    ] {
        fails(&spec.checks(), name, why);
    }
}

#[test]
fn files_that_were_changed_fail_the_check_of_that_file() {
    type Spoil = fn(&Path);
    let blob = |d: &Descriptor| d.digest.strip_prefix("sha256:").unwrap().to_owned();
    let spoils: [(Spoil, &str); 3] = [
        (|path| fs::remove_file(path).unwrap(), "has no blob"),
        (|path| fs::write(path, [fs::read(path).unwrap(), vec![0]].concat()).unwrap(), "bytes, not the"),
        (
            |path| {
                let mut bytes = fs::read(path).unwrap();
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
                fs::write(path, bytes).unwrap();
            },
            "has the digest",
        ),
    ];
    let two = Spec::of(&[t().with("etc/x", b"1").end(), t().with("disk/a", b"1").end()]);
    for (spoil, why) in spoils {
        fails(&two.spoiled(|dir, m| spoil(&dir.join(blob(&m.config)))), "config", why);
        for (at, name) in ["layer 1: blob", "layer 2: blob"].into_iter().enumerate() {
            let checks = two.spoiled(|dir, m| spoil(&dir.join(blob(&m.layers[at]))));
            fails(&checks, name, why);
            let disk = checks.iter().find(|check| check.name == "one disk in its place").unwrap();
            assert!(matches!(disk.outcome, Outcome::NotChecked(_)), "{disk:?}");
        }
    }
    let (folder, layout) = new();
    let document = Spec::good().image(&layout);
    fs::write(
        folder.path().join("blobs/sha256").join(document.digest.hex()),
        vec![b' '; document.bytes.len()],
    )
    .unwrap();
    fails(&verify(&layout, &tag(), &Options::default()).unwrap(), "manifest", "were changed");
}

#[test]
fn a_layer_that_unpacks_to_more_than_is_allowed_fails() {
    let tar = t().with("disk/a", &vec![0; 1 << 20]).end();
    for (media_type, packed) in
        [(IMAGE_LAYER_GZIP_MEDIA_TYPE, gzip(&tar)), (IMAGE_LAYER_ZSTD_MEDIA_TYPE, zstd(&tar))]
    {
        let (_folder, layout) = new();
        let spec = Spec::good().with(|s| s.layers[0] = (media_type, packed, Digest::of(&tar)));
        spec.image(&layout);
        let options = Options { limit: tar.len() as u64, ..Options::default() };
        all_pass(&verify(&layout, &tag(), &options).unwrap());
        let options = Options { limit: tar.len() as u64 - 1, ..Options::default() };
        fails(&verify(&layout, &tag(), &options).unwrap(), "layer 1: tar", "decompresses to more than");
    }
}

#[test]
fn a_disk_that_needs_another_file_fails_that_check_alone() {
    for args in [
        &["create", "-f", "qcow2", "-b", "disk.raw", "-F", "raw", "disk.qcow2"][..],
        &["create", "-f", "qcow2", "-o", "data_file=data", "disk.qcow2", "1M"],
    ] {
        let (_folder, path) = qemu(args);
        fails(&disk(&fs::read(path).unwrap()), "no outside references", "");
    }
}

/// A qcow2 file of noise whose only L2 table follows the clusters.
fn tables_last(size: u64) -> Vec<u8> {
    const CLUSTER: usize = 64 << 10;
    let (_folder, path) =
        qemu(&["create", "-f", "qcow2", "-o", "preallocation=full", "disk.qcow2", &size.to_string()]);
    let mut file = fs::read(path).unwrap();
    let field = |file: &[u8], at: usize| u64::from_be_bytes(file[at..at + 8].try_into().unwrap());
    let l1 = field(&file, 40) as usize;
    let l2 = (field(&file, l1) & 0x00ff_ffff_ffff_fe00) as usize;
    let table = file[l2..l2 + CLUSTER].to_vec();
    file.resize(file.len().next_multiple_of(CLUSTER), 0);
    let moved = file.len() as u64 | 1 << 63;
    file[l1..l1 + 8].copy_from_slice(&moved.to_be_bytes());
    file.extend(table);
    file
}

#[test]
fn a_disk_whose_tables_come_too_late_is_said_to_be_not_checked() {
    let checks = disk(&tables_last(40 << 20));
    let open: Vec<&Check> = checks.iter().filter(|check| !check.passed()).collect();
    let [Check { name, outcome: Outcome::NotChecked(why) }] = open.as_slice() else { panic!("{open:?}") };
    assert!(name == "format" && why.contains("convert the disk"), "{why}");
}

#[test]
fn a_kernel_boot_image_needs_no_disk() {
    let (_folder, layout) = new();
    let mut layer = LayerWriter::boot(&layout, &pack::Options::default()).unwrap();
    let kernel = layer.boot_file("vmlinuz", 6).unwrap();
    layer.write_all(b"kernel").unwrap();
    let mut recipe = Recipe::new("amd64", vec![layer.finish().unwrap()]);
    recipe.labels.insert(image::KERNEL.into(), kernel);
    image::write(&layout, &recipe, &["t"]).unwrap();
    let checks = verify(&layout, &tag(), &Options::default()).unwrap();
    assert_eq!(names(&checks), [&ALL[..8], &["kernel"]].concat());
    all_pass(&checks);
}

#[test]
fn a_path_is_where_the_disk_is() {
    let (_folder, layout) = new();
    Spec::of(&[t().with("disk/a", b"1").with("disk/b", b"2").end()]).image(&layout);
    let at = |path: &str| Options { path: Some(path.to_owned()), ..Options::default() };
    all_pass(&verify(&layout, &tag(), &at("/disk/b")).unwrap());
    fails(&verify(&layout, &tag(), &at("/disk/c")).unwrap(), "one disk in its place", "no file");
    assert_eq!(verify(&layout, &tag(), &at("../c")).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn every_image_of_an_index_is_verified_or_the_one_that_is_asked_for() {
    let (_folder, layout) = new();
    let good = Spec::good().image(&layout);
    let other = Spec::good().with(|s| s.config["architecture"] = json!("arm64")).image(&layout);
    let index = image::index(&good, "amd64", None).unwrap();
    let index = image::join(&index, &other, "arm64", Some("v8")).unwrap();
    let index = image::join(&index, &good, "s390x", None).unwrap();
    image::put(&layout, &index, &["t"]).unwrap();
    let checks = verify(&layout, &tag(), &Options::default()).unwrap();
    assert_eq!(checks.len(), 1 + 3 * ALL.len());
    fails(&checks, "s390x: platform", "the config has amd64, but the index s390x");
    for (architecture, prefix) in [("amd64", "amd64: "), ("arm64/v8", "arm64/v8: ")] {
        let options = Options { architecture: Some(architecture.into()), ..Options::default() };
        let checks = verify(&layout, &tag(), &options).unwrap();
        let prefixed = ALL.map(|name| format!("{prefix}{name}"));
        assert_eq!(names(&checks)[1..], prefixed);
        all_pass(&checks);
    }
    let options = Options { architecture: Some("riscv64".into()), ..Options::default() };
    assert_eq!(verify(&layout, &tag(), &options).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        verify(&layout, &Reference::Tag("u".into()), &Options::default()).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn an_index_that_lies_or_never_ends_fails() {
    let entry = |document: &Document, os: &str| {
        json!({"mediaType": document.media_type, "digest": document.digest.to_string(),
            "size": document.bytes.len(), "platform": {"architecture": "amd64", "os": os}})
    };
    let index = |entries: Vec<Value>| {
        json!({"schemaVersion": 2, "manifests": entries,
        "mediaType": manifest::OCI_IMAGE_INDEX_MEDIA_TYPE})
    };
    let (_folder, layout) = new();
    let good = Spec::good().image(&layout);
    let mut lies = entry(&good, "linux");
    lies["mediaType"] = json!(manifest::IMAGE_MANIFEST_MEDIA_TYPE);
    put(&layout, &index(vec![lies]));
    fails(&verify(&layout, &tag(), &Options::default()).unwrap(), "amd64: manifest", "its index lists");

    let mut deep = good.clone();
    for _ in 0..DEPTH {
        deep = put(&layout, &index(vec![entry(&deep, "linux")]));
    }
    all_pass(&verify(&layout, &tag(), &Options::default()).unwrap());
    put(&layout, &index(vec![entry(&deep, "linux")]));
    let checks = verify(&layout, &tag(), &Options::default()).unwrap();
    fails(&checks, &format!("{}indexes in indexes", "amd64: ".repeat(DEPTH)), "more than 4 deep");

    put(&layout, &index(vec![entry(&good, "unknown")]));
    let checks = verify(&layout, &tag(), &Options::default()).unwrap();
    assert!(matches!(&checks[1].outcome, Outcome::NotChecked(why) if why.contains("no platform")));
    put(&layout, &index(vec![entry(&good, "unknown"); DOCUMENTS + 1]));
    fails(&verify(&layout, &tag(), &Options::default()).unwrap(), "amd64: manifest", "more than 256");
}

/// A place whose layers cannot be read at the moment.
struct Down(Layout);

impl Place for Down {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn document(&self, reference: &Reference) -> Result<Document> {
        self.0.document(reference)
    }
    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
        match descriptor.media_type.contains("config") {
            true => self.0.blob(descriptor),
            false => Err(Error::failed("every mirror is down")),
        }
    }
}

#[test]
fn what_cannot_be_read_just_now_is_no_fault_of_the_image() {
    let (_folder, layout) = new();
    Spec::good().image(&layout);
    let e = verify(&Down(layout), &tag(), &Options::default()).unwrap_err();
    assert_eq!((e.kind(), e.to_string().as_str()), (ErrorKind::Failed, "every mirror is down"));
}

#[test]
fn layers_that_are_kept_elsewhere_fail_the_manifest() {
    let (folder, layout) = new();
    let foreign = Descriptor { urls: Some(vec!["http://elsewhere".into()]), ..descriptor("x", b"layer") };
    let config = store(&layout, IMAGE_CONFIG_MEDIA_TYPE, b"{}");
    let manifest = Manifest { config, layers: vec![foreign], ..Default::default() };
    let bytes = serde_json::to_vec(&manifest).unwrap();
    let stored = store(&layout, "x", &bytes);
    let index = json!({"schemaVersion": 2, "manifests": [
        {"digest": stored.digest, "size": stored.size, "annotations": {"org.opencontainers.image.ref.name": "t"}}]});
    fs::write(folder.path().join("index.json"), index.to_string()).unwrap();
    fails(&verify(&layout, &tag(), &Options::default()).unwrap(), "manifest", "are not supported");
}

#[test]
fn an_image_with_too_many_layers_is_refused_before_one_is_read() {
    let (_folder, layout) = new();
    let tar = t().with("disk/a", b"a disk").end();
    for (count, is_refused) in [(128, false), (129, true)] {
        let spec = Spec::of(&vec![tar.clone(); count]);
        let told: Vec<String> = spec.layers.iter().map(|layer| layer.2.to_string()).collect();
        let config = json!({
            "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": told},
        });
        let config = store(&layout, IMAGE_CONFIG_MEDIA_TYPE, config.to_string().as_bytes());
        let layer = store(&layout, spec.layers[0].0, &spec.layers[0].1);
        let manifest = Manifest { config, layers: vec![layer; count], ..Default::default() };
        let manifest = store(&layout, "x", &serde_json::to_vec(&manifest).unwrap());
        let reference = Reference::Digest(manifest.digest.parse().unwrap());
        let checks = verify(&layout, &reference, &Options::default()).unwrap();
        match checks.as_slice() {
            [Check { outcome: Outcome::Failed(why), .. }] => {
                assert!(is_refused && why.contains("has 129 layers"), "{why}");
            }
            checks => assert!(!is_refused && checks.len() > count, "{count} layers: {}", checks.len()),
        }
    }
}
