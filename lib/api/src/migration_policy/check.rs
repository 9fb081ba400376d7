//! Faults of a policy, in KubeVirt's words.

use super::Spec;
use crate::fault::{Fault, Reason};
use crate::quantity::Quantity;
use crate::vmi::{Compression, ExperimentalMigrationOptions, StallDetectorOptions};
use std::ops::RangeInclusive;

/// Feature gate of `experimental.stallDetector`.
pub const STALL_GATE: &str = "MigrationStallDetection";
/// Feature gate of `experimental.downtimeTuning`.
pub const DOWNTIME_GATE: &str = "MigrationDowntimeTuning";
/// Downtimes that QEMU takes, in milliseconds.
pub(super) const DOWNTIMES: RangeInclusive<u64> = 1..=2_000_000;

const NEGATIVE: &str = "must not be negative";
const COMPRESSIONS: &str = "none or zstd";
/// One unit of a [`Quantity`] in billionths.
const ONE: i128 = 1_000_000_000;

/// The faults of a policy. `has_gate` tells whether the cluster enables a feature gate.
pub fn faults(spec: &Spec, has_gate: impl Fn(&str) -> bool) -> Vec<Fault> {
    let invalid =
        |field: &str, message: String| Fault::new(format!("spec.{field}"), Reason::Invalid, message);
    let mut faults = Vec::new();
    if spec.completion_timeout_per_gib.is_some() && spec.valid_completion_timeout().is_none() {
        faults.push(invalid("completionTimeoutPerGiB", NEGATIVE.to_owned()));
    }
    if spec.bandwidth_per_migration.is_some() && spec.valid_bandwidth().is_none() {
        faults.push(invalid("bandwidthPerMigration", NEGATIVE.to_owned()));
    }
    if let Some(limit) = spec.max_downtime_ms.filter(|limit| !DOWNTIMES.contains(limit)) {
        let (least, most) = DOWNTIMES.into_inner();
        faults.push(invalid("maxDowntimeMs", format!("must be from {least} to {most}, not {limit}")));
    }
    let experimental = spec.experimental.as_ref();
    for (field, compression) in [
        ("compression", spec.compression.as_ref()),
        ("experimental.compression", experimental.and_then(|more| more.compression.as_ref())),
    ] {
        if let Some(Compression::Other(word)) = compression {
            let message = format!("spec.{field} is set with an unrecognized option: {word}");
            let fault = Fault::new(format!("spec.{field}"), Reason::NotSupported, message);
            faults.push(fault.hint(COMPRESSIONS));
        }
    }
    if let Some(options) = experimental {
        faults.extend(experimental_faults(options, has_gate));
    }
    faults
}

/// The faults of the experimental settings. Without its feature gate a setting is refused; with it
/// [`served`](super::served) names the setting in a warning.
fn experimental_faults(
    options: &ExperimentalMigrationOptions,
    has_gate: impl Fn(&str) -> bool,
) -> Vec<Fault> {
    const AT: &str = "spec.experimental";
    let mut faults = Vec::new();
    for (field, gate, is_set) in [
        ("downtimeTuning", DOWNTIME_GATE, options.downtime_tuning.is_some()),
        ("stallDetector", STALL_GATE, options.stall_detector.is_some()),
    ] {
        if is_set && !has_gate(gate) {
            let message =
                format!("experimental.{field} cannot be modified without enabling the {gate} feature gate");
            faults.push(Fault::new(format!("{AT}.{field}"), Reason::Invalid, message));
        }
    }
    if options.downtime_tuning.is_some() && options.stall_detector.is_some() {
        let message = "experimental.stallDetector and experimental.downtimeTuning are mutually exclusive; the stall detection path \
             manages its own downtime schedule";
        faults.push(Fault::new(AT, Reason::Invalid, message));
    }
    if let Some(detector) = &options.stall_detector {
        faults.extend(detector_faults(detector));
    }
    faults
}

/// Bounds of a decimal factor, in whole numbers.
enum Bounds {
    /// More than 0, and at most 1.
    Share,
    /// From 0 to 1.
    ShareOrNone,
    /// At least 1.
    Factor,
}

fn detector_faults(options: &StallDetectorOptions) -> Vec<Fault> {
    let factors = [
        ("ewmaAlpha", &options.ewma_alpha, Bounds::Share),
        ("precopyPossibleFactor", &options.precopy_possible_factor, Bounds::Factor),
        ("patienceWindowDecayFactor", &options.patience_window_decay_factor, Bounds::ShareOrNone),
        ("completionTimeoutFactor", &options.completion_timeout_factor, Bounds::Factor),
    ];
    let faults = factors.into_iter().filter_map(|(field, factor, bounds)| {
        let message = bounds.fault(factor.as_ref()?)?;
        Some(Fault::new(format!("spec.experimental.stallDetector.{field}"), Reason::Invalid, message))
    });
    faults.collect()
}

impl Bounds {
    /// The fault of a factor, in KubeVirt's words.
    fn fault(&self, factor: &Quantity) -> Option<String> {
        let amount = factor.nanos();
        if amount < 0 {
            return Some(format!("invalid scalar {:?}: must not be negative", factor.as_str()));
        }
        if amount % (ONE / 1000) != 0 {
            return Some(format!("invalid scalar {:?}: must have at most 3 decimal places", factor.as_str()));
        }
        let fault = match self {
            Bounds::Share if amount == 0 => "must be greater than 0",
            Bounds::Share | Bounds::ShareOrNone if amount > ONE => "must be less than or equal to 1",
            Bounds::Factor if amount < ONE => "must be greater than or equal to 1",
            Bounds::Share | Bounds::ShareOrNone | Bounds::Factor => return None,
        };
        Some(fault.to_owned())
    }
}
