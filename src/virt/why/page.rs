//! Layout of the page of `why`.

use super::event::{Event, table};
use super::finding::{find, strategy};
use super::{Facts, Finding, Volume};
use crate::virt::json::{Condition, age, condition, conditions, list, name, text};
use cluster_model::objects::Kind;
use jiff::{Timestamp, Unit};
use serde_json::Value;

/// Maximum number of events; the verb `events` shows all.
const EVENTS: usize = 12;
/// Maximum number of migrations, the newest ones.
const MIGRATIONS: usize = 3;
/// Column at which long lines are wrapped.
const WIDTH: usize = 100;

/// The page about a VM. `program` is the name of the command in its hints.
pub(crate) fn page(facts: &Facts, program: &str, now: Timestamp) -> String {
    let all = format!("{program} events {} -n {}", facts.name, facts.namespace);
    let events = with_earlier_migrations_named(facts);
    let parts = Parts { rows: objects(facts, now), unread: &facts.unread, events: &events, all };
    written(find(facts, now), &parts, program, now)
}

/// The events. A migration of an update of volumes has the name of earlier ones, so those are told apart.
fn with_earlier_migrations_named(facts: &Facts) -> Vec<Event> {
    let mut events = facts.events.clone();
    for event in events.iter_mut().filter(|event| event.kind == Kind::VirtualMachineInstanceMigration) {
        if facts.migration(&event.name).is_some_and(|migration| event.is_of_earlier(migration)) {
            event.name += " (an earlier one)";
        }
    }
    events
}

/// Contents of the page below the finding.
pub(super) struct Parts<'a> {
    /// A row for each object, and rows with its conditions below it.
    pub(super) rows: Vec<[String; 3]>,
    pub(super) unread: &'a [String],
    /// Events below the objects, newest first.
    pub(super) events: &'a [Event],
    /// Command that shows all events.
    pub(super) all: String,
}

/// The page about a VM, a disk or a group.
pub(super) fn written(finding: Finding, parts: &Parts<'_>, program: &str, now: Timestamp) -> String {
    let Finding { says, since, quotes, advice } = finding;
    let mut page = Page(String::new());
    page.wrapped("", &format!("{}.", says.trim_end_matches('.')));
    if let Some(since) = since {
        // Some components report microseconds.
        let second = since.round(Unit::Second).unwrap_or(since);
        page.line(&format!("Since {second}, for {}.", age(now, since)));
    }
    if !quotes.is_empty() {
        page.head("In the words of");
        for words in &quotes {
            page.line(&format!("  {}:", words.source));
            page.wrapped("    ", &words.text);
        }
    }
    if !advice.is_empty() {
        page.head("What to do");
        for advice in &advice {
            let advice = advice.replace("$virt", program);
            let mut lines = advice.lines();
            page.wrapped("  - ", lines.next().unwrap_or_default());
            // A command that is to be copied.
            lines.for_each(|line| page.line(&format!("    {line}")));
        }
    }
    page.head("Objects");
    page.rows(&parts.rows);
    if !parts.unread.is_empty() {
        page.head("Not read");
        for unread in parts.unread {
            page.wrapped("  - ", unread);
        }
    }
    if parts.events.is_empty() {
        page.head("No events");
    } else {
        page.head("Events, newest first");
        page.0 += &table(parts.events, EVENTS, now);
        if parts.events.len() > EVENTS {
            page.line(&format!("All of them: {}", parts.all));
        }
    }
    page.0
}

struct Page(String);

impl Page {
    /// Adds a line. Users of the namespace choose some of these texts, so control characters are escaped.
    fn line(&mut self, text: &str) {
        self.0 += &printable::line(text);
        self.0.push('\n');
    }

    fn head(&mut self, text: &str) {
        self.0.push('\n');
        self.line(text);
    }

    /// Adds a text, wrapped. The first line begins with `lead`, the others are indented by its width.
    fn wrapped(&mut self, lead: &str, text: &str) {
        let text = printable::line(text);
        let below = " ".repeat(lead.chars().count());
        let mut line = lead.to_owned();
        let mut is_begun = false;
        for word in text.split_whitespace() {
            if is_begun && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.line(&line);
                line.clone_from(&below);
                is_begun = false;
            }
            if is_begun {
                line.push(' ');
            }
            line += word;
            is_begun = true;
        }
        self.line(&line);
    }

    fn rows(&mut self, rows: &[[String; 3]]) {
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let (kinds, names) = (width(0), width(1));
        for [kind, name, state] in rows {
            self.line(format!("  {kind:kinds$}  {name:names$}  {state}").trim_end());
        }
    }
}

pub(super) fn row(kind: &str, name: &str, state: impl Into<String>) -> [String; 3] {
    [kind.to_owned(), name.to_owned(), state.into()]
}

