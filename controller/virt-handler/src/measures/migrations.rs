//! Progress of live migrations away from this node, and bytes of the connections of migrations to it and away from it.
//!
//! ```text
//!  the source's launcher ─ once in a second ─► progress ┐
//!  SourceSockets, TargetPorts ──────────────► counters ─┴─► a sample for each VMI, until [`KEPT`] after its end
//! ```
//!
//! Most migrations end within the time between two scrapes, so the last numbers stay for a while.

use super::Entry;
use crate::migration::StreamBytes;
use api::launcher::{MigrationPhase, MigrationProgress, State};
use api::meta::ObjectMeta;
use cluster_client::metrics::Page;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time for which the numbers of a migration that has ended stay: two scrapes of Prometheus, as it is usually installed.
const KEPT: Duration = Duration::from_secs(90);
/// Most VMIs: those that migrated last.
const MOST: usize = 1024;

/// Namespace and name of a VMI.
type Name = (String, String);

/// The migrations of this node.
#[derive(Debug, Default)]
struct Migrations(BTreeMap<Name, Record>);

/// The last migration of a VMI.
#[derive(Debug, Default)]
struct Record {
    /// UID of the migration that the launcher tells, and its last numbers.
    progress: Option<(String, MigrationProgress)>,
    /// True while the launcher migrates its VM.
    is_open: bool,
    streams: Option<Arc<StreamBytes>>,
    /// Time of the last look at a migration that had not ended.
    seen: Option<Instant>,
}

/// Numbers of one migration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MigrationSample {
    namespace: String,
    name: String,
    progress: Option<MigrationProgress>,
    /// Bytes sent and received.
    streams: Option<(u64, u64)>,
}

static MIGRATIONS: Mutex<Migrations> = Mutex::new(Migrations(BTreeMap::new()));

/// Takes the migration that a launcher tells, if it does.
pub(crate) fn observe_migration(vmi: &ObjectMeta, state: &State) {
    with(|migrations| migrations.take(name(vmi), state, Instant::now()));
}

/// Takes the counters of the connections of a migration.
pub(crate) fn observe_streams(vmi: &ObjectMeta, bytes: &Arc<StreamBytes>) {
    with(|migrations| {
        let record = migrations.record(name(vmi), Instant::now());
        record.streams = Some(Arc::clone(bytes));
    });
}

/// Numbers of all migrations. `listed`: launchers that are connected.
pub(super) fn samples(listed: &[Entry]) -> Vec<MigrationSample> {
    with(|migrations| migrations.samples(listed, Instant::now()))
}

fn with<T>(work: impl FnOnce(&mut Migrations) -> T) -> T {
    work(&mut MIGRATIONS.lock().unwrap_or_else(PoisonError::into_inner))
}

fn name(vmi: &ObjectMeta) -> Name {
    (vmi.namespace.clone().unwrap_or_default(), vmi.name.clone().unwrap_or_default())
}

impl Migrations {
    fn take(&mut self, name: Name, state: &State, now: Instant) {
        let Some(told) = &state.migration else { return };
        let is_open = matches!(told.phase, MigrationPhase::Running | MigrationPhase::Aborting);
        let is_known = |record: &Record| {
            record.is_open && record.progress.as_ref().is_some_and(|(id, _)| *id == told.id)
        };
        // A launcher tells of its last migration for ever.
        if !is_open && !self.0.get(&name).is_some_and(is_known) {
            return;
        }
        let record = self.record(name, now);
        record.is_open = is_open;
        if told.progress.total > 0 {
            record.progress = Some((told.id.clone(), told.progress));
        } else if record.progress.as_ref().is_none_or(|(id, _)| *id != told.id) {
            record.progress = Some((told.id.clone(), MigrationProgress::default()));
        }
    }

