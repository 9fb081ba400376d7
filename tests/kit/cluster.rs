//! A real cluster, as `make e2e` started it, and in it a namespace for each test.
//!
//! ```text
//!  Space::new("story") ─► namespace story-xxxx ─► apply, wait, get … ─► drop: deleted, and waited for
//!                                                                        a test that fails leaves its objects, events
//!                                                                        and logs in a folder first
//! ```
//!
//! Everything goes by `kubectl`, as people use it. Nothing sleeps but [`until`], between two looks.

// A test says why it is skipped, and where it left what is to be looked at.
#![allow(clippy::print_stderr)]

use crate::coracle::Ran;
use crate::serial::Serial;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longer than anything takes here, by far: a server boots in one minute on a processor of its own.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    tools: PathBuf,
}

impl Cluster {
    /// The one whose folder of tools E2E_CLUSTER names; a test without one says that it was skipped.
    pub fn there() -> Option<Cluster> {
        match std::env::var_os("E2E_CLUSTER") {
            Some(tools) => Some(Cluster { tools: tools.into() }),
            None => {
                eprintln!("skipped: there is no cluster; `make e2e` starts one");
                None
            }
        }
    }

    /// Where one of the cluster's own tools is.
    pub fn path(&self, tool: &str) -> PathBuf {
        self.tools.join(tool)
    }

    /// One of the cluster's own tools.
    pub fn tool(&self, name: &str, args: &[&str]) -> Ran {
        let mut command = Command::new(self.tools.join(name));
        Ran::of(command.args(args).stdin(Stdio::null()).output().expect("the cluster's tools are there"))
    }

    /// What `tests/cluster/info` says of it.
    #[track_caller]
    pub fn info(&self, word: &str) -> String {
        String::from_utf8_lossy(&self.tool("info", &[word]).ok().out).trim().to_owned()
    }

    /// kubectl as the cluster's administrator, to be run. Not by the script of that name: it runs thousands of times.
    pub fn kubectl(&self, args: &[&str]) -> Command {
        static CLIENT: OnceLock<[String; 2]> = OnceLock::new();
        let [program, config] = CLIENT.get_or_init(|| ["kubectl", "kubeconfig"].map(|word| self.info(word)));
        let mut command = Command::new(program);
        // It ends before the memory that it would collect is worth it.
        command.args(args).env("KUBECONFIG", config).env("GOGC", "off");
        command
    }

    /// kubectl as the cluster's administrator.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.kubectl(args).stdin(Stdio::null()).output().expect("kubectl runs"))
    }

    /// A command on a node, as root.
    pub fn on_node(&self, node: u32, command: &[&str]) -> Ran {
        let number = node.to_string();
        self.tool("node-exec", &[&[number.as_str()], command].concat())
    }
}

/// A namespace that goes with this value.
#[derive(Debug)]
pub struct Space {
    /// Where it is.
    pub cluster: Cluster,
    /// Its name.
    pub name: String,
}

static SPACES: AtomicU32 = AtomicU32::new(0);

impl Space {
    /// A new one, for a test of this name; `None` where there is no cluster.
    pub fn new(story: &str) -> Option<Space> {
        let cluster = Cluster::there()?;
        let number = SPACES.fetch_add(1, Ordering::Relaxed);
        let name = format!("{story}-{}-{number}", std::process::id());
        cluster.run(&["create", "namespace", &name]).ok();
        Some(Space { cluster, name })
    }

    /// kubectl in this namespace, whatever it answers.
    #[track_caller]
    pub fn try_run(&self, args: &[&str]) -> Ran {
        self.cluster.run(&[&["-n", &self.name], args].concat())
    }

