//! Nothing is silently ignored: every field of a VMI's spec changes the domain, or is refused by its name, or stands in
//! the list of those that belong to somebody else. What comes of it is written down in `docs/reference/vmi.md`;
//! `UPDATE_GOLDEN=1` writes it anew.

use crate::base::{base, check, set};
use crate::inventory::{Inventory, Kind};
use api::fault::Reason;
use api::machine::network::Plugin;
use api::machine::non_domain::NON_DOMAIN_FIELDS;
use api::machine::refused::{REFUSED, bare};
use api::machine::{Binding, Settings, Site, refused};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What becomes of a field.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It changes the domain.
    Supported,
    /// It is refused, by this name and for this reason.
    Refused(String, String),
    /// It can have this value only.
    Fixed(&'static str),
    /// It belongs to somebody else.
    Left(&'static str),
}

/// `judged.txt`: sections of lines, each a field and what is said of it; and the fields that are left to others.
struct Tables(BTreeMap<&'static str, Vec<(&'static str, &'static str)>>);

impl Tables {
    fn read() -> Tables {
        let left = NON_DOMAIN_FIELDS.iter().map(|(field, whose)| (*field, whose.name())).collect();
        let mut tables = Tables(BTreeMap::from([("left", left)]));
        let mut section = "";
        for line in include_str!("judged.txt").lines() {
            if let Some(title) = line.strip_prefix("## ") {
                section = title.split(':').next().unwrap();
            } else if !line.is_empty() && !line.starts_with('#') {
                let separator = if section == "fixed" { " = " } else { " |" };
                let (field, rest) = line.split_once(separator).unwrap_or_else(|| panic!("{line}"));
                tables.0.entry(section).or_default().push((field, rest.trim()));
            }
        }
        tables
    }

    /// What is said of `leaf`: under its own name, else under the longest beginning of it.
    fn of(&self, section: &str, leaf: &str) -> Option<(&'static str, &'static str)> {
        let matching = self.0[section].iter().filter(|(field, _)| *field == leaf || begins(leaf, field));
        matching.max_by_key(|(field, _)| field.len()).copied()
    }

    fn changes(&self, section: &str, leaf: &str) -> Option<Vec<(&'static str, Value)>> {
        let (_, changes) = self.of(section, leaf)?;
        let read = |change: &'static str| {
            let (path, value) = change.split_once(" = ").unwrap();
            (path.trim(), serde_json::from_str(value).unwrap_or_else(|error| panic!("{change}: {error}")))
        };
        Some(changes.split(" | ").filter(|change| !change.is_empty()).map(read).collect())
    }
}

/// Whether `field` names something that `leaf` is part of.
pub(crate) fn begins(leaf: &str, field: &str) -> bool {
    leaf.strip_prefix(field).is_some_and(|rest| field.ends_with('.') || rest.starts_with(['.', '[']))
}

#[test]
fn every_field_is_supported_or_refused_or_somebody_elses() {
    let tables = Tables::read();
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    for (leaf, sample) in leaves() {
        for site in [Site::Laptop, Site::Cluster] {
            match judge(&leaf, &sample, &tables, site) {
                Ok(Verdict::Left(_)) => used.extend(tables.of("left", &leaf).map(|(field, _)| field)),
                // An entry that a hint of the check hides is one too many.
                Ok(Verdict::Refused(field, reason)) => {
                    let entry = refused::entry(&field).filter(|(_, why)| *why == reason);
                    used.extend(entry.map(|(field, _)| *field));
                }
                Ok(_) => {}
                Err(problem) => problems.push(format!("{leaf}: {problem}")),
            }
        }
    }
    let lists = tables.0["left"].iter().chain(REFUSED);
    let stale = lists.filter(|(field, _)| !used.contains(field));
    problems.extend(stale.map(|(field, _)| format!("{field} is in the list for nothing")));
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn the_document_says_what_is() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/vmi.md");
    let expected = document();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/reference/vmi.md is not what the check does: UPDATE_GOLDEN=1 writes it anew"
    );
}

/// What a site permits where every gate is open.
fn settings(site: Site) -> Settings {
    let mut settings = Settings::of_laptop();
    settings.site = site;
    for (name, attachment) in [("one", Binding::Tap), ("other", Binding::ManagedTap)] {
        let plugin = Plugin { name: name.into(), attachment: Some(attachment), ..Plugin::default() };
        settings.plugins.insert(name.into(), plugin);
    }
    settings
}

