//! Partitioned disks.

use super::kit::{Counted, Folder, cloud_disk, fixture, known, look_at_bytes, run};
use crate::inspect::{Content, Inside, TableKind, inspect_partial};
use std::fs;

#[test]
fn a_cloud_image_is_seen_whole() {
    let disk = Counted::new(cloud_disk());
    let look = disk.look();
    let table = look.table.expect("a table");
    assert_eq!((table.kind, table.sector), (TableKind::Gpt, 512));
    assert_eq!(table.id.as_deref(), Some("11111111-2222-4333-8444-555555555555"));
    assert_eq!(table.problems, Vec::<String>::new());
    let names: Vec<_> = table
        .partitions
        .iter()
        .map(|p| (p.number, p.type_name.unwrap(), p.name.as_deref().unwrap()))
        .collect();
    assert_eq!(
        names,
        [(1, "BIOS boot", "bios"), (2, "EFI system", "EFI part"), (3, "Linux root (x86-64)", "root")]
    );
    assert_eq!((table.partitions[1].start, table.partitions[1].size), (2 << 20, 34 << 20));
    assert_eq!(table.partitions[0].content, Content::Blank);
    assert_eq!(known(&table.partitions[1].content).label.as_deref(), Some("ESP"));
    let root = known(&table.partitions[2].content);
    let Inside::System(system) = &root.inside else { panic!("{root:?}") };
    assert_eq!(system.os.as_ref().and_then(|os| os.id.as_deref()), Some("debian"));
    assert_eq!(system.cloud_init, Some(true));
    assert_eq!(look.boot.bios, ["GRUB in the first sector, BIOS boot partition 1"]);
    assert_eq!(look.boot.uefi, ["EFI system partition 2 (x86_64, aarch64)"]);
    assert!(look.reads < 50 && look.bytes < 512 << 10, "{} reads of {} bytes", look.reads, look.bytes);
}

#[test]
fn an_mbr_with_logical_partitions_is_followed() {
    let folder = Folder::new();
    let disk = folder.disk("disk", 64 << 20);
    let script = "label: dos\nlabel-id: 0xcafebabe\n\
        start=2048, size=20480, type=83, bootable\nstart=22528, size=20480, type=82\nstart=43008, type=5\n\
        start=45056, size=10240, type=8e\nstart=57344, size=10240, type=7\nstart=69632, size=8192, type=c\n";
    run("sfdisk", &[&"-q", &disk], script);
    let mut bytes = fs::read(disk).unwrap();
    bytes[0] = 0xeb;
    let look = look_at_bytes(bytes);
    let table = look.table.expect("a table");
    assert_eq!((table.kind, table.id.as_deref()), (TableKind::Mbr, Some("cafebabe")));
    assert_eq!(table.problems, Vec::<String>::new());
    let seen: Vec<_> = table
        .partitions
        .iter()
        .map(|p| (p.number, p.start / 512, p.size / 512, p.type_id.as_str(), p.active))
        .collect();
    let expected = [
        (1, 2048, 20480, "83", true),
        (2, 22528, 20480, "82", false),
        (5, 45056, 10240, "8e", false),
        (6, 57344, 10240, "07", false),
        (7, 69632, 8192, "0c", false),
    ];
    assert_eq!(seen, expected);
    assert_eq!(look.boot.bios, ["code in the first sector, active partition 1"]);
}

#[test]
fn an_empty_table_is_a_table() {
    let folder = Folder::new();
    for (label, kind) in [("dos", TableKind::Mbr), ("gpt", TableKind::Gpt)] {
        let disk = folder.disk("disk", 4 << 20);
        run("sfdisk", &[&"-q", &disk], &format!("label: {label}\n"));
        let table = look_at_bytes(fs::read(disk).unwrap()).table.expect("a table");
        assert_eq!((table.kind, table.partitions.len(), table.problems.len()), (kind, 0, 0));
    }
}

#[test]
fn a_filesystem_without_a_table_is_no_table() {
    let folder = Folder::new();
    let disk = folder.disk("disk", 8 << 20);
    run("mkfs.vfat", &[&"-n", &"FLOPPY", &disk], "");
    let look = look_at_bytes(fs::read(disk).unwrap());
    assert_eq!(look.table, None);
    assert_eq!(known(&look.whole).label.as_deref(), Some("FLOPPY"));
}

#[test]
fn a_gpt_with_large_sectors_is_read() {
    // The table of a disk with small sectors, laid out again with large ones.
    let small = cloud_disk();
    let mut disk = vec![0; 64 << 20];
    disk[..512].copy_from_slice(&small[..512]);
    disk[8192..8192 + 16384].copy_from_slice(&small[1024..1024 + 16384]);
    let mut header = small[512..604].to_vec();
    header[32..40].copy_from_slice(&((64 << 20) / 4096 - 1u64).to_le_bytes());
    header[16..20].fill(0);
    let crc = libdeflater::crc32(&header);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    disk[4096..4096 + 92].copy_from_slice(&header);
    let table = look_at_bytes(disk).table.expect("a table");
    assert_eq!((table.kind, table.sector), (TableKind::Gpt, 4096));
    assert_eq!((table.partitions[0].start, table.partitions[0].size), (2048 * 4096, 2048 * 4096));
    // With sectors eight times as large, the rest lies outside of this disk.
    assert_eq!(
        table.problems,
        ["partition 2 reaches past the end of the disk", "partition 3 reaches past the end of the disk"]
    );
}

