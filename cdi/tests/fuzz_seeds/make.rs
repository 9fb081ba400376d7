//! Makes the seeds anew: `cargo test -p cdi --test fuzz_seeds -- --ignored`.

use crate::{folder, sparse};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The part of a disk that a sparse file holds.
const DISK: usize = 8 << 20;

#[test]
#[ignore = "writes into the source tree; the seeds are committed"]
fn make_seeds() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    shell(
        at,
        "printf 'ID=debian\\nVERSION_ID=12\\n' >os-release && mkdir -p root/etc && cp os-release root/etc",
    );
    shell(at, "qemu-img create -q -f qcow2 -o cluster_size=512 a.qcow2 40k");
    shell(at, "qemu-io -c 'write -P 1 1k 2k' -c 'write -c -P 2 8k 512' a.qcow2");
    shell(at, "head -c 700 /dev/zero | tr '\\0' x >disk.img");
    layers(at);
    tar(at);
    look(at);
    resume();
}

fn layers(at: &Path) {
    let recipes = [
        ("gz", 0, "gzip -nc disk.img && gzip -nc a.qcow2"),
        ("xz", 0, "xz -0 -c --block-size=1000 a.qcow2"),
        ("xz-sha256", 0, "xz -0 -c -C sha256 disk.img"),
        ("xz-delta", 0, "xz -c --x86 --delta=dist=4 --lzma2=dict=64KiB disk.img"),
        ("zst", 0, "zstd -q -c a.qcow2 && zstd -q -c --no-check disk.img"),
        // The size of the content, and so the window, is the largest number.
        ("zst-window", 0, r"printf '\050\265\057\375\340\377\377\377\377\377\377\377\377\001\000\000'"),
        ("tar.gz", 0, "tar cf - disk.img | gzip -nc"),
        ("tar.xz.gz.zst", 0, "tar cf - disk.img | xz -0 -c | gzip -nc | zstd -q -c"),
        ("just-the-limit", 0, "head -c 1048576 /dev/zero | xz -0 -c"),
        ("one-byte-over-the-limit", 0, "head -c 1048577 /dev/zero | xz -0 -c"),
        ("raw", 0x40, "cat os-release"),
        ("qcow2-in-xz", 0b10, "cat a.qcow2 | gzip -nc"),
        ("five-layers", 0b1101_1001, "tar cf - disk.img | gzip -nc"),
    ];
    for (name, wraps, script) in recipes {
        let file = shell(at, script);
        save("layers", name, &[0xdd, wraps, 1, 0], &file);
    }
}

fn tar(at: &Path) {
    shell(at, "cp disk.img sparse.img && truncate -s 200k sparse.img && printf end >>sparse.img");
    shell(at, &format!("cp disk.img {}.img && echo text >README", "long".repeat(40)));
    let recipes = [
        ("ustar", "tar cf - --format=ustar README disk.img"),
        ("v7", "tar cf - --format=v7 disk.img"),
        ("pax", "tar cf - --format=posix root disk.img"),
        // Keywords that would clear a terminal if they were told as they stand.
        (
            "pax-key-steers",
            "tar cf - --format=posix --pax-option=\"GNU.sparse.$(printf '\\033[2J'):=1\" disk.img",
        ),
        (
            "pax-global-steers",
            "tar cf - --format=posix --pax-option=\"GNU.sparse.$(printf '\\033[2J')=1\" disk.img",
        ),
        ("long", "tar cf - --format=gnu long*"),
        ("sparse-old", "tar cf - --format=gnu --sparse sparse.img"),
        ("sparse-0.0", "tar cf - --format=posix --sparse --sparse-version=0.0 sparse.img"),
        ("sparse-0.1", "tar cf - --format=posix --sparse --sparse-version=0.1 sparse.img"),
        ("sparse-1.0", "tar cf - --format=posix --sparse --sparse-version=1.0 sparse.img"),
    ];
    for (name, script) in recipes {
        save("tar", name, &[0, 3, 0], &sparse::shrink(&shell(at, script)));
    }
}

