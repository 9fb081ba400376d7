//! What is decided on again, and when.

use cluster_model::objects::Key;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Keys, each with its one time; who is due is found without a look at the others.
#[derive(Debug, Default)]
pub(crate) struct Later {
    times: BTreeMap<Key, Timestamp>,
    order: BTreeSet<(Timestamp, Key)>,
}

impl Later {
    /// This key is due then, and at no other time.
    pub(crate) fn insert(&mut self, key: Key, time: Timestamp) {
        if let Some(before) = self.times.insert(key.clone(), time) {
            self.order.remove(&(before, key.clone()));
        }
        self.order.insert((time, key));
    }

    /// This key is not due at any time.
    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(before) = self.times.remove(key) {
            self.order.remove(&(before, key.clone()));
        }
    }

    /// Takes the key that is due, and has been for the longest.
    pub(crate) fn due(&mut self, now: Timestamp) -> Option<Key> {
        self.order.first().filter(|(time, _)| *time <= now)?;
        let (_, key) = self.order.pop_first()?;
        self.times.remove(&key);
        Some(key)
    }

    /// When keys are due, the next one first.
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
        let mut later = Later::default();
        for (name, second) in [("a", 3), ("b", 2), ("c", 9), ("a", 1), ("b", 4)] {
            later.insert(key(name), at(second));
        }
        assert_eq!(later.times().collect::<Vec<_>>(), [at(1), at(4), at(9)]);
        assert_eq!(later.due(at(0)), None);
        assert_eq!(
            [later.due(at(4)), later.due(at(4)), later.due(at(4))],
            [Some(key("a")), Some(key("b")), None]
        );
        assert_eq!((later.times.len(), later.order.len()), (1, 1));
        later.remove(&key("c"));
        later.remove(&key("c"));
        assert_eq!((later.times.len(), later.order.len()), (0, 0));
    }
}
