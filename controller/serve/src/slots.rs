//! Limits of concurrent uses, per name: each name has the same number of places, so one name cannot take the
//! places of another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of places in use, by name.
type SlotCounts = Arc<Mutex<HashMap<String, usize>>>;

/// Limit of concurrent uses for each name.
#[derive(Debug)]
pub struct Slots {
    most: usize,
    taken: SlotCounts,
}

/// A place of a name; it is free again on drop.
#[derive(Debug)]
pub struct Slot {
    name: String,
    taken: SlotCounts,
}

impl Slots {
    /// A limit of `most` places for each name.
    pub fn new(most: usize) -> Slots {
        Slots { most, taken: SlotCounts::default() }
    }

    /// Slots of each name.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Takes a place of this name; `None` if all are in use.
    pub fn take(&self, name: &str) -> Option<Slot> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.get(name).copied().unwrap_or_default();
        (count < self.most).then(|| {
            taken.insert(name.to_owned(), count + 1);
            Slot { name: name.to_owned(), taken: Arc::clone(&self.taken) }
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_so_many_places_and_takes_no_others() {
        let places = Slots::new(2);
        let first = places.take("a").unwrap();
        let _second = places.take("a").unwrap();
        assert!(places.take("a").is_none());
        let other = places.take("b").unwrap();
        drop((first, other));
        assert!(places.take("a").is_some());
        assert_eq!(places.taken.lock().unwrap().keys().collect::<Vec<_>>(), ["a"], "nothing is kept of b");
    }
}
