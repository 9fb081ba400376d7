//! Limits of concurrent uploads: in total, per namespace, and per PVC. One tenant cannot use up the places of
//! the others.
//!
//! ```text
//!  512 in all ─► 64 of a namespace ─► 4 of a PVC: its pod takes one upload at a time
//! ```

use serve::slots::{Slot, Slots};

/// Limits in total, per namespace and per PVC.
pub(crate) struct Limits {
    all: Slots,
    of_namespace: Slots,
    of_pvc: Slots,
}

/// The places that one request occupies in the three limits. They are released on drop.
#[derive(Debug)]
pub(crate) struct RequestPlaces {
    _places: [Slot; 3],
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { all: Slots::new(512), of_namespace: Slots::new(64), of_pvc: Slots::new(4) }
    }
}

impl Limits {
    /// Takes the places of a request for a PVC. An error names the limit that was reached.
    pub(crate) fn take(&self, namespace: &str, pvc: &str) -> Result<RequestPlaces, String> {
        let of_pvc = self.of_pvc.take(&format!("{namespace}/{pvc}")).ok_or_else(|| {
            format!("PVC {namespace}/{pvc} has {} requests under way; try again", self.of_pvc.most())
        })?;
        let of_namespace = self.of_namespace.take(namespace).ok_or_else(|| {
            format!("namespace {namespace} has {} uploads under way; try again", self.of_namespace.most())
        })?;
        let all = self.all.take("").ok_or("too many uploads are under way; try again")?;
        Ok(RequestPlaces { _places: [all, of_namespace, of_pvc] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_at_its_limit_leaves_places_to_the_others() {
        let limits = Limits::default();
        let take = |namespace: &str, number: usize| limits.take(namespace, &format!("disk-{number}"));
        let mut held: Vec<RequestPlaces> = (0..64).map(|number| take("n", number / 4).unwrap()).collect();
        assert_eq!(take("n", 0).unwrap_err(), "PVC n/disk-0 has 4 requests under way; try again");
        assert_eq!(take("n", 16).unwrap_err(), "namespace n has 64 uploads under way; try again");
        drop(held.pop());
        held.push(take("n", 16).unwrap());
        for namespace in ["a", "b", "c", "d", "e", "f", "g"] {
            held.extend((0..64).map(|number| take(namespace, number).unwrap()));
        }
        assert_eq!(take("h", 0).unwrap_err(), "too many uploads are under way; try again");
        // A refused request holds no place.
        drop(held);
        assert!((0..64).map(|number| take("h", number / 4)).collect::<Vec<_>>().iter().all(Result::is_ok));
    }
}
