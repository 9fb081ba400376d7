//! A target that is written front to back (standard output) as an [`Ordered`] sink: workers only detect
//! zeros.

use super::sink::{Ordered, Packed, Packer, Part, PartKind};
use super::watch::Watch;
use crate::Result;
use crate::target::Target;
use crate::zeros;

/// Zeros shorter than this are copied with their neighbours.
const HOLE: usize = 64 << 10;

pub(crate) struct FrontToBack<'a> {
    pub(crate) target: &'a dyn Target,
    pub(crate) watch: &'a Watch,
}

impl Ordered for FrontToBack<'_> {
    fn packer(&self) -> Box<dyn Packer + '_> {
        Box::new(Plain)
    }

    fn commit(&self, packed: &Packed) -> Result<()> {
        if packed.parts.is_empty() {
            return self.target.zero(packed.guest, packed.len);
        }
        for (guest, part, bytes) in packed.iter() {
            if part.kind == PartKind::Zero {
                self.target.zero(guest, part.len)?;
            } else {
                self.target.write(guest, bytes)?;
                self.watch.count_written(part.len);
            }
        }
        Ok(())
    }
}

struct Plain;

impl Packer for Plain {
    fn pack(&mut self, guest: u64, data: &[u8], out: &mut Packed) -> Result<()> {
        for (range, zero) in zeros::runs(data, guest, HOLE) {
            let bytes = &data[range];
            let (kind, size) = if zero { (PartKind::Zero, 0) } else { (PartKind::Plain, bytes.len()) };
            out.parts.push(Part { len: bytes.len() as u64, size, kind });
            if !zero {
                out.bytes.extend_from_slice(bytes);
            }
        }
        Ok(())
    }
}
