//! Resource usage of VMIs: two readings of their counters become rates, and rates a table. Pure.
//!
//! ```text
//!  VMI, stats, moment ─► Reading ─┐
//!  the same, a while later ───────┴─► Usage ─► rows, sorted ─► table, JSON
//! ```

use cdi::size::human;
use cluster_model::objects::is_whole;
use serde_json::{Value, json};
use std::cmp::{Ordering, Reverse};
use std::time::{Duration, Instant};

/// Counters of a VMI at one time.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    /// Document of the subresource `stats`.
    pub(crate) stats: Value,
}

/// Columns of the table that come from the VMI.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Vmi {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Node of the VMI; empty if it has none.
    pub(crate) node: String,
    pub(crate) phase: String,
    /// Number of the guest's vCPUs.
    pub(crate) vcpus: u64,
}

/// Resource usage of a VMI per second; `None` for an unknown value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Usage {
    /// Number of host CPUs in use; 1.5 is one and a half.
    pub(crate) cpu: Option<f64>,
    /// Resident memory of QEMU in bytes.
    pub(crate) memory: Option<u64>,
    /// Memory of the domain in bytes.
    pub(crate) memory_limit: Option<u64>,
    /// Bytes read from disks and written to disks per second.
    pub(crate) disk: Option<(f64, f64)>,
    /// Bytes received and sent per second.
    pub(crate) network: Option<(f64, f64)>,
}

/// Row of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) vmi: Vmi,
    pub(crate) usage: Usage,
    /// Reason for missing usage.
    pub(crate) note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    Cpu,
    Memory,
    Disk,
    #[value(alias = "net")]
    Network,
    Name,
}

impl Vmi {
    /// The columns of a VMI object.
    pub(crate) fn from_object(object: &Value) -> Vmi {
        let text = |value: &Value| value.as_str().map(printable::line).unwrap_or_default();
        let cpu = &object["spec"]["domain"]["cpu"];
        let count = |field: &str| cpu[field].as_u64().filter(|count| *count > 0).unwrap_or(1);
        let vcpus = count("sockets").saturating_mul(count("cores")).saturating_mul(count("threads"));
        Vmi {
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
            node: text(&object["status"]["nodeName"]),
            phase: match is_whole(object) {
                true => text(&object["status"]["phase"]),
                false => "Unknown".to_owned(),
            },
            vcpus,
        }
    }
}

impl Usage {
    /// Usage between two readings. One reading alone gives no rates, nor do those of two different VMIs.
    pub(crate) fn between(before: Option<&Reading>, now: &Reading) -> Usage {
        let memory = |field: &str| now.stats["memory"][field].as_u64();
        let mut usage = Usage {
            memory: memory("resident").or_else(|| memory("balloon")),
            memory_limit: memory("domain").filter(|bytes| *bytes > 0),
            ..Usage::default()
        };
        let same = before.filter(|before| before.stats["metadata"]["uid"] == now.stats["metadata"]["uid"]);
        let Some(before) = same else { return usage };
        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
        if seconds <= 0.0 {
            return usage;
        }
        // A counter that has decreased was reset by a restart.
        let rate = |counter: &dyn Fn(&Value) -> u64| {
            counter(&now.stats).saturating_sub(counter(&before.stats)) as f64 / seconds
        };
        usage.cpu = Some(rate(&|stats| stats["cpuNanoseconds"].as_u64().unwrap_or_default()) / 1e9);
        let both = |devices: &str, one: &str, other: &str| {
            (rate(&|stats| sum(stats, devices, one)), rate(&|stats| sum(stats, devices, other)))
        };
        usage.disk = Some(both("disks", "readBytes", "writtenBytes"));
        usage.network = Some(both("interfaces", "receivedBytes", "sentBytes"));
        usage
    }
}

/// Sum of a counter over all devices.
fn sum(stats: &Value, devices: &str, field: &str) -> u64 {
    let all = stats[devices].as_object().into_iter().flatten();
    all.fold(0, |sum, (_, device)| sum.saturating_add(device[field].as_u64().unwrap_or_default()))
}

/// Sorts rows: highest usage first, then by name.
pub(crate) fn sort(rows: &mut [Row], by: Sort) {
    let both = |pair: Option<(f64, f64)>| pair.map_or(-1.0, |(one, other)| one + other);
    let by_use = |one: &Usage, other: &Usage| match by {
        Sort::Cpu => other.cpu.unwrap_or(-1.0).total_cmp(&one.cpu.unwrap_or(-1.0)),
        Sort::Memory => Reverse(one.memory).cmp(&Reverse(other.memory)),
        Sort::Disk => both(other.disk).total_cmp(&both(one.disk)),
        Sort::Network => both(other.network).total_cmp(&both(one.network)),
        Sort::Name => Ordering::Equal,
    };
    let name = |row: &Row| (row.vmi.namespace.clone(), row.vmi.name.clone());
    rows.sort_by(|one, other| by_use(&one.usage, &other.usage).then_with(|| name(one).cmp(&name(other))));
}

