//! Optical disc images.

use super::kit::{Folder, fixture, known, look_at_bytes, run};
use crate::inspect::{Content, DiskFacts, Platform, TableKind};
use std::fs;

fn iso(folder: &Folder, tool: &str, args: &[&dyn AsRef<std::path::Path>]) -> DiskFacts {
    let out = folder.path("out.iso");
    let mut all: Vec<&dyn AsRef<std::path::Path>> =
        if tool == "xorriso" { vec![&"-as", &"mkisofs"] } else { vec![] };
    let quiet: &dyn AsRef<std::path::Path> = &"-quiet";
    all.extend([quiet, &"-o", &out]);
    all.extend(args);
    let tree = folder.path("tree");
    all.push(&tree);
    run(tool, &all, "");
    look_at_bytes(fs::read(out).unwrap())
}

#[test]
fn a_seed_is_known_by_its_label_and_files() {
    let folder = Folder::new();
    folder.file("tree/user-data", "#cloud-config\n");
    folder.file("tree/meta-data", "instance-id: x\n");
    for (tool, flags) in [("genisoimage", "-r"), ("genisoimage", "-J"), ("xorriso", "-r"), ("xorriso", "-J")]
    {
        let look = iso(&folder, tool, &[&"-V", &"cidata", &flags]);
        let disc = look.optical.expect("a disc");
        assert_eq!(disc.label.as_deref(), Some("cidata"), "{tool} {flags}");
        // xorriso always writes Rock Ridge.
        let expected = (flags == "-r" || tool == "xorriso", flags == "-J");
        assert_eq!((disc.rock_ridge, disc.joliet), expected, "{tool} {flags}");
        let seed = disc.seed.expect("a seed");
        assert_eq!(seed.source, "NoCloud");
        assert_eq!(seed.files, ["user-data", "meta-data"], "{tool} {flags}");
        assert_eq!((look.table, known(&look.whole).kind), (None, "iso9660"));
        assert_eq!(look.boot, crate::inspect::Boot::default());
    }
}

#[test]
fn a_config_drive_is_known() {
    let folder = Folder::new();
    folder.file("tree/openstack/latest/meta_data.json", "{}");
    folder.file("tree/openstack/latest/user_data", "");
    let look = iso(&folder, "genisoimage", &[&"-V", &"config-2", &"-R"]);
    let seed = look.optical.and_then(|o| o.seed).expect("a seed");
    assert_eq!(seed.source, "ConfigDrive");
    assert_eq!(seed.files, ["openstack/latest/meta_data.json", "openstack/latest/user_data"]);
}

/// An installer that boots by BIOS and by UEFI, also from a USB stick.
fn installer(folder: &Folder) -> DiskFacts {
    folder.file("tree/isolinux/isolinux.bin", vec![0x90; 2048]);
    folder.file("tree/boot/efi.img", fixture(include_str!("../fixtures/esp.hex")));
    folder.file("tree/.disk/info", "Debian GNU/Linux 12.7.0 \"Bookworm\" - Official amd64 NETINST\n");
    let mbr = folder.file("mbr.bin", vec![0x90; 432]);
    iso(
        folder,
        "xorriso",
        &[
            &"-V",
            &"Debian 12.7.0 amd64 n",
            &"-publisher",
            &"Debian",
            &"-r",
            &"-J",
            &"-b",
            &"isolinux/isolinux.bin",
            &"-no-emul-boot",
            &"-boot-load-size",
            &"4",
            &"-boot-info-table",
            &"-eltorito-alt-boot",
            &"-e",
            &"boot/efi.img",
            &"-no-emul-boot",
            &"-isohybrid-gpt-basdat",
            &"-isohybrid-mbr",
            &mbr,
        ],
    )
}

