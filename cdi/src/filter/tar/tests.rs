//! Archives made byte by byte, as no tool writes them, but an attacker might.

use super::*;
use crate::{Error, ErrorKind};

mod named;

const END: usize = 1024;

/// A header with a right checksum; the other fields as a GNU or ustar program would have them.
fn header(name: &str, kind: u8, size: &str, magic: &[u8; 8]) -> [u8; 512] {
    let mut block = [0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..107].copy_from_slice(b"0000644");
    block[124..124 + size.len()].copy_from_slice(size.as_bytes());
    block[156] = kind;
    block[257..265].copy_from_slice(magic);
    sealed(block)
}

fn sealed(mut block: [u8; 512]) -> [u8; 512] {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

fn ustar(name: &str, kind: u8, size: usize) -> Vec<u8> {
    header(name, kind, &format!("{size:011o}"), b"ustar\x0000").to_vec()
}

fn file(name: &str, data: &[u8]) -> Vec<u8> {
    let mut entry = ustar(name, b'0', data.len());
    entry.extend(data);
    entry.resize(entry.len().next_multiple_of(512), 0);
    entry
}

fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in records {
        let body = format!(" {key}={value}\n");
        let mut len = body.len() + 1;
        while len.to_string().len() + body.len() != len {
            len += 1;
        }
        text.extend(format!("{len}{body}").bytes());
    }
    let mut entry = ustar("PaxHeaders/x", b'x', text.len());
    entry.extend(&text);
    entry.resize(entry.len().next_multiple_of(512), 0);
    entry
}

fn disk() -> Vec<u8> {
    (0..3000u32).map(|i| ((i * i) >> 3) as u8).collect()
}

fn read(parts: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
    let mut bytes = parts.concat();
    bytes.resize(bytes.len() + END, 0);
    read_exactly(bytes)
}

fn read_exactly(bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    match Tar::new(Box::new(io::Cursor::new(bytes))).read_to_end(&mut out) {
        Ok(_) => Ok(out),
        Err(e) => Err(Error::io("reading", e)),
    }
}

#[track_caller]
fn refused_with(result: Result<Vec<u8>, Error>, needle: &str) {
    let e = result.expect_err("it was accepted");
    assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
    assert!(e.to_string().contains(needle), "{e}");
}

#[test]
fn the_one_file_is_the_disk_whatever_its_name() {
    for name in ["disk.raw", "blob", "./a/b/rootfs", "..disk", "a..b/c"] {
        assert_eq!(read(&[file(name, &disk())]).unwrap(), disk(), "{name}");
    }
}

#[test]
fn what_people_put_beside_a_disk_is_passed_over() {
    let beside = |name| file(name, &[b'x'; 700]);
    let parts = [
        ustar("image/", b'5', 0),
        beside("image/README"),
        beside("image/SHA256SUMS"),
        beside("image/vm.ovf"),
        file("image/tiny.bin", b"less than a sector"),
        ustar("image/current", b'2', 0),
        file("image/disk.raw", &disk()),
        beside("image/vm.mf"),
        beside("image/._disk.raw"),
    ];
    assert_eq!(read(&parts).unwrap(), disk());
}

#[test]
fn a_disk_under_the_name_of_notes_is_still_a_disk() {
    let mut qcow2 = disk();
    qcow2[..4].copy_from_slice(b"QFI\xfb");
    assert_eq!(read(&[file("notes.txt", &qcow2)]).unwrap(), qcow2);
    refused_with(read(&[file("a.raw", &disk()), file("notes.txt", &qcow2)]), "\"a.raw\", \"notes.txt\"");
}

