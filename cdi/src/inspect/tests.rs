//! Reports of real disks: raw, qcow2 of every kind, wrapped, streamed, served, refused.

use super::*;
use crate::source::{FileSource, Options, Source, SourceFacts, http::Http};
use ::tests::disk::{Noise, shell};
use ::tests::http::{Behaviour, Server};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A folder with one small cloud disk in every wrapping; made once.
fn disks() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            // Beside the test program: nothing drops a static, and what is made anew at each run does not pile up.
            let folder = std::env::current_exe().unwrap().with_extension("inspect-disks");
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            shell(
                &folder,
                r#"
                export PATH=$PATH:/usr/sbin:/sbin
                mkdir -p root/etc/cloud root/usr/lib root/usr/bin
                printf 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n' >root/usr/lib/os-release
                ln -s ../usr/lib/os-release root/etc/os-release
                echo 'users: []' >root/etc/cloud/cloud.cfg
                head -c 3000000 /dev/urandom >root/noise
                truncate -s 64M disk.raw
                printf 'label: gpt\nstart=2048,size=8192,type=U,name=boot\nstart=10240,type=L,name=root\n' | sfdisk -q disk.raw
                mkfs.vfat --offset=2048 -n ESP disk.raw 4096 >/dev/null
                mkfs.ext4 -q -F -L cloudimg -d root -E offset=5242880 disk.raw 58000k
                qemu-img convert -O qcow2 disk.raw plain.qcow2
                qemu-img convert -O qcow2 -o compat=0.10 disk.raw old.qcow2
                qemu-img convert -c -O qcow2 disk.raw zlib.qcow2
                qemu-img convert -c -O qcow2 -o compression_type=zstd,cluster_size=2M disk.raw zstd.qcow2
                qemu-img convert -O qcow2 -o extended_l2=on,cluster_size=128k disk.raw subclusters.qcow2
                xz -T1 -k -0 disk.raw
                xz -T1 -k -0 zlib.qcow2
                gzip -1 -k plain.qcow2
                zstd -q disk.raw
                tar -czf disk.tar.gz disk.raw
                qemu-img create -q -u -f qcow2 -b /secret/base.img -F raw overlay.qcow2 1G
                qemu-img create -q -f vmdk other.vmdk 16M
                qemu-img create -q -f qcow2 empty.qcow2 1T
                mkdir seed; echo '#cloud-config' >seed/user-data; echo 'instance-id: x' >seed/meta-data
                head -c 2048 /dev/zero >seed/boot.bin
                genisoimage -quiet -V cidata -publisher Me -r -b boot.bin -no-emul-boot -o seed.iso seed
                "#,
            );
            folder
        })
        .as_path()
}

fn open(name: &str) -> FileSource {
    FileSource::open(&disks().join(name)).unwrap()
}

fn report(name: &str) -> Report {
    inspect(&open(name), InspectOptions::default()).unwrap()
}

fn root(report: &Report) -> &Filesystem {
    let table = report.disk.as_ref().and_then(|d| d.partition_table.as_ref()).expect("a partition table");
    assert_eq!(table.problems, Vec::<String>::new());
    match &table.partitions[1].content {
        Content::Known(found) => found,
        other => panic!("the root is {other:?}"),
    }
}

