//! What virt-handler measures: what the VMIs of its node use, asked of their launchers when somebody asks us.
//!
//! ```text
//!  keepers ──► launchers ── all at once, each within its time ──► stats ──► the page
//! ```
//!
//! A launcher is a tenant's: one that does not answer is left out, and costs the others nothing; of one that says much, no
//! more is told than a VMI can have, and by no name that its spec has not: names of measures are kept for ever.

use super::bounds;
use super::launchers::{Entry, Launchers, Names};
use api::launcher::{DiskStats, InterfaceStats, MemoryStats, Stats};
use api_server::metrics::{Is, Page};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Disks, and interfaces, of a VMI.
const MOST: usize = 256;
/// How long a launcher may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// VMIs whose launchers took them, since this program runs.
static SYNCS: AtomicU64 = AtomicU64::new(0);

/// A launcher was handed its VMI.
pub(crate) fn synced() {
    SYNCS.fetch_add(1, Ordering::Relaxed);
}

/// What each VMI uses, of those whose launchers say it in time.
async fn ask(launchers: &Launchers) -> Vec<Used> {
    let mut asked = JoinSet::new();
    for entry in launchers.all() {
        asked.spawn(async move {
            let stats = tokio::time::timeout(PATIENCE, entry.client.stats()).await;
            Some(Used { stats: bounded(stats.ok()?.ok()?), entry })
        });
    }
    let mut used: Vec<Used> = asked.join_all().await.into_iter().flatten().collect();
    used.sort_by(|one, other| {
        (&one.entry.namespace, &one.entry.name).cmp(&(&other.entry.namespace, &other.entry.name))
    });
    used
}

/// What a VMI uses.
#[derive(Debug)]
struct Used {
    entry: Entry,
    stats: Stats,
}

/// No more devices than a VMI can have, each with a name that is one.
fn bounded(mut stats: Stats) -> Stats {
    fn bound<T>(all: &mut BTreeMap<String, T>) {
        all.retain(|name, _| bounds::is_device(name));
        while all.len() > MOST {
            all.pop_last();
        }
    }
    bound(&mut stats.disks);
    bound(&mut stats.interfaces);
    stats
}

/// The page of a node's virt-handler.
pub(crate) async fn page(node: &str, launchers: &Launchers) -> String {
    page_of(node, &ask(launchers).await)
}

fn page_of(node: &str, all: &[Used]) -> String {
    let mut page = Page::default();
    let version = env!("CARGO_PKG_VERSION");
    page.family("kubevirt_info", Is::Gauge, "The version.").is(&[("kubeversion", version)], 1.0);
    let syncs = SYNCS.load(Ordering::Relaxed) as f64;
    page.family("kubevirt_vmi_sync_total", Is::Counter, "VMIs that were handed to their launchers.")
        .is(&[("node", node)], syncs);
    page.requests();

    let name = "kubevirt_vmi_cpu_usage_seconds_total";
    let mut family = page.family(name, Is::Counter, "CPU time of a VMI, in seconds.");
    for used in all {
        family.is(&used.names(node), used.stats.cpu_ns as f64 / 1e9);
    }
    for (name, is, help, value) in MEMORY {
        let name = format!("kubevirt_vmi_memory_{name}");
        let mut family = page.family(&name, is, help);
        for used in all {
            if let Some(value) = value(&used.stats.memory) {
                family.is(&used.names(node), value as f64);
            }
        }
    }
    for (name, help, value) in DISK {
        let name = format!("kubevirt_vmi_storage_{name}_total");
        let mut family = page.family(&name, Is::Counter, help);
        for used in all {
            for (name, stats) in named(&used.entry.disks, &used.stats.disks) {
                let mut labels = used.names(node).to_vec();
                labels.push(("drive", name));
                family.is(&labels, value(stats) as f64);
            }
        }
    }
    for (name, help, value) in NETWORK {
        let name = format!("kubevirt_vmi_network_{name}_total");
        let mut family = page.family(&name, Is::Counter, help);
        for used in all {
            for (name, stats) in named(&used.entry.taps, &used.stats.interfaces) {
                let mut labels = used.names(node).to_vec();
                labels.push(("interface", name));
                family.is(&labels, value(stats) as f64);
            }
        }
    }
    let name = "kubevirt_vmi_network_traffic_bytes_total";
    let mut family = page.family(name, Is::Counter, "Bytes through an interface, each way.");
    for used in all {
        for (name, stats) in named(&used.entry.taps, &used.stats.interfaces) {
            for (way, bytes) in [("rx", stats.received_bytes), ("tx", stats.sent_bytes)] {
                let mut labels = used.names(node).to_vec();
                labels.extend([("interface", name), ("type", way)]);
                family.is(&labels, bytes as f64);
            }
        }
    }
    page.text()
}