/// The table as text, with a column of namespaces if asked for.
pub(crate) fn table(rows: &[Row], with_namespaces: bool) -> String {
    let heads =
        ["NAMESPACE", "NAME", "VCPUS", "CPU", "MEMORY", "OF", "READ/S", "WRITE/S", "RX/S", "TX/S", "NODE"];
    let mut lines = vec![heads.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    let from = usize::from(!with_namespaces);
    let widths: Vec<usize> = (from..heads.len())
        .map(|i| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> =
            line[from..].iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

fn cells(row: &Row) -> [String; 11] {
    let Row { vmi, usage, note } = row;
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rate = |pair: Option<(f64, f64)>, one: bool| {
        known(pair.map(|(first, second)| human(if one { first } else { second } as u64)))
    };
    let last = match (note, vmi.phase.as_str()) {
        (Some(note), _) => note.clone(),
        (None, "Running") => vmi.node.clone(),
        (None, "") => "Pending".to_owned(),
        (None, phase) => phase.to_owned(),
    };
    [
        vmi.namespace.clone(),
        vmi.name.clone(),
        vmi.vcpus.to_string(),
        known(usage.cpu.map(|cpu| format!("{:.0}%", cpu * 100.0))),
        known(usage.memory.map(human)),
        known(usage.memory_limit.map(human)),
        rate(usage.disk, true),
        rate(usage.disk, false),
        rate(usage.network, true),
        rate(usage.network, false),
        last,
    ]
}

/// The table as JSON.
pub(crate) fn document(rows: &[Row], over: Duration) -> Value {
    let whole = |value: f64| value.round() as u64;
    let items: Vec<Value> = rows
        .iter()
        .map(|Row { vmi, usage, note }| {
            json!({
                "namespace": vmi.namespace,
                "name": vmi.name,
                "node": vmi.node,
                "phase": vmi.phase,
                "vcpus": vmi.vcpus,
                "cpu": usage.cpu.map(|cpu| (cpu * 1000.0).round() / 1000.0),
                "memoryBytes": usage.memory,
                "memoryLimitBytes": usage.memory_limit,
                "diskReadBytesPerSecond": usage.disk.map(|(read, _)| whole(read)),
                "diskWrittenBytesPerSecond": usage.disk.map(|(_, written)| whole(written)),
                "networkReceivedBytesPerSecond": usage.network.map(|(received, _)| whole(received)),
                "networkSentBytesPerSecond": usage.network.map(|(_, sent)| whole(sent)),
                "error": note,
            })
        })
        .collect();
    json!({"seconds": over.as_secs_f64(), "items": items})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(uid: &str, cpu: u64, read: u64, sent: u64) -> Value {
        json!({
            "metadata": {"uid": uid},
            "cpuNanoseconds": cpu,
            "memory": {"domain": 2048, "resident": 1024},
            "disks": {"a": {"readBytes": read, "writtenBytes": 0}, "b": {"readBytes": 1}},
            "interfaces": {"tap0": {"sentBytes": sent, "receivedBytes": 4}},
        })
    }

    fn after(seconds: u64, stats: Value) -> Reading {
        static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        Reading { at: *BEGAN.get_or_init(Instant::now) + Duration::from_secs(seconds), stats }
    }

    fn row(name: &str, cpu: f64, memory: u64) -> Row {
        let vmi = Vmi::from_object(&json!({
            "metadata": {"namespace": "blue", "name": name},
            "spec": {"domain": {"cpu": {"cores": 2, "sockets": 2}}},
            "status": {"phase": "Running", "nodeName": "n1"},
        }));
        let usage = Usage { cpu: Some(cpu), memory: Some(memory), ..Usage::default() };
        Row { vmi, usage, note: None }
    }

    #[test]
    fn two_readings_make_rates() {
        let (before, now) = (after(0, stats("u", 0, 100, 10)), after(4, stats("u", 6_000_000_000, 500, 50)));
        let usage = Usage::between(Some(&before), &now);
        assert_eq!(
            (usage.cpu, usage.disk, usage.network),
            (Some(1.5), Some((100.0, 0.0)), Some((0.0, 10.0)))
        );
        assert_eq!((usage.memory, usage.memory_limit), (Some(1024), Some(2048)));
    }

    #[test]
    fn one_reading_or_another_vmi_has_no_rates() {
        let now = after(4, stats("u", 9, 9, 9));
        for before in [None, Some(after(0, stats("v", 1, 1, 1))), Some(after(4, stats("u", 1, 1, 1)))] {
            let usage = Usage::between(before.as_ref(), &now);
            assert_eq!((usage.cpu, usage.disk, usage.memory), (None, None, Some(1024)));
        }
        let began_anew = Usage::between(Some(&after(0, stats("u", 99, 99, 99))), &now);
        assert_eq!((began_anew.cpu, began_anew.disk), (Some(0.0), Some((0.0, 0.0))));
        assert_eq!(Usage::between(None, &after(0, json!({"memory": {"balloon": 7}}))).memory, Some(7));
    }

    #[test]
    fn most_comes_first() {
        let mut rows = [row("b", 0.1, 5), row("a", 0.1, 6), row("c", 2.0, 1)];
        let mut names = |by| {
            sort(&mut rows, by);
            rows.iter().map(|row| row.vmi.name.clone()).collect::<String>()
        };
        assert_eq!(
            (names(Sort::Cpu), names(Sort::Memory), names(Sort::Name)),
            ("cab".into(), "abc".into(), "abc".into())
        );
    }

    #[test]
    fn a_table_says_a_dash_where_nothing_is_known() {
        let mut late = row("late", 0.0, 0);
        (late.usage, late.vmi.phase) = (Usage::default(), "Scheduling".to_owned());
        let rows = [row("web", 1.5, 1 << 30), late];
        let shown = table(&rows, false);
        let words = |line: usize| shown.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(words(0).first(), Some(&"NAME"));
        assert_eq!(words(1)[..3], ["web", "4", "150%"]);
        assert_eq!(words(1).last(), Some(&"n1"));
        assert_eq!(words(2), ["late", "4", "-", "-", "-", "-", "-", "-", "-", "Scheduling"]);
        assert!(table(&rows, true).starts_with("NAMESPACE"));
        let document = document(&rows, Duration::from_secs(2));
        assert_eq!((&document["items"][0]["cpu"], &document["items"][1]["cpu"]), (&json!(1.5), &Value::Null));
    }
}
