//! Walks an archive entry by entry: headers, extended headers, data, padding, the end mark.

use super::candidate::quoted;
use super::header::{BLOCK, Flavour, Header, text};
use super::pax::{Pax, number};
use super::sparse::{MOST, Map, Segments};
use crate::filter::{Layer, refused, truncated};
use std::io::{self, Read};

/// Headers in one archive, at most: only a hostile one has more around a disk.
const HEADERS: u64 = 100_000;
/// Bytes of the PAX headers before one entry, at most.
const PAX: u64 = 1 << 20;
/// Bytes of a GNU long name, at most.
const LONG_NAME: u64 = 64 << 10;

pub(super) struct Archive {
    input: Box<dyn Read + Send>,
    offset: u64,
    headers: u64,
    /// Of the present entry: data that has not been read, and the padding behind it.
    data: u64,
    padding: u64,
    scratch: Vec<u8>,
}

pub(super) struct Entry {
    pub(super) name: String,
    pub(super) what: What,
    pub(super) map: Map,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    File,
    Folder,
    /// Named for people.
    Special(&'static str),
}

impl Archive {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        Archive { input, offset: 0, headers: 0, data: 0, padding: 0, scratch: Vec::new() }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next entry, whose data is not skipped yet; `None` at the end mark.
    pub(super) fn next(&mut self) -> io::Result<Option<Entry>> {
        let mut pax = Pax::default();
        let mut pax_bytes = 0;
        let mut long_name = None;
        let mut extended = false;
        loop {
            let at = self.offset;
            let block = self.block("the archive (its end mark is missing)")?;
            if block == [0; BLOCK] {
                if extended {
                    return Err(refused(Layer::Tar, at, "an extended header is followed by no file"));
                }
                if self.block("the archive's end mark")? != [0; BLOCK] {
                    return Err(refused(Layer::Tar, at, "a single empty block stands between the files"));
                }
                return Ok(None);
            }
            self.headers += 1;
            if self.headers > HEADERS {
                let what = format_args!("the archive has more than {HEADERS} entries");
                return Err(refused(Layer::Tar, at, what));
            }
            let header = Header::parse(block, at)?;
            let size = header.size()?;
            extended = true;
            match header.type_flag() {
                b'L' => long_name = Some(text(&self.text(size, LONG_NAME, "a long name")?)),
                // The name a link points to: no link is followed.
                b'K' => drop(self.text(size, LONG_NAME, "a long link name")?),
                b'x' | b'X' => {
                    let records = self.text(size, PAX - pax_bytes, "a PAX header")?;
                    pax_bytes += size;
                    pax.read(&records, false, at)?;
                }
                b'g' => {
                    let records = self.text(size, PAX, "a global PAX header")?;
                    Pax::default().read(&records, true, at)?;
                    // It belongs to the archive, not to the next entry.
                    extended = long_name.is_some() || pax_bytes > 0;
                }
                _ => return self.entry(&header, size, pax, long_name, at).map(Some),
            }
        }
    }

    fn entry(
        &mut self,
        header: &Header,
        size: u64,
        pax: Pax,
        long_name: Option<String>,
        at: u64,
    ) -> io::Result<Entry> {
        let Pax { path, size: pax_size, sparse } = pax;
        let name = sparse.name.clone().or(path).or(long_name).unwrap_or_else(|| header.name());
        let inside = !name.starts_with('/') && name.split('/').all(|part| part != "..");
        if !inside || name.is_empty() || name.contains('\0') {
            let what =
                format_args!("the archive names {}, which leads outside of it or nowhere", quoted(&name));
            return Err(refused(Layer::Tar, at, what));
        }
        let what = match header.type_flag() {
            // Before ustar a folder was a file whose name ends so.
            b'0' | 0 if name.ends_with('/') => What::Folder,
            b'0' | 0 | b'7' | b'S' => What::File,
            b'5' | b'D' | b'V' => What::Folder,
            b'1' => What::Special("hard link"),
            b'2' => What::Special("symbolic link"),
            b'3' | b'4' => What::Special("device"),
            b'6' => What::Special("pipe"),
            b'M' => {
                return Err(refused(
                    Layer::Tar,
                    at,
                    format_args!("{} continues from another volume", quoted(&name)),
                ));
            }
            other => {
                let kind = char::from(other);
                return Err(refused(
                    Layer::Tar,
                    at,
                    format_args!("{} is of type {kind:?}, which is not known", quoted(&name)),
                ));
            }
        };
        // Programs disagree on whether data follows such an entry.
        let size = pax_size.unwrap_or(size);
        if what != What::File && header.type_flag() != b'D' && size != 0 {
            let what = format_args!("{} is no file but states a size of {size}", quoted(&name));
            return Err(refused(Layer::Tar, at, what));
        }
        let map = match (header.type_flag() == b'S', sparse.seen) {
            (false, false) => {
                self.begin_data(size);
                Map::whole(size)
            }
            (true, false) if header.flavour() == Flavour::Gnu => self.old_sparse(header, size, at)?,
            (true, _) => {
                let what = format_args!("{} is sparse in a way that is not known (star?)", quoted(&name));
                return Err(refused(Layer::Tar, at, what));
            }
            (false, true) => self.pax_sparse(sparse, size, &name, at)?,
        };
        Ok(Entry { name, what, map })
    }