impl Used {
    fn names<'a>(&'a self, node: &'a str) -> [(&'static str, &'a str); 3] {
        [("node", node), ("namespace", &self.entry.namespace), ("name", &self.entry.name)]
    }
}

/// What is measured of devices, by their names in the spec; a device that has none there is left out.
fn named<'a, T>(names: &'a Names, stats: &'a BTreeMap<String, T>) -> impl Iterator<Item = (&'a str, &'a T)> {
    stats.iter().filter_map(|(device, stats)| Some((names.get(device)?.as_str(), stats)))
}

type Memory = (&'static str, Is, &'static str, fn(&MemoryStats) -> Option<u64>);

const MEMORY: [Memory; 11] = [
    ("domain_bytes", Is::Gauge, "Most memory that a VMI may have.", |memory| Some(memory.domain)),
    ("actual_balloon_bytes", Is::Gauge, "Memory that the balloon leaves a VMI.", |memory| memory.balloon),
    ("resident_bytes", Is::Gauge, "Memory that the QEMU process of a VMI holds.", |memory| memory.resident),
    ("unused_bytes", Is::Gauge, "What a guest leaves unused.", |memory| memory.unused),
    ("available_bytes", Is::Gauge, "What a guest sees of its memory.", |memory| memory.available),
    ("usable_bytes", Is::Gauge, "What a guest can use without swapping.", |memory| memory.usable),
    ("cached_bytes", Is::Gauge, "What a guest caches of its disks.", |memory| memory.cached),
    ("swap_in_traffic_bytes", Is::Gauge, "What a guest fetched back.", |memory| memory.swapped_in),
    ("swap_out_traffic_bytes", Is::Gauge, "What a guest put out.", |memory| memory.swapped_out),
    ("pgmajfault_total", Is::Counter, "Pages that a guest fetched from a disk.", |memory| {
        memory.major_faults
    }),
    ("pgminfault_total", Is::Counter, "Pages that a guest fetched from elsewhere.", |memory| {
        memory.minor_faults
    }),
];

type Disk = (&'static str, &'static str, fn(&DiskStats) -> u64);

const DISK: [Disk; 4] = [
    ("read_traffic_bytes", "Bytes read from a disk.", |disk| disk.read_bytes),
    ("write_traffic_bytes", "Bytes written to a disk.", |disk| disk.written_bytes),
    ("iops_read", "Reads of a disk.", |disk| disk.reads),
    ("iops_write", "Writes to a disk.", |disk| disk.writes),
];

type Network = (&'static str, &'static str, fn(&InterfaceStats) -> u64);

