//! A part that a migration needs is killed, in any phase: the VM runs at one place, with all that it wrote, and the migration ends
//! with a reason.
//!
//! Each part in each phase is a round; their order and the moments come from a seed, which the story prints. `CORACLE_KILLS` is the
//! number of rounds, `CORACLE_SEED` the seed.

use super::migration::{Policy, migration};
use super::{NODES, on_two_nodes, running};
use crate::{tiny, with_disks};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};
use tests::cluster::{Cluster, Space, until};
use tests::disk::Noise;
use tests::serial::Serial;

/// The guest counts on from what its disk has. Each number is on the disk before it is on the console; each boot has a name.
const COUNTS: &str = "b=$(head -c 4 /dev/urandom | od -An -tx1 | tr -d ' '); \
    i=$(dd if=/dev/vda bs=512 count=1 2>/dev/null | head -n 1); i=${i%% *}; i=${i:-0}; \
    while :; do i=$((i+1)); echo \"$i is kept\" | dd of=/dev/vda bs=512 conv=sync,notrunc,fsync 2>/dev/null; \
    echo \"at $b:$i.\"; sleep 0.1; done";
/// Number of rounds.
const ROUNDS: usize = 6;
/// Slow enough that parts can be killed while the guest is copied.
const RATE: &str = "4Mi";

/// A part that is killed, or a connection that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    SourceQemu,
    TargetQemu,
    SourceLauncher,
    TargetLauncher,
    /// libvirt's daemon, which receives the VM.
    Daemon,
    SourceHandler,
    TargetHandler,
    Controller,
    ApiServer,
    Network,
}

const PARTS: [Part; 10] = [
    Part::SourceQemu,
    Part::TargetQemu,
    Part::SourceLauncher,
    Part::TargetLauncher,
    Part::Daemon,
    Part::SourceHandler,
    Part::TargetHandler,
    Part::Controller,
    Part::ApiServer,
    Part::Network,
];

/// Phases in which a part is killed; the last one also at its end.
const PHASES: [&str; 4] = ["Scheduling", "PreparingTarget", "TargetReady", "Running"];
/// Longest time in that phase before the kill, in milliseconds.
const LATEST: u64 = 12_000;

#[test]
fn whatever_is_killed_while_a_vm_migrates_it_runs_at_one_place_with_all_that_it_wrote() {
    let Some(space) = on_two_nodes("kills") else { return };
    let _policy = Policy::with(&space, "slow", &space.name, &format!("bandwidthPerMigration: {RATE}"));
    space.apply(&vm());
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let seed: u64 = number("CORACLE_SEED").unwrap_or(now);
    let rounds = number("CORACLE_KILLS").and_then(|count| usize::try_from(count).ok()).unwrap_or(ROUNDS);
    eprintln!("seed {seed}");
    let mut noise = Noise::new(seed);
    let logs = Logs::of(&space);
    let mut scene = Scene::begin(&space);
    scene.hop("unharmed");
    let kills = shuffled(&mut noise);
    for (round, (part, phase)) in kills.into_iter().cycle().take(rounds).enumerate() {
        let wait = Duration::from_millis(if phase == "Running" { noise.below(LATEST) } else { 0 });
        scene.round(&format!("round{round}"), part, phase, wait);
    }
    let text = scene.console.text();
    logs.check(&text);
}

/// Each part with each phase, in the order of the seed.
fn shuffled(noise: &mut Noise) -> Vec<(Part, &'static str)> {
    let mut kills: Vec<_> = PARTS.iter().flat_map(|part| PHASES.map(|phase| (*part, phase))).collect();
    for place in (1..kills.len()).rev() {
        kills.swap(place, noise.below(place as u64 + 1) as usize);
    }
    kills
}

/// A VM with a disk that both nodes can reach.
fn vm() -> String {
    let disk =
        ("{name: data, disk: {bus: virtio}}", "{name: data, persistentVolumeClaim: {claimName: data}}");
    format!(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: standard
  resources: {{requests: {{storage: 64Mi}}}}
---{}",
        with_disks(&tiny("web", "Always"), &[disk])
    )
}

struct Scene<'a> {
    space: &'a Space,
    console: Serial,
    uid: String,
    /// Highest number that a console has shown.
    shown: u64,
}

