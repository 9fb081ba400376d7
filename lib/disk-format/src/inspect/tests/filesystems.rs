//! Filesystems, each made by its own tool.

use super::kit::{Folder, fixture, known, look_at_bytes, root_files, run};
use crate::inspect::{Content, Inside, Seed, System, inspect, inspect_partial};
use std::fs;

const ID: Option<&str> = Some("12345678-9abc-4def-8123-456789abcdef");
const MIB: u64 = 1 << 20;

/// Expected facts of a fixture: kind, version, label, UUID, size.
type Expected = (
    &'static str,
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
    Option<&'static str>,
    Option<u64>,
);

#[rustfmt::skip]
const FIXTURES: &[Expected] = &[
    (include_str!("../fixtures/xfs.hex"), "xfs", Some("5"), Some("rootxfs"), ID, Some(400 * MIB)),
    (include_str!("../fixtures/btrfs.hex"), "btrfs", None, Some("my btrfs"), ID, Some(200 * MIB)),
    (include_str!("../fixtures/exfat.hex"), "exfat", None, Some("exlabel"), None, Some(64 * MIB)),
    (include_str!("../fixtures/ntfs.hex"), "ntfs", None, Some("Win Data"), None, Some(64 * MIB - 512)),
    (include_str!("../fixtures/luks1.hex"), "crypto_LUKS", Some("1"), None, ID, None),
    (include_str!("../fixtures/luks2.hex"), "crypto_LUKS", Some("2"), Some("crypt"), ID, None),
    (include_str!("../fixtures/f2fs.hex"), "f2fs", Some("1.15"), Some("flash"), ID, Some(128 * MIB)),
    (include_str!("../fixtures/jfs.hex"), "jfs", None, Some("jfslabel"), None, None),
    (include_str!("../fixtures/erofs.hex"), "erofs", None, None, ID, Some(4096)),
    (include_str!("../fixtures/lvm.hex"), "LVM2_member", None, None, None, Some(64 * MIB)),
    (include_str!("../fixtures/bcache.hex"), "bcache", None, None, None, None),
    (include_str!("../fixtures/zfs.hex"), "zfs_member", Some("23"), Some("lookpool"), None, None),
    (include_str!("../fixtures/udf.hex"), "udf", Some("2.01"), Some("Udf Disk"), None, None),
    (include_str!("../fixtures/esp.hex"), "vfat", Some("FAT32"), Some("ESP"), Some("1234-ABCD"), Some(34 * MIB)),
    (include_str!("../fixtures/seedfat.hex"), "vfat", Some("FAT12"), Some("CIDATA"), Some("0BAD-CAFE"), Some(MIB)),
];

#[test]
fn filesystems_of_many_tools_are_known() {
    for (text, kind, version, label, uuid, size) in FIXTURES {
        let look = look_at_bytes(fixture(text));
        assert_eq!(look.table, None, "{kind}");
        let found = known(&look.whole);
        assert_eq!(found.kind, *kind);
        assert_eq!(found.version.as_deref(), *version, "{kind}");
        assert_eq!(found.label.as_deref(), *label, "{kind}");
        match uuid {
            Some(_) => assert_eq!(found.uuid.as_deref(), *uuid, "{kind}"),
            None => assert!(found.uuid.as_ref().is_none_or(|u| u.len() >= 9), "{kind}: {:?}", found.uuid),
        }
        if size.is_some() {
            assert_eq!(found.size, *size, "{kind}");
        }
    }
}

#[test]
fn fat_directories_tell_boot_programs_and_seeds() {
    let esp = look_at_bytes(fixture(include_str!("../fixtures/esp.hex")));
    assert_eq!(known(&esp.whole).inside, Inside::Files { uefi: vec!["x86_64", "aarch64"], seed: None });
    assert_eq!(esp.boot.uefi, ["FAT filesystem (x86_64, aarch64)"]);
    assert_eq!(esp.boot.architectures, ["x86_64", "aarch64"]);

    let seed = look_at_bytes(fixture(include_str!("../fixtures/seedfat.hex")));
    let files = ["user-data", "meta-data", "network-config"].map(String::from).to_vec();
    let expected = Seed { source: "NoCloud", files };
    assert_eq!(known(&seed.whole).inside, Inside::Files { uefi: vec![], seed: Some(expected) });
}

