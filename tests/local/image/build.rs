//! `coracle build`: any disk in, the same bytes out on any machine.

use super::*;
use tests::registry::Registry;

#[test]
fn every_disk_comes_back_out_of_its_image() {
    let place = place(1);
    place.shell("xz -k disk.raw; zstd -q -k disk.qcow2; tar -czf disk.tar.gz disk.raw; xz -k disk.qcow2");
    place.shell("mkdir iso; head -c 3M disk.raw >iso/a; genisoimage -quiet -o disk.iso iso");
    for name in ["disk.raw", "disk.qcow2", "disk.raw.xz", "disk.qcow2.zst", "disk.qcow2.xz", "disk.tar.gz"] {
        for layer in ["none", "gzip", "zstd"] {
            for format in ["keep", "raw", "qcow2"] {
                place.run(&["build", "-t", "os", "--layer", layer, "--format", format, name]).ok();
                place.run(&["convert", "os", "back.img"]).ok();
                place.is_the_disk("back.img");
            }
        }
        place.run(&["build", "-t", "os", name]).ok();
        assert_eq!(told(place.run(&["inspect", "--json", "os"]), "/format"), "qcow2", "{name}");
    }
    place.run(&["build", "-t", "cd", "disk.iso"]).ok();
    assert_eq!(told(place.run(&["inspect", "--json", "cd"]), "/format"), "iso");
    let ran = place.shell(&format!(
        "{PROGRAM} build -t piped - <disk.raw && {PROGRAM} convert piped - | cmp - disk.raw"
    ));
    assert!(ran.is_empty());
}

#[test]
fn the_same_disk_and_flags_give_the_same_digest() {
    let place = place(2);
    place.shell("cp disk.qcow2 other-name.qcow2; touch -d 2001-01-01 other-name.qcow2; cat disk.qcow2 >copy");
    let digests: Vec<String> = ["1", "2", "3", "7"]
        .iter()
        .flat_map(|threads| {
            ["disk.qcow2", "other-name.qcow2", "copy"]
                .map(|name| built(&place, &["-t", "os", "--layer", "gzip", "--threads", threads, name]))
        })
        .collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    let zstd =
        ["1", "2", "5"].map(|n| built(&place, &["-t", "os", "--threads", n, "--memory", "64M", "disk.raw"]));
    assert!(zstd.iter().all(|digest| *digest == zstd[0] && *digest != digests[0]), "{zstd:?}");

    // A date is part of the image; flag and variable give the same one.
    let dated = built(&place, &["-t", "os", "--created", "2026-01-31T12:00:00Z", "disk.raw"]);
    assert_ne!(dated, zstd[0]);
    let epoch = place
        .command(&["build", "--json", "-t", "os", "disk.raw"])
        .env("SOURCE_DATE_EPOCH", "1769860800")
        .output();
    assert_eq!(told(Ran::of(epoch.unwrap()), "/digest"), dated);
    assert_eq!(
        told(place.run(&["inspect", "--json", "os"]), "/image/chosen/created"),
        "2026-01-31T12:00:00Z"
    );
}

#[test]
fn a_build_tells_the_size_that_the_guest_sees() {
    let place = place(10);
    place.shell("xz -k disk.qcow2; echo kernel >vmlinuz");
    for (args, format) in [
        (&["disk.raw"][..], "qcow2"),
        (&["disk.qcow2"], "qcow2"),
        (&["disk.qcow2.xz"], "qcow2"),
        (&["--format", "raw", "disk.qcow2"], "raw"),
    ] {
        let json = place.run(&[&["build", "--json", "-t", "os"], args].concat()).ok().json();
        assert_eq!(
            (&json["virtual_size"], &json["disk"]["virtual_size"]),
            (&SIZE.into(), &SIZE.into()),
            "{json}"
        );
        let inspected = place.run(&["inspect", "--json", "os"]).ok().json();
        assert_eq!((&inspected["virtual_size"], &inspected["format"]), (&SIZE.into(), &format.into()));
        let plan = place.run(&[&["build", "--plan", "--json", "-t", "os"], args].concat()).ok().json();
        assert_eq!(plan["disk"]["virtual_size"], SIZE, "{plan}");
    }
    let json = place.run(&["build", "--json", "-t", "boot", "--kernel", "vmlinuz"]).ok().json();
    assert_eq!(json["virtual_size"], serde_json::Value::Null);
}

