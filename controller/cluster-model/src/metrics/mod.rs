//! Table of all metrics that our programs serve: name, type, labels and help.
//!
//! ```text
//!  TABLE ─┬─► pages of metrics: HELP and TYPE; debug builds check that each label is in the table
//!         ├─► docs/reference/metrics.md
//!         └─► rules and dashboards (package `install`): they query only metrics listed here
//! ```
//!
//! Names are upstream's where it has one. Labels that Prometheus adds (`job`, `instance`, `pod`, …) are not
//! listed.

mod cdi;
mod guests;
mod programs;
mod vmis;
mod vms;

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    Gauge,
    Counter,
    /// Durations, counted in buckets with upper bounds.
    Histogram,
}

impl MetricType {
    /// The type's name in the text format of Prometheus.
    pub fn as_str(self) -> &'static str {
        match self {
            MetricType::Gauge => "gauge",
            MetricType::Counter => "counter",
            MetricType::Histogram => "histogram",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub metric_type: MetricType,
    /// Permitted labels; `label_*` permits all with that prefix.
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl Metric {
    /// True if the metric may have this label.
    pub fn has_label(&self, label: &str) -> bool {
        let bucket = self.metric_type == MetricType::Histogram && label == "le";
        let is =
            |known: &str| known.strip_suffix('*').map_or(label == known, |begin| label.starts_with(begin));
        bucket || self.labels.iter().any(|known| is(known))
    }
}

/// All metrics, by the program that serves them.
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

/// Maximum characters of a label value written by a user. Prometheus drops a page with a label of more than
/// 1024 bytes.
pub const LONGEST: usize = 128;

/// A user's text, shortened for a label.
pub fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// The metric of a name.
pub fn find(name: &str) -> Option<&'static Metric> {
    TABLE.iter().flat_map(|(_, all)| *all).find(|metric| metric.name == name)
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, metric_type: MetricType::Gauge, labels, help }
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, metric_type: MetricType::Counter, labels, help }
}

const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, metric_type: MetricType::Histogram, labels, help }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    #[test]
    fn names_and_labels_are_ones_that_prometheus_takes() {
        // A worker pod serves its progress under the same name as virt-controller.
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
                assert!(!metric.has_label("le") || metric.metric_type == MetricType::Histogram, "{metric:?}");
            }
        }
        let labels = find("kubevirt_vm_labels").unwrap();
        assert!(labels.has_label("label_app") && labels.has_label("name") && !labels.has_label("app"));
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
                let (labels, word) = (labels.join(", "), metric.metric_type.as_str());
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
