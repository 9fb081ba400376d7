//! Keys that are decided on again at a time, without a change of an object.

use cluster_model::objects::Key;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Keys with one time each. A key that is due is found without a search.
#[derive(Debug, Default)]
pub(crate) struct DelayQueue {
    times: BTreeMap<Key, Timestamp>,
    order: BTreeSet<(Timestamp, Key)>,
}

impl DelayQueue {
    /// Sets the time of a key, in place of an earlier one.
    pub(crate) fn insert(&mut self, key: Key, time: Timestamp) {
        if let Some(before) = self.times.insert(key.clone(), time) {
            self.order.remove(&(before, key.clone()));
        }
        self.order.insert((time, key));
    }

    /// Removes a key, if it is queued.
    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(before) = self.times.remove(key) {
            self.order.remove(&(before, key.clone()));
        }
    }

    /// Takes the key that has been due for the longest time.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<Key> {
        self.order.first().filter(|(time, _)| *time <= now)?;
        let (_, key) = self.order.pop_first()?;
        self.times.remove(&key);
        Some(key)
    }

    /// Takes all keys.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Key> + use<> {
        self.order.clear();
        std::mem::take(&mut self.times).into_keys()
    }

    /// The times of all keys in their order.
    pub(crate) fn times(&self) -> impl Iterator<Item = Timestamp> {
        self.order.iter().map(|(time, _)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::objects::Kind;

    #[test]
    fn each_key_has_its_latest_time_and_comes_in_its_order() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let key = |name: &str| Key::new(Kind::Pod, "n", name);
        let mut queue = DelayQueue::default();
        for (name, second) in [("a", 3), ("b", 2), ("c", 9), ("a", 1), ("b", 4)] {
            queue.insert(key(name), at(second));
        }
        assert_eq!(queue.times().collect::<Vec<_>>(), [at(1), at(4), at(9)]);
        assert_eq!(queue.pop_due(at(0)), None);
        assert_eq!(
            [queue.pop_due(at(4)), queue.pop_due(at(4)), queue.pop_due(at(4))],
            [Some(key("a")), Some(key("b")), None]
        );
        assert_eq!((queue.times.len(), queue.order.len()), (1, 1));
        queue.remove(&key("c"));
        queue.remove(&key("c"));
        assert_eq!((queue.times.len(), queue.order.len()), (0, 0));
    }
}
