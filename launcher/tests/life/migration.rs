//! A running VM goes from launcher to launcher, each without privileges: a libvirt daemon on the target's folders receives it, is
//! killed, and the driver inside the launcher finds the VM there.
//!
//! The launchers see their files at the same paths, as in pods. What the two virt-handlers do, carry connections between sockets,
//! is done by [`carry`].

use crate::vm::{Vm, tiny, vmi};
use serde_json::{Value, json};
use std::fs;
use std::io::copy;
use std::net::Shutdown;
use std::os::unix::fs::chown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The user of launchers in pods.
const USER: u32 = 107;
/// The folder of the pod, as its launcher sees it.
const INSIDE: &str = "/mnt";
/// The connections of a migration: libvirt's own, QEMU's, and that of copied disks.
const SOCKETS: [&str; 3] = ["libvirt.sock", "memory.sock", "disks.sock"];
/// Begins a program as the user of the pod, without any capability. The first argument is the pod's folder.
const POD: &str = "mount --bind \"$0/inside\" /mnt && mount --bind \"$0/passwd\" /etc/passwd && \
    exec setpriv --reuid 107 --regid 107 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs \
    env -u XDG_RUNTIME_DIR HOME=/nonexistent \"$@\"";

/// A launcher with a folder of its own, at the same path as that of any other.
struct Pod {
    vm: Vm,
    folder: tempfile::TempDir,
}

impl Pod {
    fn new() -> Pod {
        let folder = tempfile::Builder::new().prefix("pod").tempdir_in("/tmp").unwrap();
        // libvirt's daemon wants a user with a name.
        let users = fs::read_to_string("/etc/passwd").unwrap();
        fs::write(folder.path().join("passwd"), format!("{users}qemu:x:{USER}:{USER}::/tmp:/sbin/nologin\n"))
            .unwrap();
        fs::create_dir_all(folder.path().join("inside/r/disks")).unwrap();
        let before = ["unshare", "--mount", "sh", "-c", POD, folder.path().to_str().unwrap()];
        let vm = Vm::behind(&before, Some(Path::new(INSIDE).join("r")));
        fs::write(vm.place.path().join("log"), "").unwrap();
        give(vm.place.path());
        give(folder.path());
        Pod { vm, folder }
    }

    /// A launcher that waits for the VM of another one: with that VM's record, and an empty disk of the same size.
    fn receiving(source: &Pod) -> Pod {
        let mut pod = Pod::new();
        let made = Command::new("qemu-img")
            .args(["create", "-q", "-f", "qcow2"])
            .arg(pod.inside("r/disks/data.qcow2"))
            .arg("1G")
            .status();
        assert!(made.unwrap().success());
        fs::copy(source.inside("r/vm.json"), pod.inside("r/vm.json")).unwrap();
        give(pod.folder.path());
        pod.vm.args = ["--receive", "/mnt/libvirt.sock"].map(Into::into).to_vec();
        pod
    }

    /// A path below [`INSIDE`], as this test sees it.
    fn inside(&self, path: &str) -> PathBuf {
        self.folder.path().join("inside").join(path)
    }

    fn serial(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.inside("r/log/serial.log")).unwrap()).into_owned()
    }

    /// Starts the launcher, which receives the VM while `migrate` runs.
    fn receive<T>(&mut self, migrate: impl FnOnce() -> T) -> (thread::Result<()>, T) {
        let socket = self.inside(SOCKETS[0]);
        thread::scope(|scope| {
            let launch = scope.spawn(|| self.vm.launch());
            let began = Instant::now();
            while !socket.exists() && !launch.is_finished() {
                assert!(
                    began.elapsed() < Duration::from_secs(120),
                    "nothing listens on {}",
                    socket.display()
                );
                thread::sleep(Duration::from_millis(20));
            }
            let migrated = migrate();
            (launch.join(), migrated)
        })
    }

    /// Asks the launcher to migrate its VM through the sockets of its pod, and waits for the end.
    fn migrate(&self, id: &str, limits: &Value, meanwhile: impl FnOnce(&Vm)) -> Value {
        let socket = |n: usize| Path::new(INSIDE).join(SOCKETS[n]);
        let sockets = json!({"libvirt": socket(0), "memory": socket(1), "disks": socket(2)});
        let order = json!({
            "request": "migrate", "id": id, "sockets": sockets, "copiedDisks": ["data"], "limits": limits,
        });
        self.vm.request(&order);
        meanwhile(&self.vm);
        self.vm.until("the end of the migration", |state| {
            !matches!(state["migration"]["phase"].as_str(), Some("Running" | "Aborting"))
        })
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.inside("r/run/qemu")).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let is_qemu =
                entry.path().extension().is_some_and(|e| e == "pid") && entry.file_name() != "driver.pid";
            let pid = text.trim().parse().ok().filter(|_| is_qemu).and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

