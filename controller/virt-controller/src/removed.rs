//! Uids of objects that went, the last ones.

use std::collections::{HashSet, VecDeque};

/// Number of uids that are kept: far more than go while one request is answered.
const KEPT: usize = 4096;

/// The uids of the last objects that went.
#[derive(Debug, Default)]
pub(crate) struct RemovedUids {
    order: VecDeque<String>,
    known: HashSet<String>,
}

impl RemovedUids {
    pub(crate) fn insert(&mut self, uid: String) {
        if uid.is_empty() || !self.known.insert(uid.clone()) {
            return;
        }
        self.order.push_back(uid);
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(crate) fn remove(&mut self, uid: &str) {
        self.known.remove(uid);
    }

    pub(crate) fn contains(&self, uid: &str) -> bool {
        self.known.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_uid_is_forgotten_first() {
        let mut removed = RemovedUids::default();
        (0..=KEPT).for_each(|number| removed.insert(number.to_string()));
        removed.insert(KEPT.to_string());
        removed.insert(String::new());
        removed.insert("x".to_owned());
        removed.remove("x");
        assert!(!removed.contains("x") && !removed.contains("1"));
        assert!(!removed.contains("0") && removed.contains("2") && removed.contains(&KEPT.to_string()));
        assert_eq!((removed.order.len(), removed.known.len(), removed.contains("")), (KEPT, KEPT - 1, false));
    }
}