fn is_the_cloud_disk(report: &Report) {
    let root = root(report);
    assert_eq!((root.kind, root.label.as_deref()), ("ext4", Some("cloudimg")));
    let system = root.system.as_ref().expect("a system");
    assert_eq!(system.name.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
    assert_eq!(system.cloud_init, Some(true));
    assert_eq!(report.refused, None);
}

#[test]
fn a_disk_is_the_same_in_every_format() {
    for name in ["disk.raw", "plain.qcow2", "old.qcow2", "zlib.qcow2", "zstd.qcow2", "subclusters.qcow2"] {
        let report = report(name);
        is_the_cloud_disk(&report);
        assert_eq!(report.virtual_size, Some(64 << 20), "{name}");
        assert_eq!(report.format, if name == "disk.raw" { "raw" } else { "qcow2" });
        assert_eq!(report.size, Some(fs::metadata(disks().join(name)).unwrap().len()));
        assert!(report.allocated.is_some_and(|a| a > 0 && a <= 64 << 20), "{name}: {:?}", report.allocated);
        assert_eq!((report.layers.len(), report.notes.len()), (0, 0), "{name}: {:?}", report.notes);
        // A cluster of 2 MiB must be read whole; elsewhere little is.
        let most = if name == "zstd.qcow2" { 6 << 20 } else { 1 << 20 };
        assert!(report.read.requests < 40 && report.read.bytes < most, "{name}: {:?}", report.read);
        assert_eq!(report.facts.is_empty(), name == "disk.raw", "{name}");
    }
}

#[test]
fn a_wrapped_disk_is_seen_by_its_front() {
    let cases: &[(&str, &[&str], &str)] = &[
        ("disk.raw.xz", &["xz"], "raw"),
        ("zlib.qcow2.xz", &["xz"], "qcow2"),
        ("plain.qcow2.gz", &["gzip"], "qcow2"),
        ("disk.raw.zst", &["zstd"], "raw"),
        ("disk.tar.gz", &["gzip", "tar"], "raw"),
    ];
    for (name, layers, format) in cases {
        // Two sights: all of the small disk, and only its front.
        for front in [64 << 20, 6 << 20] {
            let options = InspectOptions { front, ..InspectOptions::default() };
            let report = inspect(&open(name), options).unwrap();
            assert_eq!((report.layers.as_slice(), report.format), (*layers, *format), "{name}");
            if *format == "qcow2" {
                assert_eq!(report.virtual_size, Some(64 << 20), "{name}");
            }
            let disk = report.disk.as_ref().expect("a disk");
            let table = disk.partition_table.as_ref().expect("a table");
            assert_eq!(table.partitions.len(), 2, "{name}");
            let Content::Known(root) = &table.partitions[1].content else { panic!("{name} {front}") };
            assert_eq!(root.label.as_deref(), Some("cloudimg"));
            if front == 64 << 20 && *name != "disk.raw.zst" {
                is_the_cloud_disk(&report);
            }
        }
    }
}

#[test]
fn a_file_of_an_archive_is_named_and_another_disk_is_not_denied() {
    let folder = tempfile::tempdir().unwrap();
    shell(
        folder.path(),
        "head -c 3M /dev/zero >a.img; cp a.img b.img; tar -cf two.ova ./a.img b.img; tar -cf one.tar a.img",
    );
    let looked = |name: &str, front: usize, path: Option<&str>| {
        let source = FileSource::open(&folder.path().join(name)).unwrap();
        inspect(&source, InspectOptions { front, path, ..InspectOptions::default() }).unwrap()
    };
    let warned = |report: &Report| report.notes.iter().any(|note| note.contains("may hold another disk"));

    let front = looked("two.ova", 1 << 20, None);
    assert_eq!((front.member.as_deref(), front.refused.as_deref()), (Some("a.img"), None));
    assert!(warned(&front), "{:?}", front.notes);
    assert!(text(&front).contains("\nfile in tar:   a.img\n"), "{}", text(&front));
    assert!(text(&front).contains("refuses without --path"), "{}", text(&front));

    let chosen = looked("two.ova", 1 << 20, Some("b.img"));
    assert_eq!(chosen.member.as_deref(), Some("b.img"));
    assert!(!warned(&chosen), "it was chosen: {:?}", chosen.notes);

    let whole = looked("two.ova", 8 << 20, None);
    assert!(whole.refused.as_ref().is_some_and(|why| why.contains("choose one by --path")), "{whole:?}");
    assert!(!warned(&whole), "it is refused: {:?}", whole.notes);

    let one = looked("one.tar", 8 << 20, None);
    assert_eq!((one.member.as_deref(), one.refused.as_deref()), (Some("a.img"), None));
    assert!(!warned(&one), "it was read to its end: {:?}", one.notes);
    assert_eq!(report("disk.raw.xz").member, None);
}

#[test]
fn a_compressed_disk_is_not_fetched_further_than_it_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    shell(folder.path(), "head -c 24M /dev/urandom >noise; xz -0 -T2 --block-size=1MiB noise");
    let source = FileSource::open(&folder.path().join("noise.xz")).unwrap();
    let report = inspect(&source, InspectOptions { front: 1 << 20, ..InspectOptions::default() }).unwrap();
    assert_eq!(report.layers, ["xz"]);
    assert!(report.read.bytes < 8 << 20, "{:?}", report.read);
}

