//! The vCPUs of an instance type, as sockets, cores and threads.

use super::Conflict;
use crate::instancetype::{PreferenceSpec, SpreadAcross, Topology};

/// Threads of a core, if vCPUs are spread over threads too.
const THREADS: u32 = 2;
/// Field with the number of vCPUs, as upstream's messages name it.
const GUEST: &str = "instancetype.spec.cpu.guest";

/// Sockets, cores and threads for a number of vCPUs.
pub(super) fn split_vcpus(
    count: u32,
    preference: Option<&PreferenceSpec>,
) -> Result<(u32, u32, u32), Conflict> {
    let topology = preference.map_or(Topology::Sockets, PreferenceSpec::topology);
    Ok(match (topology, preference) {
        _ if count <= 1 => (1, 1, 1),
        (Topology::Cores, _) => (1, count, 1),
        (Topology::Threads, _) => (1, 1, count),
        (Topology::Spread, Some(preference)) => spread(count, preference)?,
        _ => (count, 1, 1),
    })
}

fn spread(count: u32, preference: &PreferenceSpec) -> Result<(u32, u32, u32), Conflict> {
    let (ratio, across) = preference.spread();
    let whole = |count: u32, parts: u32| (count.checked_rem(parts) == Some(0)).then(|| count / parts);
    let conflict = |what: String| {
        let message = format!("{count} vCPUs provided by the instance type are not divisible by {what}");
        Conflict { field: GUEST.to_owned(), message }
    };
    let of_preference = "Spec.PreferSpreadSocketToCoreRatio or Spec.CPU.PreferSpreadOptions.Ratio of";
    match across {
        SpreadAcross::CoresThreads => match whole(count, ratio) {
            Some(cores) => Ok((1, cores, ratio)),
            None => Err(conflict(format!("the number of threads per core {ratio}"))),
        },
        SpreadAcross::SocketsCoresThreads => {
            match whole(count, THREADS).and_then(|cores| whole(cores, ratio)) {
                Some(sockets) => Ok((sockets, ratio, THREADS)),
                None => Err(conflict(format!(
                    "the number of threads per core {THREADS} and {of_preference} {ratio}"
                ))),
            }
        }
        SpreadAcross::SocketsCores => match whole(count, ratio) {
            Some(sockets) => Ok((sockets, ratio, 1)),
            None => Err(conflict(format!("the {of_preference} {ratio} provided by the preference"))),
        },
        SpreadAcross::Other(word) => {
            Err(Conflict { field: GUEST.to_owned(), message: format!("across {word} is not supported") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;
    use serde_json::{Value, json};

    fn made(count: u32, cpu: &Value) -> Result<(u32, u32, u32), String> {
        split_vcpus(count, Some(&wire::read(json!({"cpu": cpu})).unwrap()))
            .map_err(|conflict| conflict.message)
    }

    #[test]
    fn vcpus_stand_where_the_preference_wants_them() {
        for (word, wanted) in [
            ("sockets", (4, 1, 1)),
            ("preferAny", (4, 1, 1)),
            ("cores", (1, 4, 1)),
            ("preferThreads", (1, 1, 4)),
            ("spread", (2, 2, 1)),
        ] {
            assert_eq!(made(4, &json!({"preferredCPUTopology": word})), Ok(wanted), "{word}");
            assert_eq!(made(1, &json!({"preferredCPUTopology": word})), Ok((1, 1, 1)), "{word}");
        }
        assert_eq!(split_vcpus(4, None), Ok((4, 1, 1)));
        let spread = |options: Value| json!({"preferredCPUTopology": "spread", "spreadOptions": options});
        assert_eq!(made(8, &spread(json!({"across": "SocketsCoresThreads"}))), Ok((2, 2, 2)));
        assert_eq!(made(8, &spread(json!({"across": "CoresThreads"}))), Ok((1, 4, 2)));
        assert_eq!(made(8, &spread(json!({"ratio": 4}))), Ok((2, 4, 1)));
    }

    #[test]
    fn vcpus_that_cannot_be_spread_are_told() {
        let spread = |options: Value| json!({"preferredCPUTopology": "spread", "spreadOptions": options});
        assert_eq!(
            made(3, &spread(json!({}))).unwrap_err(),
            "3 vCPUs provided by the instance type are not divisible by the Spec.PreferSpreadSocketToCoreRatio or \
             Spec.CPU.PreferSpreadOptions.Ratio of 2 provided by the preference"
        );
        assert_eq!(
            made(6, &spread(json!({"across": "SocketsCoresThreads"}))).unwrap_err(),
            "6 vCPUs provided by the instance type are not divisible by the number of threads per core 2 and \
             Spec.PreferSpreadSocketToCoreRatio or Spec.CPU.PreferSpreadOptions.Ratio of 2"
        );
        assert_eq!(
            made(3, &spread(json!({"across": "CoresThreads"}))).unwrap_err(),
            "3 vCPUs provided by the instance type are not divisible by the number of threads per core 2"
        );
        assert!(made(4, &spread(json!({"ratio": 0}))).is_err(), "and nothing is divided by zero");
    }
}