#[test]
fn ext_of_every_age_is_read_to_its_os_release() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("ext2", "4096", &[]),
        ("ext2", "1024", &[]),
        ("ext3", "1024", &[]),
        ("ext4", "1024", &[]),
        ("ext4", "4096", &[]),
        ("ext4", "4096", &["-O", "64bit,metadata_csum,dir_index"]),
        ("ext4", "4096", &["-O", "^64bit,^extent"]),
        ("ext4", "4096", &["-O", "bigalloc"]),
    ];
    for (kind, block, features) in cases {
        let folder = Folder::new();
        let disk = folder.disk("disk", 48 << 20);
        let root = root_files(&folder, true);
        let tool = format!("mkfs.{kind}");
        let mut args: Vec<&dyn AsRef<std::path::Path>> =
            vec![&"-q", &"-b", block, &"-L", &"root", &"-U", &"12345678-9abc-4def-8123-456789abcdef"];
        args.extend(features.iter().map(|f| f as &dyn AsRef<std::path::Path>));
        args.extend([&"-d" as &dyn AsRef<std::path::Path>, &root, &disk]);
        run(&tool, &args, "");
        let look = look_at_bytes(fs::read(&disk).unwrap());
        let found = known(&look.whole);
        let why = format!("{kind} {block} {features:?}");
        assert_eq!(
            (found.kind, found.label.as_deref(), found.uuid.as_deref()),
            (*kind, Some("root"), ID),
            "{why}"
        );
        assert_eq!(found.size, Some(48 << 20), "{why}");
        assert!(
            found.free.is_some_and(|free| (10 << 20..48 << 20).contains(&free)),
            "{why}: {:?}",
            found.free
        );
        let Inside::System(system) = &found.inside else { panic!("{why}: {:?}", found.inside) };
        let name = system.os.as_ref().and_then(|os| os.name.as_deref());
        assert_eq!(name, Some("Debian GNU/Linux 12 (bookworm)"), "{why}");
        assert_eq!(system.cloud_init, Some(true), "{why}");
    }
}

#[test]
fn an_ext4_without_cloud_init_says_so() {
    let folder = Folder::new();
    let disk = folder.disk("disk", 32 << 20);
    run("mkfs.ext4", &[&"-q", &"-d", &root_files(&folder, false), &disk], "");
    let look = look_at_bytes(fs::read(&disk).unwrap());
    let Inside::System(system) = &known(&look.whole).inside else { panic!("not looked into") };
    assert_eq!(system.cloud_init, Some(false));

    let empty = folder.disk("empty", 8 << 20);
    run("mkfs.ext4", &[&"-q", &empty], "");
    let look = look_at_bytes(fs::read(&empty).unwrap());
    assert_eq!(known(&look.whole).inside, Inside::System(System::default()), "no root filesystem, no claim");
}

#[test]
fn an_ext4_of_which_only_the_front_was_read_makes_no_claim() {
    let folder = Folder::new();
    let disk = folder.disk("disk", 48 << 20);
    run("mkfs.ext4", &[&"-q", &"-L", &"root", &"-d", &root_files(&folder, false), &disk], "");
    let whole = fs::read(&disk).unwrap();
    let front = whole[..64 << 10].to_vec();
    for size in [Some(48 << 20), None] {
        let look = inspect_partial(&front, size);
        let found = known(&look.whole);
        assert_eq!((found.kind, found.label.as_deref()), ("ext4", Some("root")));
        let Inside::System(system) = &found.inside else { panic!("not looked into") };
        assert_eq!((system.os.as_ref(), system.cloud_init), (None, None));
        assert!(system.unread.as_ref().is_some_and(|why| why.contains("past the part")), "{system:?}");
    }
}