#[test]
fn usage_is_what_the_tables_say() {
    let options = InspectOptions { usage: true, ..InspectOptions::default() };
    let usage = |name| inspect(&open(name), options).unwrap().usage.expect("usage");
    for name in ["plain.qcow2", "zlib.qcow2", "zstd.qcow2", "subclusters.qcow2", "disk.raw", "old.qcow2"] {
        let usage = usage(name);
        assert_eq!(usage.data + usage.compressed + usage.zero, 64 << 20, "{name}: {usage:?}");
        assert!(usage.data + usage.compressed > 3_000_000, "{name}: {usage:?}");
        assert_eq!(usage.how, if name == "disk.raw" { "holes" } else { "tables" });
        // Noise is not compressed, so there may be some of each.
        assert_eq!(usage.compressed > 0, name.starts_with('z'), "{name}: {usage:?}");
        assert_eq!(usage.compressed_into > 0, usage.compressed > 0);
    }
    let empty = usage("empty.qcow2");
    assert_eq!((empty.data, empty.compressed, empty.zero), (0, 0, 1 << 40));

    let wrapped = inspect(&open("disk.raw.xz"), options).unwrap();
    assert_eq!(wrapped.usage, None);
    assert!(wrapped.notes.iter().any(|n| n.contains("usage is not counted")), "{:?}", wrapped.notes);
}

#[test]
fn a_digest_is_that_of_the_file() {
    let options = InspectOptions { digest: true, ..InspectOptions::default() };
    for name in ["plain.qcow2", "disk.raw.xz"] {
        let expected = String::from_utf8(shell(disks(), &format!("sha256sum {name}"))).unwrap();
        let size = fs::metadata(disks().join(name)).unwrap().len();
        for source in [&open(name) as &dyn Source, &Once(disks().join(name), facts(None))] {
            let report = inspect(source, options).unwrap();
            let digest = report.digest.expect("a digest");
            assert_eq!((digest.algorithm, digest.of), ("sha256", "file"));
            assert_eq!(digest.value, expected[..64]);
            assert_eq!(report.size, Some(size));
            assert!(report.read.bytes >= size);
        }
    }
}

/// A file that is read once, in order, as a pipe is.
struct Once(PathBuf, SourceFacts);

fn facts(size: Option<u64>) -> SourceFacts {
    SourceFacts {
        name: "-".into(),
        size,
        seekable: false,
        remote: false,
        plain: false,
        reentry: false,
        identity: None,
    }
}

impl Source for Once {
    fn facts(&self) -> &SourceFacts {
        &self.1
    }
    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        None
    }
    fn stream(&self, from: u64) -> Result<Box<dyn io::Read + Send>> {
        assert_eq!(from, 0);
        Ok(Box::new(fs::File::open(&self.0).unwrap()))
    }
}

#[test]
fn a_stream_is_seen_by_its_front() {
    for (name, whole) in
        [("disk.raw", false), ("zlib.qcow2", true), ("zlib.qcow2.xz", true), ("plain.qcow2.gz", false)]
    {
        let options =
            InspectOptions { front: if whole { 64 << 20 } else { 2 << 20 }, ..InspectOptions::default() };
        let report = inspect(&Once(disks().join(name), facts(None)), options).unwrap();
        let table = report.disk.as_ref().and_then(|d| d.partition_table.as_ref()).expect("a table");
        assert_eq!(table.partitions.len(), 2, "{name}");
        if whole {
            is_the_cloud_disk(&report);
        } else {
            assert!(
                report.notes.iter().any(|n| n.starts_with("only the first")),
                "{name}: {:?}",
                report.notes
            );
        }
        let size = fs::metadata(disks().join(name)).unwrap().len();
        assert_eq!(report.size, (size <= options.front as u64).then_some(size), "{name}");
        assert!(report.read.bytes <= options.front as u64 + 1);
    }
}

