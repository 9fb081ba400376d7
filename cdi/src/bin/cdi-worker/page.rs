//! The pages of the server, by path. Pure.

use crate::progress::Progress;
use std::fmt::Write as _;

/// The content type and the content of a page; `None` for any other path.
pub(crate) fn page(path: &str, progress: &Progress, owner: &str) -> Option<(&'static str, String)> {
    match path {
        "/v1/report" => {
            // Texts and numbers can always be serialized.
            Some(("application/json", serde_json::to_string(progress.report()).unwrap_or_default()))
        }
        "/metrics" => Some(("text/plain; version=0.0.4", metrics(progress, owner))),
        "/healthz" => Some(("text/plain", "OK".to_owned())),
        _ => None,
    }
}

/// The uid of an object as a label; an invalid one is left out, so that it cannot inject a line into the
/// metrics.
pub(crate) fn label(uid: &str) -> &str {
    let is_plain = uid.len() <= 64 && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_plain { uid } else { "" }
}

fn metrics(progress: &Progress, owner: &str) -> String {
    let (report, owner) = (progress.report(), label(owner));
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, value: String| {
        // A String takes any text.
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{{ownerUID=\"{owner}\"}} {value}"
        );
    };
    let percent = progress.percent().to_string();
    let work = if progress.is_clone() { "clone" } else { progress.work() };
    // Upstream's CDI has no exports.
    let whose = if work == "export" { "coracle" } else { "kubevirt_cdi" };
    let (name, help) =
        (format!("{whose}_{work}_progress_total"), format!("The {work} progress in percentage"));
    metric(&name, "counter", &help, percent);
    let named = |rest: &str| format!("coracle_{}_{rest}", progress.work());
    let (done, resumed) = (report.done.to_string(), report.resumed.to_string());
    metric(&named("done_bytes"), "gauge", "Bytes of the disk that are done.", done);
    if let Some(total) = report.total {
        metric(&named("total_bytes"), "gauge", "Bytes of the disk.", total.to_string());
    }
    metric(
        &named("bytes_per_second"),
        "gauge",
        "Bytes of the disk that are done each second.",
        report.rate.to_string(),
    );
    let help = "Bytes that an earlier attempt left and that were not moved again; known at the end.";
    metric(&named("resumed_bytes"), "gauge", help, resumed);
    let help = "Attempts that failed and were followed by another.";
    metric(&named("failures_total"), "counter", help, report.failures.to_string());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn the_progress_is_where_scrapers_of_upstream_look_for_it() {
        let mut progress = Progress::new("http://h/x", false);
        let show = |progress: &Progress, owner| page("/metrics", progress, owner).unwrap().1;
        let line = |percent| format!("\nkubevirt_cdi_import_progress_total{{ownerUID=\"u-1\"}} {percent}\n");
        assert!(show(&progress, "u-1").contains(&line("0")), "{}", show(&progress, "u-1"));
        progress.moved(1, 3, false, Instant::now());
        assert!(show(&progress, "u-1").contains(&line("33.33")), "{}", show(&progress, "u-1"));
        let clone = Progress::new("https://h/disk", false).of_clone(true);
        let text = show(&clone, "u-1");
        assert!(text.contains("\nkubevirt_cdi_clone_progress_total{ownerUID=\"u-1\"} 0\n"), "{text}");
        assert!(!text.contains("import_progress"), "{text}");
        let text = show(&Progress::of_export("docker://h/os:1"), "u-1");
        assert!(text.contains("\ncoracle_export_progress_total{ownerUID=\"u-1\"} 0\n"), "{text}");
        assert!(text.contains("\ncoracle_export_failures_total{") && !text.contains("_import_"), "{text}");
        progress.done(crate::protocol::Disk { size: 3, resumed: 2, ..crate::protocol::Disk::default() });
        let text = show(&progress, "u-1");
        assert!(text.contains(&line("100")), "{text}");
        assert!(text.contains("\ncoracle_import_resumed_bytes{ownerUID=\"u-1\"} 2\n"), "{text}");
        assert!(show(&progress, "u\"} 1\nevil").contains("{ownerUID=\"\"}"));
        assert!(page("/", &progress, "u").is_none());
    }
}