fn look(at: &Path) {
    let front = [0x10, 0];
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lib/disk-format/src/inspect/fixtures");
    for entry in fs::read_dir(fixtures).unwrap() {
        let path = entry.unwrap().path();
        let disk = fixture(&fs::read_to_string(&path).unwrap());
        save("look", path.file_stem().unwrap().to_str().unwrap(), &front, &sparse::shrink(&disk));
    }
    let ext = "mkfs.ext4 -q -b 1024 -N 16 -O ^has_journal,^resize_inode -L root -d root ext 256k";
    let tree = "mkdir tree && echo '#cloud-config' >tree/user-data && echo x >tree/meta-data && head -c 2048 os-release >tree/b";
    let part = "type=L, start=2048, size=512";
    let recipes = [
        ("ext4", format!("{ext}; cat ext")),
        (
            "gpt",
            format!("truncate -s 2M g && printf 'label: gpt\\nfirst-lba: 34\\n{part}\\nstart=2600, size=90, type=U\\n' | sfdisk -q g && dd if=ext of=g bs=512 seek=2048 conv=notrunc status=none; cat g"),
        ),
        (
            "mbr",
            format!("truncate -s 2M m && printf 'label: dos\\n{part}, bootable\\nstart=2600, size=1000, type=Ex\\nstart=2700, size=50\\nstart=2900, size=60\\n' | sfdisk -q m; cat m"),
        ),
        ("vfat", "truncate -s 512k f && mkfs.vfat -n BOOT f >&2 && mcopy -i f os-release ::a && mmd -i f ::EFI && mcopy -i f os-release ::EFI/BOOTX64.EFI; cat f".to_owned()),
        ("iso", format!("{tree}; genisoimage -quiet -r -J -V cidata -b b -c c -no-emul-boot tree")),
        ("hybrid", "head -c 432 /dev/zero | tr '\\0' j >jump; xorriso -as mkisofs -quiet -V hybrid -r -b b -no-emul-boot -boot-load-size 4 -isohybrid-mbr jump -o h tree >&2; cat h".to_owned()),
        ("squashfs", "mksquashfs root s -quiet -no-progress >&2; cat s".to_owned()),
        ("swap", "truncate -s 64k w; mkswap -q -L swap w >&2; cat w".to_owned()),
    ];
    for (name, script) in recipes {
        let mut disk = shell(at, &script);
        disk.truncate(DISK);
        save("look", name, &front, &sparse::shrink(&disk));
    }
}

fn resume() {
    // Units: 90,000 bytes of 7s; 120,000 of a pattern; 9 bytes; 100,000 of text; none; 70,000 zeros.
    let units: [(u16, &[u8]); 6] = [
        (30_000, &[7]),
        (40_000, &[1, 2, 3, 4, 5]),
        (3, b"abc"),
        (33_334, b"text "),
        (0, &[]),
        (23_334, &[]),
    ];
    let mut bytes = Vec::new();
    for (len, pattern) in units {
        bytes.extend(len.to_be_bytes());
        bytes.push(u8::try_from(pattern.len()).unwrap());
        bytes.extend(pattern);
    }
    for (name, how) in [("gzip", 0), ("xz", 0b11_0101), ("xz-none", 0b00_1001), ("zstd", 0b0110)] {
        save("resume", name, &[how, 0], &bytes);
        let damage = [0, 200, 1, 1, 40, 0x80];
        save("resume", &format!("{name}-damaged"), &[how, 2], &[&bytes[..], &damage].concat());
    }
}

fn save(target: &str, name: &str, before: &[u8], input: &[u8]) {
    fs::create_dir_all(folder(target)).unwrap();
    fs::write(folder(target).join(name), [before, input].concat()).unwrap();
}

/// The output of a `bash` script, which must succeed. Tools of the administrator are in the path too.
fn shell(at: &Path, script: &str) -> Vec<u8> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let script = format!("set -eo pipefail; {script}");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(at).env("PATH", path);
    let out = command.env("TAR_OPTIONS", "--mtime=@0 --owner=0 --group=0").output().unwrap();
    assert!(out.status.success(), "{script}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

/// The disk of a fixture (see its readers in `lib/disk-format/src/inspect/tests/kit.rs`), as far as a sparse file reaches.
fn fixture(text: &str) -> Vec<u8> {
    let mut disk = vec![];
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (at, value) = line.split_once(' ').unwrap();
        if at == "size" {
            disk.resize(value.parse::<usize>().unwrap().min(DISK), 0);
            continue;
        }
        let at = usize::from_str_radix(at, 16).unwrap();
        let byte = |i: usize| u8::from_str_radix(&value[i..i + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..value.len()).step_by(2).map(byte).collect();
        if let Some(place) = disk.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(&bytes);
        }
    }
    disk
}