#[test]
fn a_remote_disk_costs_few_requests() {
    for name in ["disk.raw", "plain.qcow2", "zlib.qcow2"] {
        let server = Server::start(fs::read(disks().join(name)).unwrap(), Behaviour::default());
        let source = Http::open(&server.url("/disk"), &Options::default()).unwrap();
        let report = inspect(&source, InspectOptions::default()).unwrap();
        is_the_cloud_disk(&report);
        assert_eq!(report.allocated, None);
        let requests = server.requests().len();
        assert!(requests <= 40, "{name}: {requests} requests");
        assert!(report.read.bytes < 1 << 20, "{name}: {:?}", report.read);
    }
}

#[test]
fn a_remote_disk_without_ranges_is_a_stream() {
    let behaviour = Behaviour { ranges: false, ..Behaviour::default() };
    let server = Server::start(fs::read(disks().join("zlib.qcow2")).unwrap(), behaviour);
    let source = Http::open(&server.url("/disk"), &Options::default()).unwrap();
    is_the_cloud_disk(&inspect(&source, InspectOptions::default()).unwrap());
}

#[test]
fn a_refused_image_is_reported_with_what_it_refers_to() {
    let overlay = report("overlay.qcow2");
    assert_eq!(overlay.format, "qcow2");
    let expected =
        Reference { kind: "backing-file", name: Some("/secret/base.img".into()), format: Some("raw".into()) };
    assert_eq!(overlay.refers_outside, [expected]);
    assert_eq!(overlay.virtual_size, Some(1 << 30));
    assert!(overlay.refused.as_ref().is_some_and(|why| why.contains("backing")), "{:?}", overlay.refused);
    assert_eq!(overlay.disk, None);
    assert!(text(&overlay).contains("backing file \"/secret/base.img\" (raw)"), "{}", text(&overlay));

    let other = report("other.vmdk");
    assert_eq!(other.format, "vmdk");
    assert!(other.refused.is_some_and(|why| why.contains("cannot be read yet")));
}

#[test]
fn a_broken_wrapping_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken");
    let mut bytes = fs::read(disks().join("disk.raw.xz")).unwrap();
    bytes.truncate(1 << 20);
    fs::write(&path, &bytes).unwrap();
    let options = InspectOptions { front: 64 << 20, ..InspectOptions::default() };
    let report = inspect(&FileSource::open(&path).unwrap(), options).unwrap();
    assert_eq!(report.layers, ["xz"]);
    assert!(
        report.refused.as_ref().is_some_and(|why| why.contains("truncated") || why.contains("ends")),
        "{report:?}"
    );

    fs::write(&path, b"PK\x03\x04 and so on").unwrap();
    let report = inspect(&FileSource::open(&path).unwrap(), InspectOptions::default()).unwrap();
    assert!(report.refused.is_some_and(|why| why.contains("zip")));

    for n in [0, 1, 100, 511] {
        fs::write(&path, &bytes[..n]).unwrap();
        let at_any_offset = inspect(&FileSource::open(&path).unwrap(), InspectOptions::default());
        let in_order = inspect(&Once(path.clone(), facts(None)), InspectOptions::default());
        for looked in [at_any_offset, in_order] {
            match (n, looked) {
                (0, Err(e)) => {
                    assert!(e.kind() == crate::ErrorKind::Refused && e.to_string().contains("is empty"))
                }
                (0, Ok(report)) => panic!("a file without a byte was looked at: {report:?}"),
                (_, looked) => drop(looked.unwrap()),
            }
        }
    }
}

#[test]
fn an_image_over_the_limit_is_refused_by_name() {
    let options = InspectOptions { max_size: 1 << 20, ..InspectOptions::default() };
    for name in ["plain.qcow2", "disk.raw"] {
        let report = inspect(&open(name), options).unwrap();
        assert!(report.refused.is_some(), "{name}");
    }
}

