//! Storage size that a disk needs, and the largest disk for a file system.
//!
//! ```text
//!  storage.resources (the disk)  ──claim_for──►  request of the PVC, with room for the file system itself
//!  pvc.resources (the PVC)       ──disk_in────►  the largest disk in it
//! ```

use crate::objects::World;

const MIB: u64 = 1 << 20;

/// Share of a file system that it needs for itself, in thousandths of its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead(pub u64);

impl Default for Overhead {
    fn default() -> Self {
        Overhead(60)
    }
}

impl Overhead {
    /// The overhead for a StorageClass in the settings of the cluster, or the default.
    pub fn for_class(world: &World, class: Option<&str>) -> Overhead {
        Overhead::default().or_that_of(world, class)
    }

    /// The overhead for a StorageClass in the settings of the cluster; `self` if they have none.
    pub fn or_that_of(self, world: &World, class: Option<&str>) -> Overhead {
        let said = world.disk_settings().overhead(class);
        said.map_or(self, |said| Overhead(u64::from(said)))
    }

    /// Bytes to request so that a disk of this size fits.
    pub fn claim_for(self, disk: u64) -> Option<u64> {
        let whole = u128::from(disk.checked_next_multiple_of(MIB)?);
        u64::try_from((whole * u128::from(1000 + self.0)).div_ceil(1000)).ok()
    }

    /// The largest disk in a file system of this size.
    pub fn disk_in(self, claim: u64) -> u64 {
        let held = (u128::from(claim) * 1000).div_ceil(u128::from(1000 + self.0));
        let held = u64::try_from(held).unwrap_or(u64::MAX);
        held - held % MIB
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_disk_of_one_gibibyte_asks_for_six_percent_more() {
        assert_eq!(Overhead::default().claim_for(1 << 30), Some(1_138_166_334));
        assert_eq!(Overhead::default().claim_for(1), Some(1_111_491));
        assert_eq!(Overhead(0).claim_for(1 << 30), Some(1 << 30));
        assert_eq!(Overhead::default().claim_for(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn a_disk_fits_into_what_was_asked_for(disk in 1..1_u64 << 50, overhead in 0..1000_u64) {
            let overhead = Overhead(overhead);
            let claim = overhead.claim_for(disk).unwrap();
            prop_assert!(overhead.disk_in(claim) >= disk.next_multiple_of(MIB));
        }
    }
}