fn give(folder: &Path) {
    assert!(Command::new("chown").args(["-R", "107:107"]).arg(folder).status().unwrap().success());
}

/// Carries each connection of the source to the socket of the same name at the target.
fn carry(source: &Pod, target: &Pod) {
    for name in SOCKETS {
        let (from, to) = (source.inside(name), target.inside(name));
        drop(fs::remove_file(&from));
        let listener = UnixListener::bind(&from).unwrap();
        chown(&from, Some(USER), Some(USER)).unwrap();
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), UnixStream::connect(&to).unwrap());
                for (mut one, mut other) in
                    [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
                {
                    thread::spawn(move || {
                        drop(copy(&mut one, &mut other));
                        drop(other.shutdown(Shutdown::Write));
                    });
                }
            }
        });
    }
}

/// Migrates the VM to a new launcher.
fn hop(source: &mut Pod, id: &str) -> Pod {
    let qemu = source.vm.state()["qemu_pid"].as_u64().unwrap();
    let mut target = Pod::receiving(source);
    carry(source, &target);
    let (launched, left) = target.receive(|| source.migrate(id, &json!({}), |_| {}));
    assert!(launched.is_ok(), "{left}\n{}\n{}", source.vm.log(), target.vm.log());
    assert_eq!((&left["life"], &left["reason"]), (&json!("Succeeded"), &json!("Migrated")), "{left}");
    let migration = &left["migration"];
    assert_eq!((&migration["phase"], &migration["id"]), (&json!("Succeeded"), &json!(id)), "{left}");
    let again = source.vm.answer(&json!({"request": "start"}));
    assert_eq!((&again["answer"], &again["code"]), (&json!("denied"), &json!("Moved")), "{again}");
    source.vm.kill();
    let state = target.vm.state();
    assert_eq!(state["life"], "Running", "{state}: {}", target.vm.log());
    assert_ne!(state["qemu_pid"].as_u64().unwrap(), qemu);
    // No daemon is left, nor anything of its own.
    assert!(!target.inside("r/receive").exists() && !target.inside(SOCKETS[0]).exists());
    let children = Command::new("pgrep").args(["--parent", &target.vm.pid().to_string()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&children.stdout), "", "the launcher has a child");
    target
}

/// Begins a migration that would take minutes. Returns the state at its end.
fn stay(source: &Pod, id: &str, limits: &Value, meanwhile: impl FnOnce(&Vm)) -> Value {
    let mut target = Pod::receiving(source);
    carry(source, &target);
    let (launched, state) = target.receive(|| source.migrate(id, limits, meanwhile));
    assert!(launched.is_err(), "the VM that stayed is at the target, too");
    assert_eq!(state["life"], "Running", "{state}");
    assert!(!source.inside("r/migration").exists());
    state["migration"].clone()
}

/// A migration that is aborted, and one that is paused when its time is over, and ends.
fn stay_twice(source: &Pod) {
    let migration = stay(source, "aborted", &json!({"bandwidth": 1 << 20}), |vm| {
        vm.until("progress", |state| state["migration"]["progress"]["processed"].as_u64() > Some(0));
        vm.request(&json!({"request": "abortMigration", "id": "aborted"}));
    });
    assert_eq!(migration["phase"], "Aborted", "{migration}");
    assert_eq!(migration["message"], "Live migration has been aborted");

    let limits = json!({"bandwidth": 1 << 20, "completionSecondsPerGib": 3, "allowPause": true});
    let migration = stay(source, "late", &limits, |vm| {
        vm.until("the pause", |state| state["reason"] == "PausedByMigrationMonitor");
    });
    assert_eq!(
        (&migration["phase"], &migration["mode"]),
        (&json!("Failed"), &json!("Paused")),
        "{migration}"
    );
    let message = migration["message"].as_str().unwrap();
    assert!(message.starts_with("it was not done within"), "{message}");
}