fn judge(leaf: &str, sample: &Value, tables: &Tables, site: Site) -> Result<Verdict, String> {
    let settings = settings(site);
    let mut object = base();
    for (path, value) in tables.changes("before", leaf).unwrap_or_default() {
        set(&mut object, path, value);
    }
    let before = check(&object, &settings);
    let own = || vec![(format!("spec.{}", leaf.replace("[]", "[0]")), sample.clone())];
    let changes = match tables.changes("with", leaf) {
        Some(changes) => changes.into_iter().map(|(path, value)| (path.to_owned(), value)).collect(),
        None => own(),
    };
    for (path, value) in changes {
        set(&mut object, &path, value);
    }
    let after = match check(&object, &settings) {
        Ok(after) => after,
        Err(faults) => {
            let fixed = tables.0["fixed"].iter().find(|(field, _)| *field == leaf);
            if let Some((_, value)) = fixed
                && faults.iter().all(|fault| below_spec(&fault.field) == leaf)
            {
                return Ok(Verdict::Fixed(value));
            }
            let refusal = faults.iter().find_map(|fault| {
                let field = below_spec(&fault.field);
                let named = field == leaf || begins(leaf, &field);
                // What upstream has given up is wrong for it, and not something that may come.
                let is_refused =
                    fault.reason == Reason::NotSupported || fault.message.contains("has been discontinued");
                (is_refused && named).then_some((field, fault.hint.clone()))
            });
            let (field, hint) = refusal.ok_or(format!("has other faults: {faults:?}"))?;
            let reason = hint.or_else(|| refused::entry(&field).map(|(_, why)| (*why).to_owned()));
            let reason =
                reason.ok_or(format!("{field} is refused without a reason: add it to machine/refused.rs"))?;
            return Ok(Verdict::Refused(field, reason));
        }
    };
    let before = before.map_err(|faults| format!("what must be there has faults: {faults:?}"))?;
    match (before == after, tables.of("left", leaf)) {
        (true, Some((_, whose))) => Ok(Verdict::Left(whose)),
        (true, None) => Err("is silently ignored".to_owned()),
        (false, None) => Ok(Verdict::Supported),
        (false, Some(_)) => Err("is in the list and changes the domain".to_owned()),
    }
}

/// `spec.volumes[1].name` as `volumes[].name`.
fn below_spec(field: &str) -> String {
    bare(field.trim_start_matches("spec."))
}

/// Every field that holds no other, with a sample of what it holds.
pub(crate) fn leaves() -> Vec<(String, Value)> {
    let inventory = Inventory::read();
    let mut leaves = Vec::new();
    walk(&inventory, "VirtualMachineInstanceSpec", "", &mut leaves);
    assert!(leaves.len() > 250, "{}", leaves.len());
    leaves
}

pub(crate) fn walk(inventory: &Inventory, name: &str, at: &str, leaves: &mut Vec<(String, Value)>) {
    for field in inventory.fields(name) {
        let here = format!("{at}{}", field.name);
        let (inner, here) = match &field.kind {
            Kind::Struct(inner) => (Some(inner), here),
            Kind::List(item) => match &**item {
                Kind::Struct(inner) => (Some(inner), format!("{here}[]")),
                _ => (None, here),
            },
            _ => (None, here),
        };
        match inner.filter(|inner| !inventory.fields(inner).is_empty()) {
            Some(inner) => walk(inventory, inner, &format!("{here}."), leaves),
            None if inner.is_some() => leaves.push((here, json!({}))),
            None => leaves.push((here, inventory.value(&field.kind))),
        }
    }
}

/// Every field, with what becomes of it on a laptop and in a cluster.
pub(crate) fn verdicts() -> Vec<(String, Verdict, Verdict)> {
    let tables = Tables::read();
    let judged = |(leaf, sample): (String, Value)| {
        let at =
            |site| judge(&leaf, &sample, &tables, site).unwrap_or_else(|problem| panic!("{leaf}: {problem}"));
        let (laptop, cluster) = (at(Site::Laptop), at(Site::Cluster));
        (leaf, laptop, cluster)
    };
    leaves().into_iter().map(judged).collect()
}