#[test]
fn fat16_and_swap_and_squashfs_as_they_are_made_here() {
    let folder = Folder::new();
    let fat = folder.disk("fat", 20 << 20);
    run("mkfs.vfat", &[&"-F", &"16", &"-n", &"SIXTEEN", &"-i", &"16161616", &fat], "");
    let look = look_at_bytes(fs::read(fat).unwrap());
    let found = known(&look.whole);
    assert_eq!((found.kind, found.version.as_deref()), ("vfat", Some("FAT16")));
    assert_eq!((found.label.as_deref(), found.uuid.as_deref()), (Some("SIXTEEN"), Some("1616-1616")));
    assert_eq!(look.boot.uefi, Vec::<String>::new());

    for (page, size) in [("4096", 8 << 20), ("16384", 8 << 20), ("65536", 8 << 20)] {
        let swap = folder.disk("swap", size);
        run("mkswap", &[&"-q", &"-p", &page, &"-L", &"swp", &"-U", &ID.unwrap(), &swap], "");
        let look = look_at_bytes(fs::read(swap).unwrap());
        let found = known(&look.whole);
        assert_eq!(
            (found.kind, found.label.as_deref(), found.uuid.as_deref()),
            ("swap", Some("swp"), ID),
            "{page}"
        );
        assert_eq!(found.size, Some(size), "{page}");
    }

    folder.file("tree/file", vec![7; 100_000]);
    let squash = folder.path("squash");
    run("mksquashfs", &[&folder.path("tree"), &squash, &"-comp", &"xz", &"-quiet", &"-no-progress"], "");
    let look = look_at_bytes(fs::read(squash).unwrap());
    let found = known(&look.whole);
    assert_eq!((found.kind, found.version.as_deref()), ("squashfs", Some("4.0, xz")));
    assert!(found.size.is_some_and(|size| (96..10_000).contains(&size)), "{:?}", found.size);
}

#[test]
fn raid_members_are_known_by_any_of_their_superblocks() {
    // The four layouts of Linux' documentation; mdadm itself needs a kernel that has arrays.
    let v1 = |name: &[u8]| {
        let mut s = vec![0u8; 256];
        s[0..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
        s[16..32].copy_from_slice(&[
            0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0x4d, 0xef, 0x81, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
        ]);
        s[32..32 + name.len()].copy_from_slice(name);
        s[72] = 1;
        s[80..88].copy_from_slice(&1000u64.to_le_bytes());
        s[92] = 2;
        s
    };
    let size = 4 << 20;
    for (at, version) in [(4096, "1.2"), (0, "1.1"), (size - 16 * 512, "1.0")] {
        let mut disk = vec![0; size];
        disk[at..at + 256].copy_from_slice(&v1(b"host:data"));
        let look = look_at_bytes(disk);
        let found = known(&look.whole);
        assert_eq!(
            (found.kind, found.label.as_deref(), found.uuid.as_deref()),
            ("linux_raid_member", Some("host:data"), ID)
        );
        assert_eq!(found.version.as_deref(), Some(format!("{version}, RAID1, 2 disks").as_str()));
        assert_eq!(found.size, Some(512_000));
    }
    let mut disk = vec![0; size];
    let at = size - 65536;
    let words = [
        (0, 0xa92b_4efc_u32),
        (2, 90),
        (5, 0x1234_5678),
        (7, 5),
        (8, 100),
        (10, 3),
        (13, 0x9abc_4def),
        (14, 0x8123_4567),
        (15, 0x89ab_cdef),
    ];
    for (word, value) in words {
        disk[at + 4 * word..at + 4 * word + 4].copy_from_slice(&value.to_le_bytes());
    }
    let look = look_at_bytes(disk);
    let found = known(&look.whole);
    assert_eq!((found.version.as_deref(), found.uuid.as_deref()), (Some("0.90, RAID5, 3 disks"), ID));
}

#[test]
fn nothing_is_told_from_something_unknown() {
    assert_eq!(inspect(&vec![0u8; 1 << 20]).whole, Content::Blank);
    assert_eq!(inspect(&vec![0x5au8; 1 << 20]).whole, Content::Unknown);
    assert_eq!(inspect(&vec![0u8; 0]).whole, Content::Blank);
    assert_eq!(inspect(&vec![1u8; 1]).whole, Content::Unknown);
    let front = vec![0u8; 40 << 10];
    let Content::Unread(why) = inspect_partial(&front, Some(1 << 30)).whole else {
        panic!("a claim about what was not read")
    };
    assert!(why.contains("past the part"), "{why}");
}