const NETWORK: [Network; 8] = [
    ("receive_bytes", "Bytes that a guest received.", |interface| interface.received_bytes),
    ("receive_packets", "Packets that a guest received.", |interface| interface.received_packets),
    ("receive_errors", "Packets for a guest that were broken.", |interface| interface.received_errors),
    ("receive_packets_dropped", "Packets for a guest that were lost.", |interface| {
        interface.received_dropped
    }),
    ("transmit_bytes", "Bytes that a guest sent.", |interface| interface.sent_bytes),
    ("transmit_packets", "Packets that a guest sent.", |interface| interface.sent_packets),
    ("transmit_errors", "Packets of a guest that were broken.", |interface| interface.sent_errors),
    ("transmit_packets_dropped", "Packets of a guest that were lost.", |interface| interface.sent_dropped),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::launcher_client::Client;
    use crate::pod::Process;
    use crate::pod::folder::Open;
    use ::launcher_client::{Cause, Door};
    use api::meta::ObjectMeta;
    use futures_util::future::BoxFuture;
    use std::sync::Arc;

    struct Nobody;

    impl Door<Option<Process>> for Nobody {
        fn open(&self) -> BoxFuture<'_, Result<Open, Cause>> {
            Box::pin(async { Err(Error::failed("nobody is there").into()) })
        }
    }

    fn meta(name: &str) -> ObjectMeta {
        ObjectMeta { namespace: Some("n".into()), name: Some(name.into()), ..ObjectMeta::default() }
    }

    #[tokio::test]
    async fn a_launcher_that_does_not_answer_is_left_out_and_a_seat_ends() {
        let launchers = Launchers::default();
        let client = Client::new("n/a", Arc::new(Nobody));
        let listed = launchers.list(&meta("a"), &client);
        assert!(ask(&launchers).await.is_empty());
        assert!(page("node1", &launchers).await.contains("kubevirt_vmi_sync_total{node=\"node1\"}"));
        drop(listed);
        assert!(launchers.all().is_empty());
    }

    #[test]
    fn a_launcher_that_says_much_is_told_in_part() {
        let many = (0..5000).map(|n| (format!("vd{n}"), DiskStats::default()));
        let strange = [("x\"} 1".to_owned(), DiskStats::default()), ("y".repeat(99), DiskStats::default())];
        let stats = Stats { disks: many.chain(strange).collect(), ..Stats::default() };
        let told = bounded(stats);
        assert_eq!(told.disks.len(), MOST);
        assert!(told.disks.keys().all(|name| name.starts_with("vd")));
    }

    #[test]
    fn what_vmis_use_is_told_by_the_names_of_their_specs() {
        let entry = Entry {
            namespace: "n".into(),
            name: "web".into(),
            uid: "u".into(),
            client: Client::new("n/web", Arc::new(Nobody)),
            disks: [("vda".to_owned(), "root".to_owned())].into(),
            taps: [("tap0".to_owned(), "default".to_owned())].into(),
        };
        let disk = DiskStats { read_bytes: 7, ..DiskStats::default() };
        let interface = InterfaceStats { sent_bytes: 9, ..InterfaceStats::default() };
        let stats = Stats {
            cpu_ns: 2_500_000_000,
            memory: MemoryStats { domain: 1 << 27, resident: Some(5), ..MemoryStats::default() },
            disks: ["vda", "tap0", "made-up"].map(|name| (name.to_owned(), disk)).into(),
            interfaces: ["tap0", "vda", "made-up"].map(|name| (name.to_owned(), interface)).into(),
        };
        let text = page_of("node1", &[Used { entry, stats }]);
        let of = "node=\"node1\",namespace=\"n\",name=\"web\"";
        for line in [
            format!("kubevirt_vmi_cpu_usage_seconds_total{{{of}}} 2.5"),
            format!("kubevirt_vmi_memory_domain_bytes{{{of}}} 134217728"),
            format!("kubevirt_vmi_memory_resident_bytes{{{of}}} 5"),
            format!("kubevirt_vmi_storage_read_traffic_bytes_total{{{of},drive=\"root\"}} 7"),
            format!("kubevirt_vmi_network_transmit_bytes_total{{{of},interface=\"default\"}} 9"),
            format!("kubevirt_vmi_network_traffic_bytes_total{{{of},interface=\"default\",type=\"tx\"}} 9"),
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(!text.contains("kubevirt_vmi_memory_unused_bytes{"), "what is not known is not told");
        // A launcher may call devices as it likes, at each look otherwise.
        for (label, count) in [("drive=\"", DISK.len()), ("interface=\"", NETWORK.len() + 2)] {
            assert_eq!(text.matches(label).count(), count, "{label}: a name that is not the spec's\n{text}");
        }
    }
}
