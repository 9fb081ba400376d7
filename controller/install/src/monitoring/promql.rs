//! Metrics and labels in a PromQL expression. The parser covers the syntax of our own files only.

/// Keywords of the language, which are not metrics.
const WORDS: [&str; 8] = ["or", "and", "unless", "bool", "offset", "Inf", "NaN", "e"];
/// Keywords before a list of labels in parentheses.
const BEFORE_LABELS: [&str; 6] = ["by", "on", "without", "ignoring", "group_left", "group_right"];

/// A metric, and the labels of its selector.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MetricQuery {
    pub(super) name: String,
    pub(super) labels: Vec<String>,
}

/// The metrics of an expression, and the labels by which it groups or joins.
pub(super) fn read(expression: &str) -> (Vec<MetricQuery>, Vec<String>) {
    let (mut asked, mut grouped): (Vec<MetricQuery>, Vec<String>) = (Vec::new(), Vec::new());
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            rest = after_text(rest);
        } else if first == '[' {
            rest = rest.split_once(']').unwrap().1;
        } else if first == '{' {
            let (labels, after) = selector(rest);
            asked.last_mut().unwrap().labels.extend(labels);
            rest = after;
        } else if first.is_ascii_digit() {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.');
        } else if is_name(first) {
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let next = after.trim_start();
            rest = after;
            if BEFORE_LABELS.contains(&word) {
                let Some(list) = next.strip_prefix('(') else { continue };
                let (list, after) = list.split_once(')').unwrap();
                grouped.extend(
                    list.split(',').map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()),
                );
                rest = after;
            } else if !WORDS.contains(&word) && !next.starts_with('(') && !is_call(word, next) {
                asked.push(MetricQuery { name: word.to_owned(), labels: Vec::new() });
            }
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    (asked, grouped)
}

/// True for an aggregation, as in `sum by (…) (…)`.
fn is_call(word: &str, next: &str) -> bool {
    let aggregates = ["sum", "max", "min", "avg", "count", "group", "topk", "quantile"];
    aggregates.contains(&word) && (next.starts_with("by") || next.starts_with("without"))
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

fn after_text(rest: &str) -> &str {
    rest[1..].split_once('"').unwrap().1
}

/// The labels of `{a="b",c=~"d"}`, and the rest of the text.
fn selector(rest: &str) -> (Vec<String>, &str) {
    let (mut labels, mut rest) = (Vec::new(), &rest[1..]);
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return (labels, after);
        }
        let end = rest.find(|c| !is_name(c)).unwrap();
        labels.push(rest[..end].to_owned());
        rest = after_text(&rest[rest.find('"').unwrap()..]);
    }
}

#[test]
fn metrics_and_labels_are_found_and_functions_are_not() {
    let expression = "sum by (namespace, name) (rate(a:b_total{x=\"c{d}\",y=~\"e\"}[5m])) / on () \
                      group_left () topk(3, f) * 100 >= 1e3 unless on (node) g{} or vector(0)";
    let (asked, grouped) = read(expression);
    let found: Vec<(&str, Vec<&str>)> = asked
        .iter()
        .map(|one| (one.name.as_str(), one.labels.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(found, [("a:b_total", vec!["x", "y"]), ("f", vec![]), ("g", vec![])]);
    assert_eq!(grouped, ["namespace", "name", "node"]);
}