/// The fields by the struct that they stand in, in the order of the inventory.
fn document() -> String {
    let mut rows = Rows::default();
    let mut refusals = BTreeMap::new();
    for (leaf, laptop, cluster) in verdicts() {
        let column = match (&laptop, &cluster) {
            (Verdict::Refused(..), Verdict::Refused(..)) => EVERYWHERE,
            (Verdict::Refused(..), _) => ON_A_LAPTOP,
            _ => IN_A_CLUSTER,
        };
        for verdict in [&laptop, &cluster] {
            if let Verdict::Refused(field, reason) = verdict
                && refusals.insert(field.clone(), reason.clone()).is_none()
            {
                rows.put(column, field, "");
            }
        }
        match (&laptop, &cluster) {
            (Verdict::Refused(..), Verdict::Left(_)) => panic!("{leaf}: {cluster:?} in a cluster"),
            (Verdict::Refused(..), verdict) | (verdict, _) => match verdict {
                Verdict::Supported => rows.put(SHAPES, &leaf, ""),
                Verdict::Fixed(value) => rows.put(SHAPES, &leaf, &format!(" (`{value}`)")),
                Verdict::Left(whose) => rows.put(LEFT_TO, &leaf, &format!(" ({whose})")),
                Verdict::Refused(..) => {}
            },
        }
    }
    let mut text = String::from(HEAD);
    for (parent, columns) in rows.0 {
        let columns = columns.map(|names| names.join(", "));
        writeln!(text, "| `{parent}` | {} |", columns.join(" | ")).unwrap();
    }
    text.push_str(REASONS);
    for (field, reason) in refusals {
        writeln!(text, "| `spec.{field}` | {reason} |").unwrap();
    }
    text
}

/// The columns of the table.
const SHAPES: usize = 0;
const EVERYWHERE: usize = 1;
const IN_A_CLUSTER: usize = 2;
const ON_A_LAPTOP: usize = 3;
const LEFT_TO: usize = 4;

/// By struct, what stands in each column.
#[derive(Default)]
struct Rows(Vec<(String, [Vec<String>; 5])>);

impl Rows {
    fn put(&mut self, column: usize, field: &str, note: &str) {
        let (parent, name) = field
            .rsplit_once('.')
            .map_or(("spec".to_owned(), field), |(parent, name)| (format!("spec.{parent}"), name));
        if self.0.iter().all(|(row, _)| *row != parent) {
            self.0.push((parent.clone(), Default::default()));
        }
        let row = self.0.iter_mut().find(|(row, _)| *row == parent).unwrap();
        row.1[column].push(format!("`{name}`{note}"));
    }
}

const HEAD: &str = "# What becomes of each field of a VirtualMachineInstance

Every field of `spec` is one of three: it shapes the domain; it is refused by its name, because it is not supported yet
or never will be; or it belongs to somebody else (the pod, the scheduler, the cluster, the defaults, the device) and does
not reach the domain. What a cluster does not do yet and `coracle run` does, or tells in a warning that it belongs to a
cluster, a cluster refuses by its name; what needs a cluster, `coracle run` refuses. Nothing is silently ignored, and a
field that is not in this table is told as unknown.

`coracle run` warns of each field that is left to somebody who is not there. `cdrom.readonly: false` is accepted with a
warning, since a CD-ROM drive only reads, and so is a guest with more memory than `resources.limits.memory`, unless
`vmRolloutStrategy` of the KubeVirt object is `Stage`: then it is refused. The annotation
`hooks.kubevirt.io/hookSidecars` [changes the domain](../how-to/hooks.md) in a cluster and is refused by `coracle run`;
`kubevirt.io/ignitiondata` is refused.

An emulated guest has what KVM alone can do in no case: `features.hyperv`, `features.hypervPassthrough` and `clock.timer.hyperv` are
left out there, and `coracle run` says so ([windows.md](../how-to/windows.md#enlightenments)).

A test writes this table from what the check does with each field, and fails when the two differ.

| in | shapes the domain | refused | refused in a cluster | refused by `coracle run` | left to others |
|---|---|---|---|---|---|
";

const REASONS: &str = "
## Why fields are refused

The answer names the field and says the reason, but where the words are those of KubeVirt.

| field | reason, or what to do |
|---|---|
";
