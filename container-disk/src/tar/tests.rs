//! Tars of other programs, of this one, and of attackers.

mod go;
mod strict;

use super::*;
use crate::ErrorKind;
use crate::members::Members;
use std::io::{self, Cursor, Read as _};
use std::process::Command;
use std::sync::Arc;

/// A tar that is being built.
#[derive(Clone, Default)]
pub(crate) struct Tarball(Vec<u8>);

impl Tarball {
    /// A file of QEMU's user, or a folder if the name ends with a slash.
    pub(crate) fn with(self, name: &str, bytes: &[u8]) -> Self {
        let mode = if name.ends_with('/') { 0o555 } else { 0o444 };
        self.owned(name, 107, mode, bytes)
    }

    /// A file or folder of any owner.
    pub(crate) fn owned(mut self, name: &str, owner: u32, mode: u32, bytes: &[u8]) -> Self {
        let item = Item { name, size: bytes.len() as u64, mode, mtime: 0, owner: (owner, "somebody") };
        self.0.extend_from_slice(&head(&item));
        self.data(bytes)
    }

    /// Any header (type, name, link, stated size), followed by bytes.
    pub(crate) fn raw(mut self, kind: u8, name: &[u8], link: &[u8], size: u64, bytes: &[u8]) -> Self {
        let item = Item { name: "", size, mode: 0o444, mtime: 0, owner: (107, "qemu") };
        let mut block: [u8; BLOCK] = patched(&item).try_into().unwrap();
        block[..name.len()].copy_from_slice(name);
        block[156] = kind;
        block[157..157 + link.len()].copy_from_slice(link);
        self.0.extend_from_slice(&summed(block));
        self.data(bytes)
    }

    /// A PAX header.
    pub(crate) fn pax(self, records: &[u8]) -> Self {
        self.raw(b'x', b"PaxHeader", b"", records.len() as u64, records)
    }

    pub(crate) fn bytes(mut self, more: &[u8]) -> Self {
        self.0.extend_from_slice(more);
        self
    }

    pub(crate) fn end(self) -> Vec<u8> {
        self.bytes(&END).0
    }

    /// The bytes so far, without an end mark.
    fn cut(self) -> Vec<u8> {
        self.0
    }

    fn data(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }
}

fn summed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// All members with their bytes, read once in order and once by offset. Both must agree.
fn read(tar: &[u8]) -> crate::Result<Vec<(Member, Vec<u8>)>> {
    let streamed = drain(Members::new("x", Streamed::new(Cursor::new(tar.to_vec()))));
    let sought = drain(Members::new("x", Seekable::new(Arc::new(tar.to_vec()))));
    match (&streamed, &sought) {
        (Ok(a), Ok(b)) => assert_eq!(a, b),
        (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
        (a, b) => panic!("in order {a:?}, by offset {b:?}"),
    }
    streamed
}

fn drain(mut members: Members) -> crate::Result<Vec<(Member, Vec<u8>)>> {
    let mut all = vec![];
    while let Some(member) = members.next()? {
        let mut bytes = vec![];
        members.read_to_end(&mut bytes).map_err(|e| crate::Error::io("reading", e))?;
        all.push((member, bytes));
    }
    members.drain()?;
    Ok(all)
}

fn names(tar: &[u8]) -> Vec<String> {
    read(tar).unwrap().into_iter().map(|(member, _)| member.name).collect()
}

#[test]
fn what_we_write_we_read() {
    let long = format!("boot/{}", "é".repeat(120));
    let tar = Tarball::default().with("disk/", b"").with("disk/disk.img", &[7; 700]).with(&long, b"x").end();
    let all = read(&tar).unwrap();
    let (disk, bytes) = &all[1];
    assert_eq!((disk.name.as_str(), disk.size, disk.at), ("disk/disk.img", 700, 1024));
    assert_eq!((disk.uid, disk.gid, disk.mode), (107, 107, 0o444));
    assert_eq!(*bytes, [7; 700]);
    assert_eq!(all[0].0.what, What::Folder);
    assert_eq!(all[2].0.name, long);
}

#[test]
fn sizes_from_8_gib_on_are_told_in_both_ways() {
    for size in [(8 << 30) - 1, 8 << 30, 1 << 45] {
        let item = Item { name: "d", size, mode: 0o444, mtime: 0, owner: (107, "qemu") };
        for head in [head(&item), patched(&item)] {
            let member = Members::new("x", Streamed::new(Cursor::new(head))).next().unwrap().unwrap();
            assert_eq!((member.size, member.name.as_str()), (size, "d"));
        }
    }
}

#[test]
fn gnu_tar_and_python_agree_on_what_we_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.tar");
    let item = Item { name: "big", size: 9 << 30, mode: 0o444, mtime: 1 << 34, owner: (107, "qemu") };
    std::fs::write(&file, head(&item)).unwrap();
    // A hole replaces the bytes.
    let long = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    let size = head(&item).len() as u64 + item.size + END.len() as u64;
    long.set_len(size).unwrap();
    let out = Command::new("tar").args(["-tv", "--numeric-owner", "-f"]).arg(&file).output().unwrap();
    let shown = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && shown.contains("-r--r--r-- 107/107 "), "{shown}");
    assert!(shown.contains("9663676416") && shown.contains("2514-05-30"), "{shown}");
    let look = "import sys,tarfile; print([(m.name,m.size,m.uname) for m in tarfile.open(sys.argv[1])])";
    let out = Command::new("python3").args(["-c", look]).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "[('big', 9663676416, 'qemu')]\n");
}