#[test]
fn what_is_said_of_an_image_is_in_it() {
    let place = place(3);
    place
        .run(&[
            "build",
            "-t",
            "os:1",
            "--label",
            "a.b=c=d",
            "--annotation",
            "x=y",
            "--arch",
            "arm64/v8",
            "--instancetype",
            "u1.medium",
            "--preference",
            "fedora",
            "disk.qcow2",
        ])
        .ok();
    let json = place.run(&["inspect", "--arch", "arm64", "--json", "os:1"]).ok().json();
    let chosen = &json["image"]["chosen"];
    assert_eq!(chosen["architecture"], "arm64");
    assert_eq!(chosen["labels"]["a.b"], "c=d");
    assert_eq!(chosen["labels"]["instancetype.kubevirt.io/default-instancetype"], "u1.medium");
    let env: Vec<&str> = chosen["env"].as_array().unwrap().iter().map(|e| e.as_str().unwrap()).collect();
    assert!(env.contains(&"INSTANCETYPE_KUBEVIRT_IO_DEFAULT_INSTANCETYPE=u1.medium"), "{env:?}");
    assert!(env.contains(&"INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE=fedora"), "{env:?}");
    let file = &json["image"]["file"];
    assert_eq!((file["uid"].as_u64(), file["gid"].as_u64()), (Some(107), Some(107)));
    assert_eq!((file["path"].as_str(), file["mode"].as_str()), (Some("disk/disk.img"), Some("0444")));
}

#[test]
fn images_of_several_architectures_share_a_name() {
    let place = place(4);
    built(&place, &["-t", "os", "--arch", "amd64", "disk.qcow2"]);
    place.shell("qemu-img create -q -f raw other.raw 3M");
    place.run(&["build", "-t", "os", "--arch", "arm64", "--append-arch", "other.raw"]).ok();
    let both = place.run(&["inspect", "--arch", "amd64", "--json", "os"]).ok().json();
    assert_eq!(both["image"]["architectures"], serde_json::json!(["amd64", "arm64"]));
    place.run(&["convert", "--arch", "amd64", "os", "amd64.img"]).ok();
    place.is_the_disk("amd64.img");
    place.run(&["convert", "--arch", "arm64", "os", "arm64.img"]).ok();
    assert_eq!(place.bytes("arm64.img").len(), 3 << 20);
    place.run(&["convert", "--arch", "s390x", "os", "none.img"]).refused(4, "it has amd64, arm64");
    // The second build replaces the image, and does not add one.
    let ran = place.run(&["build", "-t", "os", "--arch", "arm64", "--append-arch", "disk.raw"]).ok();
    let index = told(place.run(&["images", "--json"]), "/images/0/digest");
    let said = format!("store:os:latest: {index}, an index in which the image for arm64 is sha256:");
    assert!(ran.err.contains(&said) && ran.err.matches("sha256:").count() == 2, "{said}: {}", ran.err);
    let again = place.run(&["inspect", "--arch", "arm64", "--json", "os"]).ok().json();
    assert_eq!(again["image"]["architectures"], serde_json::json!(["amd64", "arm64"]));
    place.run(&["convert", "--arch", "arm64", "os", "new.img"]).ok();
    place.is_the_disk("new.img");
    place.run(&["verify", "os"]).ok();
}

