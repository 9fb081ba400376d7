//! ISO 9660: volume descriptors, their extensions (Joliet, Rock Ridge, El Torito), and (in [`tree`])
//! directories.
//!
//! ```text
//!   32 KiB: primary │ boot record ──► El Torito catalogue │ Joliet │ end │ UDF's own marks
//! ```

mod el_torito;
mod tree;

pub use el_torito::{BootEntry, Platform};
pub(crate) use tree::IsoTree;

use super::field::{Fields, text, utf16be};
use super::filesystem::Filesystem;
use super::media::{self, Medium};
use super::peek::Area;
use super::seed::{self, Seed};
use super::udf::{self, Udf};

/// Facts about an optical disc image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Optical {
    /// True if there is an ISO 9660 volume. A disc with only UDF has none.
    pub iso9660: bool,
    /// Label of the volume. The longer one of Joliet if it extends the primary one.
    pub label: Option<String>,
    /// System that the disc was made for.
    pub system: Option<String>,
    /// Name of the volume set.
    pub volume_set: Option<String>,
    pub publisher: Option<String>,
    pub preparer: Option<String>,
    /// Program that made the disc.
    pub application: Option<String>,
    /// Creation date, as `YYYY-MM-DD hh:mm:ss` in the time zone of its author.
    pub created: Option<String>,
    /// Size of the volume in bytes.
    pub size: Option<u64>,
    /// True if the disc has Joliet names.
    pub joliet: bool,
    /// True if the disc has Rock Ridge names and permissions.
    pub rock_ridge: bool,
    pub udf: Option<Udf>,
    /// El Torito boot entries.
    pub boot: Vec<BootEntry>,
    /// Purpose of the disc, recognised from its directories.
    pub medium: Option<Medium>,
    /// The cloud-init seed, if the disc is one.
    pub seed: Option<Seed>,
}

/// Size of a sector of a disc, the unit in which descriptors are placed.
pub(crate) const SECTOR: u64 = 2048;
/// Offset of the first descriptor.
const FIRST: u64 = 16 * SECTOR;
/// Limit of descriptors that are read.
const MOST_DESCRIPTORS: usize = 16;

/// The descriptors of a volume.
struct Volume {
    primary: Vec<u8>,
    joliet: Option<Vec<u8>>,
    catalogue: Option<u32>,
}

impl Volume {
    fn read(area: Area<'_>) -> Option<Volume> {
        let (mut primary, mut joliet, mut catalogue) = (None, None, None);
        for sector in (FIRST..).step_by(SECTOR as usize).take(MOST_DESCRIPTORS) {
            let Some(d) = area.get(sector, SECTOR as usize).filter(|d| d.has(1, b"CD001")) else { break };
            match d[0] {
                0 if d.has(7, b"EL TORITO SPECIFICATION") => catalogue = catalogue.or(d.le32(0x47)),
                1 => primary = primary.or(Some(d)),
                2 if [b"%/@", b"%/C", b"%/E"].iter().any(|e| d.has(88, *e)) => joliet = joliet.or(Some(d)),
                255 => break,
                _ => {}
            }
        }
        Some(Volume { primary: primary?, joliet, catalogue })
    }

    fn label(&self) -> Option<String> {
        let primary = text(self.primary.get(40..72)?);
        let joliet = self.joliet.as_ref().and_then(|d| utf16be(d.get(40..72)?));
        // Joliet's label has 16 characters. The primary one has 32, but only capitals.
        match (primary, joliet) {
            (Some(p), Some(j)) if p.len() <= 16 && p.eq_ignore_ascii_case(&j) => Some(j),
            (p, j) => p.or(j),
        }
    }

    fn size(&self) -> Option<u64> {
        u64::from(self.primary.le32(80)?).checked_mul(u64::from(self.primary.le16(128)?))
    }

    fn tree<'a>(&self, area: Area<'a>) -> Option<IsoTree<'a>> {
        let primary = IsoTree::new(area, &self.primary, false)?;
        match &self.joliet {
            Some(joliet) if !primary.rock_ridge() => IsoTree::new(area, joliet, true),
            _ => Some(primary),
        }
    }
}

/// The volume as a filesystem, for partitions.
pub(crate) fn filesystem(area: Area<'_>) -> Option<Filesystem> {
    let volume = Volume::read(area)?;
    Some(Filesystem {
        kind: "iso9660",
        label: volume.label(),
        size: volume.size(),
        free: Some(0),
        ..Filesystem::default()
    })
}

/// Facts about a disc image. `None` if the disk is not one.
pub(crate) fn optical(area: Area<'_>) -> Option<Optical> {
    let volume = Volume::read(area);
    let udf = udf::volume(area);
    if volume.is_none() && udf.is_none() {
        return None;
    }
    let mut optical = Optical::default();
    if let Some(volume) = &volume {
        describe(&mut optical, volume);
        optical.boot = volume.catalogue.map(|lba| el_torito::catalogue(area, lba)).unwrap_or_default();
        if let Some(tree) = volume.tree(area) {
            optical.rock_ridge = tree.rock_ridge();
            optical.medium = media::medium(&tree);
            optical.seed = seed::seed(optical.label.as_deref(), &tree);
        }
    }
    // Discs of Windows have a notice in ISO 9660 and everything else in UDF.
    if let Some(mut udf) = udf {
        let tree = udf.tree.take();
        if let Some(tree) = tree.as_ref().and_then(|place| place.tree(area)) {
            optical.medium = optical.medium.or_else(|| media::medium(&tree));
            optical.seed = optical.seed.or_else(|| seed::seed(udf.facts.label.as_deref(), &tree));
        }
        optical.udf = Some(udf.facts);
    }
    Some(optical)
}

fn describe(optical: &mut Optical, volume: &Volume) {
    let d = &volume.primary;
    let words = |at: usize, len: usize| d.get(at..at + len).and_then(text);
    optical.iso9660 = true;
    optical.label = volume.label();
    optical.system = words(8, 32);
    optical.volume_set = words(190, 128);
    optical.publisher = words(318, 128);
    optical.preparer = words(446, 128);
    optical.application = words(574, 128);
    optical.created = d.get(813..827).and_then(created);
    optical.size = volume.size();
    optical.joliet = volume.joliet.is_some();
}

/// The date `YYYYMMDDhhmmss` in readable form. All zeros stand for an unknown date.
fn created(digits: &[u8]) -> Option<String> {
    if !digits.iter().all(u8::is_ascii_digit) || digits.iter().all(|&d| d == b'0') {
        return None;
    }
    let s = std::str::from_utf8(digits).ok()?;
    Some(format!("{}-{}-{} {}:{}:{}", &s[..4], &s[4..6], &s[6..8], &s[8..10], &s[10..12], &s[12..14]))
}
