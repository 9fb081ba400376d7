//! A launcher and its VM, for the tests.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tests::serial::{Serial, says};

/// Long enough for any step on a busy host; only a test that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(300);
/// The same for the boot of a whole Debian: under emulation it takes 40 s of a processor, of which a host with eighteen others
/// at work gives a tenth.
pub(crate) const BOOT: Duration = Duration::from_secs(1200);

/// A launcher and its VM. Both end with the value.
pub(crate) struct Vm {
    pub(crate) place: tempfile::TempDir,
    launcher: Option<Child>,
    /// Programs before the launcher: `setpriv …`, `unshare …`.
    before: Vec<String>,
    /// The path of the root, as the launcher sees it.
    pub(crate) root: PathBuf,
    /// Further arguments of the launcher.
    pub(crate) args: Vec<String>,
}

/// The small guest: kernel, initrd, command line.
pub(crate) fn tiny() -> Value {
    let built = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../images/guests/tiny/build"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let folder = PathBuf::from(String::from_utf8(built.stdout).unwrap().trim_end());
    let args = fs::read_to_string(folder.join("cmdline")).unwrap();
    json!({"kernel": folder.join("vmlinux"), "initrd": folder.join("initrd"), "args": args.trim_end()})
}

/// What the launcher finds out about this host.
pub(crate) fn node_info() -> Value {
    let told = Command::new(env!("CARGO_BIN_EXE_virt-launcher")).arg("node-info").output().unwrap();
    serde_json::from_slice(&told.stdout).unwrap()
}

/// A VM with one empty disk.
pub(crate) fn vmi(name: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": "test"},
        "spec": {
            "terminationGracePeriodSeconds": 120,
            "domain": {
                "memory": {"guest": "128Mi"},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {
                    "autoattachPodInterface": false,
                    "disks": [{"name": "data", "disk": {"bus": "virtio"}}]
                }
            },
            "volumes": [{"name": "data", "emptyDisk": {"capacity": "1Gi"}}]
        }
    })
}

impl Vm {
    /// A launcher without a VM yet.
    pub(crate) fn new() -> Vm {
        Vm::behind(&[], None)
    }

    /// The same behind other programs, with its folder elsewhere.
    pub(crate) fn behind(before: &[&str], root: Option<PathBuf>) -> Vm {
        let place = tempfile::Builder::new().prefix("vm").tempdir_in("/tmp").unwrap();
        let root = root.unwrap_or_else(|| place.path().join("r"));
        let before = before.iter().map(ToString::to_string).collect();
        Vm { place, launcher: None, before, root, args: Vec::new() }
    }

    /// A launcher of another user without privileges; only root can make it.
    pub(crate) fn of_another_user(user: &str) -> Vm {
        let before = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"];
        let mut before = before.to_vec();
        before.extend(["env", "-u", "XDG_RUNTIME_DIR", "HOME=/nonexistent"]);
        let vm = Vm::behind(&before, None);
        fs::File::create(vm.place.path().join("log")).unwrap();
        let owned = Command::new("chown").args(["-R", user]).arg(vm.place.path()).status().unwrap();
        assert!(owned.success());
        vm
    }

    /// The small guest at a path that another user may read: its QEMU has that user's rights.
    pub(crate) fn tiny_for_all(&self) -> Value {
        let mut kernel = tiny();
        for file in ["kernel", "initrd"] {
            let to = self.place.path().join(file);
            fs::copy(kernel[file].as_str().unwrap(), &to).unwrap();
            kernel[file] = json!(to);
        }
        kernel
    }

    /// A running VM of the small guest, with its prompt there.
    pub(crate) fn running(vmi: &Value) -> Vm {
        let mut vm = Vm::new();
        vm.launch();
        vm.boot(vmi);
        vm
    }

    pub(crate) fn boot(&mut self, vmi: &Value) {
        self.boot_with(vmi, &json!({}));
    }

    /// The same with volumes at given locations.
    pub(crate) fn boot_with(&mut self, vmi: &Value, volumes: &Value) {
        self.put(vmi, volumes);
        let state = self.until("Running or an end", |state| state["life"] == "Running" || ended(state));
        assert_eq!(state["life"], "Running", "{state}");
        self.until_log("tiny login:");
    }

    /// Starts the launcher, and waits until it listens.
    pub(crate) fn launch(&mut self) {
        let cache =
            std::env::temp_dir().join(format!("coracle-test-libvirt-{}", rustix::process::getuid().as_raw()));
        let log = fs::File::options().create(true).append(true).open(self.place.path().join("log")).unwrap();
        let mut line = self.before.clone();
        // In a folder that another user may read, too.
        let program = self.place.path().join("virt-launcher");
        if !program.exists() {
            // Copied by another process: a child that another test starts meanwhile would hold it open for writing.
            let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_virt-launcher")).arg(&program).status();
            assert!(copied.unwrap().success());
        }
        line.push(program.display().to_string());
        let socket = self.socket();
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).arg("run").arg("--root").arg(&self.root).arg("--socket").arg(&socket);
        if self.before.is_empty() && !self.args.iter().any(|arg| arg == "--cache") {
            command.arg("--cache").arg(cache);
        }
        command.args(&self.args);
        self.launcher = Some(command.stderr(log).stdin(Stdio::piped()).spawn().unwrap());
        let began = Instant::now();
        while !socket.exists() {
            assert!(began.elapsed() < PATIENCE, "no launcher on {}: {}", socket.display(), self.log());
            if let Ok(Some(status)) = self.launcher.as_mut().unwrap().try_wait() {
                panic!("the launcher ended with {status}: {}", self.log());
            }
            sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn kill(&mut self) {
        let mut launcher = self.launcher.take().unwrap();
        launcher.kill().unwrap();
        launcher.wait().unwrap();
    }

    /// The other end of its standard input.
    pub(crate) fn input(&mut self) -> ChildStdin {
        self.launcher.as_mut().unwrap().stdin.take().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.launcher.as_ref().unwrap().id()
    }

    /// Waits until the launcher has ended by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.launcher.take().unwrap().wait().unwrap()
    }