    /// The record of a VMI that migrates now.
    fn record(&mut self, name: Name, now: Instant) -> &mut Record {
        if self.0.len() >= MOST && !self.0.contains_key(&name) {
            let oldest = self.0.iter().min_by_key(|(_, record)| record.seen).map(|(name, _)| name.clone());
            oldest.into_iter().for_each(|name| drop(self.0.remove(&name)));
        }
        let record = self.0.entry(name).or_default();
        record.seen = Some(now);
        record
    }

    fn samples(&mut self, listed: &[Entry], now: Instant) -> Vec<MigrationSample> {
        let is_listed =
            |name: &Name| listed.iter().any(|entry| (&entry.namespace, &entry.name) == (&name.0, &name.1));
        self.0.retain(|name, record| {
            // Its connections have the other reference.
            let has_streams = record.streams.as_ref().is_some_and(|bytes| Arc::strong_count(bytes) > 1);
            if record.is_open && is_listed(name) || has_streams {
                record.seen = Some(now);
            }
            record.seen.is_some_and(|seen| now.saturating_duration_since(seen) < KEPT)
        });
        let samples = self.0.iter().map(|((namespace, name), record)| MigrationSample {
            namespace: namespace.clone(),
            name: name.clone(),
            // There are no numbers while the target prepares.
            progress: record.progress.as_ref().map(|(_, told)| *told).filter(|told| told.total > 0),
            streams: record.streams.as_ref().map(|bytes| (bytes.sent(), bytes.received())),
        });
        samples.collect()
    }
}

