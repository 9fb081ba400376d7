//! Metrics in the text format of Prometheus.
//!
//! ```text
//!  a page ── family(name) ── is(labels, value), is(…), …
//!         └─ family(…) …
//! ```
//!
//! The text format is small enough to write it here. Each family is started once per page, and its name is
//! one of [`cluster_model::metrics::TABLE`], which has its type and help.

use cluster_model::metrics::{Metric, MetricType, find};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

/// Content type of a page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page of metrics.
#[derive(Debug, Default)]
pub struct Page(String);

/// The samples of one metric.
pub struct Family<'a> {
    page: &'a mut Page,
    metric: Metric,
}

impl Page {
    /// Writes the head of a metric: its help text and its type, as the table of metrics has them.
    pub fn family(&mut self, name: &'static str) -> Family<'_> {
        let metric = find(name).copied();
        debug_assert!(metric.is_some(), "{name} is not in the table of metrics");
        self.begin_family(metric.unwrap_or(Metric {
            name,
            metric_type: MetricType::Gauge,
            labels: &[],
            help: "",
        }))
    }

    /// Adds durations in seconds, as a histogram.
    pub fn histogram(&mut self, name: &'static str, all: &Histograms) {
        let family = self.family(name);
        debug_assert!(family.metric.metric_type == MetricType::Histogram, "{name} is no histogram");
        for (labels, one) in &all.each {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(key, value)| (*key, value.as_str())).collect();
            let mut sum = 0;
            for (count, most) in
                one.counts.iter().zip(all.ends.iter().map(f64::to_string).chain(["+Inf".to_owned()]))
            {
                sum += count;
                let mut labels = labels.clone();
                labels.push(("le", &most));
                self.line(&format!("{name}_bucket"), &labels, sum as f64);
            }
            self.line(&format!("{name}_sum"), &labels, one.sum);
            self.line(&format!("{name}_count"), &labels, sum as f64);
        }
    }

    /// Adds the metrics of requests to the API server.
    pub fn requests(&mut self) {
        let all = REQUESTS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut family = self.family("kubevirt_rest_client_requests_total");
        for ((verb, code), count) in all {
            let code = if code == 0 { "<error>".to_owned() } else { code.to_string() };
            family.sample(&[("verb", &verb), ("code", &code), ("host", &HOST)], count as f64);
        }
        let took = TOOK.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.histogram("kubevirt_rest_client_request_latency_seconds", &took);
        let waited = WAITED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.histogram("kubevirt_rest_client_rate_limiter_duration_seconds", &waited);
    }

    /// The text of the page.
    pub fn text(self) -> String {
        self.0
    }

    fn begin_family(&mut self, metric: Metric) -> Family<'_> {
        let (name, is) = (metric.name, metric.metric_type.as_str());
        let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string does not fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {is}\n");
        Family { page: self, metric }
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        for (at, (key, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{key}=\"{value}\"", if at == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

impl Family<'_> {
    /// Adds a sample with these labels.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        for (label, _) in labels {
            debug_assert!(
                self.metric.has_label(label),
                "{} has no label {label} in the table",
                self.metric.name
            );
        }
        self.page.line(self.metric.name, labels, value);
        self
    }
}

/// Upper bounds, in seconds, of the buckets for phases of VMIs.
const PHASES: &[f64] =
    &[0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1200.0];
/// Upper bounds, in seconds, of the buckets for responses.
pub const ANSWERS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Upper bounds, in seconds, of the buckets for waits on the rate limiter, as upstream has them.
const WAITS: &[f64] = &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512];

/// Histograms of a duration, by labels.
#[derive(Clone, Debug)]
pub struct Histograms {
    ends: &'static [f64],
    each: BTreeMap<Vec<(&'static str, String)>, Histogram>,
}

#[derive(Clone, Debug, Default)]
struct Histogram {
    /// Counts for each upper bound, and for longer durations.
    counts: Vec<u64>,
    sum: f64,
}

impl Default for Histograms {
    fn default() -> Self {
        Histograms::new(PHASES)
    }
}

impl Histograms {
    /// Histograms with these upper bounds.
    pub const fn new(ends: &'static [f64]) -> Histograms {
        Histograms { ends, each: BTreeMap::new() }
    }

