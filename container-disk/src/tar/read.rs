//! Reader of an archive's members: headers, extended headers, data, padding, the end mark.

use super::fault::Fault;
use super::header::{Flavour, Header, until_zero};
use super::member::{Member, What, clean, what};
use super::pax::{Pax, check_global};
use super::quoted;
use super::source::Source;
use super::sparse::Map;
use super::write::{BLOCK, rest};
use std::io;

/// Maximum size of a PAX header.
const PAX: u64 = 1 << 20;
/// Maximum size of a GNU long name.
const LONG_NAME: u64 = 64 << 10;

/// Limits and requirements for an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Requirement for the end of the archive.
    pub end: End,
    /// Maximum number of headers. Each costs time.
    pub headers: u64,
}

/// Requirement for the end of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The end mark is required. Without it the archive may have been truncated.
    Mark,
    /// The end mark is optional, since the length is known otherwise (from a digest, or the file itself).
    Bytes,
}

/// A reader of the members of an archive.
pub struct Archive {
    source: Box<dyn Source>,
    rules: Rules,
    at: u64,
    headers: u64,
    /// Bytes of the current member's data that have not been read.
    left: u64,
    /// Padding after the current member's data.
    padding: u64,
    ended: bool,
}

/// Values from extended headers for the next member.
#[derive(Default)]
struct ExtendedHeaders {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    pax: Option<Pax>,
}

impl Archive {
    /// Reads an archive from the beginning of `source`.
    pub fn new(source: impl Source + 'static, rules: Rules) -> Self {
        Archive { source: Box::new(source), rules, at: 0, headers: 0, left: 0, padding: 0, ended: false }
    }

    /// Number of bytes that have been read or skipped.
    pub fn offset(&self) -> u64 {
        self.at
    }

    /// Reads the next member's headers. Unread data of the previous member is skipped. `None` at the end.
    pub fn next_member(&mut self) -> Result<Option<Member>, Fault> {
        self.skip()?;
        let mut told = ExtendedHeaders::default();
        loop {
            let at = self.at;
            let Some(block) = self.header()? else {
                return match told.is_empty() {
                    true => Ok(None),
                    false => Err(Fault::refused(at, "an extended header is followed by no file")),
                };
            };
            let refused = |what| Fault::Refused { at, what };
            let header = Header::parse(&block).map_err(refused)?;
            let size = header.size().map_err(refused)?;
            let again = match header.kind() {
                b'L' => told.name.replace(self.name(size, "a long name")?).is_some(),
                b'K' => {
                    let link = self.name(size, "a long link name")?;
                    if link.is_empty() {
                        // Go treats an empty long name as absent.
                        return Err(Fault::refused(at, "a long link name here is empty"));
                    }
                    told.link.replace(link).is_some()
                }
                b'x' => {
                    let records = self.text(size, PAX, "a PAX header")?;
                    told.pax.replace(Pax::parse(&records).map_err(refused)?).is_some()
                }
                b'g' => {
                    if !told.is_empty() {
                        // Go discards the extended headers before it, other programs do not.
                        return Err(Fault::refused(
                            at,
                            "a global header stands between a member and its extended headers",
                        ));
                    }
                    let records = self.text(size, PAX, "a global PAX header")?;
                    check_global(&records).map_err(refused)?;
                    false
                }
                _ => return self.member(&header, size, told, at).map(Some),
            };
            if again {
                return Err(Fault::refused(at, CONTRADICTION));
            }
        }
    }

