//! Members, one after the other.

use super::header::Header;
use super::pax::Pax;
use super::quoted;
use super::source::Source;
use super::write::{BLOCK, rest};
use crate::{Error, Result};
use std::io::{self, Read};

/// One member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// Parts joined by single slashes, none of them `.` or `..`; empty for the root.
    pub(crate) name: String,
    pub(crate) what: What,
    /// Bytes of a file.
    pub(crate) size: u64,
    /// Where these begin in the tar.
    pub(crate) at: u64,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mode: u64,
}

/// What a member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    File,
    Folder,
    /// To another member, by its name as written.
    HardLink(String),
    Symlink(String),
    /// A device or a pipe.
    Special(&'static str),
}

/// The members of a tar. Reads as the bytes of the member that [`Members::next`] told last.
pub(crate) struct Members {
    source: Box<dyn Source>,
    /// For messages: "layer 2 of docker://h/r".
    name: String,
    at: u64,
    /// Of the current member.
    left: u64,
    padding: usize,
    ended: bool,
}

/// No extended header is longer.
const EXTENDED: u64 = 1 << 20;

impl Members {
    pub(crate) fn new(name: impl Into<String>, source: impl Source + 'static) -> Self {
        Members { source: Box::new(source), name: name.into(), at: 0, left: 0, padding: 0, ended: false }
    }

    /// The next member; what is left of the last one is passed over.
    pub(crate) fn next(&mut self) -> Result<Option<Member>> {
        let over =
            self.left.checked_add(self.padding as u64).ok_or_else(|| self.refused("an enormous member"))?;
        self.skip(over)?;
        (self.left, self.padding) = (0, 0);
        let mut said = Said::default();
        while let Some(block) = self.block()? {
            let header = Header::parse(&block).map_err(|why| self.refused(why))?;
            match header.kind() {
                b'x' | b'X' | b'g' | b'L' | b'K' => self.extended(&header, &mut said)?,
                b'S' => return Err(self.refused("a sparse member, which container runtimes refuse")),
                _ => return self.member(&header, said).map(Some),
            }
        }
        if said.is_empty() {
            Ok(None)
        } else {
            Err(self.refused("an extended header and no member after it"))
        }
    }

    /// After the last member: reads what is left, which must be zeros, so that checks at the end of the bytes are made.
    pub(crate) fn drain(&mut self) -> Result<()> {
        let mut piece = vec![0; 64 << 10];
        loop {
            let n = self.source.read(&mut piece).map_err(|e| self.cannot(e))?;
            if n == 0 {
                return Ok(());
            }
            if piece[..n].iter().any(|&b| b != 0) {
                return Err(self.refused("more bytes after its end"));
            }
            self.at = self.at.saturating_add(n as u64);
        }
    }