/// The builds of a matrix begin together, and end together.
#[test]
fn architectures_that_are_added_at_once_are_all_there() {
    let place = place(9);
    place.shell("head -c 64K disk.raw >small.raw");
    let all = ["amd64", "arm64", "riscv64"];
    let registry = Registry::start();
    let local = (0..6).flat_map(|round| [format!("os:{round}"), format!("oci:layout{round}:1")]);
    let remote = (0..3).map(|round| format!("docker://{}/os:{round}", registry.address()));
    for name in local.chain(remote) {
        let builds = all.map(|arch| {
            let args = ["build", "-q", "-t", &name, "--arch", arch, "--append-arch", "small.raw"];
            place.command(&args).spawn().unwrap()
        });
        for mut build in builds {
            assert!(build.wait().unwrap().success(), "{name}");
        }
        let json = place.run(&["inspect", "--arch", "amd64", "--json", &name]).ok().json();
        let found = json["image"]["architectures"].as_array().unwrap();
        let mut found: Vec<&str> = found.iter().map(|arch| arch.as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, all, "{name}");
    }
}

#[test]
fn a_kernel_is_an_image_too() {
    let place = place(5);
    place.shell("echo kernel >vmlinuz; echo initrd >initrd.img");
    place.run(&["build", "-t", "boot", "--kernel", "vmlinuz", "--initrd", "initrd.img"]).ok();
    let json = place.run(&["inspect", "--json", "boot"]).ok().json();
    let boot = &json["image"]["chosen"]["boot"];
    assert_eq!(boot["cmdline"], "console=ttyS0");
    assert_eq!(boot["kernel"], "/boot/vmlinuz");
    let labels = &json["image"]["chosen"]["labels"];
    assert_eq!(labels["io.coracle.kernel"], "/boot/vmlinuz");
    assert_eq!(labels["io.coracle.initrd"], "/boot/initrd.img");
    place.run(&["verify", "boot"]).ok();
    place.run(&["convert", "--path", "/boot/vmlinuz", "-f", "raw", "boot", "out"]).ok();
    assert_eq!(place.bytes("out"), b"kernel\n");

    place.run(&["build", "-t", "both", "--kernel", "vmlinuz", "--cmdline", "quiet", "disk.qcow2"]).ok();
    place.run(&["convert", "both", "disk.img"]).ok();
    place.is_the_disk("disk.img");
    place.run(&["build", "-t", "x", "--initrd", "initrd.img", "disk.raw"]).refused(2, "--kernel");
    place.run(&["build", "-t", "x", "--kernel", "nothing"]).refused(4, "nothing");
    place.run(&["build", "-t", "x"]).refused(2, "DISK");
}

#[test]
fn what_makes_no_image_leaves_none() {
    let place = place(6);
    place.shell(
        "qemu-img create -q -f qcow2 -b disk.raw -F raw over.qcow2; head -c 1M disk.qcow2 >short.qcow2",
    );
    place.shell(
        "qemu-img create -q -f vmdk disk.vmdk 1M; xz -k disk.raw; xz -k short.qcow2; head -c 20000 disk.raw.xz >short.xz",
    );
    for (args, code, said) in [
        (&["over.qcow2"][..], 3, "backing file"),
        (&["short.qcow2"], 3, "past the end of the file"),
        (&["short.qcow2.xz"], 3, "qcow2"),
        (&["disk.vmdk"], 3, "vmdk"),
        (&["short.xz"], 3, "truncated"),
        (&["nothing.raw"], 4, "nothing.raw"),
        (&["--max-size", "1M", "disk.raw"], 3, "--max-size"),
        (
            &[
                "--checksum",
                "sha256:0000000000000000000000000000000000000000000000000000000000000000",
                "disk.raw",
            ],
            3,
            "checksum mismatch",
        ),
        (&["--layer", "zstd", "--manifest", "docker", "disk.raw"], 2, "gzip"),
        (&["--format", "raw", "--compress", "zstd", "disk.raw"], 2, "--compress"),
        (&["--label", "nothing", "disk.raw"], 2, "NAME=VALUE"),
        (&["--created", "yesterday", "disk.raw"], 2, "seconds since 1970"),
        (&["--push", "disk.raw"], 2, "docker://"),
    ] {
        place.run(&[&["build", "-t", "os"], args].concat()).refused(code, said);
        assert!(place.run(&["images", "-q"]).ok().out.is_empty(), "{args:?}");
    }
    place.run(&["prune"]).ok();
    let store = place.path(".local/share/coracle/store");
    assert_eq!(files(&store.join("blobs")), 0, "nothing is left");
}

