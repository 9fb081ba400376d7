//! The real cluster that `make e2e` has started, with a namespace for each test.
//!
//! ```text
//!  Space::new("story") ─► namespace story-xxxx ─► apply, wait, get … ─► drop: deleted, and waited for
//!                                                                        a failed test first saves its objects, events
//!                                                                        and logs in a folder
//! ```
//!
//! All requests go through `kubectl`, as a user's do. Only [`until`] sleeps, between two queries.

// Prints the reason of a skipped test, and the folder with the state of a failed one.
#![allow(clippy::print_stderr)]

use crate::coracle::Ran;
use crate::serial::Serial;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Timeout of a wait. It is far longer than any step: a server boots in one minute on its own processor.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The cluster and its tools.
#[derive(Clone, Debug)]
pub struct Cluster {
    tools: PathBuf,
}

impl Cluster {
    /// The cluster whose folder of tools is in E2E_CLUSTER. Without it the test prints that it was skipped.
    pub fn there() -> Option<Cluster> {
        match std::env::var_os("E2E_CLUSTER") {
            Some(tools) => Some(Cluster { tools: tools.into() }),
            None => {
                eprintln!("skipped: there is no cluster; `make e2e` starts one");
                None
            }
        }
    }

    /// Path of one of the cluster's own tools.
    pub fn path(&self, tool: &str) -> PathBuf {
        self.tools.join(tool)
    }

    /// Command for one of the cluster's own tools.
    pub fn tool(&self, name: &str, args: &[&str]) -> Ran {
        let mut command = Command::new(self.tools.join(name));
        Ran::of(command.args(args).stdin(Stdio::null()).output().expect("the cluster's tools are there"))
    }

    /// A fact from `tests/cluster/info`.
    #[track_caller]
    pub fn info(&self, word: &str) -> String {
        String::from_utf8_lossy(&self.tool("info", &[word]).ok().out).trim().to_owned()
    }

    /// Command for kubectl as the cluster's administrator. It does not use the script of that name, since it
    /// runs thousands of times.
    pub fn kubectl(&self, args: &[&str]) -> Command {
        static CLIENT: OnceLock<[String; 2]> = OnceLock::new();
        let [program, config] = CLIENT.get_or_init(|| ["kubectl", "kubeconfig"].map(|word| self.info(word)));
        let mut command = Command::new(program);
        // kubectl ends before garbage collection would pay off.
        command.args(args).env("KUBECONFIG", config).env("GOGC", "off");
        command
    }

    /// Runs kubectl as the cluster's administrator.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.kubectl(args).stdin(Stdio::null()).output().expect("kubectl runs"))
    }

    /// Runs a command on a node as root.
    pub fn on_node(&self, node: u32, command: &[&str]) -> Ran {
        let number = node.to_string();
        self.tool("node-exec", &[&[number.as_str()], command].concat())
    }
}

/// A namespace that is deleted together with this value.
#[derive(Debug)]
pub struct Space {
    /// The cluster of the namespace.
    pub cluster: Cluster,
    pub name: String,
}

static SPACES: AtomicU32 = AtomicU32::new(0);

impl Space {
    /// Creates a namespace for a test of this name. `None` without a cluster.
    pub fn new(story: &str) -> Option<Space> {
        let cluster = Cluster::there()?;
        let number = SPACES.fetch_add(1, Ordering::Relaxed);
        let name = format!("{story}-{}-{number}", std::process::id());
        cluster.run(&["create", "namespace", &name]).ok();
        Some(Space { cluster, name })
    }

    /// Runs kubectl in this namespace and returns its result, success or not.
    #[track_caller]
    pub fn try_run(&self, args: &[&str]) -> Ran {
        self.cluster.run(&[&["-n", &self.name], args].concat())
    }

