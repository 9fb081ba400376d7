//! Eviction thresholds of the kubelet, from its command line and its configuration. Pure.
//!
//! | signal | file system | default |
//! |---|---|---|
//! | `nodefs.available` | the one with the kubelet's folder, and so with the disks of VMIs | 10% |
//! | `imagefs.available` | the one with images; counts where it is the same | 15% |
//!
//! Signals of inodes are left out, since a guest that writes uses none. Of a hard and a soft threshold, the
//! one that is reached first counts. As in the kubelet, an `evictionHard` that names one signal removes the
//! defaults of the others.

use crate::error::{Error, Result};
use api::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;
use std::str::FromStr;

const NODE: &str = "nodefs.available";
const IMAGES: &str = "imagefs.available";

/// Thresholds of one node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Thresholds(Vec<(Signal, Amount)>);

/// A signal of the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Node,
    Images,
}

/// Amount that has to be left.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    Bytes(u64),
    /// Part of the file system.
    Part(f64),
}

impl Default for Thresholds {
    /// Thresholds of a kubelet without configuration.
    fn default() -> Thresholds {
        Thresholds(vec![(Signal::Node, Amount::Part(0.10)), (Signal::Images, Amount::Part(0.15))])
    }
}

impl Thresholds {
    /// Thresholds of a kubelet with these arguments and configurations; the last configuration takes
    /// precedence.
    pub(super) fn of_kubelet(arguments: &[String], configurations: &[Value]) -> Result<Thresholds> {
        let said = |name: &str| -> Option<BTreeMap<String, String>> {
            let all = configurations.iter().filter_map(|one| one.get(name)?.as_object());
            let mut of_all = BTreeMap::new();
            for one in all {
                of_all.extend(one.iter().map(|(signal, amount)| (signal.clone(), text(amount))));
            }
            (!of_all.is_empty()).then_some(of_all)
        };
        let hard = match (flag(arguments, "--eviction-hard"), said("evictionHard")) {
            (Some(flag), _) => Some(flag.parse::<Thresholds>()?.0),
            (None, Some(said)) => Some(read(&said)?),
            (None, None) => None,
        };
        let soft = match (flag(arguments, "--eviction-soft"), said("evictionSoft")) {
            (Some(flag), _) => flag.parse::<Thresholds>()?.0,
            (None, Some(said)) => read(&said)?,
            (None, None) => Vec::new(),
        };
        let merges = configurations.iter().rev().find_map(|one| one.get("mergeDefaultEvictionSettings"));
        let Thresholds(mut all) = Thresholds::default();
        if let Some(hard) = hard {
            let keeps_defaults = merges == Some(&Value::Bool(true));
            all.retain(|(signal, _)| keeps_defaults && hard.iter().all(|(other, _)| other != signal));
            all.extend(hard);
        }
        all.extend(soft);
        Ok(Thresholds(all))
    }

    /// Bytes below which the kubelet evicts, for a file system of this capacity. `has_images`: images are on
    /// it too.
    pub(super) fn bytes(&self, capacity: u64, has_images: bool) -> u64 {
        let counts = |signal: Signal| signal == Signal::Node || has_images;
        let all = self.0.iter().filter(|(signal, _)| counts(*signal)).map(|(_, amount)| match amount {
            Amount::Bytes(bytes) => *bytes,
            Amount::Part(part) => (capacity as f64 * part).round() as u64,
        });
        all.max().unwrap_or(0)
    }
}

impl FromStr for Thresholds {
    type Err = Error;

    /// Parses the format of the kubelet's flag: `nodefs.available<10%,imagefs.available<15%`.
    fn from_str(text: &str) -> Result<Thresholds> {
        let mut said = BTreeMap::new();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (signal, amount) = part.split_once('<').ok_or_else(|| {
                Error::refused(format!(
                    "cannot parse the eviction threshold '{part}': it must be like nodefs.available<10%"
                ))
            })?;
            said.insert(signal.trim().to_owned(), amount.trim().to_owned());
        }
        read(&said).map(Thresholds)
    }
}