#[test]
fn several_candidates_are_named_up_to_five() {
    let parts: Vec<_> = (0..8).map(|i| file(&format!("disk{i}.img"), &disk())).collect();
    let needle = r#""disk0.img", "disk1.img", "disk2.img", "disk3.img", "disk4.img" and 3 more"#;
    refused_with(read(&parts), needle);
    refused_with(read(&[file("a", &disk()), file("a", &disk())]), r#""a", "a""#);
}

#[test]
fn no_disk_at_all_says_what_there_is() {
    refused_with(read(&[]), "there is no file");
    refused_with(read(&[ustar("d/", b'5', 0)]), "there is no file");
    refused_with(read(&[file("x.img", b"small")]), "\"x.img\" does not look like one");
    refused_with(read(&[ustar("disk.img", b'2', 0)]), "\"disk.img\" is a symbolic link");
    refused_with(read(&[ustar("disk.img", b'1', 0)]), "\"disk.img\" is a hard link");
    refused_with(read(&[ustar("disk.img", b'4', 0)]), "\"disk.img\" is a block device");
}

/// Whichever comes first, the disk or what tells that the archive is an image.
#[test]
fn an_archive_of_a_container_image_is_told_with_its_name() {
    let oci = |name| file(name, br#"{"imageLayoutVersion": "1.0.0"}"#);
    let docker = |name| file(name, br#"[{"Config":"a.json","RepoTags":["os:1"],"Layers":["a.tar"]}]"#);
    for (tells, scheme) in [
        (oci("oci-layout"), "oci-archive:FILE"),
        (oci("./oci-layout"), "oci-archive:FILE"),
        (docker("manifest.json"), "docker-archive:FILE"),
    ] {
        let disk = file("blobs/sha256/00", &disk());
        refused_with(read(&[disk.clone(), tells.clone()]), scheme);
        refused_with(read(&[tells, disk]), scheme);
    }
    // The same names beside a disk, with something else in them, or below a folder.
    let list = [br#"{"Config": "#.to_vec(), vec![b' '; 700]].concat();
    for beside in [
        file("manifest.json", br#"{"licenses": ["x"]}"#),
        file("manifest.json", &list),
        file("oci-layout", b"notes"),
        docker("other/manifest.json"),
    ] {
        assert_eq!(read(&[beside, file("disk.raw", &disk())]).unwrap(), disk());
    }
}

#[test]
fn names_that_lead_outside_are_refused_wherever_they_stand() {
    for name in ["/etc/passwd", "../disk.img", "a/../../b", ".."] {
        refused_with(read(&[file(name, &disk())]), "leads outside");
        refused_with(read(&[file("disk.img", &disk()), ustar(name, b'5', 0)]), "leads outside");
        refused_with(read(&[pax(&[("path", name)]), file("disk.img", &disk())]), "leads outside");
    }
}

#[test]
fn entries_that_programs_read_differently_are_refused() {
    for kind in *b"12346" {
        refused_with(read(&[ustar("x", kind, 512), vec![0; 512]]), "not a file, but has a size");
    }
    refused_with(read(&[ustar("x", b'Q', 0)]), "type 'Q'");
    refused_with(read(&[ustar("x", b'M', 0)]), "another volume");
    refused_with(read(&[pax(&[("size", "3000")])]), "followed by no file");
    let mut glued = file("disk.img", &disk());
    glued.resize(glued.len() + END, 0);
    let glued = [glued, file("disk.img", &disk())];
    refused_with(read(&glued), "after the archive's end mark");
    let lone = [file("disk.img", &disk()), vec![0; 512], file("b", b"")];
    refused_with(read(&lone), "a single empty block");
}

#[test]
fn a_pax_size_wins_and_skips_the_headers_between() {
    let data = disk();
    let mut long = header("././@LongLink", b'L', "00000000012", b"ustar  \0").to_vec();
    long.extend(b"long.disk\0");
    long.resize(1024, 0);
    let mut entry = file("x", &data);
    // The header itself has the size 0: a program that ignores the PAX size takes the data for the next
    // header.
    entry[124..135].fill(b'0');
    let fixed: [u8; 512] = entry[..512].try_into().unwrap();
    entry[..512].copy_from_slice(&sealed(fixed));
    assert_eq!(read(&[pax(&[("size", "3000")]), long, entry.clone()]).unwrap(), data);
    let broken = [pax(&[("size", "-1")]), entry];
    refused_with(read(&broken), "the value of size");
}

#[test]
fn sizes_are_read_in_octal_and_in_binary_and_checked() {
    let data = disk();
    let mut entry = file("x", &data);
    let binary = |entry: &mut Vec<u8>, field: [u8; 12]| {
        entry[124..136].copy_from_slice(&field);
        let fixed: [u8; 512] = entry[..512].try_into().unwrap();
        entry[..512].copy_from_slice(&sealed(fixed));
    };
    binary(&mut entry, [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11, 184]);
    assert_eq!(read(&[entry.clone()]).unwrap(), data);
    binary(&mut entry, *b"       5670 ");
    assert_eq!(read(&[entry.clone()]).unwrap(), data);
    let bad: [[u8; 12]; 5] = [
        [0xff; 12],
        [0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        [0x80, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        *b"00000005679\0",
        *b"0000000x567\0",
    ];
    for field in bad {
        binary(&mut entry, field);
        refused_with(read(&[entry.clone()]), "size field");
    }
    binary(&mut entry, *b"777777777777");
    refused_with(read(&[entry]), "truncated");
}

fn sparse(records: &[(&str, &str)], stored: &[u8]) -> Result<Vec<u8>, Error> {
    read(&[pax(records), file("GNUSparseFile.0/disk.img", stored)])
}

#[test]
fn pax_sparse_maps_are_expanded_in_all_versions() {
    let mut expected = vec![0; 5000];
    expected[100..700].fill(1);
    expected[4000..4400].fill(2);
    let stored = [vec![1; 600], vec![2; 400]].concat();
    let v00 = [
        ("GNU.sparse.size", "5000"),
        ("GNU.sparse.numblocks", "3"),
        ("GNU.sparse.offset", "100"),
        ("GNU.sparse.numbytes", "600"),
        ("GNU.sparse.offset", "4000"),
        ("GNU.sparse.numbytes", "400"),
        ("GNU.sparse.offset", "5000"),
        ("GNU.sparse.numbytes", "0"),
    ];
    assert_eq!(sparse(&v00, &stored).unwrap(), expected);
    let v01 = [
        ("GNU.sparse.size", "5000"),
        ("GNU.sparse.numblocks", "2"),
        ("GNU.sparse.name", "disk.img"),
        ("GNU.sparse.map", "100,600,4000,400"),
    ];
    assert_eq!(sparse(&v01, &stored).unwrap(), expected);
    let v10 = [
        ("GNU.sparse.major", "1"),
        ("GNU.sparse.minor", "0"),
        ("GNU.sparse.name", "disk.img"),
        ("GNU.sparse.realsize", "5000"),
    ];
    let mut with_map = b"2\n100\n600\n4000\n400\n".to_vec();
    with_map.resize(512, 0);
    with_map.extend(&stored);
    assert_eq!(sparse(&v10, &with_map).unwrap(), expected);
}

#[test]
fn sparse_maps_that_lie_are_refused_by_name() {
    let base = |map: &'static str, blocks: &'static str| {
        [("GNU.sparse.size", "5000"), ("GNU.sparse.numblocks", blocks), ("GNU.sparse.map", map)]
    };
    let cases = [
        ("100,600,200,400", "2", "overlap"),
        ("4000,400,100,600", "2", "overlap"),
        ("100,600,4700,400", "2", "overlap"),
        ("9223372036854775807,9223372036854775807,0,0", "2", "overlap"),
        ("100,600", "1", "segments have 600 bytes, but the archive holds 1000"),
        ("100,600,4000,400", "3", "stated number of entries"),
        ("100,600,4000", "2", "GNU.sparse.map"),
        ("100,600,4000,4x0", "2", "GNU.sparse.map"),
    ];
    for (map, blocks, needle) in cases {
        refused_with(sparse(&base(map, blocks), &[1; 1000]), needle);
    }
    let versions = [("GNU.sparse.major", "2"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "5000")];
    refused_with(sparse(&versions, &[1; 1000]), "an unknown version");
    refused_with(
        sparse(&[("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0")], &[1; 1000]),
        "real size is missing",
    );
    refused_with(sparse(&[("GNU.sparse.new", "1")], &[1; 1000]), "GNU.sparse.new");
    refused_with(sparse(&[("SCHILY.realsize", "5000")], &[1; 1000]), "SCHILY.realsize");
    refused_with(read(&[ustar("disk.img", b'S', 0)]), "a sparse file of an unsupported kind");
    let endless = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "5000")];
    for start in ["99999999999\n", "1\n100\n", "\n", "-1\n", "111111111111111111111111111\n"] {
        let mut map = start.as_bytes().to_vec();
        map.resize(1024, b'7');
        refused_with(sparse(&endless, &map), "sparse map here is broken");
    }
}

#[test]
fn an_endless_old_sparse_map_ends() {
    let mut head = header("d", b'S', "00000000000", b"ustar  \0");
    head[482] = 1;
    head[483..494].copy_from_slice(b"00000010000");
    let mut bytes = sealed(head).to_vec();
    let mut more = [0; 512];
    more[504] = 1;
    bytes.extend(more.repeat(3));
    refused_with(read(&[bytes]), "endless");
}

#[test]
fn headers_without_end_are_refused() {
    let mut many = ustar("d/", b'5', 0).repeat(100_001);
    many.extend(file("disk.img", &disk()));
    refused_with(read(&[many]), "more than 100000 entries");
    let mut big = ustar("x", b'x', 2 << 20);
    big.resize(3 << 20, b'0');
    refused_with(read(&[big]), "the limit is 1048576");
    let twice = pax(&[("comment", &"x".repeat(600_000))]).repeat(2);
    refused_with(read(&[twice, file("disk.img", &disk())]), "contradict");
    let mut long = ustar("x", b'L', 70_000);
    long.resize(80_000, b'x');
    refused_with(read(&[long]), "the limit is 65536");
    let global = {
        let mut block = pax(&[("size", "1")]);
        block[156] = b'g';
        let fixed: [u8; 512] = block[..512].try_into().unwrap();
        block[..512].copy_from_slice(&sealed(fixed));
        block
    };
    refused_with(read(&[global, file("disk.img", &disk())]), "for all files");
}

#[test]
fn cut_anywhere_it_is_an_error() {
    let mut whole = [pax(&[("comment", "hello")]), ustar("d/", b'5', 0), file("disk.img", &disk())].concat();
    let end = whole.len() + END;
    whole.resize(end + 4096, 0);
    for cut in 0..whole.len() {
        match read_exactly(whole[..cut].to_vec()) {
            Ok(bytes) => assert!(cut >= end && bytes == disk(), "cut at {cut}"),
            Err(e) => {
                assert!(cut < end, "cut at {cut}: {e}");
                assert_eq!(e.kind(), ErrorKind::Refused);
            }
        }
    }
}

#[test]
fn one_wrong_byte_in_a_header_is_always_noticed() {
    let whole = file("disk.img", &disk());
    for at in 0..512 {
        for flip in [1, 0x10, 0x80] {
            let mut broken = whole.clone();
            broken[at] ^= flip;
            if let Ok(bytes) = read(&[broken]) {
                // Blanks around the checksum's digits may be spaces or NULs.
                assert!((148..156).contains(&at) && bytes == disk(), "byte {at}");
            }
        }
    }
}

#[test]
fn archives_are_told_from_disks() {
    assert!(looks_like_tar(&file("disk.img", &disk())));
    let v7 = header("disk.img", 0, "00000005670", &[0; 8]);
    assert!(looks_like_tar(&v7));
    assert!(!looks_like_tar(&v7[..511]));
    assert!(!looks_like_tar(&[0; 1024]));
    assert!(!looks_like_tar(&header("", 0, "00000005670", &[0; 8])));
    let mut boot = [0x90; 512];
    boot[510..].copy_from_slice(&[0x55, 0xaa]);
    assert!(!looks_like_tar(&boot));
}

/// Conversions of archives with sparse files.
mod sparse_files {
    use super::*;
    use crate::Detail;
    use crate::convert::{Request, prepare};
    use crate::plan::{ConvertOptions, Output};
    use crate::run::watch::Watch;
    use crate::source::{Options, SourceSpec};
    use crate::target::Destination;
    use std::io::Write as _;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    /// Zeros that are made one by one would take many times as long.
    const SOON: Duration = Duration::from_secs(60);

    /// An archive in gzip with one sparse file: its size, and its data with the offsets.
    fn archive(name: &str, size: u64, data: &[(u64, &[u8])]) -> Vec<u8> {
        let mut map = format!("{}\n", data.len());
        for (at, bytes) in data {
            map += &format!("{at}\n{}\n", bytes.len());
        }
        let mut stored = map.into_bytes();
        stored.resize(stored.len().next_multiple_of(512), 0);
        data.iter().for_each(|(_, bytes)| stored.extend_from_slice(bytes));
        let (size, name) = (size.to_string(), name.to_owned());
        let records = [
            ("GNU.sparse.major", "1"),
            ("GNU.sparse.minor", "0"),
            ("GNU.sparse.name", &*name),
            ("GNU.sparse.realsize", &*size),
        ];
        let mut tar = [pax(&records), file(&name, &stored)].concat();
        tar.resize(tar.len() + END, 0);
        gz(&tar)
    }

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::best());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Place {
            Place(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn request(&self, archive: &[u8], target: &str) -> Request {
            std::fs::write(self.path("archive"), archive).unwrap();
            let source = SourceSpec::Path(self.path("archive"));
            let target = Destination::from_name(self.path(target).as_os_str()).unwrap();
            Request::new(source, target, Options::default(), ConvertOptions::with_threads(2))
        }

        fn convert(&self, request: Request) -> crate::Result<crate::convert::Report> {
            let watch = Watch::default();
            prepare(request, &watch)?.run(&watch)
        }
    }

    /// 132 bytes made 64 GiB of zeros, one by one.
    #[test]
    fn a_hole_costs_neither_time_nor_room_on_its_way() {
        let (place, since) = (Place::new(), Instant::now());
        let (first, last) = ([1; 512], [2; 4096]);
        let size = 1 << 40;
        let archive = archive("disk.img", size, &[(0, &first), ((700 << 30) + 512, &last)]);
        assert!(archive.len() < 400, "{}", archive.len());
        let qcow2 = Output::Qcow2 { cluster_bits: 16, compress: None };
        for (name, output) in [("disk.img", Output::Raw), ("disk.qcow2", qcow2)] {
            let request = Request { output, ..place.request(&archive, name) };
            let report = place.convert(request).unwrap();
            assert_eq!((report.virtual_size, report.layers.len()), (size, 2));
            assert!(report.bytes_written < 1 << 20, "{report:?}");
            assert_eq!(report.flow, if output == Output::Raw { "stream" } else { "stream-in-order" });
        }
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
        let disk = std::fs::File::open(place.path("disk.img")).unwrap();
        assert_eq!(disk.metadata().unwrap().len(), size);
        assert!(disk.metadata().unwrap().blocks() < 2048);
        let mut found = [0; 4096 + 1024];
        disk.read_exact_at(&mut found, 700 << 30).unwrap();
        let expected = [&[0; 512][..], &last, &[0; 512]].concat();
        assert!(found[..] == expected);
        disk.read_exact_at(&mut found[..512], 0).unwrap();
        assert!(found[..512] == first);
        // The same disk comes out of the qcow2.
        let again = place.request(&std::fs::read(place.path("disk.qcow2")).unwrap(), "again.img");
        place.convert(again).unwrap();
        let again = std::fs::File::open(place.path("again.img")).unwrap();
        again.read_exact_at(&mut found, 700 << 30).unwrap();
        assert!(found[..] == expected && again.metadata().unwrap().len() == size);
    }

    #[test]
    fn holes_and_data_at_any_place_make_the_disk_that_they_describe() {
        let place = Place::new();
        let mut seed = 7_u64;
        let mut next = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most
        };
        for round in 0..6 {
            let (mut at, mut data) = (next(3 << 20), Vec::new());
            for i in 0..6_u8 {
                data.push((at, vec![i + 1; usize::try_from(1 + next(2 << 20)).unwrap()]));
                at += data.last().unwrap().1.len() as u64 + next(9 << 20);
            }
            // Every second one is of whole sectors, and some end with data.
            let size = if round % 2 == 0 { at.next_multiple_of(512) } else { at };
            let mut expected = vec![0; usize::try_from(size.next_multiple_of(512)).unwrap()];
            for (at, bytes) in &data {
                expected[usize::try_from(*at).unwrap()..][..bytes.len()].copy_from_slice(bytes);
            }
            let parts: Vec<(u64, &[u8])> = data.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
            let archive = archive("disk.img", size, &parts);
            let compress = Some((disk_format::Codec::Zstd, 1));
            for (name, output) in [
                ("raw", Output::Raw),
                ("qcow2", Output::Qcow2 { cluster_bits: 16, compress: None }),
                ("packed", Output::Qcow2 { cluster_bits: 21, compress }),
            ] {
                let mut request = Request { output, ..place.request(&archive, name) };
                request.convert_options.verify = true;
                place.convert(request).unwrap();
                let bytes = std::fs::read(place.path(name)).unwrap();
                place.convert(place.request(&bytes, "back")).unwrap();
                let back = std::fs::read(place.path("back")).unwrap();
                assert!(back == expected, "{name} in round {round}");
            }
        }
    }

    #[test]
    fn the_size_is_judged_by_the_header_before_a_byte_is_written() {
        let place = Place::new();
        let archive = archive("disk.img", 64 << 30, &[]);
        assert!(archive.len() < 300);
        let refused = |change: fn(&mut ConvertOptions)| {
            let mut request = place.request(&archive, "disk.img");
            change(&mut request.convert_options);
            prepare(request, &Watch::default()).err().expect("it was planned")
        };
        let e = refused(|convert_options| convert_options.max_size = 32 << 30);
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains("limit"), "{e}");
        let e = refused(|convert_options| convert_options.max_size = (64 << 30) - 512);
        assert!(e.to_string().contains("allow it with --max-size 68719476736"), "{e}");
        let e = refused(|convert_options| convert_options.resize = Some(1 << 30));
        assert_eq!(e.detail(), Some(&Detail::TooLarge { disk: 64 << 30, room: 1 << 30 }), "{e}");
        assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 1, "nothing was begun");
    }

    #[test]
    fn zeros_behind_an_image_or_a_compressed_file_are_not_read_one_by_one() {
        let (place, since) = (Place::new(), Instant::now());
        let raw = [[3; 70_000].to_vec(), vec![0; 1 << 20], [4; 512].to_vec()].concat();
        let compress = Some((disk_format::Codec::Deflate, 1));
        let output = Output::Qcow2 { cluster_bits: 16, compress };
        place.convert(Request { output, ..place.request(&raw, "small.qcow2") }).unwrap();
        let image = std::fs::read(place.path("small.qcow2")).unwrap();
        let padded = archive("small.qcow2", 1 << 40, &[(0, &image)]);
        place.convert(place.request(&padded, "disk.img")).unwrap();
        let disk = std::fs::read(place.path("disk.img")).unwrap();
        assert!(disk[..raw.len()] == raw && disk.len() == raw.len().next_multiple_of(512));
        // Compressors leave no holes, and their decoders would read these to the end.
        let packed = archive("disk.img.gz", 1 << 40, &[(0, &gz(&raw))]);
        let e = place.convert(place.request(&packed, "other.img")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains("the gzip in the archive is a file with holes"), "{e}");
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    }
}
