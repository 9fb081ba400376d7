//! Recognition of a disk format from the first sectors.

use std::fmt;

/// A disk format that can be recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Raw: the guest's bytes without any header.
    Raw,
    /// QEMU's copy-on-write format, versions 2 and 3.
    Qcow2,
    /// An optical disc image (ISO 9660 or UDF). Read as raw, named separately in messages.
    Iso,
    Vmdk,
    Vdi,
    /// Virtual PC's VHD, dynamic or fixed.
    Vhd,
    Vhdx,
    /// QEMU's first copy-on-write format.
    Qcow1,
    /// QEMU's enhanced disk format (QED).
    Qed,
    /// The format of Parallels.
    Parallels,
    Luks,
}

impl Format {
    /// The format's name in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            Format::Raw => "raw",
            Format::Qcow2 => "qcow2",
            Format::Iso => "iso",
            Format::Vmdk => "vmdk",
            Format::Vdi => "vdi",
            Format::Vhd => "vhd",
            Format::Vhdx => "vhdx",
            Format::Qcow1 => "qcow1",
            Format::Qed => "qed",
            Format::Parallels => "parallels",
            Format::Luks => "luks",
        }
    }

    /// True if disks of this format are read.
    pub fn is_read(self) -> bool {
        matches!(self, Format::Raw | Format::Qcow2 | Format::Iso)
    }

    /// Advice about a disk of a format that is not read: the command that makes a qcow2 of it, behind the ones that get the
    /// file `from`.
    pub fn remedy(self, from: &str, to: &str, before: &[String]) -> String {
        match self {
            Format::Luks => {
                "it is encrypted: decrypt it first, or declare it raw where the guest has the key".to_owned()
            }
            _ => {
                let before: String = before.iter().map(|command| format!("{command} && ")).collect();
                format!("convert it first: {before}qemu-img convert -O qcow2 {from} {to}")
            }
        }
    }

    /// Number of first bytes that [`Format::probe`] needs. A shorter disk is given completely.
    pub const HEAD: usize = 40 << 10;

    /// Recognises the format from the first [`Format::HEAD`] bytes.
    ///
    /// An unknown format is raw. **Probe once, and never a disk that a guest has written to as raw.** A guest
    /// can write another format's magic into its own first sector, so a disk that is declared raw is never
    /// probed.
    pub fn probe(head: &[u8]) -> Format {
        let has = |at: usize, magic: &[u8]| head.get(at..at + magic.len()) == Some(magic);
        match () {
            () if has(0, b"QFI\xfb") => match head.get(4..8) {
                Some([0, 0, 0, 1]) => Format::Qcow1,
                _ => Format::Qcow2,
            },
            () if has(0, b"KDMV") || has(0, b"COWD") || has(0, b"# Disk DescriptorFile") => Format::Vmdk,
            () if has(0x40, b"\x7f\x10\xda\xbe") => Format::Vdi,
            () if has(0, b"conectix") => Format::Vhd,
            () if has(0, b"vhdxfile") => Format::Vhdx,
            () if has(0, b"QED\0") => Format::Qed,
            () if has(0, b"WithoutFreeSpace") || has(0, b"WithouFreSpacExt") => Format::Parallels,
            () if has(0, b"LUKS\xba\xbe") => Format::Luks,
            () if has(0x8001, b"CD001") || has(0x8001, b"BEA01") || has(0x8001, b"NSR0") => Format::Iso,
            () => Format::Raw,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
