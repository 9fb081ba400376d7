//! What guests say that names measures: the systems that their guest agents tell, and their addresses.
//!
//! Whoever collects measures keeps each name for long, and a guest may say ever new ones. So of a VMI [`SYSTEMS`] and [`ADDRESSES`] are
//! told: those that were seen first. One that was not seen for a day makes room for another: a guest that is updated each week, or takes
//! a new address each day, is told for ever. This is kept while virt-controller leads, of VMIs that are there.

use api::vmi::VirtualMachineInstance;
use jiff::{SignedDuration, Timestamp};
use kubernetes::objects::World;
use std::collections::{BTreeMap, BTreeSet};

/// Systems of a VMI that are told: kernel release, machine, name and version together are one.
pub(super) const SYSTEMS: usize = 16;
/// Addresses of a VMI that are told.
pub(super) const ADDRESSES: usize = 64;
/// For how long what is not seen any more holds its place.
const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// What stands in the place of a system that is not told.
pub(super) const MANY: &str = "<many>";

/// What was told of guests, by the uids of their VMIs.
#[derive(Clone, Debug, Default)]
pub(super) struct Guests(BTreeMap<String, Words>);

/// What was told of a guest, and when it was seen last.
#[derive(Clone, Debug, Default)]
struct Words {
    systems: BTreeMap<System, Timestamp>,
    addresses: BTreeMap<[String; 2], Timestamp>,
}

/// Kernel release, machine, name and version.
type System = [String; 4];

impl Guests {
    /// Forgets VMIs that are gone.
    pub(super) fn are_those_of(&mut self, world: &World) {
        let there: BTreeSet<&str> = world.vmis.all().map(uid).collect();
        self.0.retain(|uid, _| there.contains(uid.as_str()));
    }

    /// What is told of the system of a guest that says this.
    pub(super) fn system(&mut self, vmi: &VirtualMachineInstance, said: System, now: Timestamp) -> System {
        match is_told(&mut self.of(vmi).systems, &said, SYSTEMS, now) {
            true => said,
            false => [MANY; 4].map(str::to_owned),
        }
    }

    /// An address in a network of a VMI is told.
    pub(super) fn tells(
        &mut self,
        vmi: &VirtualMachineInstance,
        place: &[String; 2],
        now: Timestamp,
    ) -> bool {
        is_told(&mut self.of(vmi).addresses, place, ADDRESSES, now)
    }

    fn of(&mut self, vmi: &VirtualMachineInstance) -> &mut Words {
        self.0.entry(uid(vmi).to_owned()).or_default()
    }
}

fn uid(vmi: &VirtualMachineInstance) -> &str {
    vmi.metadata.uid.as_deref().unwrap_or_default()
}

/// It was told before, or there is a place for it.
fn is_told<W: Ord + Clone>(
    known: &mut BTreeMap<W, Timestamp>,
    word: &W,
    most: usize,
    now: Timestamp,
) -> bool {
    if let Some(last) = known.get_mut(word) {
        *last = now;
        return true;
    }
    if known.len() >= most {
        let oldest = known.iter().min_by_key(|&(_, &last)| last);
        let stale = oldest.filter(|&(_, &last)| now.duration_since(last) > KEPT);
        let Some(stale) = stale.map(|(word, _)| word.clone()) else { return false };
        known.remove(&stale);
    }
    known.insert(word.clone(), now);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_for_a_day_makes_room() {
        let (mut known, hour) = (BTreeMap::new(), |hours: i64| Timestamp::from_second(hours * 3600).unwrap());
        assert!(is_told(&mut known, &1, 2, hour(0)) && is_told(&mut known, &2, 2, hour(0)));
        assert!(!is_told(&mut known, &3, 2, hour(24)), "both were seen a day ago, and no longer");
        assert!(is_told(&mut known, &1, 2, hour(24)));
        assert!(is_told(&mut known, &3, 2, hour(25)));
        assert_eq!(known.keys().copied().collect::<Vec<i32>>(), [1, 3]);
        assert!(!is_told(&mut known, &2, 2, hour(26)), "it has lost its place");
    }
}