/// The numbers and times that the guest counts, and the longest time between two.
fn counted(serial: &str) -> (Vec<u64>, f64) {
    // The shell's prompt may stand before the first one.
    let lines = serial.lines().filter_map(|line| Some(line.trim().split_once("count ")?.1));
    let read = |line: &str| {
        let (number, time) = line.split_once(' ')?;
        Some((number.parse().ok()?, time.parse::<f64>().ok()?))
    };
    let all: Vec<(u64, f64)> = lines.filter_map(read).collect();
    let longest = all.windows(2).map(|two| two[1].1 - two[0].1).fold(0.0, f64::max);
    (all.into_iter().map(|(number, _)| number).collect(), longest)
}

#[test]
fn a_running_vm_goes_to_another_launcher_and_on_to_a_third() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may become another user");
        return;
    }
    let mut first = Pod::new();
    first.vm.launch();
    let kernel = first.vm.tiny_for_all();
    first.vm.put_resolved(&vmi("hop"), &json!({"accelerator": "emulation", "kernel": kernel}));
    first.vm.until_runs();
    first.vm.until_log("tiny login:");
    let mut console = first.vm.console();
    console.log_in();
    let sum = "echo 3 >/proc/sys/vm/drop_caches; head -c 16777216 /dev/vda | md5sum";
    console.types(&format!(
        "dd if=/dev/urandom of=/dev/vda bs=1M count=16; sync; before=$({sum}); echo sum is $((6 * 7))"
    ));
    console.says("sum is 42");
    console.types(
        "(i=0; while :; do i=$((i+1)); read t rest </proc/uptime; echo count $i $t; usleep 20000; done) &",
    );
    console.says("count 20 ");
    drop(console);

    stay_twice(&first);
    let mut second = hop(&mut first, "one");
    let third = hop(&mut second, "two");
    third.vm.until_log("count ");

    let mut console = third.vm.console();
    console.types(&format!("kill $!; [ \"$before\" = \"$({sum})\" ] && echo same $((6 * 7)) disk"));
    console.says("same 42 disk");
    let serial = [&first, &second, &third].map(Pod::serial).concat();
    let (numbers, longest) = counted(&serial);
    eprintln!("the guest counted to {}; the longest pause of its clock was {longest:.2} s", numbers.len());
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "a number is missing");

    third.vm.request(&json!({"request": "shutdown"}));
    let state = third.vm.until("an end", crate::vm::ended);
    assert_eq!((&state["life"], &state["reason"]), (&json!("Succeeded"), &json!("Shutdown")), "{state}");
}

#[test]
fn a_vm_that_does_not_arrive_is_not_started() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may become another user");
        return;
    }
    let source = Pod::new();
    let sync = json!({"vmi": vmi("lost"), "generation": 1, "resolved": {"accelerator": "emulation", "kernel": tiny()}});
    fs::write(source.inside("r/vm.json"), sync.to_string()).unwrap();
    let mut target = Pod::receiving(&source);
    let socket = target.inside(SOCKETS[0]);
    let (launched, ()) = target.receive(|| drop(UnixStream::connect(&socket).unwrap()));
    assert!(launched.is_err(), "it goes on without a VM");
    let log = target.vm.log();
    assert!(log.contains("test_lost was not received"), "{log}");
    assert!(!target.inside("r/etc/qemu/test_lost.xml").exists() && !target.inside("r/receive").exists());
}

#[test]
fn what_cannot_be_received_is_refused_with_the_reason() {
    let place = tempfile::Builder::new().prefix("vm").tempdir_in("/tmp").unwrap();
    let path = |name: &str| place.path().join(name);
    let refusal = || {
        let ended = Command::new(env!("CARGO_BIN_EXE_virt-launcher"))
            .args(["run", "--root"])
            .arg(path("r"))
            .arg("--socket")
            .arg(path("s"))
            .arg("--receive")
            .arg(path("receive.sock"))
            .output()
            .unwrap();
        assert!(!ended.status.success());
        String::from_utf8(ended.stderr).unwrap()
    };
    assert!(refusal().contains("there is no VM in"), "{}", refusal());
    fs::write(
        path("r/vm.json"),
        json!({"vmi": Value::Null, "generation": 1, "resolved": {"accelerator": "emulation"}}).to_string(),
    )
    .unwrap();
    assert!(refusal().contains("is not understood"), "{}", refusal());
    if rustix::process::getuid().is_root() {
        let sync = json!({"vmi": vmi("root"), "generation": 1, "resolved": {"accelerator": "emulation"}});
        fs::write(path("r/vm.json"), sync.to_string()).unwrap();
        assert!(refusal().contains("root cannot receive a VM"), "{}", refusal());
    }
}
