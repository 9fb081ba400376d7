//! The queue of keys that are to be decided on, fair between kinds, namespaces and objects.
//!
//! ```text
//!  DataVolume ─┬─ a: x y ┐    a turn goes to the next kind, there to the next namespace, there to the oldest key;
//!              └─ b: z   │    each of the three that was served goes to the end of its row
//!  Node ───────── -: n1  ┘
//! ```
//!
//! **Guarantee.** Of K kinds that wait, a key is decided on after at most K turns for each namespace of its kind that waits, and each
//! key of its namespace that came before it. A client that changes its objects without end delays nodes and certificates by one turn in K.
//! **Bound.** A key waits once, however often it is added. How long it waited is measured from the first time, and decides nothing.

use cluster_model::objects::{Key, Kind};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Keys that wait for a decision.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    /// Each key with the time since which it waits.
    all: BTreeMap<Key, Instant>,
    kinds: Row<Kind, Row<String, VecDeque<Key>>>,
}

/// Queues that are served in turn.
#[derive(Debug)]
struct Row<K, Q> {
    order: VecDeque<K>,
    queues: BTreeMap<K, Q>,
}

impl<K, Q> Default for Row<K, Q> {
    fn default() -> Self {
        Row { order: VecDeque::new(), queues: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, Q: Default> Row<K, Q> {
    /// The queue of this name. A new one is served last.
    fn queue(&mut self, name: &K) -> &mut Q {
        if !self.queues.contains_key(name) {
            self.order.push_back(name.clone());
        }
        self.queues.entry(name.clone()).or_default()
    }

    /// Takes an entry of the first queue that gives one. That queue is served last from then on, and is removed when it is empty.
    fn serve<T>(
        &mut self,
        mut take: impl FnMut(&mut Q) -> Option<T>,
        is_empty: impl Fn(&Q) -> bool,
    ) -> Option<T> {
        for at in 0..self.order.len() {
            let Some(queue) = self.order.get(at).and_then(|name| self.queues.get_mut(name)) else { continue };
            let Some(taken) = take(queue) else { continue };
            let is_empty = is_empty(queue);
            if let Some(name) = self.order.remove(at) {
                if is_empty {
                    self.queues.remove(&name);
                } else {
                    self.order.push_back(name);
                }
            }
            return Some(taken);
        }
        None
    }
}

impl FairQueue {
    /// Adds a key behind those of its namespace.
    pub(crate) fn insert(&mut self, key: Key) {
        self.insert_at(key, Instant::now());
    }

    fn insert_at(&mut self, key: Key, now: Instant) {
        if !self.all.contains_key(&key) {
            self.all.insert(key.clone(), now);
            self.kinds.queue(&key.kind).queue(&key.namespace).push_back(key);
        }
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Takes the next key that is not busy, with the time that it waited.
    pub(crate) fn next(&mut self, is_busy: impl Fn(&Key) -> bool) -> Option<(Key, Duration)> {
        self.next_at(is_busy, Instant::now())
    }

    fn next_at(&mut self, is_busy: impl Fn(&Key) -> bool, now: Instant) -> Option<(Key, Duration)> {
        let take = |keys: &mut VecDeque<Key>| {
            let at = keys.iter().position(|key| !is_busy(key))?;
            keys.remove(at)
        };
        let key = self.kinds.serve(
            |namespaces| namespaces.serve(take, VecDeque::is_empty),
            |namespaces| namespaces.order.is_empty(),
        )?;
        let since = self.all.remove(&key);
        let waited = since.map(|since| now.saturating_duration_since(since));
        Some((key, waited.unwrap_or_default()))
    }
}

impl Extend<Key> for FairQueue {
    fn extend<T: IntoIterator<Item = Key>>(&mut self, keys: T) {
        keys.into_iter().for_each(|key| self.insert(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: Kind, namespace: &str, name: &str) -> Key {
        Key::new(kind, namespace, name)
    }

    #[test]
    fn who_changes_without_end_delays_nobody_for_long() {
        let mut queue = FairQueue::default();
        let noise: Vec<Key> =
            (0..500).map(|n| key(Kind::DataVolume, &format!("a{}", n % 50), &format!("d{n}"))).collect();
        queue.extend(noise.iter().cloned());
        let (node, quiet) = (key(Kind::Node, "", "n1"), key(Kind::DataVolume, "z", "mine"));
        queue.extend([quiet.clone(), node.clone()]);
        let (mut when, mut taken) = (BTreeMap::new(), 0);
        while when.len() < 2 {
            let (next, _) = queue.next(|_| false).unwrap();
            if next == node || next == quiet {
                when.insert(next, taken);
            } else {
                // It has changed meanwhile.
                queue.insert(next);
            }
            taken += 1;
        }
        assert!(when[&node] <= 2, "{when:?}");
        assert!(when[&quiet] <= 60, "after one of each namespace: {when:?}");
    }

    #[test]
    fn who_is_added_again_waits_since_the_first_time() {
        let (mut queue, one) = (FairQueue::default(), key(Kind::DataVolume, "n", "a"));
        let (began, later) = (Instant::now(), |seconds| Duration::from_secs(seconds));
        queue.insert_at(one.clone(), began);
        queue.insert_at(one.clone(), began + later(5));
        assert_eq!(queue.next_at(|_| true, began + later(6)), None, "who is busy waits on");
        assert_eq!(queue.next_at(|_| false, began + later(7)), Some((one.clone(), later(7))));
        queue.insert_at(one.clone(), began + later(8));
        assert_eq!(queue.next_at(|_| false, began + later(9)), Some((one, later(1))));
    }

    #[test]
    fn in_a_namespace_who_waits_longest_is_next_and_busy_ones_are_left() {
        let mut queue = FairQueue::default();
        let keys: Vec<Key> = ["b", "a", "c"].map(|name| key(Kind::DataVolume, "n", name)).into();
        queue.extend(keys.iter().chain(&keys).cloned());
        assert_eq!(queue.len(), 3);
        assert_eq!(queue.next(|key| *key == keys[0]).map(|(key, _)| key), Some(keys[1].clone()));
        queue.insert(keys[1].clone());
        assert_eq!(queue.next(|_| true), None);
        let rest: Vec<Key> = std::iter::from_fn(|| Some(queue.next(|_| false)?.0)).collect();
        assert_eq!(rest, [keys[0].clone(), keys[2].clone(), keys[1].clone()]);
        assert!(queue.len() == 0 && queue.kinds.order.is_empty() && queue.kinds.queues.is_empty());
    }
}