#[test]
fn a_broken_primary_gpt_gives_way_to_the_backup() {
    let mut disk = cloud_disk();
    disk[512 + 40] ^= 1;
    let table = look_at_bytes(disk).table.expect("a table");
    assert_eq!(table.partitions.len(), 3);
    assert!(table.problems[0].contains("header checksum"), "{:?}", table.problems);
    assert!(table.problems[1].contains("backup at the end"), "{:?}", table.problems);
}

#[test]
fn a_grown_disk_and_wrong_entries_are_findings() {
    let mut disk = cloud_disk();
    disk[1024 + 60] ^= 1; // a letter of a name
    disk.resize(128 << 20, 0);
    let table = look_at_bytes(disk).table.expect("a table");
    assert_eq!(table.partitions.len(), 3);
    assert!(table.problems.iter().any(|p| p.contains("the disk was resized")), "{:?}", table.problems);
    assert!(table.problems.iter().any(|p| p.contains("checksum of its entries")), "{:?}", table.problems);
}

#[test]
fn a_hybrid_table_names_both() {
    let mut disk = cloud_disk();
    // A second entry in the MBR: a partition of type 83 at the position of the root partition.
    let entry = [0x80, 0, 0, 0, 0x83, 0, 0, 0, 0, 0x20, 1, 0, 0, 0x10, 0, 0];
    disk[446 + 16..446 + 32].copy_from_slice(&entry);
    let table = look_at_bytes(disk).table.expect("a table");
    assert_eq!(table.kind, TableKind::Hybrid);
    assert!(table.problems.iter().any(|p| p.contains("2 (type 83)")), "{:?}", table.problems);
}

#[test]
fn a_gpt_nobody_announces_is_said_so() {
    let mut disk = cloud_disk();
    disk[..512].fill(0);
    let table = look_at_bytes(disk).table.expect("a table");
    assert_eq!((table.kind, table.partitions.len()), (TableKind::Gpt, 3));
    assert!(table.problems[0].contains("no protective MBR"), "{:?}", table.problems);

    let mut disk = cloud_disk();
    disk[512..1024].fill(0);
    let end = disk.len() - 512;
    disk[end..].fill(0);
    let table = look_at_bytes(disk).table.expect("a table");
    assert_eq!(table.kind, TableKind::Mbr);
    assert!(table.problems[0].contains("there is none"), "{:?}", table.problems);
}

#[test]
fn the_front_of_a_disk_tells_what_it_can() {
    let disk = cloud_disk();
    let front = disk[..(36 << 20) + 4096].to_vec();
    for size in [Some(disk.len() as u64), None] {
        let look = inspect_partial(&front, size);
        let table = look.table.expect("a table");
        assert_eq!(table.partitions.len(), 3);
        assert_eq!(table.problems, Vec::<String>::new());
        assert_eq!(known(&table.partitions[1].content).kind, "vfat");
        // The superblock can be read, the inodes cannot.
        let root = known(&table.partitions[2].content);
        let Inside::System(system) = &root.inside else { panic!("{root:?}") };
        assert_eq!((root.kind, system.cloud_init, system.os.is_none()), ("ext4", None, true));
        assert!(system.unread.as_ref().is_some_and(|why| why.contains("past the part")), "{system:?}");

        let look = inspect_partial(&disk[..36 << 20].to_vec(), size);
        let content = &look.table.expect("a table").partitions[2].content;
        assert_eq!(*content, Content::Unread("it lies past the part of the disk that was read".into()));
    }
}

#[test]
fn a_partition_that_reaches_out_or_lies_over_another_is_said_so() {
    let mut disk = vec![0u8; 1 << 20];
    let entry = |start: u32, sectors: u32| {
        let mut e = vec![0, 0, 0, 0, 0x83, 0, 0, 0];
        e.extend(start.to_le_bytes());
        e.extend(sectors.to_le_bytes());
        e
    };
    disk[446..462].copy_from_slice(&entry(100, u32::MAX));
    disk[462..478].copy_from_slice(&entry(200, 10));
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    let table = look_at_bytes(disk).table.expect("a table");
    assert_eq!(
        table.problems,
        ["partition 1 reaches past the end of the disk", "partition 2 overlaps partition 1"]
    );
}

#[test]
fn windows_disks_are_read_too() {
    let folder = Folder::new();
    let disk = folder.disk("disk", 80 << 20);
    let script = "label: gpt\nstart=2048, size=2048, type=E3C9E316-0B5C-4DB8-817D-F92DF00215AE\n\
        start=4096, type=EBD0A0A2-B9E5-4433-87C0-68B6B72699C7, name=\"Basic data partition\"\n";
    run("sfdisk", &[&"-q", &disk], script);
    let mut bytes = fs::read(disk).unwrap();
    let ntfs = fixture(include_str!("../fixtures/ntfs.hex"));
    bytes[4096 * 512..4096 * 512 + ntfs.len()].copy_from_slice(&ntfs);
    let table = look_at_bytes(bytes).table.expect("a table");
    assert_eq!(table.partitions[0].type_name, Some("Microsoft reserved"));
    let data = known(&table.partitions[1].content);
    assert_eq!(
        (data.kind, data.label.as_deref(), &data.inside),
        ("ntfs", Some("Win Data"), &Inside::NotLookedInto)
    );
}