fn read(said: &BTreeMap<String, String>) -> Result<Vec<(Signal, Amount)>> {
    let mut all = Vec::new();
    for (signal, name) in [(Signal::Node, NODE), (Signal::Images, IMAGES)] {
        let Some(text) = said.get(name) else { continue };
        let wrong = || {
            Error::refused(format!(
                "cannot parse the eviction threshold {name}<{text}: the amount must be like 10% or 1Gi"
            ))
        };
        let amount = match text.strip_suffix('%') {
            Some(number) => {
                let part = number.parse::<f64>().map_err(|_| wrong())? / 100.0;
                Some(part).filter(|part| (0.0..=1.0).contains(part)).map(Amount::Part)
            }
            None => Quantity::parse(text).ok().and_then(|amount| amount.bytes()).map(Amount::Bytes),
        };
        all.push((signal, amount.ok_or_else(wrong)?));
    }
    Ok(all)
}

/// Last value of a flag.
pub(super) fn flag<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let mut found = None;
    for (at, word) in arguments.iter().enumerate() {
        match word.strip_prefix(name) {
            Some("") => found = arguments.get(at + 1).map(String::as_str),
            Some(rest) => found = rest.strip_prefix('=').or(found),
            None => {}
        }
    }
    found
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const GIB: u64 = 1 << 30;

    fn of(arguments: &[&str], configurations: &[Value]) -> Result<(u64, u64)> {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        let all = Thresholds::of_kubelet(&arguments, configurations)?;
        Ok((all.bytes(100 * GIB, true), all.bytes(100 * GIB, false)))
    }

    #[test]
    fn the_kubelets_own_rules_hold() {
        let percent = |one: u64, other: u64| (one * GIB, other * GIB);
        let hard = json!({"evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"}});
        for (arguments, configurations, wanted) in [
            (&[][..], vec![], percent(15, 10)),
            (&["--root-dir", "/x"], vec![json!({"evictionHard": {}}), json!({})], percent(15, 10)),
            // A configured signal removes the default of the other.
            (&[], vec![hard.clone()], percent(1, 1)),
            (&[], vec![json!({"evictionHard": {"imagefs.available": "20%"}})], percent(20, 0)),
            (&[], vec![json!({"evictionHard": {"imagefs.available": "7Gi"}})], percent(7, 0)),
            (&[], vec![hard.clone(), json!({"mergeDefaultEvictionSettings": true})], percent(15, 1)),
            // A later file adds to an earlier one, and a flag replaces both.
            (&[], vec![hard.clone(), json!({"evictionHard": {"nodefs.available": "3%"}})], percent(3, 3)),
            (
                &["--eviction-hard=nodefs.available<5%,imagefs.available<6%"],
                vec![hard.clone()],
                percent(6, 5),
            ),
            (&["--eviction-hard", "nodefs.available<2Gi"], vec![hard.clone()], percent(2, 2)),
            // The soft threshold is reached first.
            (&[], vec![hard.clone(), json!({"evictionSoft": {"nodefs.available": "30%"}})], percent(30, 30)),
            (&["--eviction-soft=imagefs.available<40%"], vec![hard], percent(40, 1)),
        ] {
            assert_eq!(of(arguments, &configurations).unwrap(), wanted, "{arguments:?} {configurations:?}");
        }
    }

    #[test]
    fn a_threshold_that_is_not_understood_is_refused_by_name() {
        for text in
            ["nodefs.available", "nodefs.available<ten", "nodefs.available<110%", "nodefs.available<-1%"]
        {
            let error = text.parse::<Thresholds>().unwrap_err().to_string();
            assert!(error.contains("nodefs.available"), "{error}");
        }
        let error = of(&[], &[json!({"evictionHard": {"nodefs.available": "x"}})]).unwrap_err().to_string();
        assert!(error.contains("nodefs.available<x"), "{error}");
        assert_eq!("".parse::<Thresholds>().unwrap().bytes(GIB, true), 0);
        assert_eq!("memory.available<100Mi".parse::<Thresholds>().unwrap().bytes(GIB, true), 0);
    }
}