impl<'a> Scene<'a> {
    fn begin(space: &'a Space) -> Scene<'a> {
        let mut console = space.console_when_ready("web");
        console.log_in().types(COUNTS).says(":3.");
        space.has("vmi/web", "LiveMigratable", "True");
        Scene { space, console, uid: space.get("vmi/web", ".metadata.uid"), shown: 3 }
    }

    /// A migration without a kill.
    fn hop(&mut self, name: &str) {
        self.space.apply(&migration(name));
        let object = format!("vmim/{name}");
        until(|| is_over(&self.space.look(&object, ".status.phase")), || format!("{name}: {}", self.state()));
        assert_eq!(self.space.get(&object, ".status.phase"), "Succeeded", "{}", self.state());
    }

    fn round(&mut self, name: &str, part: Part, phase: &str, wait: Duration) {
        let space = self.space;
        let from = space.get("vmi/web", ".status.nodeName");
        let (source, target) = if from == "node1" { (1, 2) } else { (2, 1) };
        space.apply(&migration(name));
        let object = format!("vmim/{name}");
        let reached = || {
            let now = space.look(&object, ".status.phase");
            let reached = PHASES.iter().position(|known| *known == now);
            reached >= PHASES.iter().position(|known| *known == phase) || is_over(&now)
        };
        until(reached, || format!("{name} is not {phase}, but {}", space.look(&object, ".status.phase")));
        thread::sleep(wait);
        let at = space.look(&object, ".status.phase");
        let killed = kill(space, part, source, target);
        let (mut end, mut reason) = (String::new(), String::new());
        let path = "jsonpath={.status.phase}:{.status.migrationState.failureReason}";
        let is_settled = || {
            let ran = space.try_run(&["get", &object, "--ignore-not-found", "-o", path]);
            let told = String::from_utf8_lossy(&ran.out).into_owned();
            let (phase, why) = told.split_once(':').unwrap_or_default();
            (end, reason) = (phase.to_owned(), why.to_owned());
            ran.code == 0 && (end.is_empty() || is_over(&end))
        };
        until(is_settled, || format!("{part:?} in {phase}: {name} does not end: {}", self.state()));
        mend(space, part);
        let serves = || {
            let node = space.look("vmi/web", ".status.nodeName");
            let ready = space.look("vmi/web", ".status.conditions[?(@.type==\"Ready\")].status");
            ready == "True" && running(space) == [node.as_str()] && !space.pod_of("web").contains(' ')
        };
        until(serves, || format!("{part:?} in {phase}: {} and QEMU on {:?}", self.state(), running(space)));
        let to = space.get("vmi/web", ".status.nodeName");
        let uid = space.get("vmi/web", ".metadata.uid");
        eprintln!(
            "{name}: {part:?} {killed} in {at} after {wait:?}: {end} '{reason}', {from} to {to}, {}",
            if uid == self.uid { "the same guest" } else { "a new guest" }
        );
        assert!(end != "Failed" || !reason.is_empty(), "a failure without a reason");
        assert!(end != "Succeeded" || (to != from && uid == self.uid), "it has not moved");
        let dies = [Part::SourceQemu, Part::SourceLauncher];
        assert!(uid == self.uid || dies.contains(&part), "the guest was lost");
        self.look(uid);
    }

    /// The disk has each number that a console has shown.
    fn look(&mut self, uid: String) {
        self.shown = self.shown.max(highest(&self.console.text()));
        let mut console = self.space.console("web");
        if uid == self.uid {
            console.says("at ");
            interrupt(&mut console);
        } else {
            console.log_in();
        }
        let kept = console.runs("dd if=/dev/vda bs=512 count=1 2>/dev/null | head -n 1");
        let kept: u64 = kept.trim().strip_suffix(" is kept").unwrap_or(&kept).parse().unwrap();
        self.shown = self.shown.max(highest(&console.text()));
        assert!(kept >= self.shown, "the disk has {kept}, a console showed {}", self.shown);
        console.types(COUNTS).says(&format!(":{}.", kept + 3));
        (self.console, self.uid) = (console, uid);
    }

    fn state(&self) -> String {
        self.space.look("vmi/web", ".status.migrationState")
    }
}

/// Ends the count. A shell may miss the key between two of its programs.
fn interrupt(console: &mut Serial) {
    let is_ended = |time: usize| {
        console.keys_are(b"\x03");
        console.types(&format!("echo \"is\"\"ended{time}\""));
        console.comes(&format!("isended{time}"))
    };
    assert!((0..12).any(is_ended), "the shell counts on");
}

fn is_over(phase: &str) -> bool {
    ["Succeeded", "Failed"].contains(&phase)
}

/// Kills the part. Tells whether it was there.
fn kill(space: &Space, part: Part, source: u32, target: u32) -> &'static str {
    let guest = format!("guest={}_web,", space.name);
    let on =
        |node: u32, pattern: &str| match space.cluster.on_node(node, &["pkill", "-KILL", "-f", pattern]).code
        {
            0 => "killed",
            _ => "not there",
        };
    let launcher = "^/usr/bin/virt-launcher run";
    match part {
        Part::SourceQemu => on(source, &guest),
        Part::TargetQemu => on(target, &guest),
        Part::SourceLauncher => on(source, launcher),
        Part::TargetLauncher => on(target, launcher),
        Part::Daemon => on(target, "^/usr/sbin/libvirtd"),
        Part::SourceHandler => on(source, "^/usr/bin/virt-handler"),
        Part::TargetHandler => on(target, "^/usr/bin/virt-handler"),
        Part::Controller => {
            for (node, _) in NODES {
                on(node, "^/usr/bin/virt-controller");
            }
            "killed"
        }
        Part::ApiServer => {
            space.cluster.tool("part", &["kill", "kube-apiserver"]).ok();
            "killed"
        }
        Part::Network => {
            cut(space, "-I");
            "cut"
        }
    }
}

