//! Disks with wrong values. The contract is the same for all: a result within the limits, without a panic.

use super::kit::{Counted, Folder, cloud_disk, fixture, run};
use crate::ReadAt;
use crate::inspect::{inspect_partial, outside};
use proptest::prelude::*;
use std::fs;
use std::io;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// A disk with some of its bytes changed.
struct Changed<'a> {
    disk: &'a [u8],
    bytes: Vec<(u64, u8)>,
}

impl ReadAt for Changed<'_> {
    fn size(&self) -> u64 {
        self.disk.len() as u64
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.disk.read_exact_at(buf, offset)?;
        for &(at, byte) in &self.bytes {
            if let Some(i) = at.checked_sub(offset).filter(|&i| i < buf.len() as u64) {
                buf[i as usize] = byte;
            }
        }
        Ok(())
    }
}

/// Disks of every kind, with the pages that an examination reads of each.
static DISKS: LazyLock<Vec<(Vec<u8>, Vec<u64>)>> = LazyLock::new(|| {
    let mut disks = vec![cloud_disk(), logical_disk(), installer(), windows(), ext2()];
    disks.extend(
        [
            include_str!("../fixtures/ntfs.hex"),
            include_str!("../fixtures/exfat.hex"),
            include_str!("../fixtures/zfs.hex"),
            include_str!("../fixtures/lvm.hex"),
            include_str!("../fixtures/udf.hex"),
            include_str!("../fixtures/seedfat.hex"),
            include_str!("../fixtures/f2fs.hex"),
        ]
        .map(fixture),
    );
    let pages = |disk: Vec<u8>| {
        let counted = Counted::new(disk);
        counted.look();
        let pages = counted.pages.into_inner().unwrap();
        (counted.disk, pages)
    };
    disks.into_iter().map(pages).collect()
});

fn logical_disk() -> Vec<u8> {
    let folder = Folder::new();
    let disk = folder.disk("disk", 16 << 20);
    let script = "label: dos\nstart=2048, type=5\nstart=4096, size=2048\nstart=8192, size=2048\nstart=12288, size=2048\n";
    run("sfdisk", &[&"-q", &disk], script);
    fs::read(disk).unwrap()
}

fn installer() -> Vec<u8> {
    let folder = Folder::new();
    folder.file("tree/boot.bin", vec![0x90; 2048]);
    folder.file("tree/efi.img", &fixture(include_str!("../fixtures/esp.hex"))[..4 << 20]);
    folder.file("tree/.disk/info", "Debian\n");
    folder.file("tree/user-data", "");
    let out = folder.path("out.iso");
    let tree = folder.path("tree");
    let args: &[&dyn AsRef<std::path::Path>] = &[
        &"-quiet",
        &"-o",
        &out,
        &"-V",
        &"cidata",
        &"-r",
        &"-b",
        &"boot.bin",
        &"-no-emul-boot",
        &"-eltorito-alt-boot",
        &"-e",
        &"efi.img",
        &"-no-emul-boot",
        &tree,
    ];
    run("genisoimage", args, "");
    fs::read(out).unwrap()
}

fn windows() -> Vec<u8> {
    let folder = Folder::new();
    folder.file("tree/sources/install.wim", "");
    folder.file("tree/efi/boot/bootx64.efi", "");
    let out = folder.path("out.iso");
    run("genisoimage", &[&"-quiet", &"-o", &out, &"-udf", &"-J", &folder.path("tree")], "");
    fs::read(out).unwrap()
}

fn ext2() -> Vec<u8> {
    let folder = Folder::new();
    let disk = folder.disk("disk", 8 << 20);
    folder.file("root/etc/os-release", "ID=x\n");
    run("mkfs.ext2", &[&"-q", &"-b", &"1024", &"-d", &folder.path("root"), &disk], "");
    fs::read(disk).unwrap()
}

