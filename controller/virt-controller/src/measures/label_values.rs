//! Label values from guests, nodes and users, with bounds: systems and addresses that a guest agent reports;
//! machine types that a node reports; labels, annotations, instance types, interfaces and disks that a user
//! writes.
//!
//! A collector of metrics keeps each label value for long, and all these sources may produce ever new ones.
//! So each object may have [`SETS`] sets of values in one metric, and a bounded number of addresses,
//! interfaces and disks: the first ones that were seen. A value that was not seen for a day makes room for
//! another. So a guest that is updated each week, or a VM that is relabelled each day, is always exported.
//! This state is kept while virt-controller leads, for existing objects, and as hashes of the values.
//! Collectors reject a page that is too long, so each namespace has a share of it.

use api::meta::ObjectMeta;
use cluster_model::objects::World;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hash, RandomState};

/// Most sets of values in one metric of an object: for a guest its machine type, kernel release, machine, and
/// the name and version of its system.
pub(super) const SETS: usize = 16;
/// Addresses of a VMI.
pub(super) const ADDRESSES: usize = 64;
/// Interfaces of a VM or a VMI: one has 32.
pub(super) const INTERFACES: usize = 64;
/// Disks of a VM.
pub(super) const DISKS: usize = 512;
/// Most addresses, interfaces and disks of all VMs and VMIs of a namespace: a page of more than 500,000
/// samples is rejected.
pub(super) const OF_NAMESPACE: usize = 50_000;
/// Time for which a value that is not seen any more keeps its place.
const KEPT: SignedDuration = SignedDuration::from_hours(24);
/// Label value in place of values above the bound.
pub(super) const MANY: &str = "<many>";

/// Exported values by object uid and metric.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelValues {
    told: BTreeMap<String, BTreeMap<&'static str, ExportedHashes>>,
    /// Addresses, interfaces and disks that the page has of a namespace so far.
    counts: BTreeMap<String, usize>,
    /// Random keys, so that no client can construct colliding values.
    keys: RandomState,
}

/// A metric, and its bound of values per object.
pub(super) type Measure = (&'static str, usize);

/// Hashes of exported values, with the time at which each was last seen.
type ExportedHashes = BTreeMap<u64, Timestamp>;

impl LabelValues {
    /// A page begins. Objects that are gone are forgotten.
    pub(super) fn begin_page(&mut self, world: &World) {
        let vms = world.vms.all().map(|vm| uid(&vm.metadata));
        let there: BTreeSet<&str> = world.vmis.all().map(|vmi| uid(&vmi.metadata)).chain(vms).collect();
        self.told.retain(|uid, _| there.contains(uid.as_str()));
        self.counts.clear();
    }

    /// Counts an address, an interface or a disk on the metrics page. False if it is not exported,
    /// because its VM or VMI, or its namespace, has too many of them.
    pub(super) fn try_count(
        &mut self,
        meta: &ObjectMeta,
        of: Measure,
        words: &impl Hash,
        now: Timestamp,
    ) -> bool {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let count = self.counts.get(namespace).copied().unwrap_or_default();
        let is_told = count < OF_NAMESPACE && self.try_export(meta, of, words, now);
        if is_told {
            self.counts.insert(namespace.to_owned(), count + 1);
        }
        is_told
    }

    /// True if the values in a metric of an object are exported: they were exported before, or there is room
    /// for them.
    pub(super) fn try_export(
        &mut self,
        meta: &ObjectMeta,
        of: Measure,
        words: &impl Hash,
        now: Timestamp,
    ) -> bool {
        let (measure, most) = of;
        let hash = self.keys.hash_one(words);
        let told = self.told.entry(uid(meta).to_owned()).or_default().entry(measure).or_default();
        is_told(told, &hash, most, now)
    }

    /// Labels with these values, or with [`MANY`] for each value if the object has too many.
    pub(super) fn set<const N: usize>(
        &mut self,
        meta: &ObjectMeta,
        measure: &'static str,
        labels: [(&'static str, String); N],
        now: Timestamp,
    ) -> [(&'static str, String); N] {
        match self.try_export(meta, (measure, SETS), &labels, now) {
            true => labels,
            false => labels.map(|(name, _)| (name, MANY.to_owned())),
        }
    }
}

fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

/// True if the value was exported before, or there is room for it.
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
