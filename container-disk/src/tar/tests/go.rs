//! Archives that this reader accepts are read in the same way by Go's archive/tar, or refused by it. Both
//! read thousands of archives with changed headers. Runtimes that unpack layers are written in Go.

// A skipped test prints the reason.
#![allow(clippy::print_stderr)]

use super::summed;
use crate::tar::{Archive, BLOCK, END, End, Fault, Member, Rules, Streamed, What};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::io::Cursor;
use std::process::{Command, Stdio};

/// Number of archives of one run.
const CASES: u64 = 12_000;
/// Number of bytes of a member's data that are compared. `members.go` has the same number.
const MOST: usize = 1 << 20;
const RULES: Rules = Rules { end: End::Bytes, headers: 1000 };

/// Go's result for an archive.
#[derive(Deserialize)]
struct List {
    members: Vec<Told>,
    error: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Told {
    name: String,
    link: String,
    #[serde(rename = "type")]
    kind: String,
    size: u64,
    uid: u64,
    gid: u64,
    mode: u64,
    sum: String,
}

#[test]
fn what_we_take_go_takes_for_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("members");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/kit/members.go");
    let built =
        Command::new("go").args(["build", "-o"]).arg(&program).arg(source).env("GO111MODULE", "off").output();
    let built = match built {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no go, the program that reads archives beside us");
            return;
        }
        built => built.unwrap(),
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    let archives: Vec<Vec<u8>> = (0..CASES).map(|seed| Random(seed).archive()).collect();
    let input = folder.path().join("archives");
    let framed =
        archives.iter().flat_map(|tar| [(tar.len() as u64).to_be_bytes().to_vec(), tar.clone()].concat());
    std::fs::write(&input, framed.collect::<Vec<u8>>()).unwrap();
    let input = std::fs::File::open(&input).unwrap();
    let out = Command::new(&program).stdin(input).stderr(Stdio::inherit()).output().unwrap();
    assert!(out.status.success());
    let lines = String::from_utf8(out.stdout).unwrap();
    assert_eq!(lines.lines().count(), archives.len());