    /// Reads data of the current member. Returns 0 only at its end (or for an empty buffer).
    pub fn data(&mut self, out: &mut [u8]) -> Result<usize, Fault> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        if most == 0 {
            return Ok(0);
        }
        let n = self.some(&mut out[..most])?;
        if n == 0 {
            return Err(self.truncated("a file"));
        }
        self.left -= n as u64;
        Ok(n)
    }

    /// Continues inside the current member's data with another source, which starts at offset `at` of the
    /// archive.
    pub fn enter(&mut self, source: impl Source + 'static, at: u64) -> Result<(), Fault> {
        let passed = at.checked_sub(self.at).and_then(|passed| self.left.checked_sub(passed).map(|_| passed));
        let Some(passed) = passed else {
            return Err(Fault::refused(self.at, format!("byte {at} is not inside the file here")));
        };
        self.source = Box::new(source);
        self.at = at;
        self.left -= passed;
        Ok(())
    }

    /// The first bytes of the current member's data: `want` bytes, or fewer if the data ends.
    pub fn peek(&mut self, want: usize) -> Result<Vec<u8>, Fault> {
        let mut looked = vec![0; want];
        let mut have = 0;
        while have < want {
            match self.data(&mut looked[have..])? {
                0 => break,
                n => have += n,
            }
        }
        looked.truncate(have);
        Ok(looked)
    }

    /// Reads to the end of the bytes after the last member, so that checks at their end are made. Only zeros
    /// may follow, since a second archive would be ignored otherwise.
    pub fn drain(&mut self) -> Result<(), Fault> {
        let mut piece = vec![0; 64 << 10];
        loop {
            let n = self.some(&mut piece)?;
            if n == 0 {
                return Ok(());
            }
            if let Some(other) = piece[..n].iter().position(|&b| b != 0) {
                let at = self.at.saturating_sub(n as u64).saturating_add(other as u64);
                return Err(Fault::refused(at, "there are further bytes after the archive's end mark"));
            }
        }
    }

    fn member(
        &mut self,
        header: &Header<'_>,
        size: u64,
        told: ExtendedHeaders,
        at: u64,
    ) -> Result<Member, Fault> {
        let refused = |what| Fault::Refused { at, what };
        let ExtendedHeaders { name: long_name, link: long_link, pax } = told;
        let Pax { path, link, size: pax_size, uid, gid, sparse } = pax.unwrap_or_default();
        let names_twice = long_name.is_some() && (path.is_some() || sparse.name.is_some());
        if names_twice || (long_link.is_some() && link.is_some()) {
            return Err(Fault::refused(at, CONTRADICTION));
        }
        let name = sparse.name.clone().or(path).or(long_name).unwrap_or_else(|| header.name());
        let (name, is_folders) = clean(&name).map_err(refused)?;
        let link = link.or(long_link).unwrap_or_else(|| header.link());
        let what = what(header, &name, is_folders, &link).map_err(refused)?;
        let size = pax_size.unwrap_or(size);
        let is_list = what == What::Note('D');
        if what != What::File && !is_list && size != 0 {
            // Programs disagree on whether data follows such a member.
            let what = format!("{} is not a file, but has a size of {size}", quoted(&name));
            return Err(refused(what));
        }
        let map = match (header.kind() == b'S', sparse.seen) {
            (false, false) => None,
            (true, false) if header.flavour() == Flavour::Gnu => Some(self.old_sparse(header, size, at)?),
            (false, true) if what == What::File => Some(self.pax_sparse(sparse, size, &name, at)?),
            _ => {
                let what = format!("{} is a sparse file of an unsupported kind (star?)", quoted(&name));
                return Err(refused(what));
            }
        };
        if map.is_none() {
            self.begin(size)?;
        }
        let uid = uid.map_or_else(|| header.uid(), Ok).map_err(refused)?;
        let gid = gid.map_or_else(|| header.gid(), Ok).map_err(refused)?;
        let mode = header.mode().map_err(refused)?;
        let size = map.as_ref().map_or(if is_list { 0 } else { size }, Map::size);
        Ok(Member { name, what, size, at: self.at, uid, gid, mode, map })
    }

    /// Reads a header block. `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<[u8; BLOCK]>, Fault> {
        if self.ended {
            return Ok(None);
        }
        let at = self.at;
        let end_of_bytes = |archive: &Archive, inside| match archive.rules.end {
            End::Mark => Err(archive.truncated(inside)),
            End::Bytes => Ok(None),
        };
        let Some(block) = self.block()? else {
            self.ended = true;
            return end_of_bytes(self, "the archive (its end mark is missing)");
        };
        if block != [0; BLOCK] {
            self.headers += 1;
            return match self.headers > self.rules.headers {
                true => {
                    let what = format!("the archive has more than {} entries", self.rules.headers);
                    Err(Fault::refused(at, what))
                }
                false => Ok(Some(block)),
            };
        }
        self.ended = true;
        match self.block()? {
            Some(second) if second != [0; BLOCK] => {
                Err(Fault::refused(at, "a single empty block stands between the files"))
            }
            Some(_) => Ok(None),
            None => end_of_bytes(self, "the archive's end mark"),
        }
    }

    fn name(&mut self, size: u64, what: &str) -> Result<Vec<u8>, Fault> {
        Ok(until_zero(&self.text(size, LONG_NAME, what)?).to_vec())
    }

    /// Reads the data of an extended header.
    fn text(&mut self, size: u64, most: u64, what: &str) -> Result<Vec<u8>, Fault> {
        if size > most {
            let what = format!("{what} here is {size} bytes long, the limit is {most}");
            return Err(Fault::refused(self.at, what));
        }
        self.begin(size)?;
        let text = self.peek(usize::try_from(size).unwrap_or(usize::MAX))?;
        self.skip()?;
        Ok(text)
    }

    /// Starts the data of a member, `size` bytes and their padding.
    pub(super) fn begin(&mut self, size: u64) -> Result<(), Fault> {
        let padding = rest(size) as u64;
        let end = self.at.checked_add(size).and_then(|end| end.checked_add(padding));
        if end.is_none() {
            return Err(Fault::refused(
                self.at,
                format!("the file here has a size of {size}, which is too large for any archive"),
            ));
        }
        (self.left, self.padding) = (size, padding);
        Ok(())
    }

    /// Skips the unread data of the current member, and its padding, which may hold anything.
    fn skip(&mut self) -> Result<(), Fault> {
        // `begin` has checked that this ends below 2⁶⁴.
        let bytes = self.left + self.padding;
        self.source.skip(bytes).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => self.truncated("a file"),
            _ => Fault::Io(e),
        })?;
        self.at += bytes;
        (self.left, self.padding) = (0, 0);
        Ok(())
    }

    /// Number of unread bytes of the current member's data.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Reads a whole block. `None` if the bytes end before it.
    pub(super) fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Fault> {
        let mut block = [0; BLOCK];
        let mut have = 0;
        while have < BLOCK {
            match self.some(&mut block[have..])? {
                0 if have == 0 => return Ok(None),
                0 => return Err(self.truncated("a header")),
                n => have += n,
            }
        }
        Ok(Some(block))
    }

    /// Reads some bytes. Returns 0 only at the end of the bytes.
    fn some(&mut self, out: &mut [u8]) -> Result<usize, Fault> {
        loop {
            match self.source.read(out) {
                Ok(n) => {
                    self.at = self.at.saturating_add(n as u64);
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(self.truncated("its bytes")),
                Err(e) => return Err(Fault::Io(e)),
            }
        }
    }

    pub(super) fn truncated(&self, inside: &'static str) -> Fault {
        Fault::Truncated { at: self.at, inside }
    }
}

impl ExtendedHeaders {
    fn is_empty(&self) -> bool {
        self.name.is_none() && self.link.is_none() && self.pax.is_none()
    }
}

const CONTRADICTION: &str = "extended headers contradict one another: two of them set the same field";
