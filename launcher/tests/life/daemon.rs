//! The surroundings of a launcher: a libvirt daemon, another launcher with the same cache, a missing account.

use crate::vm::{Vm, ended, vmi};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The user `nobody`: libvirt's daemon wants one with a name.
const USER: &str = "65534";

/// A libvirt daemon of the user, with all of its files in one folder. It ends with the value, and its VMs with it.
struct Daemon {
    folder: PathBuf,
    process: Child,
}

impl Daemon {
    fn start(folder: &Path) -> Daemon {
        let run = folder.join("d");
        fs::create_dir(&run).unwrap();
        let settings = folder.join("libvirtd.conf");
        fs::write(&settings, format!("unix_sock_dir = \"{}\"\n", run.display())).unwrap();
        fs::write(folder.join("qemu.conf"), "").unwrap();
        let owned = Command::new("chown").args(["-R", USER]).arg(&run).status().unwrap();
        assert!(owned.success());
        let process = Command::new("setpriv")
            .args(["--reuid", USER, "--regid", USER, "--clear-groups", "libvirtd", "--config"])
            .arg(&settings)
            .arg("--pid-file")
            .arg(run.join("pid"))
            .env("HOME", &run)
            .env("XDG_RUNTIME_DIR", run.join("run"))
            .env("XDG_CACHE_HOME", run.join("cache"))
            .env("XDG_CONFIG_HOME", run.join("config"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let daemon = Daemon { folder: run, process };
        let began = Instant::now();
        while !daemon.socket().exists() {
            assert!(
                began.elapsed() < Duration::from_secs(120),
                "no libvirtd on {}",
                daemon.socket().display()
            );
            sleep(Duration::from_millis(20));
        }
        daemon
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("libvirt-sock")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        for entry in fs::read_dir(self.folder.join("run/libvirt/qemu/run")).into_iter().flatten().flatten() {
            let is_qemu =
                entry.path().extension().is_some_and(|e| e == "pid") && entry.file_name() != "driver.pid";
            let pid = fs::read_to_string(entry.path()).ok().and_then(|text| text.trim().parse().ok());
            if let Some(pid) = pid.filter(|_| is_qemu).and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

#[test]
fn a_daemon_runs_the_vm_and_the_daemons_end_is_reported() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may become another user");
        return;
    }
    let mut vm = Vm::of_another_user(USER);
    let mut daemon = Daemon::start(vm.place.path());
    let uri = format!("qemu+unix:///session?socket={}", daemon.socket().display());
    vm.args = vec!["--libvirt-uri".into(), uri.clone()];
    vm.launch();
    assert_eq!(vm.get("/v1/info")["uri"], uri.as_str());
    let kernel = vm.tiny_for_all();
    vm.put_resolved(&vmi("guest"), &json!({"accelerator": "emulation", "kernel": kernel}));
    vm.until_runs();
    let mut console = vm.console();
    console.log_in();
    vm.request(&json!({"request": "pause"}));
    vm.until("a pause", |state| state["life"] == "Paused");
    vm.request(&json!({"request": "destroy"}));
    vm.until("an end", ended);
    vm.request(&json!({"request": "start"}));
    vm.until("a second life", |state| state["life"] == "Running");

    daemon.process.kill().unwrap();
    let told = |state: &Value| state["message"].as_str().is_some_and(|text| text.contains("daemon has gone"));
    vm.until("word of the daemon's end", told);
}

/// What a program printed, on both outputs, and whether it succeeded.
fn ran(command: &mut Command) -> (String, String, bool) {
    let done = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&done.stdout), text(&done.stderr), done.status.success())
}

/// Numbers that differ from one question to the next.
fn steady(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let kept = match line {
            line if line.starts_with("CPU time:") => "CPU time:",
            // libvirt numbers what it asks QEMU.
            line if line.contains("libvirt-") => line.split("libvirt-").next().unwrap(),
            // Of statistics that go on while the guest stands still, the names.
            line if line.starts_with("  ") && line.contains('=') => line.split('=').next().unwrap(),
            line => line,
        };
        out += kept;
        out.push('\n');
    }
    out
}