#[test]
fn damage_is_reported_and_never_fatal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.qcow2");
    let good = fs::read(disks().join("zlib.qcow2")).unwrap();
    let mut noise = Noise::new(7);
    for _ in 0..150 {
        let mut bytes = good.clone();
        for _ in 0..1 + noise.below(4) {
            // Headers and tables lie in the front.
            let at = noise.below(400_000.min(bytes.len() as u64)) as usize;
            bytes[at] = if noise.below(2) == 0 { 0xff } else { noise.next_u64() as u8 };
        }
        if noise.below(4) == 0 {
            bytes.truncate(noise.below(good.len() as u64) as usize);
        }
        fs::write(&path, &bytes).unwrap();
        for source in [&FileSource::open(&path).unwrap() as &dyn Source, &Once(path.clone(), facts(None))] {
            let report =
                inspect(source, InspectOptions { usage: true, ..InspectOptions::default() }).unwrap();
            text(&report);
        }
    }
}

#[test]
fn text_is_for_people_and_80_columns() {
    let options = InspectOptions { usage: true, digest: true, ..InspectOptions::default() };
    for name in ["disk.raw", "zlib.qcow2", "zlib.qcow2.xz", "overlay.qcow2", "other.vmdk", "empty.qcow2"] {
        let mut report = inspect(&open(name), options).unwrap();
        report.name = name.into();
        let text = text(&report);
        for line in text.lines() {
            assert!(line.chars().count() <= 80 || !line[15..].contains(' '), "{line}");
            assert_eq!(line.trim_end(), line);
        }
        assert!(text.starts_with(&format!("name:          {name}\nformat:        ")), "{text}");
    }
    let text = text(&report("plain.qcow2"));
    for part in [
        "virtual size:  64 MiB (67108864 bytes)\n",
        "\npartitions:    gpt ",
        ", 2 partitions\n",
        "  1       4 MiB  EFI system \"boot\": vfat FAT12 \"ESP\", 4 MiB\n",
        "\nsystem:        Debian GNU/Linux 12 (bookworm) (partition 2)\n",
        "\ncloud-init:    installed (partition 2)\n",
        "\nboots:         UEFI (EFI system partition 1)\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

/// "Nothing speaks for it" said neither what was looked for nor what to do.
#[test]
fn a_disk_that_does_not_boot_says_what_it_lacks() {
    let report = inspect_front("data.img", 1 << 20, vec![0; 1 << 20]).unwrap();
    let text = text(&report).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "boots: not by itself: no boot loader in the first sector, no EFI system partition",
        "it needs another disk to boot from, or a kernel (coracle build --kernel)",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn a_disc_is_described() {
    let seed = report("seed.iso");
    assert_eq!((seed.format, seed.virtual_size), ("iso", seed.size));
    let text = text(&seed);
    for part in [
        "\nformat:        iso\n",
        "\ndisc:          ISO 9660, Rock Ridge\nlabel:         cidata\npublisher:     Me\n",
        "\ncloud-init:    a seed (NoCloud): user-data, meta-data\n",
        "\nboots:         BIOS (El Torito entry for BIOS)\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn json_has_the_documented_fields_and_no_others() {
    let document = include_str!("../../../docs/reference/inspect-json.md");
    let options = InspectOptions { usage: true, digest: true, ..InspectOptions::default() };
    let mut seen = std::collections::BTreeSet::new();
    let mut reports: Vec<Report> =
        ["disk.raw", "zlib.qcow2", "overlay.qcow2"].map(|name| inspect(&open(name), options).unwrap()).into();
    reports.push(full());
    for report in &reports {
        let value = serde_json::to_value(report).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        keys(&value, &mut seen);
    }
    for key in &seen {
        assert!(document.contains(&format!("`{key}`")), "{key} is not documented");
    }
    let rows = document.lines().filter(|l| l.starts_with("| `"));
    for row in rows {
        for name in row.split('|').nth(1).unwrap().split(',') {
            let name = name.trim().trim_matches('`');
            assert!(seen.contains(name), "{name} is documented, but never there");
        }
    }
    let start = document.find("```json\n").unwrap() + 8;
    let example = &document[start..start + document[start..].find("```").unwrap()];
    let example: serde_json::Value = serde_json::from_str(example).unwrap();
    let mut shown = std::collections::BTreeSet::new();
    keys(&example, &mut shown);
    assert!(shown.is_subset(&seen), "{:?}", shown.difference(&seen));
}

/// All names of fields in a value. What the format says of itself is its own business.
fn keys(value: &serde_json::Value, into: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                into.insert(key.clone());
                if key != "facts" && key != "labels" {
                    keys(value, into);
                }
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| keys(value, into)),
        _ => {}
    }
}

/// An image in which every field is there.
fn image() -> ContainerImage {
    use container_disk::describe;
    let word = || "x".to_string();
    let layer = describe::Layer { digest: word(), size: 1, media_type: word() };
    let boot = container_disk::locate::Boot { kernel: word(), initrd: Some(word()), cmdline: word() };
    let chosen = describe::Chosen {
        manifest: word(),
        architecture: word(),
        created: Some(word()),
        labels: [(word(), word())].into(),
        env: vec![word()],
        layers: vec![layer],
        boot: Some(boot),
    };
    ContainerImage {
        facts: describe::ImageFacts {
            digest: word(),
            media_type: word(),
            architectures: vec![word()],
            chosen: Some(chosen),
        },
        file: Some(crate::source::image::ImageFile {
            path: word(),
            layer: 0,
            compression: "none",
            size: 1,
            uid: 107,
            gid: 107,
            mode: word(),
        }),
        registries: Some(container_disk::registry::TransferCounts::default()),
    }
}

/// A report in which every field is there.
fn full() -> Report {
    let word = || Some("x".to_string());
    let seed = || Some(Seed { source: "NoCloud", files: vec!["user-data".into()] });
    let optical = Optical {
        iso9660: true,
        label: word(),
        system: word(),
        volume_set: word(),
        publisher: word(),
        preparer: word(),
        application: word(),
        created: word(),
        size: Some(1),
        joliet: true,
        rock_ridge: true,
        udf: Some(Udf { label: word(), version: word() }),
        boot_catalog: vec![BootEntry {
            platform: "uefi".into(),
            bootable: true,
            emulation: "none",
            offset: 1,
            size: 1,
            architectures: vec!["x86_64"],
        }],
        medium: Some("Linux installer"),
        medium_name: word(),
        uefi: vec!["x86_64"],
        seed: seed(),
    };
    let mut report = report("disk.raw");
    report.image = Some(image());
    report.member = word();
    let disk = report.disk.as_mut().unwrap();
    disk.optical = Some(optical);
    disk.content = Some(Content::Unread { why: "x".into() });
    let table = disk.partition_table.as_mut().unwrap();
    if let Content::Known(found) = &mut table.partitions[1].content {
        found.seed = seed();
        found.version = word();
        found.system.as_mut().unwrap().unread = word();
    }
    report
}

#[test]
fn the_front_of_a_file_that_is_elsewhere_tells_what_it_is() {
    let front = |name: &str| {
        let mut bytes = fs::read(disks().join(name)).unwrap();
        let size = bytes.len() as u64;
        bytes.truncate(64 << 10);
        inspect_front(name, size, bytes).unwrap()
    };
    for (name, format, layers, size) in [
        ("disk.raw", "raw", &[][..], Some(64 << 20)),
        ("plain.qcow2", "qcow2", &[], Some(64 << 20)),
        ("plain.qcow2.gz", "qcow2", &["gzip"], Some(64 << 20)),
        ("disk.raw.xz", "raw", &["xz"], None),
    ] {
        let report = front(name);
        assert_eq!((report.format, &*report.layers, report.virtual_size), (format, layers, size), "{name}");
        assert_eq!(report.refused, None, "{name}");
    }
    let vmdk = front("other.vmdk");
    assert!(vmdk.format == "vmdk" && vmdk.refused.is_some());
    assert!(inspect_front("empty", 0, vec![]).is_err());
}