    /// Counts a duration in the histogram of these labels.
    pub fn took(&mut self, labels: Vec<(&'static str, String)>, seconds: f64) {
        let one = self.each.entry(labels).or_default();
        one.counts.resize(self.ends.len() + 1, 0);
        let at = self.ends.iter().position(|most| seconds <= *most).unwrap_or(self.ends.len());
        one.counts[at] += 1;
        one.sum += seconds;
    }
}

/// Address of the API server, for a pod of its cluster.
static HOST: LazyLock<String> = LazyLock::new(|| {
    let said = |name| std::env::var(name).unwrap_or_default();
    format!("{}:{}", said("KUBERNETES_SERVICE_HOST"), said("KUBERNETES_SERVICE_PORT"))
});
/// Number of requests to the API server by verb and status, of this process.
static REQUESTS: Mutex<BTreeMap<(String, u16), u64>> = Mutex::new(BTreeMap::new());
/// Durations of the requests.
static TOOK: Mutex<Histograms> = Mutex::new(Histograms::new(ANSWERS));

/// Waiting times before the requests were sent.
static WAITED: Mutex<Histograms> = Mutex::new(Histograms::new(WAITS));

/// Records the time that a request to this path waited for the rate limiter.
pub fn record_rate_limit_wait(verb: &str, path: &str, seconds: f64) {
    let labels = vec![("verb", verb.to_owned()), ("url", url_of(path))];
    WAITED.lock().unwrap_or_else(PoisonError::into_inner).took(labels, seconds);
}

/// A path without the names of objects and namespaces, as in clients of Kubernetes: names given by tenants
/// must not become labels. All other paths share one label.
fn url_of(path: &str) -> String {
    let steps: Vec<&str> = path.split('/').skip(1).collect();
    let (start, rest) = match steps.as_slice() {
        ["api", version, rest @ ..] => (format!("/api/{version}"), rest),
        ["apis", group, version, rest @ ..] => (format!("/apis/{group}/{version}"), rest),
        _ => return "/{prefix}".to_owned(),
    };
    let (namespace, rest) = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => ("/namespaces/{namespace}", rest),
        rest => ("", rest),
    };
    let rest = match rest {
        [] => String::new(),
        [resource] => format!("/{resource}"),
        [resource, _] => format!("/{resource}/{{name}}"),
        [resource, _, part, ..] => format!("/{resource}/{{name}}/{part}"),
    };
    format!("{start}{namespace}{rest}")
}

/// Records a request to the API server. Without an answer, or after a time-out, its status is 0.
pub fn request<T>(verb: &str, began: Instant, answer: Option<Result<&T, &kube::Error>>) {
    let code = match answer {
        Some(Ok(_)) => 200,
        Some(Err(kube::Error::Api(status))) => status.code,
        Some(Err(_)) | None => 0,
    };
    let took = began.elapsed().as_secs_f64();
    TOOK.lock().unwrap_or_else(PoisonError::into_inner).took(vec![("verb", verb.to_owned())], took);
    let mut all = REQUESTS.lock().unwrap_or_else(PoisonError::into_inner);
    *all.entry((verb.to_owned(), code)).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_without_names() {
        for (path, url) in [
            ("/api/v1/nodes", "/api/v1/nodes"),
            ("/api/v1/namespaces/n", "/api/v1/namespaces/{name}"),
            ("/api/v1/namespaces/n/pods", "/api/v1/namespaces/{namespace}/pods"),
            ("/api/v1/namespaces/n/pods/web", "/api/v1/namespaces/{namespace}/pods/{name}"),
            (
                "/apis/kubevirt.io/v1/namespaces/n/virtualmachines/web/status",
                "/apis/kubevirt.io/v1/namespaces/{namespace}/virtualmachines/{name}/status",
            ),
            ("/apis/storage.k8s.io/v1/storageclasses/fast", "/apis/storage.k8s.io/v1/storageclasses/{name}"),
            ("/version", "/{prefix}"),
            ("/", "/{prefix}"),
        ] {
            assert_eq!(url_of(path), url);
        }
    }

    #[test]
    fn a_page_is_as_prometheus_reads_it() {
        let mut page = Page::default();
        let metric = |name, metric_type, labels, help| Metric { name, metric_type, labels, help };
        page.begin_family(metric("up", MetricType::Gauge, &[], "Is\nit")).sample(&[], 1.0);
        page.begin_family(metric("b_total", MetricType::Counter, &["a", "b"], "Bytes."))
            .sample(&[("a", "x\"y\\\n"), ("b", "")], 1.5e9)
            .sample(&[("a", "z")], 0.25);
        let mut took = Histograms::default();
        for seconds in [0.5, 0.6, 5000.0] {
            took.took(vec![("phase", "Running".to_owned())], seconds);
        }
        let name = "kubevirt_vmi_phase_transition_time_from_creation_seconds";
        page.histogram(name, &took);
        let text = page.text().replace(name, "t_seconds");
        let (plain, times) = text.split_once("# HELP t_seconds").unwrap();
        assert_eq!(
            plain,
            "# HELP up Is\\nit\n# TYPE up gauge\nup 1\n# HELP b_total Bytes.\n# TYPE b_total counter\n\
             b_total{a=\"x\\\"y\\\\\\n\",b=\"\"} 1500000000\nb_total{a=\"z\"} 0.25\n"
        );
        for line in [
            "t_seconds_bucket{phase=\"Running\",le=\"0.5\"} 1",
            "t_seconds_bucket{phase=\"Running\",le=\"1\"} 2",
            "t_seconds_bucket{phase=\"Running\",le=\"1200\"} 2",
            "t_seconds_bucket{phase=\"Running\",le=\"+Inf\"} 3",
            "t_seconds_sum{phase=\"Running\"} 5001.1",
            "t_seconds_count{phase=\"Running\"} 3",
        ] {
            assert!(times.lines().any(|other| other == line), "{line}\n{times}");
        }
    }
}
