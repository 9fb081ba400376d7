//! Phases of a VMI and the permitted transitions.
//!
//! ```text
//! (none) ─► Pending ─► Scheduling ─► Scheduled ─► Running ─► Succeeded
//!              │ ▲          │            │           └─────► Failed
//!              ▼ │          └────────────┴─────────────────► Succeeded, Failed
//!         WaitingForSync    (Unknown: the node does not report; ends with its next report)
//! ```

use super::Phase;

impl Phase {
    /// True for a phase that a VMI never leaves.
    pub fn is_final(&self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }

    /// True if a VMI may go from this phase to another. Phases never go back, and a final phase is never
    /// left.
    pub fn may_become(&self, next: &Phase) -> bool {
        use Phase::{
            Failed, Other, Pending, Running, Scheduled, Scheduling, Succeeded, Unknown, WaitingForSync,
        };
        match (self, next) {
            (Succeeded | Failed, _) | (_, Other(_)) => false,
            (Other(_), Pending | Scheduling | Failed | WaitingForSync | Unknown) => true,
            (Pending, Scheduling | Failed | WaitingForSync | Unknown) => true,
            (WaitingForSync, Pending | Scheduling | Scheduled | Running | Failed | Unknown) => true,
            (Scheduling, Scheduled | Failed | Unknown) => true,
            (Scheduled, Running | Succeeded | Failed | Unknown) => true,
            (Running, Succeeded | Failed | Unknown) => true,
            (Unknown, Pending | Scheduling | Scheduled | Running | Succeeded | Failed | WaitingForSync) => {
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vmi_goes_forward_and_ends_once() {
        let way = ["", "Pending", "Scheduling", "Scheduled", "Running", "Succeeded"].map(Phase::from);
        for pair in way.windows(2) {
            assert!(pair[0].may_become(&pair[1]), "{pair:?}");
            assert!(!pair[1].may_become(&pair[0]), "{pair:?}");
        }
        for phase in Phase::KNOWN.iter().map(|&name| Phase::from(name)) {
            assert_eq!(phase.may_become(&Phase::Failed), !phase.is_final(), "{phase}");
            assert!(!phase.may_become(&phase), "{phase}");
            assert!(!Phase::Failed.may_become(&phase) && !Phase::Succeeded.may_become(&phase));
        }
    }
}
