//! Detection of the outermost layer by the first bytes, and of formats that are recognised but not supported.

use super::{Layer, tar};
use disk_format::Format;

/// The layer these first bytes belong to; `None` if there is no layer (a disk image, or an unsupported
/// format).
pub fn detect(head: &[u8]) -> Option<Layer> {
    match head {
        [0x1f, 0x8b, 0x08, ..] => Some(Layer::Gzip),
        [0xfd, b'7', b'z', b'X', b'Z', 0x00, ..] => Some(Layer::Xz),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Layer::Zstd),
        _ if tar::looks_like_tar(head) => Some(Layer::Tar),
        _ => None,
    }
}

/// The form that readers would take a raw disk with these first bytes for; `None` if they take it for a raw disk.
pub(crate) fn mistaken_for(head: &[u8]) -> Option<String> {
    let layer = || detect(head).map(Layer::name).or_else(|| refused_layer(head)?.split(' ').next());
    match Format::probe(head) {
        Format::Raw | Format::Iso => layer().map(|layer| format!("a file of {layer}")),
        format => Some(format!("an image of the format {}", format.name())),
    }
}

/// Advice for a compression or archive that is recognised and refused.
pub fn refused_layer(head: &[u8]) -> Option<&'static str> {
    const BLOCK: &[u8] = &[0x31, 0x41, 0x59, 0x26, 0x53, 0x59];
    const END: &[u8] = &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90];
    match head {
        [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..] if rest.starts_with(BLOCK) || rest.starts_with(END) => {
            Some("bzip2 is not read; unpack it first: bzip2 -dc IN | coracle convert - OUT")
        }
        [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => {
            Some("lz4 is not read; unpack it first: lz4 -dc IN | coracle convert - OUT")
        }
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] | [b'P', b'K', 7, 8, ..] => {
            Some("zip is not read; unpack it first: unzip -p IN | coracle convert - OUT")
        }
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => {
            Some("7z is not read; unpack it first: 7z e -so IN | coracle convert - OUT")
        }
        [b'R', b'a', b'r', b'!', 0x1a, 0x07, ..] => {
            Some("rar is not read; unpack it first: unrar p -inul IN")
        }
        [b'L', b'Z', b'I', b'P', 0 | 1, ..] => {
            Some("lzip is not read; unpack it first: lzip -dc IN | coracle convert - OUT")
        }
        [0x89, b'L', b'Z', b'O', 0x00, 0x0d, 0x0a, 0x1a, 0x0a, ..] => {
            Some("lzop is not read; unpack it first: lzop -dc IN | coracle convert - OUT")
        }
        [0x1f, 0x9d, ..] if head.get(2).is_some_and(|&b| (9..=16).contains(&(b & 0x1f)) && b & 0x60 == 0) => {
            Some("compress (.Z) is not read; unpack it first: gzip -dc IN | coracle convert - OUT")
        }
        _ if is_lzma_alone(head) => Some(
            "lzma (the old .lzma, not xz) is not read; unpack it first: xz -dc IN | coracle convert - OUT",
        ),
        _ => None,
    }
}

/// True for .lzma, which has no magic: a properties byte, a dictionary size that an encoder would choose (2ⁿ
/// or 2ⁿ + 2ⁿ⁻¹), and a size that is unknown or sane. liblzma uses the same test. Only the usual properties
/// (0x5d) count here, so that a disk's boot code is not mistaken for it.
fn is_lzma_alone(head: &[u8]) -> bool {
    let Some((&[0x5d, a, b, c, d, s0, s1, s2, s3, s4, s5, s6, s7, first], _)) =
        head.split_first_chunk::<14>()
    else {
        return false;
    };
    let dictionary = u64::from(u32::from_le_bytes([a, b, c, d]));
    let size = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    let usual =
        dictionary >= 4096 && (dictionary.is_power_of_two() || (dictionary / 3 * 2).is_power_of_two());
    // The range coder's first byte is always 0.
    usual && (size == u64::MAX || size < 1 << 38) && first == 0
}
