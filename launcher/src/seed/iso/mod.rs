//! Writes a small ISO 9660 image with two trees of the same files: one with Rock Ridge, for Linux, and one
//! with Joliet, for Windows.
//!
//! ```text
//! block  0   system area, zeros
//!       16   primary volume descriptor        label in any case: `cidata`, `config-2`
//!       17   Joliet's volume descriptor
//!       18   end of the descriptors
//!       19   path tables: primary (least byte first, most byte first), Joliet (the same two)
//!        …   folders of the primary tree, each followed by the fields that did not fit into its records
//!        …   folders of the Joliet tree
//!        …   one block of zeros, where files without bytes point
//!        …   files, which both trees share
//! ```
//!
//! The same files, label and time give the same bytes. Only the folders are kept in memory: the content of
//! files is streamed. Everything belongs to root; files are 0644, or 0755 if they are executable; folders are
//! 0755.
//!
//! Names: Rock Ridge has them complete. Joliet has them in UCS-2, where `* / : ; ? \` and all beyond its
//! 65536 characters become `_`, and names longer than 103 characters are cut and numbered. The bare primary
//! tree has capitals, digits and `_`. Names stay unique in each tree.

mod descriptor;
mod names;
mod record;
#[cfg(test)]
mod tests;
mod time;
mod tree;

use super::tree::{Content, Files};
use crate::error::{Error, Result};
use std::io::{Read, Write};
use time::Time;
use tree::{Places, Tree};

/// The size of a block.
const BLOCK: usize = 2048;
const SYSTEM_AREA: usize = 16 * BLOCK;
/// The first block after the descriptors.
const FIRST: u64 = 19;

/// Position of a file or folder in the image.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    block: u32,
    size: u32,
}

/// Writes the image. Its date, and that of its files, is `seconds` since 1970.
pub fn write(files: &Files, label: &str, seconds: u64, out: &mut impl Write) -> Result<()> {
    check_label(label)?;
    let time = Time::of(seconds)?;
    let mut primary = Tree::primary(files);
    let mut joliet = Tree::joliet(files);

    // Lay out: every size is known, so each gets the next free block.
    let mut next = Next(FIRST);
    let tables: Vec<Extent> = [&primary, &primary, &joliet, &joliet]
        .iter()
        .map(|tree| next.take(tree.path_table_size() as u64))
        .collect::<Result<_>>()?;
    for tree in [&mut primary, &mut joliet] {
        tree.lay_out(&mut next)?;
    }
    let nothing = Extent { block: next.take(1)?.block, size: 0 };
    let contents = files
        .iter()
        .map(|(_, file)| match file.content.size() {
            0 => Ok(nothing),
            size => next.take(size),
        })
        .collect::<Result<Vec<_>>>()?;
    let blocks = next.block()?;

    let mut sink = Sink { out };
    sink.bytes(&[0; SYSTEM_AREA])?;
    let head = |tree| descriptor::Head { tree, label, blocks, time: &time };
    sink.bytes(&descriptor::volume(&head(&primary), tables[0], tables[1]))?;
    sink.bytes(&descriptor::volume(&head(&joliet), tables[2], tables[3]))?;
    sink.bytes(&descriptor::end())?;
    for tree in [&primary, &joliet] {
        sink.padded(&tree.path_table(u32::to_le_bytes, u16::to_le_bytes))?;
        sink.padded(&tree.path_table(u32::to_be_bytes, u16::to_be_bytes))?;
    }
    let places = Places { files: &contents, time: &time };
    for tree in [&primary, &joliet] {
        for folder in 0..tree.folders() {
            sink.padded(&tree.folder(folder, &places).into_blocks())?;
        }
    }
    sink.bytes(&[0; BLOCK])?;
    for (path, file) in files.iter() {
        sink.file(path, &file.content)?;
    }
    Ok(())
}

/// The next free block.
struct Next(u64);

impl Next {
    /// Reserves room for this many bytes.
    fn take(&mut self, size: u64) -> Result<Extent> {
        let too_large = |_| Error::refused("the ISO image would have more than 2^32 blocks");
        let extent = Extent {
            block: u32::try_from(self.0).map_err(too_large)?,
            size: u32::try_from(size).map_err(too_large)?,
        };
        self.0 += size.div_ceil(BLOCK as u64);
        Ok(extent)
    }

    fn block(&mut self) -> Result<u32> {
        self.take(0).map(|extent| extent.block)
    }
}

/// The output, in blocks.
struct Sink<'a, W> {
    out: &'a mut W,
}

impl<W: Write> Sink<'_, W> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| Error::io("cannot write the ISO image", e))
    }

    fn padded(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes(bytes)?;
        self.pad(bytes.len() as u64)
    }

    /// Fills the last block with zeros.
    fn pad(&mut self, written: u64) -> Result<()> {
        let over = (written % BLOCK as u64) as usize;
        self.bytes(&[0; BLOCK][..(BLOCK - over) % BLOCK])
    }

    fn file(&mut self, path: &str, content: &Content) -> Result<()> {
        let held = match content {
            Content::Bytes(bytes) => return self.padded(bytes),
            Content::FolderFile(held) => held,
        };
        let (mut file, shown) = held.open()?;
        let mut buffer = vec![0; 64 << 10];
        let mut left = held.size();
        loop {
            // One byte more than is left, to detect a file that has grown.
            let want = usize::try_from(left + 1).unwrap_or(usize::MAX).min(buffer.len());
            let got =
                file.read(&mut buffer[..want]).map_err(|e| Error::io(format!("cannot read {shown}"), e))?;
            if got as u64 > left || (got == 0 && left > 0) {
                return Err(Error::refused(format!(
                    "{shown} (in the ISO image: {path}) changed while it was read; try again"
                )));
            }
            if got == 0 {
                return self.pad(held.size());
            }
            self.bytes(&buffer[..got])?;
            left -= got as u64;
        }
    }
}

fn check_label(label: &str) -> Result<()> {
    if label.is_empty() || label.len() > 32 || !label.bytes().all(|b| matches!(b, 0x20..=0x7e)) {
        return Err(Error::refused(format!(
            "{label:?} cannot be the label of an ISO image: a label has 1 to 32 characters of ASCII"
        )));
    }
    Ok(())
}

/// A number with its least byte first, then again with its most byte first.
fn both16(number: u16) -> [u8; 4] {
    let mut both = [0; 4];
    both[..2].copy_from_slice(&number.to_le_bytes());
    both[2..].copy_from_slice(&number.to_be_bytes());
    both
}

/// A number of 32 bits with its least byte first, then again with its most byte first.
fn both32(number: u32) -> [u8; 8] {
    let mut both = [0; 8];
    both[..4].copy_from_slice(&number.to_le_bytes());
    both[4..].copy_from_slice(&number.to_be_bytes());
    both
}
