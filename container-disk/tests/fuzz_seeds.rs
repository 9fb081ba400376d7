//! The inputs in `container-disk/fuzz/seeds`: seeds of the fuzz targets, and every input that once caused a
//! failure.

// The lint does not recognise helpers of tests as tests.
#![allow(clippy::unwrap_used)]

#[path = "../fuzz/src/documents.rs"]
mod documents;
#[path = "../fuzz/src/image.rs"]
mod image;
#[path = "../fuzz/src/tar.rs"]
mod tar;

use container_disk::image::{Recipe, manifest};
use std::fs;
use std::path::{Path, PathBuf};
use tests::disk::shell;
use tests::seeds::all_hold;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target)
}

#[test]
fn images_hold() {
    all_hold(&folder("image"), 8, image::image);
}

#[test]
fn documents_hold() {
    all_hold(&folder("documents"), 4, documents::documents);
}

#[test]
fn archives_hold() {
    all_hold(&folder("tar"), 12, tar::tar);
}

/// Makes the seeds again: `cargo test -p container-disk --test fuzz_seeds -- --ignored`.
#[test]
#[ignore = "writes into the source tree; the seeds are committed"]
fn make_seeds() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    shell(at, "mkdir disk; head -c 700 /dev/zero | tr '\\0' x >disk/disk.img; cp disk/disk.img disk.img");
    shell(at, "touch disk/.wh.other .wh.disk; truncate -s 1M sparse; ln -s disk.img disk/link");
    let tar = "tar --owner=107 --group=107 --mtime=@0 -cf -";
    for (name, options, cut, line) in [
        ("plain", 0, 0, format!("{tar} disk/disk.img")),
        ("root", 0, 0, format!("{tar} disk.img")),
        ("gzip", 1, 0, format!("{tar} disk/disk.img | gzip -nc")),
        ("zstd", 1, 0, format!("{tar} disk/disk.img | zstd -q -c")),
        ("path", 4, 0, format!("{tar} disk/disk.img disk.img")),
        ("link", 0, 0, format!("{tar} disk/link")),
        ("pax", 0, 0, format!("{tar} --format=pax disk/disk.img")),
        ("sparse", 0, 0, format!("{tar} -S sparse")),
        ("two-layers", 2, 20, format!("{tar} disk/disk.img; {tar} disk/.wh.other .wh.disk")),
    ] {
        let mut input = vec![options, 0, cut];
        input.extend(shell(at, &line));
        fs::write(folder("image").join(name), input).unwrap();
    }
    shell(at, "cp disk.img holes; truncate -s 200k holes; printf end >>holes");
    let tar = "tar -b1 --owner=107 --group=107 --mtime=@0 -cf -";
    let holes = "--sparse --format=posix --sparse-version";
    for (name, line) in [
        ("ustar", format!("{tar} --format=ustar disk disk.img")),
        ("v7", format!("{tar} --format=v7 disk.img")),
        ("gnu-long", format!("{tar} --format=gnu --label=x --transform=s,^,{}/, disk", "long".repeat(30))),
        ("pax-long", format!("{tar} --format=posix --label=x --transform=s,^,{}/, disk", "long".repeat(30))),
        ("incremental", format!("{tar} --format=gnu -G disk")),
        ("sparse-old", format!("{tar} --sparse --format=gnu holes")),
        ("sparse-0.0", format!("{tar} {holes}=0.0 holes")),
        ("sparse-0.1", format!("{tar} {holes}=0.1 holes")),
        ("sparse-1.0", format!("{tar} {holes}=1.0 holes")),
        ("no-end-mark", format!("{tar} disk.img | head -c 1536")),
        ("half-an-end-mark", format!("{tar} disk.img | head -c 2048")),
        ("two-archives", format!("{tar} disk.img; {tar} disk")),
    ] {
        let input = [vec![0, 4, 0], shell(at, &line)].concat();
        fs::write(folder("tar").join(name), input).unwrap();
    }
    let (config, document) = manifest(&Recipe::new("amd64", vec![])).unwrap();
    let index = container_disk::image::index(&document, "arm64", Some("v8")).unwrap();
    let name = b"docker://registry.example:5000/group/os:12".to_vec();
    for (file, bytes) in
        [("config", config), ("manifest", document.bytes), ("index", index.bytes), ("name", name)]
    {
        fs::write(folder("documents").join(file), bytes).unwrap();
    }
}
