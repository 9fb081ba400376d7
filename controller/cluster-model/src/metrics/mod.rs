//! Every metric that our programs serve: name, type, labels and help, once.
//!
//! ```text
//!  TABLE ─┬─► a page of metrics: its HELP and TYPE, and in debug builds that each label is one of the table's
//!         ├─► docs/reference/metrics.md
//!         └─► rules and dashboards (package `install`): whatever they ask for is here
//! ```
//!
//! Names are upstream's where it has one. Labels that Prometheus adds (`job`, `instance`, `pod`, …) are not listed.

mod cdi;
mod guests;
mod programs;
mod vmis;
mod vms;

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// It goes up and down.
    Gauge,
    /// It only rises, while the program runs.
    Counter,
    /// Times, by their upper ends.
    Histogram,
}

impl Is {
    /// As Prometheus writes it.
    pub fn word(self) -> &'static str {
        match self {
            Is::Gauge => "gauge",
            Is::Counter => "counter",
            Is::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What its numbers are.
    pub is: Is,
    /// The labels that it may have; `label_*` stands for all that begin so.
    pub labels: &'static [&'static str],
    /// What it counts.
    pub help: &'static str,
}

impl Metric {
    /// It may have this label.
    pub fn has(&self, label: &str) -> bool {
        let bucket = self.is == Is::Histogram && label == "le";
        let is =
            |known: &str| known.strip_suffix('*').map_or(label == known, |begin| label.starts_with(begin));
        bucket || self.labels.iter().any(|known| is(known))
    }
}

/// All of them: who serves them, and they.
pub const TABLE: &[(&str, &[Metric])] = &[
    ("all programs", programs::ALL),
    ("virt-api", programs::API),
    ("virt-controller", programs::CONTROLLER),
    ("virt-controller, of VMs", vms::VMS),
    ("virt-controller, of VMIs", vmis::VMIS),
    ("virt-controller, of DataVolumes", cdi::CONTROLLER),
    ("virt-handler", programs::HANDLER),
    ("virt-handler, of running VMIs", guests::GUESTS),
    ("cdi-uploadproxy", cdi::UPLOAD_PROXY),
    ("pods that fill, clone or export a PVC", cdi::WORKERS),
];

/// Characters of a label's value that a user writes. A page with a label of more than 1024 bytes is not taken.
pub const LONGEST: usize = 128;

/// What a user wrote, as a label.
pub fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// The metric of a name.
pub fn find(name: &str) -> Option<&'static Metric> {
    TABLE.iter().flat_map(|(_, all)| *all).find(|metric| metric.name == name)
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, is: Is::Gauge, labels, help }
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, is: Is::Counter, labels, help }
}

const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, is: Is::Histogram, labels, help }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    #[test]
    fn names_and_labels_are_ones_that_prometheus_takes() {
        // A pod serves what it moved by the name that virt-controller has for the same.
        let shared = |name: &str| name.ends_with("_progress_total");
        let mut seen = BTreeSet::new();
        let plain =
            |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        for (_, all) in TABLE {
            for metric in *all {
                assert!(seen.insert(metric.name) || shared(metric.name), "{} is there twice", metric.name);
                assert!(plain(metric.name), "{}", metric.name);
                let is_label = |label: &&str| plain(&label.trim_end_matches('*').to_ascii_lowercase());
                assert!(metric.labels.iter().all(is_label), "{metric:?}");
                assert!(metric.help.ends_with('.') && !metric.help.contains(['|', '\n']), "{metric:?}");
                assert!(!metric.has("le") || metric.is == Is::Histogram, "{metric:?}");
            }
        }
        let labels = find("kubevirt_vm_labels").unwrap();
        assert!(labels.has("label_app") && labels.has("name") && !labels.has("app"));
    }

    #[test]
    fn the_reference_is_what_is_served() {
        let mut text = String::from(
            "# Metrics\n\nEach program serves these at `/metrics` ([how to read them](../how-to/monitor.md)). Names that begin \
             with `kubevirt_` are upstream's,\nwhere upstream has one. This page is written by a test from the table in \
             `controller/cluster-model/src/metrics/`.\n",
        );
        for (who, all) in TABLE {
            let _ = write!(text, "\n## {who}\n\n| name | type | labels | |\n|---|---|---|---|\n");
            for metric in *all {
                let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
                let (labels, word) = (labels.join(", "), metric.is.word());
                let _ = writeln!(text, "| `{}` | {word} | {labels} | {} |", metric.name, metric.help);
            }
        }
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(file, &text).unwrap();
        }
        let found = std::fs::read_to_string(file).unwrap_or_default();
        assert!(found == text, "{file} is another; UPDATE_GOLDEN=1 writes it anew");
    }
}
