//! Places of each VMI, so that no VMI takes those of another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Places that are taken, by the uid of the VMI.
type Taken = Arc<Mutex<HashMap<String, usize>>>;

/// As many places for each VMI.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    taken: Taken,
}

/// A place of a VMI; it is free again when this goes.
#[derive(Debug)]
pub(super) struct Place {
    uid: String,
    taken: Taken,
}

impl Places {
    pub(super) fn new(most: usize) -> Places {
        Places { most, taken: Taken::default() }
    }

    /// A place of this VMI, where one is free.
    pub(super) fn take(&self, uid: &str) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(uid.to_owned()).or_default();
        (*count < self.most).then(|| {
            *count += 1;
            Place { uid: uid.to_owned(), taken: Arc::clone(&self.taken) }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vmi_has_so_many_places_and_takes_no_others() {
        let places = Places::new(2);
        let first = places.take("a").unwrap();
        let _second = places.take("a").unwrap();
        assert!(places.take("a").is_none());
        let other = places.take("b").unwrap();
        drop((first, other));
        assert!(places.take("a").is_some());
        assert_eq!(places.taken.lock().unwrap().keys().collect::<Vec<_>>(), ["a"], "nothing is kept of b");
    }
}
