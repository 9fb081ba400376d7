//! Other programs for images: they inspect, copy and unpack our images, and we read theirs. A missing tool is
//! a failure with its name; `make setup` installs it.

#![allow(clippy::unwrap_used)]

use container_disk::archive::{DockerArchive, DockerArchiveSink, OciArchive, OciArchiveSink};
use container_disk::image::{self, Recipe};
use container_disk::layout::Layout;
use container_disk::locate::{self, Located};
use container_disk::manifest::{Content, Document, Manifest};
use container_disk::pack::{Compression, LayerWriter, Options};
use container_disk::place::{Place, Reference, Sink};
use container_disk::verify;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const ALL: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zstd];

/// A folder for the output of the tools, and their state next to it.
struct Room {
    folder: TempDir,
}

impl Room {
    fn new() -> Room {
        let room = Room { folder: tempfile::tempdir().unwrap() };
        // Everything that is pulled here is our own: nothing is signed, and no state of the host is used.
        fs::write(room.at("policy.json"), r#"{"default":[{"type":"insecureAcceptAnything"}]}"#).unwrap();
        fs::write(
            room.at("storage.conf"),
            format!(
                "[storage]\ndriver = \"vfs\"\ngraphroot = {:?}\nrunroot = {:?}\n",
                room.at("graph"),
                room.at("run")
            ),
        )
        .unwrap();
        room
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn layout(&self, name: &str) -> Layout {
        Layout::create(&self.at(name)).unwrap()
    }

    /// Runs a tool in the folder. It must succeed; its output is returned.
    fn run(&self, program: &str, args: &[&str]) -> String {
        let out = Command::new(program)
            .args(args)
            .current_dir(self.folder.path())
            .env("CONTAINERS_STORAGE_CONF", self.at("storage.conf"))
            .env("HOME", self.at("home"))
            .env("TMPDIR", self.folder.path())
            .output()
            .unwrap_or_else(|e| panic!("{program} cannot be run ({e}); `make setup` installs it"));
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let complained = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{program} {args:?}: {}\n{said}{complained}", out.status);
        said
    }

    /// A command of buildah or podman that needs a signature policy. Its output is one word.
    fn containers(&self, program: &str, verb: &[&str], args: &[&str]) -> String {
        let policy = self.at("policy.json");
        let policy = ["--signature-policy", policy.to_str().unwrap()];
        self.run(program, &[verb, &policy, args].concat()).trim().to_owned()
    }

    /// Asserts that the disk in the folder that a command mounts and prints is the built one.
    fn check_mounted(&self, program: &str, mount: &str) {
        let look = format!(
            r#"root=$({mount}) && ls -A "$root" "$root/disk" && stat -c '%n %u:%g %a %Y' "$root"/disk/* && cp "$root"/disk/disk.img seen"#
        );
        // A user who is not root mounts in a namespace of the program.
        let said = match is_root() {
            true => self.run("sh", &["-c", &look]),
            false => self.run(program, &["unshare", "sh", "-c", &look]),
        };
        assert!(said.contains("/disk/disk.img 107:107 444 1700000000"), "{said}");
        assert_eq!(said.lines().filter(|line| ["disk", "disk.img"].contains(line)).count(), 2, "{said}");
        assert!(fs::read(self.at("seen")).unwrap() == disk());
        fs::remove_file(self.at("seen")).unwrap();
    }

    fn skopeo(&self, args: &[&str]) -> String {
        let policy = self.at("policy.json");
        let policy = policy.to_str().unwrap();
        self.run("skopeo", &[&["--policy", policy], args].concat())
    }
}

/// Zeros, text and noise: 3.5 MB, so several pieces.
fn disk() -> Vec<u8> {
    let mut disk = vec![0; 1 << 20];
    disk.extend((0..1_500_000u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8));
    disk.extend(b"a disk ".iter().cycle().take(1_000_000));
    disk
}

fn build(sink: &dyn Sink, compression: Compression, kind: image::ManifestFormat, tags: &[&str]) -> Document {
    let options = Options { compression, created: 1_700_000_000, ..Options::default() };
    let disk = disk();
    let mut layer = LayerWriter::disk(sink, &options, disk.len() as u64).unwrap();
    layer.write_all(&disk).unwrap();
    let mut recipe = Recipe::new("amd64", vec![layer.finish().unwrap()]);
    recipe.kind = kind;
    recipe.created = Some(1_700_000_000);
    recipe.labels.insert("shasum".into(), "abc".into());
    image::write(sink, &recipe, tags).unwrap()
}

fn manifest(document: &Document) -> &Manifest {
    match &document.content {
        Content::Manifest(manifest) => manifest,
        Content::Index(_) => panic!("an index, not a manifest"),
    }
}

fn located(place: &dyn Place, tag: &str) -> Located {
    located_at(place, &Reference::Tag(tag.into()))
}

fn located_at(place: &dyn Place, reference: &Reference) -> Located {
    let document = image::choose::manifest(place, reference, "amd64").unwrap();
    locate::disk(place, manifest(&document), &locate::Options::default()).unwrap()
}

fn all_passed(place: &dyn Place, tag: &str) {
    all_passed_at(place, &Reference::Tag(tag.into()));
}

fn all_passed_at(place: &dyn Place, reference: &Reference) {
    let checks = verify::verify(place, reference, &verify::Options::default()).unwrap();
    assert!(checks.iter().all(verify::Check::passed), "{checks:#?}");
}

fn bytes(mut located: Located) -> Vec<u8> {
    let mut bytes = vec![];
    located.stream().unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn skopeo_inspects_what_we_build() {
    let room = Room::new();
    let layout = room.layout("image");
    for compression in ALL {
        let tag = compression.name();
        let document = build(&layout, compression, image::ManifestFormat::Oci, &[tag]);
        let shown: serde_json::Value =
            serde_json::from_str(&room.skopeo(&["inspect", &format!("oci:image:{tag}")])).unwrap();
        assert_eq!(shown["Digest"], document.digest.to_string());
        assert_eq!(shown["Architecture"], "amd64");
        assert_eq!(shown["Os"], "linux");
        assert_eq!(shown["Created"], "2023-11-14T22:13:20Z");
        assert_eq!(shown["Labels"]["shasum"], "abc");
    }
}

#[test]
fn skopeo_copies_what_we_build_and_checks_every_digest() {
    let room = Room::new();
    let layout = room.layout("image");
    for compression in ALL {
        let tag = compression.name();
        let document = build(&layout, compression, image::ManifestFormat::Oci, &[tag]);
        let (from, to) = (format!("oci:image:{tag}"), format!("oci:copy:{tag}"));
        // Otherwise it compresses uncompressed layers.
        room.skopeo(&["copy", "-q", "--preserve-digests", &from, &to]);
        let copy = Layout::open(&room.at("copy")).unwrap();
        assert_eq!(copy.document(&Reference::Tag(tag.into())).unwrap().digest, document.digest);
        all_passed(&copy, tag);
        if compression == Compression::Zstd {
            // It does not write zstd into a docker-archive.
            continue;
        }
        // Into a docker-archive it writes the layer decompressed, and compares the diff-id.
        let (from, to) = (format!("oci:image:{tag}"), format!("docker-archive:{tag}.tar:os:1"));
        room.skopeo(&["copy", "-q", &from, &to]);
    }
}

#[test]
fn an_index_of_ours_is_copied_whole() {
    let room = Room::new();
    let layout = room.layout("image");
    let one = build(&layout, Compression::Zstd, image::ManifestFormat::Oci, &[]);
    let index = image::join(&image::index(&one, "amd64", None).unwrap(), &one, "arm64", Some("v8")).unwrap();
    image::put(&layout, &index, &["many"]).unwrap();
    room.skopeo(&["copy", "-q", "--all", "oci:image:many", "oci:copy:many"]);
    let copy = Layout::open(&room.at("copy")).unwrap();
    assert_eq!(copy.document(&Reference::Tag("many".into())).unwrap().digest, index.digest);
    assert!(bytes(located(&copy, "many")) == disk());
}

#[test]
fn umoci_unpacks_what_we_build() {
    let room = Room::new();
    let layout = room.layout("image");
    // It does not support zstd.
    for compression in [Compression::None, Compression::Gzip] {
        let tag = compression.name();
        build(&layout, compression, image::ManifestFormat::Oci, &[tag]);
        let (image, into) = (format!("image:{tag}"), format!("unpacked-{tag}"));
        let mut args = vec!["unpack", "--image", &image];
        if !is_root() {
            args.push("--rootless");
        }
        args.push(&into);
        room.run("umoci", &args);
        let root = room.at(&into).join("rootfs");
        check_unpacked(&root);
    }
}

fn check_unpacked(root: &Path) {
    let file = root.join("disk/disk.img");
    assert_eq!(names(&root.join("disk")), ["disk.img"]);
    assert!(fs::read(&file).unwrap() == disk());
    let facts = fs::metadata(&file).unwrap();
    assert_eq!((facts.mode() & 0o7777, facts.mtime()), (0o444, 1_700_000_000));
    if is_root() {
        assert_eq!((facts.uid(), facts.gid()), (107, 107));
        assert_eq!(fs::metadata(root.join("disk")).unwrap().mode() & 0o7777, 0o555);
    }
}

#[test]
fn buildah_takes_and_mounts_what_we_build() {
    let room = Room::new();
    let layout = room.layout("image");
    for compression in ALL {
        let tag = compression.name();
        build(&layout, compression, image::ManifestFormat::Oci, &[tag]);
        let container = room.containers("buildah", &["from"], &[&format!("oci:image:{tag}")]);
        room.check_mounted("buildah", &format!("buildah mount {container}"));
        room.run("buildah", &["rm", &container]);
    }
}

#[test]
fn podman_pulls_and_mounts_what_we_build() {
    let room = Room::new();
    let layout = room.layout("image");
    for compression in ALL {
        let tag = compression.name();
        build(&layout, compression, image::ManifestFormat::Oci, &[tag]);
        let sink = OciArchiveSink::create(&room.at(&format!("{tag}.tar"))).unwrap();
        build(&sink, compression, image::ManifestFormat::Oci, &["one"]);
        sink.close().unwrap();
        for name in [format!("oci:image:{tag}"), format!("oci-archive:{tag}.tar")] {
            let id = room.containers("podman", &["pull", "-q"], &[&name]);
            room.check_mounted("podman", &format!("podman image mount {id}"));
            room.run("podman", &["rmi", "-f", &id]);
        }
    }
}

/// A layout has no Docker manifest, so podman gets it as a folder of blobs.
#[test]
fn podman_takes_docker_s_form_too() {
    let room = Room::new();
    let layout = room.layout("image");
    for compression in [Compression::None, Compression::Gzip] {
        let document = build(&layout, compression, image::ManifestFormat::Docker, &["docker"]);
        let folder = room.at(&format!("folder-{}", compression.name()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("version"), "Directory Transport Version: 1.1\n").unwrap();
        fs::write(folder.join("manifest.json"), &document.bytes).unwrap();
        let manifest = manifest(&document);
        for descriptor in std::iter::once(&manifest.config).chain(&manifest.layers) {
            let hex = descriptor.digest.strip_prefix("sha256:").unwrap();
            fs::copy(room.at("image/blobs/sha256").join(hex), folder.join(hex)).unwrap();
        }
        let name = format!("dir:{}", folder.file_name().unwrap().display());
        let id = room.containers("podman", &["pull", "-q"], &[&name]);
        let format = "{{.Architecture}} {{.Labels.shasum}}";
        let shown = room.run("podman", &["image", "inspect", &id, "--format", format]);
        assert_eq!(shown.trim(), "amd64 abc");
    }
}

/// The common way to build containerDisks: a Containerfile that copies the disk.
#[test]
fn an_image_that_buildah_built_from_a_containerfile_is_read() {
    let room = Room::new();
    fs::write(room.at("os.qcow2"), disk()).unwrap();
    fs::write(room.at("Containerfile"), "FROM scratch\nADD --chown=107:107 os.qcow2 /disk/\n").unwrap();
    let bud = ["bud", "--isolation", "chroot", "-t", "os", "-f", "Containerfile"];
    room.containers("buildah", &bud, &["."]);
    let built = format!("oci:{}", room.at("built").display());
    for tag in ["gzip", "zstd"] {
        let push = ["push", "--compression-format", tag];
        room.containers("buildah", &push, &["os", &format!("{built}:{tag}")]);
        let layout = Layout::open(&room.at("built")).unwrap();
        let found = located(&layout, tag);
        assert_eq!((found.path.as_str(), found.uid, found.gid), ("disk/os.qcow2", 107, 107));
        assert_eq!(found.compression.name(), tag);
        assert!(bytes(found) == disk());
        all_passed(&layout, tag);
    }
    // Only here it does not compress.
    room.containers("buildah", &["push"], &["os", "docker-archive:docker.tar:os:1"]);
    let archive = DockerArchive::open(&room.at("docker.tar")).unwrap();
    assert!(bytes(located(&archive, "os:1")) == disk());
    all_passed(&archive, "os:1");
}

#[test]
fn a_layer_over_another_made_by_umoci_is_merged() {
    let room = Room::new();
    let layout = room.layout("image");
    build(&layout, Compression::Gzip, image::ManifestFormat::Oci, &["one"]);
    drop(layout);
    let mut args = vec!["unpack", "--image", "image:one"];
    if !is_root() {
        args.push("--rootless");
    }
    room.run("umoci", &[args.as_slice(), &["bundle"]].concat());
    let disk = room.at("bundle/rootfs/disk");
    // The folder is only writable for root.
    let writable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&disk, writable).unwrap();
    fs::remove_file(disk.join("disk.img")).unwrap();
    fs::write(disk.join("new.img"), b"another disk").unwrap();
    room.run("umoci", &["repack", "--image", "image:two", "bundle"]);
    let layout = Layout::open(&room.at("image")).unwrap();
    let found = located(&layout, "two");
    assert_eq!((found.path.as_str(), found.layer), ("disk/new.img", 1));
    assert_eq!(bytes(found), b"another disk");
}

#[test]
fn nothing_of_ours_is_left_in_a_layout_beside_the_image() {
    let room = Room::new();
    build(&room.layout("image"), Compression::Zstd, image::ManifestFormat::Oci, &["one"]);
    assert_eq!(names(&room.at("image")), ["blobs", "index.json", "oci-layout"]);
}

#[test]
fn skopeo_reads_the_archives_we_write() {
    let room = Room::new();
    for compression in ALL {
        let sink = OciArchiveSink::create(&room.at("oci.tar")).unwrap();
        let document = build(&sink, compression, image::ManifestFormat::Oci, &["one"]);
        sink.close().unwrap();
        let shown: serde_json::Value =
            serde_json::from_str(&room.skopeo(&["inspect", "oci-archive:oci.tar:one"])).unwrap();
        assert_eq!(shown["Digest"], document.digest.to_string());

        let sink = DockerArchiveSink::create(&room.at("docker.tar")).unwrap();
        build(&sink, compression, image::ManifestFormat::Oci, &["os:1"]);
        sink.close().unwrap();
        // It unpacks and verifies the layers on the way.
        let to = format!("oci:from-docker:{}", compression.name());
        room.skopeo(&["copy", "-q", "docker-archive:docker.tar:os:1", &to]);
        let layout = Layout::open(&room.at("from-docker")).unwrap();
        assert!(bytes(located(&layout, compression.name())) == disk());
    }
}

#[test]
fn podman_loads_the_archives_we_write_and_saves_them_so_that_we_read_them() {
    let room = Room::new();
    let sink = DockerArchiveSink::create(&room.at("docker.tar")).unwrap();
    build(&sink, Compression::Zstd, image::ManifestFormat::Oci, &["os:1"]);
    sink.close().unwrap();
    let said = room.containers("podman", &["load"], &["-i", "docker.tar"]);
    assert!(said.contains("os:1"), "{said}");
    room.check_mounted("podman", "podman image mount os:1");

    room.run("podman", &["save", "-q", "--format", "docker-archive", "-o", "saved.tar", "os:1"]);
    let archive = DockerArchive::open(&room.at("saved.tar")).unwrap();
    let reference = archive.reference(None).unwrap();
    assert!(bytes(located_at(&archive, &reference)) == disk());
    all_passed_at(&archive, &reference);

    room.run("podman", &["save", "-q", "--format", "oci-archive", "-o", "saved-oci.tar", "os:1"]);
    let archive = OciArchive::open(&room.at("saved-oci.tar")).unwrap();
    let reference = archive.reference(None).unwrap();
    assert!(bytes(located_at(&archive, &reference)) == disk());
    all_passed_at(&archive, &reference);
}

#[test]
fn archives_that_skopeo_writes_are_read() {
    let room = Room::new();
    let layout = room.layout("image");
    build(&layout, Compression::Gzip, image::ManifestFormat::Oci, &["one"]);
    room.skopeo(&["copy", "-q", "oci:image:one", "docker-archive:docker.tar:os:1"]);
    room.skopeo(&["copy", "-q", "oci:image:one", "oci-archive:oci.tar:one"]);
    let archive = DockerArchive::open(&room.at("docker.tar")).unwrap();
    assert!(bytes(located(&archive, "1")) == disk());
    let archive = OciArchive::open(&room.at("oci.tar")).unwrap();
    assert!(bytes(located(&archive, "one")) == disk());
}