#[test]
fn an_installer_tells_how_it_boots() {
    let look = installer(&Folder::new());
    let disc = look.optical.expect("a disc");
    assert_eq!(disc.label.as_deref(), Some("Debian 12.7.0 amd64 n"));
    assert_eq!(disc.publisher.as_deref(), Some("DEBIAN"));
    assert!(disc.preparer.is_some_and(|p| p.contains("XORRISO")));
    assert!(disc.created.is_some_and(|c| c.len() == 19));
    assert!(disc.size.is_some_and(|s| s > 34 << 20));
    assert!(disc.joliet && disc.rock_ridge);
    let boots: Vec<_> = disc.boot.iter().map(|b| (b.platform, b.bootable, b.emulation)).collect();
    assert_eq!(boots, [(Platform::Bios, true, "none"), (Platform::Uefi, true, "none")]);
    assert_eq!(disc.boot[1].architectures, ["x86_64", "aarch64"]);
    assert_eq!(disc.boot[1].size, 34 << 20);
    let medium = disc.medium.expect("a medium");
    assert_eq!(medium.what, Some("Linux installer"));
    assert_eq!(medium.name.as_deref(), Some("Debian GNU/Linux 12.7.0 \"Bookworm\" - Official amd64 NETINST"));
    assert!(look.boot.bios.iter().any(|b| b.contains("El Torito")), "{:?}", look.boot);
    assert!(
        look.boot.uefi.iter().any(|b| b.contains("El Torito") && b.contains("x86_64")),
        "{:?}",
        look.boot
    );
    assert_eq!(look.boot.architectures, ["x86_64", "aarch64"]);
    let table = look.table.expect("a table for sticks");
    assert!(matches!(table.kind, TableKind::Mbr | TableKind::Hybrid | TableKind::Gpt));
    assert!(!table.partitions.is_empty());
    assert!(!table.problems.iter().any(|p| p.contains("overlaps")), "{:?}", table.problems);
}

#[test]
fn a_windows_installer_is_found_in_its_udf() {
    let folder = Folder::new();
    folder.file("tree/sources/install.wim", "MSWIM");
    folder.file("tree/sources/boot.wim", "MSWIM");
    folder.file("tree/efi/boot/bootx64.efi", "MZ");
    let look = iso(&folder, "genisoimage", &[&"-udf", &"-V", &"CCCOMA_X64FRE"]);
    let disc = look.optical.expect("a disc");
    let udf = disc.udf.expect("udf");
    assert_eq!(udf.label.as_deref(), Some("CCCOMA_X64FRE"));
    assert_eq!(udf.version.as_deref(), Some("1.02"));
    let medium = disc.medium.expect("a medium");
    assert_eq!((medium.what, medium.uefi), (Some("Windows installer"), vec!["x86_64"]));
}

#[test]
fn udf_alone_is_walked() {
    let folder = Folder::new();
    folder.file("tree/sources/install.esd", "MSWIM");
    folder.file("tree/efi/boot/bootaa64.efi", "MZ");
    iso(&folder, "genisoimage", &[&"-udf", &"-V", &"UDF ONLY"]);
    // Windows' discs hide their files from ISO 9660. Here its descriptors are removed completely.
    let mut bytes = fs::read(folder.path("out.iso")).unwrap();
    for sector in 16..32 {
        let at = sector * 2048 + 1;
        if &bytes[at..at + 5] == b"CD001" {
            bytes[at - 1..at + 2047].fill(0);
            bytes[at..at + 5].copy_from_slice(b"BEA01");
        }
    }
    let look = look_at_bytes(bytes);
    let disc = look.optical.expect("a disc");
    assert!(!disc.iso9660);
    let medium = disc.medium.expect("a medium");
    assert_eq!((medium.what, medium.uefi), (Some("Windows installer"), vec!["aarch64"]));
    assert_eq!(known(&look.whole).kind, "udf");
}

#[test]
fn a_fedora_treeinfo_and_a_live_system_are_named() {
    let folder = Folder::new();
    folder.file("tree/.treeinfo", "[general]\narch = x86_64\nfamily = Fedora\nversion = 41\n");
    let medium = iso(&folder, "genisoimage", &[&"-R"]).optical.and_then(|o| o.medium).expect("a medium");
    assert_eq!((medium.what, medium.name.as_deref()), (Some("Linux installer"), Some("Fedora 41 x86_64")));

    let folder = Folder::new();
    folder.file("tree/casper/vmlinuz", "");
    folder.file("tree/.disk/info", "Ubuntu 24.04 LTS \"Noble Numbat\"\n");
    let medium = iso(&folder, "genisoimage", &[&"-R"]).optical.and_then(|o| o.medium).expect("a medium");
    assert_eq!(medium.what, Some("Linux live system"));
}

#[test]
fn a_disc_of_plain_files_is_just_that() {
    let folder = Folder::new();
    folder.file("tree/README.TXT", "hello");
    let look = iso(&folder, "genisoimage", &[&"-V", &"FILES"]);
    let disc = look.optical.expect("a disc");
    assert_eq!((disc.medium, disc.seed, disc.boot), (None, None, vec![]));
    assert!(matches!(look.whole, Content::Known(_)));
}
