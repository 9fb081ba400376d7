//! Effect of each field of a policy. A field that the KubeVirt object has too has the same effect there, for the same reason
//! ([`crate::kubevirt::served`]); a test compares the two lists. The first two experimental settings are refused while their
//! feature gates are disabled ([`super::faults`]).

use crate::kubevirt::served::{
    NO_DOWNTIME_TUNING, NO_POST_COPY, NO_STALL_DETECTOR, Served, Unserved, unserved_of,
};
use Served::{No, Yes};
use serde_json::Value;

/// The fields below `spec`, in the order of the schema. An entry covers all fields below it.
pub const FIELDS: &[(&str, Served)] = &[
    ("selectors", Yes),
    ("allowAutoConverge", Yes),
    ("bandwidthPerMigration", Yes),
    ("completionTimeoutPerGiB", Yes),
    ("maxDowntimeMs", Yes),
    ("allowPostCopy", No(NO_POST_COPY)),
    ("allowWorkloadDisruption", Yes),
    ("compression", Yes),
    ("experimental.stallDetector", No(NO_STALL_DETECTOR)),
    ("experimental.downtimeTuning", No(NO_DOWNTIME_TUNING)),
    ("experimental.compression", Yes),
];

/// The fields of a policy that are set and have no effect, in the order of the list.
pub fn unserved(object: &Value) -> Vec<Unserved> {
    unserved_of(FIELDS, &object["spec"], "spec")
}
