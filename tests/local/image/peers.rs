//! Compatibility with common tools: they read our images, and we read theirs.

use super::*;
use tests::registry::Registry;

/// Settings that keep podman and buildah inside the folder.
const BOX: &str = "--root $PWD/c --runroot $PWD/r --storage-driver vfs";

#[test]
fn skopeo_umoci_and_podman_read_what_we_build() {
    let (place, registry) = (place(1), Registry::start());
    let address = registry.address();
    for layer in ["none", "gzip", "zstd"] {
        // Debian's umoci is older than layers in zstd.
        let unpacked = if layer == "zstd" { "exit" } else { "true" };
        let remote = format!("docker://{address}/os:{layer}");
        let digest = built(&place, &["-t", &remote, "--layer", layer, "--format", "raw", "disk.qcow2"]);
        let seen =
            place.shell(&format!("skopeo inspect --tls-verify=false --format '{{{{.Digest}}}}' {remote}"));
        assert_eq!(String::from_utf8(seen).unwrap().trim(), digest);
        place.shell(&format!(
            "{unpacked}; rm -rf l b; skopeo copy -q --src-tls-verify=false {remote} oci:l:x && umoci unpack --image l:x b >/dev/null 2>&1
             cmp b/rootfs/disk/disk.img disk.raw && test \"$(stat -c '%u:%g %a' b/rootfs/disk/disk.img)\" = '107:107 444'"
        ));
        place.shell(&format!(
            "podman {BOX} pull -q --tls-verify=false {remote} >/dev/null 2>&1
             m=$(podman {BOX} image mount {address}/os:{layer}) && cmp $m/disk/disk.img disk.raw
             podman {BOX} image umount -a >/dev/null"
        ));
    }
}

#[test]
fn we_read_what_buildah_and_skopeo_make() {
    let (place, registry) = (place(2), Registry::start());
    let remote = format!("docker://{}/os:1", registry.address());
    place.shell(&format!(
        "printf 'FROM scratch\nADD --chown=107:107 disk.qcow2 /disk/\n' >Containerfile
         buildah {BOX} bud -q --isolation chroot -t os . >/dev/null 2>&1
         buildah {BOX} push -q --tls-verify=false os {remote} >/dev/null 2>&1
         buildah {BOX} push -q os docker-archive:$PWD/d.tar:os:1 >/dev/null 2>&1
         buildah {BOX} push -q os oci-archive:$PWD/o.tar:1 >/dev/null 2>&1
         buildah {BOX} push -q os oci:$PWD/o:1 >/dev/null 2>&1"
    ));
    for name in [remote.as_str(), "docker-archive:d.tar", "oci-archive:o.tar:1", "oci:o:1"] {
        place.run(&["convert", name, "out.img"]).ok();
        place.is_the_disk("out.img");
        let local = format!("os:{}", name.len());
        place.run(&["pull", name, &local]).ok();
        place.run(&["convert", &local, "again.img"]).ok();
        place.is_the_disk("again.img");
    }
}