#[test]
fn tars_of_gnu_tar_are_read_in_each_of_its_formats() {
    let folder = tempfile::tempdir().unwrap();
    let deep = format!("{}/{}", "a".repeat(90), "b".repeat(90));
    std::fs::create_dir_all(folder.path().join("in").join(&deep)).unwrap();
    std::fs::write(folder.path().join("in").join(&deep).join("file"), b"hello").unwrap();
    for format in ["gnu", "oldgnu", "pax", "posix", "ustar"] {
        let inside = folder.path().join("in");
        let out = Command::new("tar").args(["-c", "--format", format, "."]).current_dir(inside).output();
        let tar = out.unwrap().stdout;
        let all = read(&tar).unwrap();
        let (member, bytes) = all.last().unwrap();
        assert_eq!(
            (member.name.clone(), bytes.as_slice()),
            (format!("{deep}/file"), &b"hello"[..]),
            "{format}"
        );
        assert_eq!(all[0].0.name, "", "{format}");
    }
}

#[test]
fn names_are_made_plain() {
    let tar = Tarball::default().with("./a//b/", b"").with("././c", b"1").end();
    assert_eq!(names(&tar), ["a/b", "c"]);
}

#[test]
fn an_end_without_its_mark_is_an_end_and_zeros_may_follow_the_mark() {
    let tar = Tarball::default().with("a", b"1");
    assert_eq!(names(&tar.0), ["a"]);
    let tar = tar.end();
    assert_eq!(names(&[tar.as_slice(), &[0; 10 << 10]].concat()), ["a"]);
    assert_eq!(names(b""), [""; 0]);
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let t = Tarball::default;
    let file = |t: Tarball| t.with("a", b"1").end();
    let sparse = "22 GNU.sparse.major=1\n";
    let mut bad_sum = file(t());
    bad_sum[148] = b'7';
    let huge = t().raw(b'0', b"a", b"", u64::MAX, b"").end();
    for (why, tar) in [
        ("leads out", t().with("a/../b", b"").end()),
        ("leads out", t().with("..", b"").end()),
        ("absolute name", t().with("/etc/passwd", b"").end()),
        ("leads out", file(t().pax(b"15 path=../a/b\n")).clone()),
        ("not UTF-8", t().raw(b'0', b"a\xff", b"", 0, b"").end()),
        ("sparse", t().raw(b'S', b"a", b"", 0, b"").end()),
        ("sparse", file(t().pax(sparse.as_bytes()))),
        ("note of GNU tar", t().raw(b'D', b"a", b"", 0, b"").end()),
        ("has a size of 4", t().raw(b'1', b"a", b"b", 4, b"data").end()),
        ("has a size of 4", t().raw(b'5', b"a", b"", 4, b"data").end()),
        ("checksum", bad_sum),
        ("size field", huge),
        ("ends too early", t().raw(b'0', b"a", b"", 5000, b"1234").end()),
        ("ends too early", t().raw(b'0', b"a", b"", 1 << 62, b"").end()),
        ("ends too early", t().with("a", b"1").0[..700].to_vec()),
        ("ends too early", t().with("a", b"1").bytes(&[1; 100]).0),
        ("single empty block", t().bytes(&[0; BLOCK]).with("a", b"1").end()),
        ("after the archive's end mark", t().bytes(&END).with("a", b"1").end()),
        ("contradict", file(t().pax(b"9 path=b\n").pax(b"9 path=c\n"))),
        ("contradict", file(t().raw(b'L', b"", b"", 2, b"b\0").pax(b"9 path=c\n"))),
        ("for all files", file(t().raw(b'g', b"", b"", 9, b"9 path=c\n"))),
        ("twice", file(t().pax(b"9 path=b\n9 path=c\n"))),
        ("PAX header here is broken", file(t().pax(b"99 path=b\n"))),
        ("PAX header here is broken", file(t().pax(b"9 path=bb"))),
        ("value of size is not supported", file(t().pax(b"9 size=x\n"))),
        ("value of path is not supported", file(t().pax(b"8 path=\n"))),
        ("followed by no file", t().pax(b"9 path=b\n").end()),
        ("the limit is 65536", t().raw(b'L', b"", b"", 1 << 30, b"").end()),
    ] {
        let e = read(&tar).map(|all| all.len()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused, "{why}: {e}");
        assert!(e.to_string().contains(why), "{why}: {e}");
    }
}

#[test]
fn harmless_extended_headers_are_passed_over() {
    let tar = Tarball::default().raw(b'g', b"", b"", 13, b"13 comment=x\n").pax(b"11 mtime=1\n");
    assert_eq!(names(&tar.with("a", b"1").end()), ["a"]);
}

#[test]
fn any_bytes_at_all_end_in_an_answer() {
    // Each byte of a good archive is changed in several ways. No change may panic or read outside.
    let good = Tarball::default().pax(b"9 path=b\n").with("a", &[1; 600]).with("c/", b"").end();
    for at in 0..good.len() {
        for change in [1, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= change;
            if let Ok(all) = read(&bad) {
                let sum: u64 = all.iter().map(|(member, _)| member.size).sum();
                assert!(sum <= bad.len() as u64, "byte {at} ^ {change:#x}");
            }
        }
    }
}

#[test]
fn a_window_serves_small_reads_and_large_ones_pass_it_by() {
    let bytes: Vec<u8> = (0..300_000u32).map(|i| (i >> 5) as u8).collect();
    let mut seekable = Seekable::new(Arc::new(bytes.clone()));
    let mut out = vec![];
    for step in [1, 511, 70_000, 13, 100_000] {
        let mut piece = vec![0; step];
        seekable.read_exact(&mut piece).unwrap();
        out.extend_from_slice(&piece);
    }
    seekable.read_to_end(&mut out).unwrap();
    assert!(out == bytes);
    use super::source::Source as _;
    assert_eq!(seekable.skip(1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}
