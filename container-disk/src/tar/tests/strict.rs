//! Archives that two programs read differently, and limits of an archive's cost, whatever it is read for.

use super::{Tarball, summed};
use crate::tar::{Archive, BLOCK, END, End, Fault, Map, Member, Rules, Seekable, Streamed, What};
use std::io::{self, Read};
use std::sync::Arc;

const MARKED: Rules = Rules { end: End::Mark, headers: 1000 };
const SIZED: Rules = Rules { end: End::Bytes, headers: 1000 };

/// All members with their data, in order and by offset, which must agree. Both rules must agree too, if the
/// archive has its end mark.
fn read(tar: &[u8]) -> Result<Vec<(Member, Vec<u8>)>, String> {
    let marked = read_by(tar, MARKED);
    assert_eq!(marked, read_by(tar, SIZED));
    marked
}

fn read_by(tar: &[u8], rules: Rules) -> Result<Vec<(Member, Vec<u8>)>, String> {
    let streamed = drain(Archive::new(Streamed::new(io::Cursor::new(tar.to_vec())), rules));
    let sought = drain(Archive::new(Seekable::new(Arc::new(tar.to_vec())), rules));
    assert_eq!(streamed, sought);
    streamed
}

fn drain(mut archive: Archive) -> Result<Vec<(Member, Vec<u8>)>, String> {
    let mut all = vec![];
    while let Some(member) = archive.next_member().map_err(told)? {
        let data = archive.peek(1 << 20).map_err(told)?;
        all.push((member, data));
    }
    archive.drain().map_err(told)?;
    Ok(all)
}

fn told(fault: Fault) -> String {
    match fault {
        Fault::Io(e) => format!("cannot be read: {e}"),
        Fault::Truncated { inside, .. } => format!("ends inside {inside}"),
        Fault::Refused { what, .. } => what,
    }
}

#[track_caller]
fn refused(tar: &[u8], needle: &str) {
    let why = read(tar).expect_err("it was taken");
    assert!(why.contains(needle), "{why}");
}

fn magic(tar: Tarball, magic: &[u8; 8], prefix: &[u8]) -> Tarball {
    let mut block = [0; BLOCK];
    block[..4].copy_from_slice(b"name");
    block[156] = b'0';
    block[257..265].copy_from_slice(magic);
    block[345..345 + prefix.len()].copy_from_slice(prefix);
    tar.bytes(&summed(block))
}

#[test]
fn the_front_of_a_long_name_is_read_where_all_programs_read_it() {
    let name =
        |m: &[u8; 8]| read(&magic(Tarball::default(), m, b"front").end()).map(|all| all[0].0.name.clone());
    assert_eq!(name(b"ustar\x0000").unwrap(), "front/name");
    // Go reads a prefix if GNU's times are not valid.
    assert!(name(b"ustar  \0").unwrap_err().contains("access time"));
    assert_eq!(read(&magic(Tarball::default(), b"ustar  \0", b"").end()).unwrap()[0].0.name, "name");
    let times = b"00000000001\x0000000000001\x00";
    assert_eq!(read(&magic(Tarball::default(), b"ustar  \0", times).end()).unwrap()[0].0.name, "name");
    // One of our readers used the prefix here, and the other did not.
    for odd in [b"ustar 00", b"ustarr00", b"ustar   "] {
        assert!(name(odd).unwrap_err().contains("magic"), "{odd:?}");
    }
}

#[test]
fn a_prefix_that_star_ends_elsewhere_is_refused() {
    let star = |prefix: &[u8]| {
        let mut block = [0; BLOCK];
        block[..4].copy_from_slice(b"name");
        block[156] = b'0';
        block[257..265].copy_from_slice(b"ustar\x0000");
        block[345..345 + prefix.len()].copy_from_slice(prefix);
        block[508..].copy_from_slice(b"tar\0");
        read(&Tarball::default().bytes(&summed(block)).end()).map(|all| all[0].0.name.clone())
    };
    assert_eq!(star(b"front").unwrap(), "front/name");
    assert!(star(&[b'x'; 140]).unwrap_err().contains("star"));
}

#[test]
fn what_is_told_of_a_member_stands_before_it_and_nothing_between() {
    let global = |tar: Tarball| tar.raw(b'g', b"pax", b"", 15, b"15 comment=abc\n");
    refused(
        &global(Tarball::default().pax(b"9 path=b\n")).with("a", b"x").end(),
        "a global header stands between",
    );
    assert_eq!(
        read(&global(Tarball::default()).pax(b"9 path=b\n").with("a", b"x").end()).unwrap()[0].0.name,
        "b"
    );
}

