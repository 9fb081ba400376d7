//! push, pull, copy, and building straight into a registry.

use super::*;
use tests::registry::Registry;

#[test]
fn an_image_goes_everywhere_and_stays_the_same() {
    let (place, one, two) = (place(1), Registry::start(), Registry::start());
    let digest = built(&place, &["-t", "os:1", "disk.qcow2"]);
    let remote = format!("docker://{}/group/os:1", one.address());
    let mirror = format!("docker://{}/elsewhere/os:2", two.address());
    let moved = place.run(&["push", "--json", "os:1", &remote]).ok().json();
    assert_eq!((moved["digest"].as_str(), moved["moved"].as_u64()), (Some(digest.as_str()), Some(2)));
    let again = place.run(&["push", "--json", "os:1", &remote]).ok().json();
    assert_eq!(
        (again["moved"].as_u64(), again["there"].as_u64()),
        (Some(0), Some(2)),
        "nothing is sent twice"
    );
    place.run(&["copy", &remote, &mirror]).ok();
    place.run(&["copy", &mirror, "oci:layout:1"]).ok();
    place.run(&["copy", "oci:layout:1", "oci-archive:os.tar:1"]).ok();
    place.run(&["rmi", "os:1"]).ok();
    place.run(&["prune"]).ok();
    assert_eq!(told(place.run(&["pull", "--json", "oci-archive:os.tar:1", "back:1"]), "/digest"), digest);
    let full = mirror.replace("docker://", "store:");
    assert_eq!(told(place.run(&["pull", "--json", &mirror]), "/target"), full);
    let by_digest = format!("docker://{}/group/os@{digest}", one.address());
    for name in [&remote, &mirror, &by_digest, "oci:layout:1", "oci-archive:os.tar:1", "back:1", &full] {
        place.run(&["convert", name, "out.img"]).ok();
        place.is_the_disk("out.img");
        place.run(&["verify", name]).ok();
    }
}

#[test]
fn what_is_built_goes_up_as_it_is_made() {
    let (place, registry) = (place(2), Registry::start());
    let remote = format!("docker://{}/os:1", registry.address());
    let local = built(&place, &["-t", "oci:layout", "disk.qcow2"]);
    assert_eq!(built(&place, &["-t", &remote, "disk.qcow2"]), local);
    assert!(place.run(&["images", "-q"]).ok().out.is_empty(), "only the registry has it");
    place.run(&["build", "--push", "-t", &remote, "--label", "a=b", "disk.raw"]).ok();
    assert_eq!(place.run(&["images", "-q"]).ok().out, b"os:1\n");
    let both = ["store:os:1", remote.as_str()]
        .map(|name| told(place.run(&["inspect", "--json", name]), "/image/digest"));
    assert_eq!(both[0], both[1]);
    // An image is a disk, too: the same one gives the same image.
    place.run(&["build", "-t", &remote, "disk.qcow2"]).ok();
    for source in [remote.as_str(), "oci:layout"] {
        assert_eq!(built(&place, &["-t", "again", source]), local, "{source}");
    }
    // An image of another architecture is added to the name in the registry.
    place.run(&["build", "-t", &remote, "--arch", "arm64", "--append-arch", "disk.raw"]).ok();
    let all = place.run(&["inspect", "--arch", "arm64", "--json", &remote]).ok().json();
    assert_eq!(all["image"]["architectures"].as_array().unwrap().len(), 2);
    // If the digest is required first, the upload waits for it.
    let settings = format!("[host.\"{}\"]\nupload = \"whole\"\n", registry.address());
    std::fs::write(place.path("whole.toml"), settings).unwrap();
    let whole = format!("docker://{}/whole:1", registry.address());
    assert_eq!(built(&place, &["-t", &whole, "--registries", "whole.toml", "disk.qcow2"]), local);
    place.run(&["verify", &whole]).ok();
}

#[test]
fn an_image_is_looked_at_from_its_front_alone() {
    let (place, registry) = (Place::with_disk(PROGRAM, 256 << 20, 3), Registry::start());
    let remote = format!("docker://{}/os:1", registry.address());
    for (layer, format, most) in [
        ("none", "raw", 1 << 20),
        ("none", "keep", 1 << 20),
        // The front of the disk is 4 MiB, and a request of the layer has as much: a second one is on its way.
        ("gzip", "raw", 10 << 20),
        ("zstd", "qcow2", 10 << 20),
    ] {
        place.run(&["build", "-t", &remote, "--layer", layer, "--format", format, "disk.raw"]).ok();
        let json = place.run(&["inspect", "--json", &remote]).ok().json();
        assert_eq!(json["virtual_size"], 256 << 20, "{layer} {format}");
        let received = json["image"]["registries"]["received"].as_u64().unwrap();
        assert!(received <= most, "{received} bytes of a layer of 256 MiB, {layer}");
    }
}

/// The data of a qcow2 of qemu-img begins behind its tables, at 320 KiB.
#[test]
fn what_is_inside_a_packed_qcow2_in_a_registry_is_found() {
    let (place, registry) = (place(8), Registry::start());
    place.shell(
        r"export PATH=$PATH:/usr/sbin:/sbin; truncate -s 64M os.raw
          printf 'label: gpt\nstart=2048,type=L,name=root\n' | sfdisk -q os.raw
          mkfs.ext4 -q -F -L cloudimg -E offset=1048576 os.raw 58000k
          qemu-img convert -f raw -O qcow2 os.raw os.qcow2",
    );
    for layer in ["gzip", "zstd"] {
        let remote = format!("docker://{}/os:{layer}", registry.address());
        place.run(&["build", "-q", "-t", &remote, "--layer", layer, "--format", "keep", "os.qcow2"]).ok();
        let json = place.run(&["inspect", "--json", &remote]).ok().json();
        let table = &json["disk"]["partition_table"];
        assert_eq!(table["kind"], "gpt", "{json}");
        let root = &table["partitions"][0]["content"];
        assert_eq!((&root["kind"], &root["label"]), (&"ext4".into(), &"cloudimg".into()), "{json}");
    }
}

#[test]
fn what_is_not_there_or_not_allowed_says_so() {
    let place = place(4);
    let registry =
        Registry::serve(&tests::registry::Serve { basic: Some(("me", "s3cret")), ..Default::default() });
    let remote = format!("docker://{}/os:1", registry.address());
    place.run(&["build", "-t", "os:1", "disk.qcow2"]).ok();
    place.run(&["push", "os:1", &remote]).refused(5, &registry.address());
    place.run(&["build", "-t", &remote, "disk.qcow2"]).refused(5, &registry.address());
    place.shell(&format!(
        r#"mkdir .docker; printf '{{"auths":{{"{}":{{"auth":"%s"}}}}}}' "$(printf me:s3cret | base64)" >.docker/config.json"#,
        registry.address()
    ));
    let ran = place.run(&["-vv", "push", "os:1", &remote]).ok();
    assert!(!ran.err.contains("s3cret") && !ran.err.contains("bWU6czNjcmV0"), "{}", ran.err);
    place.run(&["pull", &remote.replace("os:1", "none:1")]).refused(4, "none");
    place.run(&["push", "os:1", "os:2"]).refused(2, "docker://HOST/REPO");
    place.run(&["push", "nothing", &remote]).refused(4, "nothing");
    let gone = Registry::start().address();
    let said = place.run(&["pull", &format!("docker://{gone}/os:1")]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains(&gone), "{}", said.err);
}