    fn old_sparse(&mut self, header: &Header, size: u64, at: u64) -> io::Result<Map> {
        let (mut segments, mut more, real_size) = header.sparse()?;
        while more {
            let at = self.offset;
            let block = self.block("a sparse map")?;
            let (further, and_more) = Header::more_sparse(block, at)?;
            // A block that adds nothing may be the last, but not one of many.
            if segments.len() + further.len() > MOST || (and_more && further.is_empty()) {
                return Err(too_many(at));
            }
            segments.extend(further);
            more = and_more;
        }
        self.begin_data(size);
        Map::new(&segments, real_size, size, at)
    }

    fn pax_sparse(&mut self, sparse: super::pax::Sparse, size: u64, name: &str, at: u64) -> io::Result<Map> {
        let unknown = |what: &str| {
            let what = format_args!("{} is a sparse file (PAX), but {what}", quoted(name));
            refused(Layer::Tar, at, what)
        };
        let real_size = sparse.real_size.ok_or_else(|| unknown("its real size is missing"))?;
        self.begin_data(size);
        let segments = match (sparse.major, sparse.minor) {
            (Some(1), Some(0)) if sparse.map.is_empty() => self.leading_map(at)?,
            (None, None) | (Some(0), Some(0 | 1)) => {
                if sparse.blocks != Some(sparse.map.len() as u64) {
                    return Err(unknown("its map does not have as many entries as it says"));
                }
                sparse.map
            }
            _ => return Err(unknown("its map is of a version that is not known")),
        };
        Map::new(&segments, real_size, self.data, at)
    }

    /// Version 1.0 keeps the map in front of the data, as decimal lines, padded to whole blocks.
    fn leading_map(&mut self, at: u64) -> io::Result<Segments> {
        let mut lines = Lines { block: [0; BLOCK], pos: BLOCK, at };
        let count = lines.number(self)?;
        let count = usize::try_from(count).ok().filter(|&count| count <= MOST).ok_or_else(|| too_many(at))?;
        let mut segments = Vec::new();
        for _ in 0..count {
            segments.push((lines.number(self)?, lines.number(self)?));
        }
        Ok(segments)
    }

    /// Reads data of the present entry: 0 bytes only at its end.
    pub(super) fn data(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.data).unwrap_or(usize::MAX).min(out.len());
        if most == 0 {
            return Ok(0);
        }
        let n = loop {
            match self.input.read(&mut out[..most]) {
                Ok(0) => return Err(truncated(Layer::Tar, self.offset, "a file")),
                Ok(n) => break n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        };
        self.offset += n as u64;
        self.data -= n as u64;
        Ok(n)
    }

    /// The first bytes of the present entry's data.
    pub(super) fn look(&mut self, want: usize) -> io::Result<Vec<u8>> {
        let mut looked = vec![0; want];
        let mut len = 0;
        while len < want {
            match self.data(&mut looked[len..])? {
                0 => break,
                n => len += n,
            }
        }
        looked.truncate(len);
        Ok(looked)
    }

    /// Passes over what is left of the present entry.
    pub(super) fn skip_entry(&mut self) -> io::Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(64 << 10, 0);
        while self.data(&mut scratch)? > 0 {}
        self.scratch = scratch;
        self.finish_entry()
    }

    /// Passes over the padding; all data has been read.
    pub(super) fn finish_entry(&mut self) -> io::Result<()> {
        // It may hold anything.
        self.data = std::mem::take(&mut self.padding);
        while self.data(&mut [0; BLOCK])? > 0 {}
        Ok(())
    }

    /// After the end mark only zeros may follow; a second archive glued on would be ignored otherwise.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        let mut buf = vec![0; 64 << 10];
        loop {
            match self.input.read(&mut buf) {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    if let Some(other) = buf[..n].iter().position(|&b| b != 0) {
                        let at = self.offset + other as u64;
                        return Err(refused(
                            Layer::Tar,
                            at,
                            "there are further bytes after the archive's end mark",
                        ));
                    }
                    self.offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn begin_data(&mut self, size: u64) {
        self.data = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
    }

    /// The data of an extended header.
    fn text(&mut self, size: u64, most: u64, what: &str) -> io::Result<Vec<u8>> {
        if size > most {
            let what = format_args!("{what} here is {size} bytes long, at most {most} are read");
            return Err(refused(Layer::Tar, self.offset, what));
        }
        self.begin_data(size);
        let text = self.look(usize::try_from(size).unwrap_or(usize::MAX))?;
        self.finish_entry()?;
        Ok(text)
    }

    fn block(&mut self, inside: &str) -> io::Result<[u8; BLOCK]> {
        let mut block = [0; BLOCK];
        match self.input.read_exact(&mut block) {
            Ok(()) => {
                self.offset += BLOCK as u64;
                Ok(block)
            }
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Err(truncated(Layer::Tar, self.offset, inside))
            }
            Err(e) => Err(e),
        }
    }
}

/// Decimal lines in whole blocks of an entry's data.
struct Lines {
    block: [u8; BLOCK],
    pos: usize,
    at: u64,
}

impl Lines {
    fn number(&mut self, archive: &mut Archive) -> io::Result<u64> {
        let broken = || refused(Layer::Tar, self.at, "the sparse map here is broken: a line is no number");
        let mut line = Vec::new();
        loop {
            if self.pos == BLOCK {
                let block = archive.look(BLOCK)?;
                self.block = block.try_into().map_err(|_| broken())?;
                self.pos = 0;
            }
            let byte = self.block[self.pos];
            self.pos += 1;
            match byte {
                b'\n' => return number(&line).ok_or_else(broken),
                _ if line.len() == 20 => return Err(broken()),
                _ => line.push(byte),
            }
        }
    }
}

fn too_many(at: u64) -> io::Error {
    refused(
        Layer::Tar,
        at,
        format_args!("the sparse map here is broken: more than {MOST} entries, or endless"),
    )
}
