//! Hostile images: refused with the reason, and none of them gets a name.

use super::*;
use serde_json::{Value, json};
use tests::layout::{INDEX, LAYER, LAYER_GZIP, Layout, Tar, bomb, digest, gzip};

const DISK: &[u8] = &[b'x'; 4096];

/// A case: its name, a part of the refusal, and a function that makes the layout.
type Case = (&'static str, &'static str, Box<dyn Fn(&Layout)>);

/// Images with hostile layers.
fn layers() -> Vec<Case> {
    let disk = || Tar::default().file("disk/disk.img", DISK);
    let plain: Vec<(&'static str, &'static str, Tar)> = vec![
        ("a name that leads out", "leads out", disk().file("disk/../../etc/passwd", b"x")),
        ("an absolute name", "absolute name", disk().file("/etc/passwd", b"x")),
        (
            "a link for a disk",
            "a link to \"/etc/shadow\"",
            Tar::default().other(b'2', "disk/disk.img", "/etc/shadow"),
        ),
        (
            "a hard link for a disk",
            "a hard link",
            Tar::default().file("x", DISK).other(b'1', "disk/disk.img", "x"),
        ),
        ("a link for its folder", "/disk of", Tar::default().other(b'2', "disk", "/etc")),
        ("a device", "a block device", Tar::default().other(b'4', "disk/disk.img", "")),
        ("a pipe", "a pipe", Tar::default().other(b'6', "disk/disk.img", "")),
        ("two disks", "2 files in /disk", disk().file("disk/other.img", DISK)),
        ("the same disk twice", "twice", disk().file("disk/disk.img", DISK)),
        ("no disk", "is not a containerDisk", Tar::default()),
        (
            "an overlay",
            "overlay over the backing file",
            Tar::default().file("disk/disk.img", &made("qcow2 -u -b b -F raw")),
        ),
        (
            "another format",
            "vmdk: this format is recognised",
            Tar::default().file("disk/disk.img", &made("vmdk")),
        ),
        ("GNU sparse", "sparse", disk().other(b'S', "disk/other", "")),
        ("PAX sparse", "sparse", Tar::default().pax("GNU.sparse.major=1").file("disk/disk.img", DISK)),
        (
            "a size beyond the end",
            "ends too early",
            Tar::default().member(b'0', "disk/disk.img", "", 1 << 30, DISK),
        ),
    ];
    let mut cases: Vec<Case> = vec![];
    for (name, says, tar) in plain {
        let bytes = tar.end();
        let packed = gzip(&bytes);
        cases.push((name, says, Box::new(move |layout| layout.image(LAYER, &bytes))));
        cases.push((name, says, Box::new(move |layout| layout.image(LAYER_GZIP, &packed))));
    }
    let whiteout = move |layout: &Layout| {
        let lower = layout.blob(LAYER, &Tar::default().file("disk/disk.img", DISK).end());
        let upper = layout.blob(LAYER, &Tar::default().file("disk/.wh.disk.img", b"").end());
        layout.name(&layout.manifest(&[lower, upper]));
    };
    cases.push(("a whiteout over the disk", "deletes \"disk/disk.img\"", Box::new(whiteout)));
    let good = Tar::default().file("disk/disk.img", DISK).end();
    let packed = gzip(&good);
    cases.push((
        "a type that lies",
        "its bytes are gzip",
        Box::new(move |layout| layout.image(LAYER, &packed)),
    ));
    cases.push((
        "a type that lies the other way",
        "not compressed",
        Box::new(move |layout| layout.image(LAYER_GZIP, &good)),
    ));
    cases
}

/// A disk that qemu-img makes in this format.
fn made(format: &str) -> Vec<u8> {
    let place = Place::empty(PROGRAM);
    place.shell(&format!("qemu-img create -q -f {format} disk 1M"));
    place.bytes("disk")
}