/// A row for each object, and rows with its conditions below it.
fn objects(facts: &Facts, now: Timestamp) -> Vec<[String; 3]> {
    let mut rows = Vec::new();
    match &facts.vm {
        Some(vm) => {
            let printed = text(vm, "/status/printableStatus").unwrap_or("no status");
            rows.push(row("VM", &facts.name, format!("{printed}, run strategy {}", strategy(vm))));
            rows.extend(troubles_of(facts, vm, now));
        }
        None => rows.push(row("VM", &facts.name, "none: the VMI has no VM, or the VM cannot be read")),
    }
    match &facts.vmi {
        Some(vmi) => {
            let phase = text(vmi, "/status/phase").unwrap_or("no phase");
            let node =
                text(vmi, "/status/nodeName").map_or_else(String::new, |node| format!(" on node {node}"));
            let what = if facts.has_carrier() { ", without a guest: it moves the disks" } else { "" };
            rows.push(row("VMI", &facts.name, format!("{phase}{node}{what}")));
            rows.extend(troubles_of(facts, vmi, now));
        }
        None => rows.push(row("VMI", &facts.name, "none")),
    }
    for migration in facts.migrations.iter().take(MIGRATIONS) {
        let phase = text(migration, "/status/phase").unwrap_or("no phase");
        let goes =
            if text(migration, "/metadata/deletionTimestamp").is_some() { ", being deleted" } else { "" };
        let why = text(migration, "/status/migrationState/failureReason")
            .map_or_else(String::new, |why| format!(": {why}"));
        rows.push(row("Migration", name(migration), format!("{phase}{goes}{why}")));
        rows.extend(troubles(migration, now));
    }
    for pod in &facts.pods {
        let phase = text(pod, "/status/phase").unwrap_or("no phase");
        let goes = if text(pod, "/metadata/deletionTimestamp").is_some() { ", being deleted" } else { "" };
        rows.push(row("Pod", name(pod), format!("{phase}{goes}")));
        rows.extend(containers(pod));
    }
    for volume in &facts.volumes {
        rows.extend(of_volume(volume));
    }
    if let Some(node) = &facts.node {
        let ready = match condition(node, "Ready", "True") {
            Some(_) => "ready".to_owned(),
            None => "not ready".to_owned(),
        };
        let closed = node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true);
        rows.push(row(
            "Node",
            name(node),
            ready + if closed { ", takes no new pods (cordoned)" } else { "" },
        ));
    }
    rows
}

/// The same as [`troubles()`]. A VMI without a guest is paused and not ready from its begin to its end.
fn troubles_of(facts: &Facts, object: &Value, now: Timestamp) -> Vec<[String; 3]> {
    let mut rows = troubles(object, now);
    if facts.has_carrier() {
        rows.retain(|[_, _, text]| !text.starts_with("Paused is") && !text.starts_with("Ready is"));
    }
    rows
}

/// Rows for conditions that report a fault, or that the user should know.
pub(super) fn troubles(object: &Value, now: Timestamp) -> Vec<[String; 3]> {
    const GOOD: [&str; 12] = [
        "Ready",
        "Bound",
        "Running",
        "UpToDate",
        "Synchronized",
        "PodScheduled",
        "DataVolumesReady",
        "AgentConnected",
        "LiveMigratable",
        "StorageLiveMigratable",
        "AccessCredentialsSynchronized",
        "Initialized",
    ];
    // A guest runs without an agent, and without being migratable.
    const HARMLESS: [&str; 3] = ["AgentConnected", "LiveMigratable", "StorageLiveMigratable"];
    let is_trouble = |one: &Condition<'_>| match GOOD.contains(&one.kind) {
        true => one.status != "True" && !HARMLESS.contains(&one.kind),
        false => one.status == "True",
    };
    let found = conditions(object).filter(is_trouble).map(|one| {
        let since = one.since.map_or_else(String::new, |since| format!(", for {}", age(now, since)));
        let reason = if one.reason.is_empty() { String::new() } else { format!(" ({})", one.reason) };
        let message = if one.message.is_empty() { String::new() } else { format!(": {}", one.message) };
        row("", "", format!("{} is {}{reason}{since}{message}", one.kind, one.status))
    });
    found.collect()
}

pub(super) fn containers(pod: &Value) -> Vec<[String; 3]> {
    let all = list(pod, "/status/initContainerStatuses").chain(list(pod, "/status/containerStatuses"));
    let shown = all.filter_map(|container| {
        let state = if let Some(waiting) = container.pointer("/state/waiting") {
            let message =
                text(waiting, "/message").map_or_else(String::new, |message| format!(": {message}"));
            format!("waits, {}{message}", text(waiting, "/reason").unwrap_or("no reason given"))
        } else if let Some(ended) = container.pointer("/state/terminated") {
            let code = ended.get("exitCode").and_then(Value::as_i64).filter(|code| *code != 0)?;
            format!("ended with exit code {code}, {}", text(ended, "/reason").unwrap_or("Error"))
        } else {
            return None;
        };
        Some(row("", "", format!("container {} {state}", text(container, "/name").unwrap_or("?"))))
    });
    shown.collect()
}

fn of_volume(volume: &Volume) -> Vec<[String; 3]> {
    let mut rows = Vec::new();
    if let Some(data_volume) = &volume.data_volume {
        let phase = text(data_volume, "/status/phase").unwrap_or("no phase");
        let progress = text(data_volume, "/status/progress").filter(|progress| *progress != "N/A");
        let progress = progress.map_or_else(String::new, |progress| format!(", {progress}"));
        rows.push(row("DataVolume", &volume.claim, format!("{phase}{progress}")));
    }
    let state = match (&volume.pvc, volume.is_known) {
        (Some(pvc), _) => {
            let phase = text(pvc, "/status/phase").unwrap_or("no phase");
            let class = text(pvc, "/spec/storageClassName");
            phase.to_owned() + &class.map_or_else(String::new, |class| format!(", storage class {class}"))
        }
        (None, true) => "does not exist".to_owned(),
        (None, false) => "could not be read".to_owned(),
    };
    rows.push(row("PVC", &volume.claim, format!("{state} (volume {})", volume.name)));
    rows
}