#[test]
fn virsh_in_a_pod_prints_what_libvirts_own_prints_of_the_same_domain() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may become another user");
        return;
    }
    if Command::new("virsh").arg("--version").output().is_err() {
        eprintln!("skipped: virsh is not installed");
        return;
    }
    let mut vm = Vm::of_another_user(USER);
    let daemon = Daemon::start(vm.place.path());
    let uri = format!("qemu+unix:///session?socket={}", daemon.socket().display());
    vm.args = vec!["--libvirt-uri".into(), uri.clone()];
    vm.launch();
    let own = vm.place.path().join("virsh");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_virt-launcher"), &own).unwrap();
    let ask = |args: &[&str]| ran(Command::new(&own).env("VIRT_LAUNCHER_SOCKET", vm.socket()).args(args));
    assert_eq!(ask(&["list", "--all"]).0, " Id   Name   State\n--------------------\n\n");
    let kernel = vm.tiny_for_all();
    vm.put_resolved(&vmi("guest"), &json!({"accelerator": "emulation", "kernel": kernel}));
    vm.until_runs();
    let libvirts = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "virsh", "-c", &uri]).args(args);
        ran(command.env("HOME", &daemon.folder).env("XDG_RUNTIME_DIR", daemon.folder.join("run")))
    };
    let name = "test_guest";
    assert_eq!(ask(&["domstate", name]).0, "running\n\n");
    vm.request(&json!({"request": "pause"}));
    vm.until("a pause", |state| state["life"] == "Paused");
    let query = r#"{"execute": "query-name"}"#;
    for args in [
        &["list"][..],
        &["list", "--all"],
        &["list", "--inactive"],
        &["list", "--name"],
        &["list", "--uuid"],
        &["list", "--id"],
        &["-q", "list"],
        &["domstate", name],
        &["domstate", "1", "--reason"],
        &["dominfo", name],
        &["domblklist", name],
        &["domblklist", "--details", name],
        &["domblklist", "--inactive", name],
        &["domiflist", name],
        &["domid", name],
        &["domuuid", name],
        &["domname", "1"],
        &["dumpxml", name],
        &["dumpxml", "--inactive", name],
        &["-q", "dumpxml", name],
        &["domstats"],
        &["domstats", "--state", "--balloon", "--vcpu", name],
        &["version"],
        &["--version"],
        &["qemu-monitor-command", name, query],
        &["qemu-monitor-command", name, "--pretty", query],
        &["qemu-monitor-command", "--hmp", name, "info", "status"],
        &["qemu-monitor-command", "--hmp", name, "info block"],
        &["domid test_guest; domstate test_guest"],
        &["domstate", "nosuch"],
        &["domstate"],
        &["domstate", name, "more"],
        &["list", "--bogus"],
        &["nosuch"],
        &["help", "domstate"],
        &["help", "domiflist"],
        &["help", "domblklist"],
        &["help", "dominfo"],
    ] {
        let (wanted, shown) = (libvirts(args), ask(args));
        let steady = |(out, error, is_done): &(String, String, bool)| (steady(out), error.clone(), *is_done);
        assert_eq!(steady(&shown), steady(&wanted), "virsh {args:?}");
    }
    let (out, error, is_done) = ask(&["destroy", name]);
    assert!(!is_done && out.is_empty(), "{out}");
    assert!(error.contains("virtctl stop guest -n test --grace-period=0 --force"), "{error}");
    assert_eq!(vm.state()["life"], "Paused");
    vm.request(&json!({"request": "destroy"}));
    vm.until("an end", ended);
    assert_eq!(ask(&["domstate", name, "--reason"]).0, libvirts(&["domstate", name, "--reason"]).0);
    assert_eq!(ask(&["list", "--all"]), libvirts(&["list", "--all"]));
}

#[test]
fn two_launchers_fill_one_empty_cache() {
    let cache = tempfile::tempdir().unwrap();
    let begin = |name: &str| {
        let mut vm = Vm::new();
        vm.args = vec!["--cache".into(), cache.path().display().to_string()];
        vm.launch();
        vm.put_resolved(&vmi(name), &json!({"accelerator": "emulation"}));
        vm
    };
    let both = std::thread::scope(|scope| {
        ["one", "two"].map(|name| scope.spawn(move || begin(name))).map(|begun| begun.join().unwrap())
    });
    for vm in &both {
        vm.until_runs();
    }
    let findings = |folder: &Path| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.filter(|file| file.path().extension().is_some_and(|e| e == "xml")).count()
    };
    let began = Instant::now();
    let mut folder = None;
    while folder.is_none() {
        assert!(began.elapsed() < Duration::from_secs(120), "nothing was kept");
        folder = fs::read_dir(cache.path()).unwrap().flatten().map(|e| e.path()).find(|p| findings(p) > 0);
        sleep(Duration::from_millis(20));
    }
    // The third starts with the findings of the two.
    let third = begin("three");
    assert!(findings(&third.root.join("cache/qemu/capabilities")) > 0);
    third.until_runs();
    // A file that is being written has another name for a moment.
    let all = |folder: &Path| fs::read_dir(folder).unwrap().flatten().count();
    let folder = folder.unwrap();
    while findings(&folder) < all(&folder) {
        assert!(began.elapsed() < Duration::from_secs(120), "something else was left");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_launcher_without_a_vm_ends_with_the_program_that_started_it() {
    let launch = || {
        let mut vm = Vm::new();
        vm.args = vec!["--lifeline".into()];
        vm.launch();
        vm
    };
    let mut forgotten = launch();
    drop(forgotten.input());
    assert!(forgotten.wait().success(), "{}", forgotten.log());
    // A launcher with a VM stays.
    let mut kept = launch();
    kept.put_resolved(&vmi("guest"), &json!({"accelerator": "emulation"}));
    kept.until_runs();
    drop(kept.input());
    kept.request(&json!({"request": "pause"}));
    kept.until("a pause", |state| state["life"] == "Paused");
}

#[test]
fn a_missing_account_is_named_with_the_command_that_adds_it() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may hide an account");
        return;
    }
    let place = tempfile::Builder::new().prefix("vm").tempdir_in("/tmp").unwrap();
    let script = "grep -v ^libvirt-qemu: /etc/passwd >$1/passwd && mount --bind $1/passwd /etc/passwd && shift && exec \"$@\"";
    let ended = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(place.path())
        .arg(env!("CARGO_BIN_EXE_virt-launcher"))
        .args(["run", "--root"])
        .arg(place.path().join("r"))
        .arg("--socket")
        .arg(place.path().join("s"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        !ended.status.success() && said.contains("useradd --system") && said.contains("libvirt-qemu"),
        "{said}"
    );
}
