//! The programs as `make install` and `make deb` leave them: completions, manual pages, and a fresh Debian that installs the
//! package, converts a disk and boots a VM.

// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used)]

use ::tests::place::Place;
use std::fs;
use std::path::Path;

const CORACLE: &str = env!("CARGO_BIN_EXE_coracle");

/// The root of this repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Folder of the built programs; virt-launcher lies beside coracle.
fn programs() -> &'static Path {
    Path::new(CORACLE).parent().unwrap()
}

#[test]
fn programs_completions_and_manual_pages_are_where_a_distribution_puts_them() {
    let place = Place::empty(CORACLE);
    let script = root().join("images/host/install");
    place.shell(&format!("DESTDIR=$PWD/root {} {} /usr/local", script.display(), programs().display()));
    let installed = place.path("root/usr/local");
    for file in [
        "bin/coracle",
        "bin/virt-launcher",
        "share/bash-completion/completions/coracle",
        "share/zsh/site-functions/_coracle",
        "share/fish/vendor_completions.d/coracle.fish",
        "share/man/man1/coracle.1.gz",
        "share/man/man1/coracle-convert.1.gz",
        "share/man/man1/coracle-virt-image-upload.1.gz",
        "share/doc/coracle/LICENSE",
    ] {
        assert!(installed.join(file).is_file(), "{file}");
    }
    assert_eq!(fs::read_link(installed.join("bin/kubectl-virt")).unwrap(), Path::new("coracle"));

    let said = place.shell("export PATH=$PWD/root/usr/local/bin:$PATH; coracle --version; virt-launcher --version; kubectl-virt --help");
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with("coracle ") && said.contains("image-upload"), "{said}");

    // As a shell asks for them when the user presses the key.
    let completed = place.shell(
        "export PATH=$PWD/root/usr/local/bin:$PATH
         . root/usr/local/share/bash-completion/completions/coracle
         declare -F _clap_complete_coracle
         _CLAP_IFS=$'\\n' _CLAP_COMPLETE_INDEX=1 COMPLETE=bash coracle -- coracle conv",
    );
    assert!(String::from_utf8(completed).unwrap().contains("convert"), "the verb is completed");
}

#[test]
fn the_debian_package_is_the_same_from_the_same_programs() {
    let place = Place::empty(CORACLE);
    let script = root().join("images/host/deb");
    place.shell(&format!(
        "export DPKG_DEB_COMPRESSOR_LEVEL=0; {0} {1} one; sleep 1.1; {0} {1} two; cmp one/*.deb two/*.deb; dpkg-deb --info one/*.deb | tee said",
        script.display(),
        programs().display()
    ));
    let said = String::from_utf8(place.bytes("said")).unwrap();
    for words in ["Package: coracle", "libvirt0", "libc6", "Recommends: qemu-system-x86"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// Takes some minutes, for Debian's packages: in the long tier, and as root.
#[test]
fn a_fresh_debian_installs_the_package_and_works_with_it() {
    let is_long = std::env::var_os("CORACLE_TEST_TIER").is_some_and(|tier| tier == "all");
    if !is_long || !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::empty(CORACLE);
    fs::copy(root().join("images/guests/packages.sh"), place.path("packages.sh")).unwrap();
    place.shell(&format!(
        "DPKG_DEB_COMPRESSOR_LEVEL=0 {}/images/host/deb {} .
         . ./packages.sh
         sources | mmdebstrap --quiet --variant=apt --aptopt='Acquire::Check-Valid-Until \"false\"' \\
             --customize-hook='cp *.deb \"$1/tmp/coracle.deb\"' \\
             --customize-hook='chroot \"$1\" apt-get install -qq -y /tmp/coracle.deb' bookworm debian -",
        root().display(),
        programs().display(),
    ));
    let inside = "
        set -eux
        cd /root
        printf 'a disk' >plain.img; truncate -s 8M plain.img
        coracle convert -q plain.img disk.qcow2
        coracle convert -q disk.qcow2 back.img
        cmp plain.img back.img
        coracle build -t oci:layout:one disk.qcow2
        coracle inspect oci:layout:one
        coracle host
        ls /usr/share/man/man1/coracle-run.1.gz";
    fs::write(place.path("debian/tmp/inside"), inside).unwrap();
    place.shell("chroot debian env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin sh /tmp/inside");
}