/// Images with wrong documents.
fn documents() -> Vec<Case> {
    fn layer(layout: &Layout) -> Value {
        layout.blob(LAYER, &Tar::default().file("disk/disk.img", DISK).end())
    }
    fn changed(change: impl Fn(&mut Value) + 'static) -> Box<dyn Fn(&Layout)> {
        Box::new(move |layout| {
            let mut layer = layer(layout);
            change(&mut layer);
            layout.name(&layout.manifest(&[layer]));
        })
    }
    let spoilt = |layout: &Layout| {
        let layer = layer(layout);
        layout.name(&layout.manifest(std::slice::from_ref(&layer)));
        let path = layout.path(layer["digest"].as_str().unwrap());
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[1000] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    };
    let large = |layout: &Layout| {
        let mut manifest = layout.manifest(&[layer(layout)]);
        manifest["annotations"] = json!({ "x": "y".repeat(5 << 20) });
        layout.name(&manifest);
    };
    // An index cannot contain its own digest; a changed one has another digest.
    let looped = |layout: &Layout| {
        let mut entry = json!({ "mediaType": INDEX, "digest": digest(b"x"), "size": 1 });
        for _ in 0..9 {
            let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] });
            entry = layout.blob(INDEX, index.to_string().as_bytes());
            entry["platform"] = json!({ "architecture": "amd64", "os": "linux" });
        }
        layout.name(&json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] }));
    };
    let itself = |layout: &Layout| {
        let told = digest(b"x");
        let mut entry = json!({ "mediaType": INDEX, "digest": told, "size": 300 });
        entry["platform"] = json!({ "architecture": "amd64", "os": "linux" });
        let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] }).to_string();
        std::fs::write(layout.path(&told), &index).unwrap();
        layout.index(&json!({ "mediaType": INDEX, "digest": told, "size": index.len(),
            "annotations": { "org.opencontainers.image.ref.name": "1" } }));
    };
    vec![
        ("a larger size", "bytes", changed(|layer| layer["size"] = json!(1u64 << 40))),
        ("a smaller size", "bytes", changed(|layer| layer["size"] = json!(600))),
        ("a negative size", "the size -1", changed(|layer| layer["size"] = json!(-1))),
        (
            "a digest that leads out",
            "the digest",
            changed(|layer| layer["digest"] = json!("sha256:../../../etc/passwd")),
        ),
        (
            "a foreign layer",
            "are not supported",
            changed(|layer| layer["urls"] = json!(["http://127.0.0.1:1/x"])),
        ),
        ("a wrong byte", "has the digest", Box::new(spoilt)),
        ("a manifest that is too large", "larger than the 4 MiB", Box::new(large)),
        ("indexes without end", " indexes ", Box::new(looped)),
        ("an index in itself", "has the digest", Box::new(itself)),
    ]
}

/// Asserts that a run was refused with the reason, and that no image has a name.
#[track_caller]
fn refused(place: &Place, case: &str, args: &[&str], says: &str) {
    let ran = place.run(args);
    assert_eq!(ran.code, 3, "{case}, {args:?}: {}", ran.err);
    assert!(ran.err.contains(says), "{case}, {args:?}: {says:?} is not in {}", ran.err);
    assert!(!ran.err.contains("the store"), "{case}, {args:?}: what is read is another place: {}", ran.err);
    assert!(!ran.err.contains("panicked"), "{case}, {args:?}: {}", ran.err);
    assert!(!place.path("out.img").exists(), "{case}, {args:?}: a disk");
    place.nothing_beside("out.img");
    assert!(place.run(&["images", "-q"]).ok().out.is_empty(), "{case}, {args:?}: an image");
}

#[test]
fn hostile_images_are_refused_by_every_verb() {
    let place = Place::empty(PROGRAM);
    for (case, says, make) in layers().into_iter().chain(documents()) {
        make(&Layout::create(&place.path("bad")));
        for args in [
            &["convert", "oci:bad:1", "out.img"][..],
            &["build", "-t", "os:1", "oci:bad:1"],
            &["pull", "oci:bad:1", "os:1"],
        ] {
            refused(&place, case, args, says);
        }
        // The known facts are printed, with the reason of the refusal. A wrong byte is far behind the part
        // that is read.
        let ran = place.run(&["inspect", "--json", "oci:bad:1"]);
        match ran.code {
            3 => assert!(ran.err.contains(says), "{case}: {}", ran.err),
            _ if case == "a wrong byte" => drop(ran.ok()),
            _ => {
                let why = told(ran, "/refused");
                assert!(why.contains(says), "{case}: {why}");
            }
        }
        let ran = place.run(&["verify", "oci:bad:1"]);
        assert_eq!(ran.code, 3, "{case}: {}", ran.err);
        // A valid blob may stay in the store without a name; the next case must not find it.
        place.run(&["prune"]).ok();
    }
    // An image can also be refused because another one was taken.
    Layout::create(&place.path("good")).image(LAYER, &Tar::default().file("disk/disk.img", DISK).end());
    place.run(&["convert", "oci:good:1", "out.img"]).ok();
    assert_eq!(place.bytes("out.img"), DISK);
}

#[test]
fn a_bomb_ends_at_the_limit() {
    let place = Place::empty(PROGRAM);
    // 20 GiB.
    let layer = bomb(320);
    assert!(layer.len() < 24 << 20);
    Layout::create(&place.path("bad")).image(LAYER_GZIP, &layer);
    for args in [
        &["convert", "--max-size", "1G", "oci:bad:1", "out.img"][..],
        &["build", "--max-size", "1G", "-t", "os:1", "oci:bad:1"],
        &["verify", "--max-size", "1G", "oci:bad:1"],
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, 3, "{args:?}: {}", ran.err);
        assert!(!place.path("out.img").exists() && place.run(&["images", "-q"]).ok().out.is_empty());
        place.nothing_beside("out.img");
    }
}
