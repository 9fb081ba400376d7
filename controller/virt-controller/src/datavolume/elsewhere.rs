//! A DataVolume whose PVC says itself what fills it (`dataSource`, `dataSourceRef`): the PVC is made, and waited for.
//!
//! ```text
//!  PVC made ─► not bound: Pending, or PendingPopulation until a pod uses it ─► bound: whole ─► Succeeded
//! ```
//!
//! A volume is bound when its content is there: so the interface of Kubernetes has it, for CSI drivers and for populators, those
//! of [`super::populator`] too. **Absent:** progress, unless the PVC's annotations say it.

use super::claim::{AT_ONCE, Wanted};
use super::{Round, claim_name};
use api::cdi::annotations::{POPULATOR_PROGRESS, RUNNING_MESSAGE};
use api::claim::DataReference;
use api::datavolume::Phase;
use cluster_model::objects::PersistentVolumeClaim;

impl Round<'_> {
    /// Looks at the PVC.
    pub(super) fn is_filled_elsewhere(&mut self, wanted: &Wanted<'_>, claim: &PersistentVolumeClaim) {
        let name = claim_name(claim);
        let by = by(&claim.spec.data_source_ref).or_else(|| by(&claim.spec.data_source));
        let by = by.unwrap_or_else(|| "what its spec names".to_owned());
        if claim.is_bound() {
            let message = format!("PVC {name} was populated by {by}");
            self.is_whole(&message);
            return self.go(Phase::Succeeded, Some((false, "ImportSucceeded", message)));
        }
        let note = |name: &str| claim.meta.annotations.get(name).filter(|text| !text.is_empty());
        let mut message = format!("PVC {name} is populated by {by}");
        if let Some(said) = note(RUNNING_MESSAGE) {
            message = format!("{message}: {said}");
        }
        self.next.progress = note(POPULATOR_PROGRESS).cloned().or_else(|| self.next.progress.take());
        let waits = wanted.class.is_some_and(|class| class.waits_for_consumer)
            && !self.volume.metadata.annotations.contains_key(AT_ONCE);
        if waits {
            message = format!("{message}; its volume is made where the first pod that uses it runs");
        }
        self.waits("Pending", &message);
        let phase = if waits { Phase::PendingPopulation } else { Phase::Pending };
        self.go(phase, Some((false, "Pending", message)));
    }
}

fn by(reference: &Option<DataReference>) -> Option<String> {
    reference.as_ref().map(|named| format!("{} {}", named.kind, named.name))
}