#[test]
fn names_are_no_longer_than_file_systems_take() {
    let named = |name: &str| {
        let told = record("path", name);
        read(&Tarball::default().pax(told.as_bytes()).with("a", b"x").end()).map(|all| all[0].0.name.len())
    };
    let parts = |count: usize| vec!["x".repeat(255); count].join("/");
    assert_eq!(named(&parts(16)), Ok(4095));
    for long in ["x".repeat(256), parts(17), "a/".repeat(100_000)] {
        assert!(named(&long).unwrap_err().contains("longer than 4096 bytes"));
    }
}

/// A PAX record, which begins with its own length.
fn record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut len = rest.len();
    while len != rest.len() + len.to_string().len() {
        len = rest.len() + len.to_string().len();
    }
    format!("{len}{rest}")
}

#[test]
fn what_star_and_solaris_call_sparse_is_never_read_as_the_packed_bytes() {
    for record in ["23 SCHILY.realsize=600\n", "28 SUN.holesdata= 0 100 200\n"] {
        refused(&Tarball::default().pax(record.as_bytes()).with("a", &[1; 100]).end(), "is not supported");
    }
    let global = Tarball::default().raw(b'g', b"", b"", 23, b"23 SCHILY.realsize=600\n");
    refused(&global.with("a", b"1").end(), "for all files");
}

#[test]
fn attributes_by_which_overlay_file_systems_show_other_files_are_refused() {
    let with = |name: &str| {
        Tarball::default()
            .pax(record(&format!("SCHILY.xattr.{name}"), "/etc").as_bytes())
            .with("disk/", b"")
            .end()
    };
    for name in [
        "trusted.overlay.redirect",
        "trusted.overlay.opaque",
        "user.overlay.metacopy",
        "user.overlay.whiteout",
    ] {
        refused(&with(name), "overlay file systems show another file");
    }
    for name in ["trusted.overlay.origin", "user.overlay.impure", "security.capability", "user.overlay"] {
        assert_eq!(read(&with(name)).unwrap().len(), 1, "{name}");
    }
}

#[test]
fn a_file_named_like_a_folder_is_neither() {
    for (kind, name) in [(b'0', "disk/"), (b'7', "disk/"), (b'0', "disk/."), (b'0', "./")] {
        refused(&Tarball::default().raw(kind, name.as_bytes(), b"", 0, b"").end(), "ends with a slash");
    }
    // Before ustar a folder could not be written in another way.
    let v7 = read(&Tarball::default().raw(0, b"disk/", b"", 0, b"").end()).unwrap();
    assert_eq!((v7[0].0.name.as_str(), &v7[0].0.what), ("disk", &What::Folder));
}

#[test]
fn a_member_has_a_name_and_only_a_folder_is_the_root() {
    refused(&Tarball::default().raw(b'0', b"", b"", 0, b"").end(), "empty name");
    refused(&Tarball::default().raw(b'L', b"", b"", 1, b"\0").with("a", b"1").end(), "empty name");
    refused(&Tarball::default().raw(b'2', b".", b"x", 0, b"").end(), "root");
    let empty = Tarball::default().raw(b'K', b"", b"", 1, b"\0").raw(b'2', b"a", b"x", 0, b"");
    refused(&empty.end(), "link name here is empty");
    refused(
        &Tarball::default().raw(b'X', b"a", b"", 9, b"9 path=b\n").with("a", b"1").end(),
        "has the unknown type 'X'",
    );
    let root = read(&Tarball::default().with("./", b"").end()).unwrap();
    assert_eq!((root[0].0.name.as_str(), &root[0].0.what), ("", &What::Folder));
}

#[test]
fn a_name_is_told_once() {
    let t = Tarball::default;
    let file = |t: Tarball| t.with("a", b"1").end();
    let contradict = "contradict";
    refused(&file(t().raw(b'L', b"", b"", 2, b"b\0").raw(b'L', b"", b"", 2, b"c\0")), contradict);
    refused(&file(t().raw(b'K', b"", b"", 2, b"b\0").raw(b'K', b"", b"", 2, b"c\0")), contradict);
    refused(&file(t().raw(b'K', b"", b"", 2, b"b\0").pax(b"14 linkpath=c\n")), contradict);
    refused(&file(t().raw(b'L', b"", b"", 2, b"b\0").pax(b"9 path=c\n")), contradict);
    refused(&file(t().pax(b"12 comment=\n").pax(b"12 comment=\n")), contradict);
    refused(&file(t().pax(b"9 size=1\n9 size=1\n")), "has size twice");
    refused(&file(t().pax(b"21 GNU.sparse.size=9\n25 GNU.sparse.realsize=9\n")), "twice");
}