    /// A header block; `None` at the end.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>> {
        if self.ended {
            return Ok(None);
        }
        let Some(block) = self.block_of_bytes()? else {
            self.ended = true;
            return Ok(None);
        };
        if block.iter().any(|&b| b != 0) {
            return Ok(Some(block));
        }
        self.ended = true;
        match self.block_of_bytes()? {
            Some(second) if second.iter().any(|&b| b != 0) => {
                Err(self.refused("one empty block in its middle"))
            }
            _ => Ok(None),
        }
    }

    fn block_of_bytes(&mut self) -> Result<Option<[u8; BLOCK]>> {
        let mut block = [0; BLOCK];
        let mut have = 0;
        while have < BLOCK {
            match self.source.read(&mut block[have..]).map_err(|e| self.cannot(e))? {
                0 if have == 0 => return Ok(None),
                0 => return Err(self.truncated()),
                n => have += n,
            }
        }
        self.at += BLOCK as u64;
        Ok(Some(block))
    }

    fn extended(&mut self, header: &Header<'_>, said: &mut Said) -> Result<()> {
        let size = header.size().map_err(|why| self.refused(why))?;
        if size > EXTENDED {
            return Err(self.refused("an extended header of more than 1 MiB"));
        }
        let mut bytes = vec![0; size as usize];
        self.source.read_exact(&mut bytes).map_err(|e| self.cannot(e))?;
        self.at = self.at.saturating_add(size);
        self.skip(rest(size) as u64)?;
        let taken = match header.kind() {
            b'L' => said.name.replace(until_zero(bytes)).is_some(),
            b'K' => said.link.replace(until_zero(bytes)).is_some(),
            b'g' => {
                let pax = Pax::parse(&bytes).map_err(|why| self.refused(&why))?;
                !pax.says_nothing()
            }
            _ => said.pax.replace(Pax::parse(&bytes).map_err(|why| self.refused(&why))?).is_some(),
        };
        if taken { Err(self.refused("extended headers that contradict one another")) } else { Ok(()) }
    }

    fn member(&mut self, header: &Header<'_>, said: Said) -> Result<Member> {
        let Said { name, link, pax } = said;
        let pax = pax.unwrap_or_default();
        if (name.is_some() && pax.path.is_some()) || (link.is_some() && pax.link.is_some()) {
            return Err(self.refused("extended headers that contradict one another"));
        }
        let field = |value: std::result::Result<u64, &'static str>| value.map_err(|why| self.refused(why));
        let size = pax.size.map_or_else(|| field(header.size()), Ok)?;
        let uid = pax.uid.map_or_else(|| field(header.uid()), Ok)?;
        let gid = pax.gid.map_or_else(|| field(header.gid()), Ok)?;
        let mode = field(header.mode())?;
        let written = name.or(pax.path).unwrap_or_else(|| header.name());
        let link = link.or(pax.link).unwrap_or_else(|| header.link());
        let link = String::from_utf8_lossy(&link).into_owned();
        let what = match header.kind() {
            b'0' | 0 | b'7' if written.ends_with(b"/") => What::Folder,
            b'0' | 0 | b'7' => What::File,
            b'1' => What::HardLink(link),
            b'2' => What::Symlink(link),
            b'3' => What::Special("character device"),
            b'4' => What::Special("block device"),
            b'5' => What::Folder,
            b'6' => What::Special("pipe"),
            other => {
                let what = format!("a member of the unknown type {:?}", char::from(other));
                return Err(self.refused(&what));
            }
        };
        let name = self.clean(&written)?;
        if what != What::File && size != 0 {
            return Err(self.refused(&format!("{}, no file, with {size} bytes", quoted(&name))));
        }
        (self.left, self.padding) = (size, rest(size));
        Ok(Member { name, what, size, at: self.at, uid, gid, mode })
    }

    /// A name as parts below the root.
    fn clean(&self, written: &[u8]) -> Result<String> {
        let Ok(text) = std::str::from_utf8(written) else {
            let what = format!("the name {}, which is not UTF-8", quoted(&String::from_utf8_lossy(written)));
            return Err(self.refused(&what));
        };
        if text.starts_with('/') {
            return Err(self.refused(&format!("the absolute name {}", quoted(text))));
        }
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.contains(&"..") {
            return Err(self.refused(&format!("the name {}, which leads out of it", quoted(text))));
        }
        Ok(parts.join("/"))
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.source.skip(bytes).map_err(|e| self.cannot(e))?;
        self.at = self.at.checked_add(bytes).ok_or_else(|| self.refused("an enormous member"))?;
        Ok(())
    }

    fn refused(&self, holds: &str) -> Error {
        Error::refused(format!("the tar of {} holds {holds} (before offset {})", self.name, self.at))
    }

    fn truncated(&self) -> Error {
        Error::refused(format!("the tar of {} ends too early (after offset {})", self.name, self.at))
    }

    fn cannot(&self, e: io::Error) -> Error {
        if e.kind() == io::ErrorKind::UnexpectedEof {
            return self.truncated();
        }
        Error::io(format!("cannot read the tar of {}", self.name), e)
    }
}

impl Read for Members {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        if most == 0 {
            return Ok(0);
        }
        let n = self.source.read(&mut out[..most])?;
        if n == 0 {
            return Err(self.truncated().into());
        }
        self.left -= n as u64;
        self.at += n as u64;
        Ok(n)
    }
}

/// What extended headers told about the member to come.
#[derive(Default)]
struct Said {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    pax: Option<Pax>,
}

impl Said {
    fn is_empty(&self) -> bool {
        self.name.is_none() && self.link.is_none() && self.pax.is_none()
    }
}

fn until_zero(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|&b| b == 0) {
        bytes.truncate(end);
    }
    bytes
}