#[test]
fn the_plan_tells_where_a_disk_waits() {
    let place = place(7);
    let plan = |args: &[&str]| {
        String::from_utf8(place.run(&[&["build", "-t", "os", "--plan"], args].concat()).ok().out).unwrap()
    };
    assert!(plan(&["disk.qcow2"]).contains("nothing beside the target"));
    assert!(plan(&["--format", "raw", "disk.qcow2"]).contains("nothing beside the target"));
    let raw = plan(&["disk.raw"]);
    assert!(raw.contains("the disk is read twice") && raw.contains("nothing beside the target"), "{raw}");
    assert!(plan(&["--compress", "zstd", "disk.raw"]).contains("the store's folder"));
    place.shell("xz -k disk.qcow2");
    assert!(plan(&["disk.qcow2.xz"]).contains("the store's folder"));
    std::fs::write(place.path("whole.toml"), "[host.\"h:1\"]\nupload = \"whole\"\n").unwrap();
    let text = plan(&["disk.qcow2", "--registries", "whole.toml", "-t", "docker://h:1/os"]);
    assert!(text.contains("wants the digest first"), "{text}");
    let json = place.run(&["build", "-t", "os", "--plan", "--json", "disk.raw"]).ok().json();
    assert_eq!(json["schema"], "coracle.build-plan/v1");
    assert_eq!(json["disk"]["target_format"], "qcow2");
    assert!(place.run(&["images", "-q"]).ok().out.is_empty(), "a plan builds nothing");
}

/// Whoever got the image read them.
#[test]
fn deleted_data_of_a_qcow2_is_not_published_unless_it_is_asked_for() {
    let place = place(20);
    let has = |name: &str| place.bytes(name).windows(512).any(|piece| piece == [b'S'; 512]);
    place.shell("cp disk.qcow2 kept.qcow2; qemu-io -c 'write -P 0x53 1M 64k' kept.qcow2");
    place.shell("qemu-img snapshot -c before kept.qcow2; qemu-io -c 'write -z 1M 64k' kept.qcow2");
    let facts = told(place.run(&["inspect", "--json", "kept.qcow2"]), "/facts/snapshot names");
    assert_eq!(facts, "before");
    assert!(has("kept.qcow2"), "the file has them");
    for source in ["kept.qcow2", "kept.qcow2.xz"] {
        place.shell("xz -kf kept.qcow2");
        let ran = place.run(&["build", "-t", "oci-archive:os.tar", "--layer", "none", source]).ok();
        assert!(
            ran.err.contains("is written anew, since it has an internal snapshot; --format keep"),
            "{}",
            ran.err
        );
        assert!(!has("os.tar"), "{source}");
        place.shell("rm os.tar");
    }
    let keeps = ["build", "-t", "oci-archive:os.tar", "--layer", "none", "--format", "keep", "kept.qcow2"];
    let ran = place.run(&keeps).ok();
    assert!(ran.err.contains("is kept as it is, though it has an internal snapshot"), "{}", ran.err);
    assert!(has("os.tar"));
    // A clean one is the file itself, without a word.
    let ran = place.run(&["build", "-t", "clean", "disk.qcow2"]).ok();
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    let keep = built(&place, &["-t", "same", "--format", "keep", "disk.qcow2"]);
    assert_eq!(built(&place, &["-t", "same", "disk.qcow2"]), keep);
}