type Metric = (&'static str, fn(&MigrationProgress) -> u64);

const PROGRESS: [Metric; 6] = [
    ("kubevirt_vmi_migration_data_bytes_total", |told| told.total),
    ("kubevirt_vmi_migration_data_processed_bytes", |told| told.processed),
    ("kubevirt_vmi_migration_data_remaining_bytes", |told| told.remaining),
    ("kubevirt_vmi_migration_dirty_memory_rate_bytes", |told| told.dirty_bytes_per_second),
    ("kubevirt_vmi_migration_memory_transfer_rate_bytes", |told| told.bytes_per_second),
    ("kubevirt_vmi_migration_disk_transfer_rate_bytes", |told| told.bytes_per_second),
];

pub(super) fn write(page: &mut Page, node: &str, all: &[MigrationSample]) {
    for (metric, value) in PROGRESS {
        let mut family = page.family(metric);
        for MigrationSample { namespace, name, progress, .. } in all {
            if let Some(progress) = progress {
                let labels = [("node", node), ("namespace", namespace), ("name", name)];
                family.sample(&labels, value(progress) as f64);
            }
        }
    }
    let mut family = page.family("coracle_vmi_migration_stream_bytes_total");
    for MigrationSample { namespace, name, streams, .. } in all {
        let Some((sent, received)) = streams else { continue };
        for (direction, bytes) in [("sent", *sent), ("received", *received)] {
            let labels = [("node", node), ("namespace", namespace), ("name", name), ("direction", direction)];
            family.sample(&labels, bytes as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::entry;
    use api::launcher::Migration;

    fn telling(id: &str, phase: MigrationPhase, remaining: u64) -> State {
        let progress = MigrationProgress {
            total: 100,
            processed: 70,
            remaining,
            bytes_per_second: 5,
            dirty_bytes_per_second: 3,
            ..MigrationProgress::default()
        };
        let migration = Migration { id: id.into(), phase, progress, ..Migration::default() };
        State { migration: Some(migration), ..State::default() }
    }

    fn web() -> Name {
        ("n".into(), "web".into())
    }

    fn remaining(samples: &[MigrationSample]) -> Vec<Option<u64>> {
        samples.iter().map(|sample| sample.progress.map(|told| told.remaining)).collect()
    }

    #[test]
    fn a_migration_is_told_while_it_goes_on_and_for_a_while_behind_its_end() {
        let (mut all, begin) = (Migrations::default(), Instant::now());
        let after = |seconds| begin + Duration::from_secs(seconds);
        let listed = [entry("web")];
        all.take(web(), &telling("m", MigrationPhase::Running, 50), begin);
        // Nothing has changed for long: its target waits for its storage.
        for seconds in [60, 120, 300] {
            assert_eq!(remaining(&all.samples(&listed, after(seconds))), [Some(50)]);
        }
        all.take(web(), &telling("m", MigrationPhase::Failed, 20), after(310));
        // The launcher tells of it with each other change of its state.
        all.take(web(), &telling("m", MigrationPhase::Failed, 20), after(390));
        assert_eq!(remaining(&all.samples(&listed, after(399))), [Some(20)]);
        assert_eq!(all.samples(&listed, after(400)), []);
        assert!(all.0.is_empty());
        all.take(web(), &telling("m", MigrationPhase::Failed, 20), after(401));
        assert_eq!(all.samples(&listed, after(402)), [], "it ended long ago, or before this program began");
    }

    #[test]
    fn a_migration_whose_launcher_has_gone_is_told_for_a_while() {
        let (mut all, begin) = (Migrations::default(), Instant::now());
        all.take(web(), &telling("m", MigrationPhase::Running, 50), begin);
        assert_eq!(all.samples(&[], begin + KEPT / 2).len(), 1);
        assert_eq!(all.samples(&[], begin + KEPT), []);
    }

    #[test]
    fn connections_are_counted_until_a_while_behind_their_end() {
        let (mut all, begin) = (Migrations::default(), Instant::now());
        let bytes = Arc::<StreamBytes>::default();
        all.record(web(), begin).streams = Some(Arc::clone(&bytes));
        let open = all.samples(&[], begin + 10 * KEPT);
        assert_eq!((open[0].streams, open[0].progress), (Some((0, 0)), None), "the target has no progress");
        drop(bytes);
        assert_eq!(all.samples(&[], begin + 10 * KEPT + KEPT / 2).len(), 1);
        assert_eq!(all.samples(&[], begin + 11 * KEPT), []);
    }

    #[test]
    fn the_vmis_that_migrated_last_are_told() {
        let (mut all, begin) = (Migrations::default(), Instant::now());
        for number in 0..=MOST {
            let name = ("n".to_owned(), number.to_string());
            all.take(
                name,
                &telling("m", MigrationPhase::Running, 1),
                begin + Duration::from_millis(number as u64),
            );
        }
        assert_eq!(all.0.len(), MOST);
        assert!(!all.0.contains_key(&("n".to_owned(), "0".to_owned())));
    }

    #[test]
    fn progress_and_connections_have_upstreams_names_and_our_own() {
        let (mut all, begin) = (Migrations::default(), Instant::now());
        all.take(web(), &telling("m", MigrationPhase::Running, 50), begin);
        let mut samples = all.samples(&[entry("web")], begin);
        samples[0].streams = Some((7, 9));
        let mut page = Page::default();
        write(&mut page, "node1", &samples);
        let text = page.text();
        let of = "node=\"node1\",namespace=\"n\",name=\"web\"";
        for line in [
            format!("kubevirt_vmi_migration_data_bytes_total{{{of}}} 100"),
            format!("kubevirt_vmi_migration_data_processed_bytes{{{of}}} 70"),
            format!("kubevirt_vmi_migration_data_remaining_bytes{{{of}}} 50"),
            format!("kubevirt_vmi_migration_dirty_memory_rate_bytes{{{of}}} 3"),
            format!("kubevirt_vmi_migration_memory_transfer_rate_bytes{{{of}}} 5"),
            format!("kubevirt_vmi_migration_disk_transfer_rate_bytes{{{of}}} 5"),
            format!("coracle_vmi_migration_stream_bytes_total{{{of},direction=\"sent\"}} 7"),
            format!("coracle_vmi_migration_stream_bytes_total{{{of},direction=\"received\"}} 9"),
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }
}