    /// kubectl in this namespace: what it prints.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> String {
        String::from_utf8_lossy(&self.try_run(args).ok().out).trim().to_owned()
    }

    /// Applies a manifest, whatever the API server answers.
    #[track_caller]
    pub fn try_apply(&self, manifest: &str) -> Ran {
        let mut command = self.cluster.kubectl(&["-n", &self.name, "apply", "-f", "-"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl runs");
        let mut pipe = child.stdin.take().expect("a pipe");
        pipe.write_all(manifest.as_bytes()).expect("kubectl reads");
        drop(pipe);
        Ran::of(child.wait_with_output().expect("kubectl ends"))
    }

    /// Applies a manifest.
    #[track_caller]
    pub fn apply(&self, manifest: &str) {
        self.try_apply(manifest).ok();
    }

    /// A field of an object, by its JSON path.
    #[track_caller]
    pub fn get(&self, object: &str, path: &str) -> String {
        self.run(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
    }

    /// The same, or nothing where there is no such object yet.
    pub fn look(&self, object: &str, path: &str) -> String {
        let ran = self.try_run(&["get", object, "-o", &format!("jsonpath={{{path}}}")]);
        String::from_utf8_lossy(&ran.out).trim().to_owned()
    }

    /// Waits until a field says this: looks, and then at each change. Where the object is not there yet, or the API server
    /// is away, it asks again.
    #[track_caller]
    pub fn says(&self, object: &str, path: &str, wanted: &str) {
        let changes = format!("jsonpath={{{path}}}{{\"\\x1e\"}}");
        let bound = format!("--request-timeout={}s", PATIENCE.as_secs());
        let follow = || {
            let args = ["-n", &self.name, "get", object, "--watch", &bound, "-o", &changes];
            let mut client = self.cluster.kubectl(&args);
            client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = client.spawn().expect("kubectl runs");
            let mut said = BufReader::new(child.stdout.take().expect("a pipe")).split(0x1e);
            let seen = said.any(|value| value.is_ok_and(|value| value == wanted.as_bytes()));
            // One that was not seen has ended.
            child.kill().and_then(|()| child.wait()).expect("kubectl ends");
            seen
        };
        until(follow, || format!("{path} of {object} is {:?}, not {wanted:?}", self.look(object, path)));
    }

    /// Waits until a condition of an object has this status.
    #[track_caller]
    pub fn has(&self, object: &str, condition: &str, status: &str) {
        self.says(object, &format!(".status.conditions[?(@.type==\"{condition}\")].status"), status);
    }

    /// Waits until there is no such object.
    #[track_caller]
    pub fn gone(&self, object: &str) {
        let there = || {
            String::from_utf8_lossy(&self.try_run(&["get", object, "--ignore-not-found", "-o", "name"]).out)
                .into_owned()
        };
        until(|| there().trim().is_empty(), || format!("{object} is still there"));
    }

    /// Waits until there is an object of this name with another uid.
    #[track_caller]
    pub fn another(&self, object: &str, uid: &str) {
        let path = ["get", object, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"];
        let now = || self.run(&path);
        until(|| !["", uid].contains(&now().as_str()), || format!("{object} is still {uid}"));
    }

    /// Kills a process of a pod, by its name, as a crash does.
    #[track_caller]
    pub fn kill_in(&self, pod: &str, process: &str) {
        let killed = self.in_processes(pod, process, "kill -9 $p && n=0");
        killed.ok();
    }

    /// Waits until the journal of an importer says that so many bytes are durable: what is killed now goes on.
    #[track_caller]
    pub fn has_kept(&self, importer: &str, bytes: u64) {
        let last =
            "grep -ao '\"written\":[0-9]*' /proc/$p/root/data/disk.img.partial.journal | tail -1 && n=0";
        let kept = || {
            let said = self.in_processes(importer, "cdi-worker", last).out;
            let said = String::from_utf8_lossy(&said);
            said.lines().next().and_then(|line| line.rsplit(':').next()?.parse().ok()).unwrap_or(0u64)
        };
        until(|| kept() >= bytes, || format!("{} of {bytes} bytes are kept by {importer}", kept()));
    }

    /// Does this for the processes `$p` of that name in a pod; `n=0` says that it was done.
    fn in_processes(&self, pod: &str, process: &str, what: &str) -> Ran {
        let uid = self.get(&format!("pod/{pod}"), ".metadata.uid").replace('-', "[-_]");
        let line = format!(
            "n=1; for p in $(pgrep -x {process}); do grep -q {uid} /proc/$p/cgroup && {what}; done; exit $n"
        );
        self.cluster.on_node(1, &["bash", "-c", &line])
    }

    /// Kills a program of ours on the first node, every copy of it.
    #[track_caller]
    pub fn kill_program(&self, program: &str) {
        // One that was killed just before is not back yet.
        until(
            || self.cluster.on_node(1, &["pkill", "-9", "-x", program]).code == 0,
            || format!("there is no {program}"),
        );
    }

    /// The name of the pod of a VMI that has not ended.
    #[track_caller]
    pub fn pod_of(&self, vmi: &str) -> String {
        let label = format!("vm.kubevirt.io/name={vmi}");
        let path = "jsonpath={.items[*].metadata.name}";
        let live = "--field-selector=status.phase!=Succeeded,status.phase!=Failed";
        let look = || self.run(&["get", "pods", "-l", &label, live, "-o", path]);
        until(|| !look().is_empty(), || format!("{vmi} has no pod"));
        look()
    }

    /// The same, once the VMI runs.
    #[track_caller]
    pub fn console_when_ready(&self, vmi: &str) -> Serial {
        self.has(&format!("vmi/{vmi}"), "Ready", "True");
        self.console(vmi)
    }

    /// The serial console of a VMI, as `kubectl exec` gives it. It is taken over from a client whose connection broke.
    #[track_caller]
    pub fn console(&self, vmi: &str) -> Serial {
        let pod = self.pod_of(vmi);
        let launcher = ["/usr/bin/virt-launcher", "console", "--take"];
        let exec = ["-n", &self.name, "exec", "-i", &pod, "-c", "compute", "--"];
        Serial::of(self.cluster.kubectl(&[&exec[..], &launcher].concat()))
    }

    /// Keeps the objects, events and logs of this namespace, for people who look at a failure.
    fn keep(&self) {
        let folder = match kept(&self.name) {
            Ok(folder) => folder,
            Err(e) => return eprintln!("cannot keep what is in {}: {e}", self.name),
        };
        let keep = |file: &str, ran: Ran| {
            let text = [&ran.out[..], b"\n", ran.err.as_bytes()].concat();
            if let Err(e) = std::fs::write(folder.join(file), text) {
                eprintln!("cannot keep {file}: {e}");
            }
        };
        let all = "vm,vmi,vmirs,pods,pvc,dv,services,configmaps";
        keep("objects.yaml", self.try_run(&["get", all, "-o", "yaml"]));
        keep("events", self.try_run(&["get", "events", "--sort-by=.lastTimestamp"]));
        let pods = self.try_run(&["get", "pods", "-o", "name"]);
        for pod in String::from_utf8_lossy(&pods.out).lines() {
            let file = format!("{}.log", pod.trim_start_matches("pod/"));
            keep(&file, self.try_run(&["logs", pod, "--all-containers", "--tail=2000"]));
        }
        for part in ["virt-controller", "virt-handler", "virt-api", "cdi-uploadproxy"] {
            let label = format!("kubevirt.io={part}");
            keep(
                part,
                self.cluster.run(&["-n", "kubevirt", "logs", "-l", &label, "--tail=2000", "--prefix"]),
            );
        }
        eprintln!("what was in {} is kept in {}", self.name, folder.display());
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep();
            // An orderly deletion would hold up the other tests.
            self.cluster.run(&["delete", "namespace", &self.name, "--wait=false"]);
            return;
        }
        self.cluster.run(&["delete", "namespace", &self.name, "--timeout=120s"]).ok();
    }
}

/// Looks again and again until it is so.
#[track_caller]
pub fn until(mut so: impl FnMut() -> bool, what: impl Fn() -> String) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "after {PATIENCE:?}: {}", what());
        // Four stories that wait look by a program each: it takes the processor for a tenth of a second.
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The folder of this name among what stories keep for people to look at. It is made where it is not there yet.
pub fn kept(name: &str) -> io::Result<PathBuf> {
    let all =
        std::env::var_os("E2E_KEPT").map_or_else(|| std::env::temp_dir().join("coracle-e2e"), PathBuf::from);
    let folder = all.join(name);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
