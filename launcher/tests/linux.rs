//! A seed read by Linux: the small guest of `images/guests/tiny` mounts it and runs the script among its files, which adds
//! up each of them. The sums are read on the serial console, to which the guest's other programs and its kernel write too.

use launcher::seed::{Seed, folder::Folder, iso_file};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tests::serial::Serial;

/// Run by the guest; and by the host, on the folder from which the ISO image is made.
const SUMS: &str = "find . -type f | sort | while read -r f; do md5sum \"$f\"; done; find . -type f -perm -100 | sort; \
                    find . -type d | sort";

#[test]
fn linux_reads_a_seed() {
    let place = tempfile::tempdir().expect("a folder");
    let files = place.path().join("files");
    let put = |name: &str, content: &[u8]| {
        let path = files.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    };
    put("meta-data", b"{}");
    put("empty", b"");
    put("large", &vec![7; 300_000]);
    put("a name with spaces", b"ok");
    put("1/2/3/4/5/6/7/deep", b"deep");
    put("openstack/latest/meta_data.json", b"{}");
    for length in [64, 103, 104, 142, 143, 200, 250, 251, 253] {
        put(&"n".repeat(length), format!("{length}").as_bytes());
    }
    for i in 0..100 {
        put(&format!("many/{}{i}", "x".repeat(140)), format!("{i}").as_bytes());
    }
    let script = format!("#!/bin/sh\n(cd /seed; {SUMS}) >/run/sums~; mv /run/sums~ /run/sums\n");
    put("user-data", script.as_bytes());
    put("run", b"#!/bin/sh\n");
    fs::set_permissions(files.join("run"), fs::Permissions::from_mode(0o755)).expect("a mode");

    let iso = place.path().join("seed.iso");
    let seed =
        Seed { label: "cidata".into(), files: Folder::open(&files).and_then(|f| f.files()).expect("files") };
    iso_file::write(&seed, &iso, 1_795_289_882).expect("an ISO image");

    let host = Command::new("sh").args(["-c", SUMS]).env("LC_ALL", "C").current_dir(&files).output();
    let wanted = String::from_utf8(host.expect("a shell").stdout).expect("text");
    let said = guest(&iso);
    for (said, wanted) in said.lines().zip(wanted.lines()) {
        assert_eq!(said, wanted);
    }
    assert_eq!(said.lines().count(), wanted.lines().count());
}

/// The sums that the guest's script wrote.
fn guest(iso: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let built = Command::new(root.join("images/guests/tiny/build")).stderr(Stdio::inherit()).output();
    let tiny = PathBuf::from(String::from_utf8(built.expect("the guest").stdout).expect("a path").trim_end());
    let cmdline = fs::read_to_string(tiny.join("cmdline")).expect("the guest's command line");
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"])
        .args(["-machine", "q35,accel=tcg", "-m", "256", "-serial", "stdio", "-append", cmdline.trim_end()])
        .arg("-kernel")
        .arg(tiny.join("vmlinux"))
        .arg("-initrd")
        .arg(tiny.join("initrd"))
        .arg("-cdrom")
        .arg(iso);
    // It ends with the value.
    Serial::of(qemu).log_in().runs("until [ -e /run/sums ]; do sleep 0.1; done; cat /run/sums")
}