    /// Runs kubectl in this namespace and returns its output.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> String {
        String::from_utf8_lossy(&self.try_run(args).ok().out).trim().to_owned()
    }

    /// Applies a manifest and returns the result, success or not.
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

    /// The field of an object at a JSON path.
    #[track_caller]
    pub fn get(&self, object: &str, path: &str) -> String {
        self.run(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
    }

    /// The field of an object, or an empty text if the object does not exist.
    pub fn look(&self, object: &str, path: &str) -> String {
        let ran = self.try_run(&["get", object, "-o", &format!("jsonpath={{{path}}}")]);
        String::from_utf8_lossy(&ran.out).trim().to_owned()
    }

    /// Waits until a field has this value. It checks now and after each change, and asks again if the object
    /// does not exist yet or the API server is down.
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
            // The watch has ended without an event.
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

    /// Waits until the object does not exist.
    #[track_caller]
    pub fn gone(&self, object: &str) {
        let there = || {
            String::from_utf8_lossy(&self.try_run(&["get", object, "--ignore-not-found", "-o", "name"]).out)
                .into_owned()
        };
        until(|| there().trim().is_empty(), || format!("{object} is still there"));
    }

    /// Waits until an object of this name has another uid.
    #[track_caller]
    pub fn another(&self, object: &str, uid: &str) {
        let path = ["get", object, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"];
        let now = || self.run(&path);
        until(|| !["", uid].contains(&now().as_str()), || format!("{object} is still {uid}"));
    }

    /// Kills a process of a pod by its name, like a crash.
    #[track_caller]
    pub fn kill_in(&self, pod: &str, process: &str) {
        let killed = self.in_processes(pod, process, "kill -9 $p && n=0");
        killed.ok();
    }

    /// Waits until an importer's journal records this number of durable bytes, from which the next run
    /// resumes.
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

    /// Runs a script for the processes `$p` of that name in a pod. `n=0` reports that it was done.
    fn in_processes(&self, pod: &str, process: &str, what: &str) -> Ran {
        let uid = self.get(&format!("pod/{pod}"), ".metadata.uid").replace('-', "[-_]");
        let line = format!(
            "n=1; for p in $(pgrep -x {process}); do grep -q {uid} /proc/$p/cgroup && {what}; done; exit $n"
        );
        self.cluster.on_node(1, &["bash", "-c", &line])
    }

    /// Kills all copies of one of our programs on the first node.
    #[track_caller]
    pub fn kill_program(&self, program: &str) {
        // A program that was killed just before may not be back yet.
        until(
            || self.cluster.on_node(1, &["pkill", "-9", "-x", program]).code == 0,
            || format!("there is no {program}"),
        );
    }

    /// Name of a VMI's pod that has not ended.
    #[track_caller]
    pub fn pod_of(&self, vmi: &str) -> String {
        let label = format!("vm.kubevirt.io/name={vmi}");
        let path = "jsonpath={.items[*].metadata.name}";
        let live = "--field-selector=status.phase!=Succeeded,status.phase!=Failed";
        let look = || self.run(&["get", "pods", "-l", &label, live, "-o", path]);
        until(|| !look().is_empty(), || format!("{vmi} has no pod"));
        look()
    }

    /// Name of a VMI's pod, once the VMI is running.
    #[track_caller]
    pub fn console_when_ready(&self, vmi: &str) -> Serial {
        self.has(&format!("vmi/{vmi}"), "Ready", "True");
        self.console(vmi)
    }

    /// The serial console of a VMI through `kubectl exec`. It replaces a client whose connection was
    /// interrupted.
    #[track_caller]
    pub fn console(&self, vmi: &str) -> Serial {
        let pod = self.pod_of(vmi);
        let launcher = ["/usr/bin/virt-launcher", "console", "--take"];
        let exec = ["-n", &self.name, "exec", "-i", &pod, "-c", "compute", "--"];
        Serial::of(self.cluster.kubectl(&[&exec[..], &launcher].concat()))
    }

    /// Saves the objects, events and logs of this namespace, to analyse a failure.
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
            // A graceful deletion would delay the other tests.
            self.cluster.run(&["delete", "namespace", &self.name, "--wait=false"]);
            return;
        }
        self.cluster.run(&["delete", "namespace", &self.name, "--timeout=120s"]).ok();
    }
}

/// Repeats a check until it is true.
#[track_caller]
pub fn until(mut so: impl FnMut() -> bool, what: impl Fn() -> String) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "after {PATIENCE:?}: {}", what());
        // Up to four tests wait at once, each with a program that takes the processor for a tenth of a
        // second.
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The folder of this name for the saved state of tests. It is created if it does not exist.
pub fn kept(name: &str) -> io::Result<PathBuf> {
    let all =
        std::env::var_os("E2E_KEPT").map_or_else(|| std::env::temp_dir().join("coracle-e2e"), PathBuf::from);
    let folder = all.join(name);
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}