fn mend(space: &Space, part: Part) {
    if part == Part::Network {
        cut(space, "-D");
    }
}

/// Drops, or passes again, what goes between the pods of the two nodes.
fn cut(space: &Space, how: &str) {
    for (node, other) in [(1, "node2"), (2, "node1")] {
        let of_other = format!("--field-selector=spec.nodeName={other}");
        let handler = "kubevirt.io=virt-handler";
        let address = "jsonpath={.items[0].status.podIP}";
        let found =
            space.cluster.run(&["-n", "kubevirt", "get", "pod", "-l", handler, &of_other, "-o", address]);
        let pods = format!("{}/24", String::from_utf8_lossy(&found.out));
        let words = ["iptables", how, "FORWARD", "-s", &pods, "-j", "DROP"];
        space.cluster.on_node(node, &words).ok();
    }
}

/// The numbers that a guest has shown, each with the name of its boot.
fn numbers(text: &str) -> Vec<(String, u64)> {
    let shown = text.split("at ").skip(1).filter_map(|rest| {
        let (boot, number) = rest.split_once('.')?.0.split_once(':')?;
        let is_name = boot.len() == 8 && boot.bytes().all(|letter| letter.is_ascii_hexdigit());
        is_name.then(|| number.parse().ok()).flatten().map(|number| (boot.to_owned(), number))
    });
    shown.collect()
}

fn highest(text: &str) -> u64 {
    numbers(text).into_iter().map(|(_, number)| number).max().unwrap_or(0)
}

/// Logs of the consoles of all pods of the VM, read until each goes.
struct Logs {
    texts: Arc<Mutex<BTreeMap<String, String>>>,
    ends: Arc<AtomicBool>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Logs {
    fn of(space: &Space) -> Logs {
        let (texts, ends) =
            (Arc::<Mutex<BTreeMap<String, String>>>::default(), Arc::new(AtomicBool::new(false)));
        let (into, ended) = (texts.clone(), ends.clone());
        let files = format!("/var/log/pods/{}_virt-launcher-web-*/guest-console-log/*.log", space.name);
        let cluster = Cluster::there().unwrap();
        let read = move || {
            while !ended.load(Ordering::Relaxed) {
                for (node, _) in NODES {
                    let line = format!("grep -H -o 'at [0-9a-f]*:[0-9]*\\.' {files}");
                    let found = cluster.on_node(node, &["sh", "-c", &line]).out;
                    let mut of_pods = BTreeMap::<String, String>::new();
                    for line in String::from_utf8_lossy(&found).lines() {
                        let (file, text) = line.split_once(":at ").unwrap_or_default();
                        of_pods.entry(file.to_owned()).or_default().push_str(&format!("at {text}\n"));
                    }
                    let mut known = into.lock().unwrap();
                    for (file, text) in of_pods {
                        let known = known.entry(file).or_default();
                        if text.len() > known.len() {
                            *known = text;
                        }
                    }
                }
                thread::sleep(Duration::from_millis(300));
            }
        };
        Logs { texts, ends, reader: Some(thread::spawn(read)) }
    }

    /// No two guests have run at once: each number was shown once.
    fn check(mut self, last: &str) {
        let highest = highest(last);
        until(
            || self.texts.lock().unwrap().values().any(|text| self::highest(text) >= highest),
            || "the log of the last pod is not read".into(),
        );
        self.end();
        let mut seen = BTreeSet::new();
        let texts = self.texts.lock().unwrap();
        for (file, text) in texts.iter() {
            for number in numbers(text) {
                assert!(seen.insert(number.clone()), "{number:?} was shown twice, again in {file}");
            }
        }
        eprintln!("{} numbers in the logs of {} containers, each once", seen.len(), texts.len());
    }

    fn end(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.reader.take().map(thread::JoinHandle::join).transpose().unwrap();
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}