    let (mut taken, mut both, mut wrong) = (0, 0, vec![]);
    for (seed, (tar, line)) in archives.iter().zip(lines.lines()).enumerate() {
        let Ok(ours) = read(tar) else { continue };
        taken += 1;
        let Ok(go) = serde_json::from_str::<List>(line) else {
            wrong.push(format!("seed {seed}: Go tells what we cannot: {line}"));
            continue;
        };
        if !go.error.is_empty() {
            continue;
        }
        both += 1;
        let go: Vec<Told> = go.members.into_iter().map(Told::plain).collect();
        if go != ours {
            wrong.push(format!("seed {seed}:\n ours {ours:?}\n Go   {go:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} archives are read as others: {}",
        wrong.len(),
        wrong[..wrong.len().min(8)].join("\n")
    );
    // Otherwise nothing was compared.
    assert!(both > CASES / 20 && taken < CASES * 19 / 20, "{taken} were taken, {both} by both");
}

/// A member in Go's output.
fn read(tar: &[u8]) -> Result<Vec<Told>, Fault> {
    let mut archive = Archive::new(Streamed::new(Cursor::new(tar.to_vec())), RULES);
    let mut all = vec![];
    while let Some(member) = archive.next_member()? {
        let data = archive.peek(MOST)?;
        all.push(told(&member, &data).ok_or(Fault::Refused { at: 0, what: "a note".to_owned() })?);
    }
    archive.drain()?;
    Ok(all)
}

fn told(member: &Member, data: &[u8]) -> Option<Told> {
    let (kind, link) = match &member.what {
        What::File => ("file", ""),
        What::Folder => ("5", ""),
        What::HardLink(to) => ("1", to.as_str()),
        What::Symlink(to) => ("2", to.as_str()),
        What::Special("character device") => ("3", ""),
        What::Special("block device") => ("4", ""),
        What::Special(_) => ("6", ""),
        // Members that runtimes do not unpack.
        What::Note(_) => return None,
    };
    let mut whole = vec![0; usize::try_from(member.size).unwrap_or(MOST).min(MOST)];
    let mut data = data;
    let all = 0..member.size;
    for segment in member.map.as_ref().map_or(std::slice::from_ref(&all), |map| map.segments()) {
        for at in segment.clone() {
            let (Some(to), Some((byte, rest))) = (whole.get_mut(at as usize), data.split_first()) else {
                break;
            };
            *to = *byte;
            data = rest;
        }
    }
    Some(Told {
        name: hex::encode(&member.name),
        link: hex::encode(link),
        kind: kind.to_owned(),
        size: member.size,
        uid: member.uid,
        gid: member.gid,
        mode: member.mode,
        sum: hex::encode(Sha256::digest(&whole)),
    })
}

impl Told {
    /// Converts to our form: cleaned names, one type of file, link targets only for links.
    fn plain(mut self) -> Told {
        let text = |hex: &str| String::from_utf8_lossy(&hex::decode(hex).unwrap()).into_owned();
        let name = text(&self.name);
        let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        self.name = hex::encode(parts.join("/"));
        self.link = match self.kind.as_str() {
            "1" | "2" => hex::encode(text(&self.link)),
            _ => String::new(),
        };
        if matches!(self.kind.as_str(), "0" | "7" | "S") {
            self.kind = "file".to_owned();
        }
        self
    }
}

/// A block of an archive that is being built.
#[derive(Clone)]
struct Piece {
    block: [u8; BLOCK],
    is_header: bool,
}

const NAMES: [&[u8]; 14] = [
    b"disk/a",
    b"disk/",
    b"disk",
    b"a",
    b"a/b/c",
    b"./a",
    b"./",
    b"",
    b"disk/a/",
    b"../a",
    b"/a",
    b"a\0b",
    b"a\xff",
    b"disk/./a",
];
const KINDS: &[u8] = b"0123456750000000\0xgLKSDVMX2xL";
const MAGICS: [&[u8]; 9] = [
    b"ustar\x0000",
    b"ustar  \0",
    b"\0\0\0\0\0\0\0\0",
    b"ustar\0\0\0",
    b"ustar\x0001",
    b"ustar 00",
    b"ustar   ",
    b"USTAR\x0000",
    b"tar\0\0\0\0\0",
];
const NUMBERS: [&[u8]; 22] = [
    b"0000644\0",
    b"00000000000\0",
    b"00000000010\0",
    b"         10 ",
    b"10\0",
    b"10 ",
    b"0",
    b"",
    b" ",
    b"8",
    b"-1",
    b"\x00010",
    b"1\x001",
    b"00000001000\0",
    b"00000000001 ",
    b"\x80\0\0\0\0\0\0\0\0\0\0\x05",
    b"\x80\0\0\0\0\0\0\x05",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xf0",
    b"777777777777",
    b"\t10\0",
    b"0000000010x\0",
    b"\x80\0\0\x01\0\0\0\0\0\0\0\0",
];
/// Offsets and lengths of fields in ustar, GNU and star.
const FIELDS: [(usize, usize); 29] = [
    (0, 100),
    (100, 8),
    (108, 8),
    (116, 8),
    (124, 12),
    (136, 12),
    (156, 1),
    (157, 100),
    (257, 8),
    (265, 32),
    (297, 32),
    (329, 8),
    (337, 8),
    (345, 155),
    (345, 12),
    (357, 12),
    (369, 12),
    (381, 4),
    (386, 12),
    (398, 12),
    (410, 12),
    (482, 1),
    (483, 12),
    (495, 17),
    (345, 131),
    (476, 12),
    (488, 12),
    (500, 8),
    (508, 4),
];
const KEYS: [&[u8]; 26] = [
    b"path",
    b"path",
    b"path",
    b"linkpath",
    b"size",
    b"size",
    b"uid",
    b"gid",
    b"mtime",
    b"atime",
    b"comment",
    b"hdrcharset",
    b"GNU.sparse.major",
    b"GNU.sparse.minor",
    b"GNU.sparse.name",
    b"GNU.sparse.realsize",
    b"GNU.sparse.size",
    b"GNU.sparse.numblocks",
    b"GNU.sparse.map",
    b"GNU.sparse.offset",
    b"GNU.sparse.numbytes",
    b"SCHILY.xattr.user.a",
    b"SCHILY.realsize",
    b"GNU.volume.label",
    b"uname",
    b"Path",
];
const VALUES: [&[u8]; 22] = [
    b"disk/a",
    b"disk/",
    b"a",
    b"b/c",
    b"../x",
    b"/x",
    b"",
    b"0",
    b"1",
    b"5",
    b"600",
    b"-1",
    b"+5",
    b"05",
    b"1.5",
    b"99999999999999999999",
    b"0,5",
    b"0,1,2,3",
    b"BINARY",
    b"a\0b",
    b"a\nb",
    b"a=b",
];

/// The generator SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Valid members with up to three changes.
    fn archive(&mut self) -> Vec<u8> {
        // Adjacent seeds would begin alike.
        self.next();
        let mut pieces = vec![];
        for _ in 0..=self.below(3) {
            self.member(&mut pieces);
        }
        for _ in 0..self.below(4) {
            self.change(&mut pieces);
        }
        let keeps_sums = !self.one_in(12);
        let mut tar = vec![];
        for piece in pieces {
            let sums = keeps_sums && piece.is_header;
            tar.extend(if sums { summed(piece.block) } else { piece.block });
        }
        match self.below(24) {
            0 => {}
            1 => tar.extend([0; BLOCK]),
            2 => tar.truncate(self.below(tar.len() + 1)),
            3 => tar.extend([&END[..], &[0; 700]].concat()),
            4 => tar.extend([&END[..], b"more"].concat()),
            _ => tar.extend(END),
        }
        tar
    }

    fn member(&mut self, pieces: &mut Vec<Piece>) {
        let name = self.of(&NAMES[..5]);
        match self.below(14) {
            0 | 1 => {
                let records = (0..=self.below(2)).flat_map(|_| self.record()).collect::<Vec<u8>>();
                extended(pieces, b'x', &records);
            }
            2 => extended(pieces, b'L', b"disk/long\0"),
            3 => extended(pieces, b'K', b"disk/long\0"),
            4 => {
                let records = self.record();
                extended(pieces, b'g', &records);
            }
            5 => {
                // A sparse file of GNU's own type: 5 bytes at 3, and 600 in all.
                let mut block = header(b'S', name, b"ustar  \0", 5);
                put(&mut block, 386, b"00000000003\0");
                put(&mut block, 398, b"00000000005\0");
                put(&mut block, 483, b"00000001130\0");
                pieces.push(Piece { block, is_header: true });
                return data(pieces, b"12345");
            }
            6 => {
                let records = b"22 GNU.sparse.size=90\n26 GNU.sparse.numblocks=1\n23 GNU.sparse.map=10,5\n";
                extended(pieces, b'x', records);
                pieces.push(Piece { block: header(b'0', name, b"ustar\x0000", 5), is_header: true });
                return data(pieces, b"12345");
            }
            7 => {
                let records = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n26 GNU.sparse.realsize=90\n22 GNU.sparse.name=d/s\n";
                extended(pieces, b'x', records);
                let mut packed = b"1\n10\n5\n".to_vec();
                packed.resize(BLOCK, 0);
                packed.extend(b"12345");
                pieces
                    .push(Piece { block: header(b'0', name, b"ustar\x0000", packed.len()), is_header: true });
                return data(pieces, &packed);
            }
            _ => {}
        }
        let magic = self.of(&MAGICS[..3]);
        let (kind, size) = self.of(&[
            (b'0', 5),
            (b'0', 700),
            (b'0', 0),
            (b'5', 0),
            (b'2', 0),
            (b'1', 0),
            (b'3', 0),
            (b'6', 0),
            (0, 5),
        ]);
        let name = if kind == b'5' { b"disk/" } else { name };
        let mut block = header(kind, name, magic, size);
        if matches!(kind, b'1' | b'2') {
            put(&mut block, 157, b"a/target");
        }
        pieces.push(Piece { block, is_header: true });
        let bytes: Vec<u8> = (0..size).map(|_| self.next() as u8).collect();
        data(pieces, &bytes);
    }

    fn change(&mut self, pieces: &mut Vec<Piece>) {
        let at = self.below(pieces.len());
        let headers: Vec<usize> = (0..pieces.len()).filter(|&at| pieces[at].is_header).collect();
        let head = if headers.is_empty() { at } else { self.of(&headers) };
        match self.below(16) {
            0..=6 => {
                let (from, len) = self.of(&FIELDS);
                let value = self.value(len);
                let block = &mut pieces[head].block;
                block[from..from + len].fill(0);
                put(block, from, &value[..value.len().min(len)]);
            }
            7 | 8 => pieces[head].block[156] = self.of(KINDS),
            9 => {
                let magic = self.of(&MAGICS);
                put(&mut pieces[head].block, 257, magic);
            }
            10 => {
                let byte = self.below(BLOCK);
                pieces[at].block[byte] = self.next() as u8;
            }
            11 => {
                let other = self.below(pieces.len());
                pieces.swap(at, other);
            }
            12 => pieces.insert(at, pieces[at].clone()),
            13 => {
                let records = (0..=self.below(2)).flat_map(|_| self.record()).collect::<Vec<u8>>();
                let kind = self.of(b"xxgLKX");
                let mut before = vec![];
                extended(&mut before, kind, &records);
                pieces.splice(head..head, before);
            }
            14 => {
                let prefix = self.of(&NAMES);
                put(&mut pieces[head].block, 345, prefix);
            }
            _ if pieces.len() > 1 => drop(pieces.remove(at)),
            _ => {}
        }
    }

    /// Of a field.
    fn value(&mut self, len: usize) -> Vec<u8> {
        match self.below(5) {
            0 => self.of(&NAMES).to_vec(),
            1 => (0..len).map(|_| self.next() as u8).collect(),
            2 => vec![self.of(b"ax0 /\xff"); len],
            _ => self.of(&NUMBERS).to_vec(),
        }
    }

    /// A PAX record, whose length is not always right.
    fn record(&mut self) -> Vec<u8> {
        let (key, value) = (self.of(&KEYS), self.of(&VALUES));
        let rest = [&b" "[..], key, b"=", value, b"\n"].concat();
        let mut len = rest.len() + 1;
        if len + len.to_string().len() - 1 != len {
            len = rest.len() + (rest.len() + 2).to_string().len();
        }
        let told = match self.below(20) {
            0 => format!("0{}", len + 1),
            1 => format!("+{}", len + 1),
            2 => (len + self.below(3)).to_string(),
            _ => len.to_string(),
        };
        [told.as_bytes(), &rest].concat()
    }
}

fn extended(pieces: &mut Vec<Piece>, kind: u8, text: &[u8]) {
    let magic: &[u8] = if matches!(kind, b'L' | b'K') { b"ustar  \0" } else { b"ustar\x0000" };
    pieces.push(Piece { block: header(kind, b"extended", magic, text.len()), is_header: true });
    data(pieces, text);
}

fn data(pieces: &mut Vec<Piece>, bytes: &[u8]) {
    for part in bytes.chunks(BLOCK) {
        let mut block = [0; BLOCK];
        put(&mut block, 0, part);
        pieces.push(Piece { block, is_header: false });
    }
}

fn header(kind: u8, name: &[u8], magic: &[u8], size: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    put(&mut block, 0, name);
    put(&mut block, 100, b"0000644\0");
    put(&mut block, 108, b"0000153\0");
    put(&mut block, 116, b"0000153\0");
    put(&mut block, 124, format!("{size:011o}\0").as_bytes());
    put(&mut block, 136, b"00000000000\0");
    block[156] = kind;
    put(&mut block, 257, magic);
    block
}

fn put(block: &mut [u8; BLOCK], at: usize, bytes: &[u8]) {
    let end = (at + bytes.len()).min(BLOCK);
    block[at..end].copy_from_slice(&bytes[..end - at]);
}
