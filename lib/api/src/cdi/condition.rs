//! Condition of the kinds of `cdi.kubevirt.io` other than the DataVolume.

use crate::condition::{CheckTime, ConditionKind};

/// Condition of an object, one entry per type.
pub type Condition = crate::condition::Condition<String>;

impl ConditionKind for String {
    const DESCRIPTION: &'static str = "Condition of an object, one entry per type.";
    const CHECK_TIME: CheckTime = CheckTime::Heartbeat;
}