    /// Asks the launcher to end, and waits for it.
    pub(crate) fn end(&mut self) {
        let mut launcher = self.launcher.take().unwrap();
        let pid = rustix::process::Pid::from_raw(launcher.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = launcher.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.place.path().join("s")
    }

    /// The launcher's log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.place.path().join("log")).unwrap_or_default()
    }

    /// The serial console's log, as the launcher's file system has it.
    pub(crate) fn serial(&self) -> String {
        let mut path = self.root.join("log/serial.log");
        if let (false, Some(launcher)) = (path.exists(), &self.launcher) {
            path = PathBuf::from(format!("/proc/{}/root{}", launcher.id(), path.display()));
        }
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }

    pub(crate) fn until_log(&self, wanted: &str) {
        self.until_logged(wanted, 1);
    }

    /// The same for text that the guest writes again and again.
    pub(crate) fn until_logged(&self, wanted: &str, times: usize) {
        let began = Instant::now();
        while !says(self.serial().as_bytes(), wanted, times) {
            assert!(
                began.elapsed() < PATIENCE,
                "the guest does not write '{wanted}': {}\n{}",
                self.serial(),
                self.log()
            );
            sleep(Duration::from_millis(50));
        }
    }

    /// One exchange.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Vec<u8>) {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.to_string();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
        // In one piece: a launcher that answers without reading a body may have closed before a second one.
        stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
        (status, answer.split_off(end + 4))
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        serde_json::from_slice(&self.ask("GET", path, &Value::Null).1).unwrap()
    }

    /// An answer with the status 200.
    pub(crate) fn get_well(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, path, body);
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&answer));
        serde_json::from_slice(&answer).unwrap()
    }

    pub(crate) fn put(&self, vmi: &Value, volumes: &Value) -> Value {
        self.put_resolved(vmi, &json!({"accelerator": "emulation", "kernel": tiny(), "volumes": volumes}))
    }

    pub(crate) fn put_resolved(&self, vmi: &Value, resolved: &Value) -> Value {
        let sync = json!({"vmi": vmi, "generation": 1, "resolved": resolved});
        serde_json::from_slice(&self.ask("PUT", "/v1/vm", &sync).1).unwrap()
    }

    /// Waits until it runs, or panics with the reason.
    pub(crate) fn until_runs(&self) -> Value {
        let state = self.until("Running or an end", |state| state["life"] == "Running" || ended(state));
        assert_eq!(state["life"], "Running", "{state}: {}", self.log());
        state
    }

    /// Sends a request that is queued.
    pub(crate) fn request(&self, request: &Value) {
        let answer = self.answer(request);
        assert_eq!(answer["answer"], "queued", "{request}: {answer}");
    }

    /// The answer to a request.
    pub(crate) fn answer(&self, request: &Value) -> Value {
        let (_, answer) = self.ask("POST", "/v1/requests", request);
        serde_json::from_slice(&answer).unwrap()
    }

    pub(crate) fn state(&self) -> Value {
        self.get("/v1/state")
    }

    /// Watches the state until it is as wanted.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.until_within(PATIENCE, what, wanted)
    }

    pub(crate) fn until_within(
        &self,
        patience: Duration,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(patience)).unwrap();
        write!(stream, "GET /v1/state?watch HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap_or_else(|e| {
                panic!("waited for {what}: {e}: {}\n{}\n{}", self.state(), self.serial(), self.log())
            });
            if let Ok(state) = serde_json::from_str::<Value>(&line)
                && state.is_object()
                && wanted(&state)
            {
                return state;
            }
        }
        panic!("the launcher went while a test waited for {what}: {}", self.log());
    }

    /// The serial console, as for a user.
    pub(crate) fn console(&self) -> Serial {
        self.console_by("write")
    }

    /// The same, though somebody else may still type there.
    pub(crate) fn console_taken(&self) -> Serial {
        self.console_by("take")
    }

    fn console_by(&self, mode: &str) -> Serial {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        write!(stream, "GET /v1/console?{mode} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: coracle-stream\r\n\r\n")
            .unwrap();
        Serial::on(stream.try_clone().unwrap(), stream)
    }
}

pub(crate) fn ended(state: &Value) -> bool {
    state["life"] == "Succeeded" || state["life"] == "Failed"
}

impl Drop for Vm {
    fn drop(&mut self) {
        // The rest of any test: QEMU first, then its launcher.
        let mut root = self.root.clone();
        if let (false, Some(launcher)) = (root.exists(), &self.launcher) {
            root = PathBuf::from(format!("/proc/{}/root{}", launcher.id(), root.display()));
        }
        for entry in fs::read_dir(root.join("run/qemu")).into_iter().flatten().flatten() {
            let path = entry.path();
            let text = fs::read_to_string(&path).unwrap_or_default();
            let is_qemu = path.extension().is_some_and(|e| e == "pid") && !path.ends_with("driver.pid");
            let pid = text.trim().parse().ok().filter(|_| is_qemu).and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        if let Some(mut launcher) = self.launcher.take() {
            let _ = launcher.kill();
            let _ = launcher.wait();
        }
    }
}