#[test]
fn numbers_have_63_bits_and_no_zero_byte_before_their_digits() {
    let with = |field: &[u8; 12]| {
        let mut block = <[u8; BLOCK]>::try_from(&Tarball::default().with("a", b"").end()[..BLOCK]).unwrap();
        block[124..136].copy_from_slice(field);
        let mut tar = summed(block).to_vec();
        tar.extend([1; BLOCK].iter().chain(&END));
        tar
    };
    let size = |field| read(&with(field)).map(|all| all[0].0.size);
    assert_eq!(size(b"00000000010\0"), Ok(8));
    assert_eq!(size(b"         10 "), Ok(8));
    assert_eq!(size(b"\x80\0\0\0\0\0\0\0\0\0\0\x08"), Ok(8));
    for bad in [
        b"\x000000000010\0",
        b"\t0000000010\0",
        b"\x80\0\0\0\x80\0\0\0\0\0\0\0",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xf8",
    ] {
        assert!(size(bad).unwrap_err().contains("size field"), "{bad:?}");
    }
    let mut checksum = Tarball::default().with("a", b"").end();
    // The right sum, in base 256.
    let sum = u64::from_str_radix(std::str::from_utf8(&checksum[148..154]).unwrap(), 8).unwrap();
    checksum[148..156].copy_from_slice(&sum.to_be_bytes());
    checksum[148] = 0x80;
    refused(&checksum, "checksum");
}

#[test]
fn a_missing_end_mark_is_an_end_only_where_the_bytes_are_known_to_be_all() {
    let whole = Tarball::default().with("a", b"1");
    for end in [whole.clone(), whole.clone().bytes(&[0; BLOCK])].map(Tarball::cut) {
        assert_eq!(read_by(&end, SIZED).unwrap().len(), 1);
        assert!(read_by(&end, MARKED).unwrap_err().contains("end mark"), "{} bytes", end.len());
    }
    let headless = whole.pax(b"9 path=b\n").cut();
    assert!(read_by(&headless, SIZED).unwrap_err().contains("followed by no file"));
    assert!(read_by(&headless, MARKED).unwrap_err().contains("end mark"));
}

#[test]
fn headers_are_counted_whatever_they_are_of() {
    for kind in [b'g', b'5'] {
        let many = (0..1001).fold(Tarball::default(), |tar, _| tar.raw(kind, b"a", b"", 0, b""));
        refused(&many.end(), "more than 1000 entries");
    }
}

#[test]
fn a_volume_that_goes_on_is_refused_and_its_label_is_a_note() {
    let t = Tarball::default;
    refused(&t().pax(b"25 GNU.volume.offset=100\n").with("a", b"1").end(), "GNU.volume.offset");
    refused(&t().raw(b'M', b"a", b"", 0, b"").end(), "another volume");
    let label = t().raw(b'g', b"", b"", 22, b"22 GNU.volume.label=x\n").raw(b'V', b"x", b"", 0, b"");
    assert_eq!(read(&label.end()).unwrap()[0].0.what, What::Note('V'));
    let list = read(&t().raw(b'D', b"d/", b"", 5, b"Yabc\0").with("a", b"1").end()).unwrap();
    assert_eq!((list[0].0.size, list[1].1.as_slice()), (0, &b"1"[..]));
}

#[test]
fn a_sparse_file_tells_its_holes() {
    let records = b"22 GNU.sparse.size=90\n26 GNU.sparse.numblocks=1\n23 GNU.sparse.map=10,5\n";
    let all = read(&Tarball::default().pax(records).with("a", b"12345").end()).unwrap();
    let (member, data) = &all[0];
    assert_eq!((member.size, data.as_slice()), (90, &b"12345"[..]));
    let map = member.map.as_ref().map(Map::segments);
    assert_eq!(map, Some(std::slice::from_ref(&(10..15))));
    let on_a_link = Tarball::default().pax(records).raw(b'2', b"a", b"b", 0, b"").end();
    refused(&on_a_link, "a sparse file of an unsupported kind");
}

#[test]
fn a_member_past_the_end_of_all_offsets_is_refused() {
    let size = format!("{}", i64::MAX);
    let record = format!("{} size={size}\n", 7 + size.len() + 2);
    let tar = Tarball::default().pax(record.as_bytes()).with("a", b"1").end();
    assert!(read(&tar).unwrap_err().contains("ends inside a file"));
}

/// A reader of one byte at a time that is interrupted by a signal before each.
struct Interrupted(io::Cursor<Vec<u8>>, bool);

impl Read for Interrupted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        match self.1 {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => {
                let most = out.len().min(1);
                self.0.read(&mut out[..most])
            }
        }
    }
}

#[test]
fn a_signal_does_not_end_an_archive() {
    let tar = Tarball::default().pax(b"9 path=b\n").with("a", &[7; 700]).with("c", b"passed over").end();
    let mut archive = Archive::new(Streamed::new(Interrupted(io::Cursor::new(tar), false)), MARKED);
    let member = archive.next_member().unwrap().unwrap();
    assert_eq!((member.name.as_str(), archive.peek(700).unwrap()), ("b", vec![7; 700]));
    assert_eq!(archive.next_member().unwrap().unwrap().name, "c");
    assert!(archive.next_member().unwrap().is_none());
    archive.drain().unwrap();
}