/// Values that often cause faults.
fn nasty() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0xff), 2 => Just(0u8), 1 => Just(0x80), 1 => Just(0x7f), 1 => Just(1), 4 => any::<u8>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn damage_anywhere_a_look_reads_costs_no_more(
        which in any::<prop::sample::Index>(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), 0u64..4096, 1usize..9, nasty()), 1..6),
    ) {
        let (disk, pages) = &DISKS[which.index(DISKS.len())];
        let mut bytes = vec![];
        for (page, at, len, byte) in hits {
            let at = pages[page.index(pages.len())] * 4096 + at;
            bytes.extend((at..at + len as u64).map(|at| (at, byte)));
        }
        let begun = Instant::now();
        Counted::new(Changed { disk, bytes }).look();
        prop_assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_disk_cut_anywhere_is_looked_at(which in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>(), known in any::<bool>()) {
        let (disk, _) = &DISKS[which.index(DISKS.len())];
        let front = disk[..cut.index(disk.len().min(1 << 20))].to_vec();
        inspect_partial(&front, known.then_some(disk.len() as u64));
        Counted::new(front).look();
    }

    #[test]
    fn noise_is_looked_at(mut noise in prop::collection::vec(any::<u8>(), 0..20_000), magic in 0usize..8) {
        const MAGICS: [(usize, &[u8]); 8] = [
            (510, &[0x55, 0xaa]), (512, b"EFI PART"), (1080, &[0x53, 0xef]), (0, b"XFSB"),
            (0, b"LUKS\xba\xbe"), (3, b"NTFS    "), (3, b"EXFAT   "), (536, b"LVM2 001"),
        ];
        let (at, magic) = MAGICS[magic];
        if let Some(place) = noise.get_mut(at..at + magic.len()) {
            place.copy_from_slice(magic);
        }
        Counted::new(noise).look();
    }

    #[test]
    fn a_header_of_noise_refers_to_something_or_nothing(mut head in prop::collection::vec(any::<u8>(), 0..600), qed in any::<bool>()) {
        let magic: &[u8] = if qed { b"QED\0" } else { b"QFI\xfb\0\0\0\x03" };
        let n = magic.len().min(head.len());
        head[..n].copy_from_slice(&magic[..n]);
        outside(&head);
    }
}

/// A disk of any size with a single byte value.
struct Endless(u8, u64);

impl ReadAt for Endless {
    fn size(&self) -> u64 {
        self.1
    }
    fn read_exact_at(&self, buf: &mut [u8], _: u64) -> io::Result<()> {
        buf.fill(self.0);
        Ok(())
    }
}

#[test]
fn the_largest_disk_of_any_byte_is_looked_at() {
    for byte in [0, 1, 0x7f, 0x80, 0xff] {
        for size in [0, 1, 511, 512, 513, 4095, 64 << 40, u64::MAX] {
            Counted::new(Endless(byte, size)).look();
        }
    }
}

#[test]
fn a_table_with_endless_entries_is_bounded() {
    let (disk, _) = &DISKS[0];
    let mut header = disk[512..1024].to_vec();
    for (count, size) in [(u32::MAX, 128u32), (1 << 20, 4096), (0, 128), (128, 100), (128, 1 << 31)] {
        header[80..84].copy_from_slice(&count.to_le_bytes());
        header[84..88].copy_from_slice(&size.to_le_bytes());
        header[16..20].fill(0);
        let crc = libdeflater::crc32(&header[..92]);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        let bytes = (512u64..).zip(header.iter().copied()).collect();
        let look = Counted::new(Changed { disk, bytes }).look();
        let table = look.table.expect("a table");
        assert!(!table.problems.is_empty(), "{count} {size}");
        assert!(table.partitions.len() <= 128);
    }
}

#[test]
fn a_loop_of_logical_partitions_ends() {
    let mut disk = logical_disk();
    // Each extended boot record points to the first one again.
    for record in [2048usize, 6144, 10240] {
        let at = record * 512 + 462;
        disk[at + 4] = 5;
        disk[at + 8..at + 12].copy_from_slice(&0u32.to_le_bytes());
        disk[at + 12..at + 16].copy_from_slice(&100u32.to_le_bytes());
    }
    let look = Counted::new(disk).look();
    let table = look.table.expect("a table");
    assert!(table.problems.iter().any(|p| p.contains("points back")), "{:?}", table.problems);
}

#[test]
fn a_disk_that_cannot_be_read_is_said_so() {
    struct Broken;
    impl ReadAt for Broken {
        fn size(&self) -> u64 {
            1 << 30
        }
        fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            Err(io::Error::other("the cable is out"))
        }
    }
    let look = crate::inspect::inspect(&Broken);
    let crate::inspect::Content::Unread(why) = look.whole else { panic!("{:?}", look.whole) };
    assert!(why.contains("the cable is out"), "{why}");
}
