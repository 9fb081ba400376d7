//! A running VM goes from launcher to launcher, each without privileges: a libvirt daemon on the target's folders receives it, is
//! killed, and the driver inside the launcher finds the VM there.
//!
//! The launchers see their files at the same paths, as in pods. What the two virt-handlers do, carry connections between sockets,
//! is done by [`carry`].

use crate::vm::{Vm, ended, vmi};
use serde_json::{Value, json};
use std::fs;
use std::io::copy;
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// The user of launchers in pods.
const USER: u32 = 107;
/// The folder of the pod, as its launcher sees it.
const INSIDE: &str = "/mnt";
/// The connections of a migration: libvirt's own, QEMU's, that of copied disks, and that of the release.
const SOCKETS: [&str; 4] = ["libvirt.sock", "memory.sock", "disks.sock", "libvirt.sock-release"];
/// Begins a program as the user of the pod, without any capability. The first argument is the pod's folder.
const POD: &str = "mount --bind \"$0/inside\" /mnt && mount --bind \"$0/passwd\" /etc/passwd && \
    mount --bind \"$0/libvirt\" /etc/libvirt && \
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
        // As in the image.
        fs::create_dir_all(folder.path().join("libvirt/hooks")).unwrap();
        symlink(Path::new(INSIDE).join("r/etc/hooks/qemu"), folder.path().join("libvirt/hooks/qemu"))
            .unwrap();
        let before = ["unshare", "--mount", "sh", "-c", POD, folder.path().to_str().unwrap()];
        let vm = Vm::behind(&before, Some(Path::new(INSIDE).join("r")));
        fs::write(vm.place.path().join("log"), "").unwrap();
        give(vm.place.path());
        give(folder.path());
        Pod { vm, folder }
    }

    /// A launcher that waits for the VM of another one.
    fn receiving(resolved: &Value) -> Pod {
        Pod::receiving_vm(&vmi("hop"), resolved, |_| {})
    }

    /// The same with other disks, which `prepare` makes.
    fn receiving_vm(vmi: &Value, resolved: &Value, prepare: impl FnOnce(&Pod)) -> Pod {
        let mut pod = Pod::new();
        prepare(&pod);
        give(pod.folder.path());
        pod.vm.args = ["--receive", "/mnt/libvirt.sock"].map(Into::into).to_vec();
        pod.vm.launch();
        pod.vm.put_resolved(vmi, resolved);
        let state = pod.vm.until("the socket, or an end", |state| state["receives"] == true || ended(state));
        assert_eq!(state["receives"], true, "{state}: {}", pod.vm.log());
        assert!(pod.inside(SOCKETS[0]).exists());
        pod
    }

    /// A path below [`INSIDE`], as this test sees it.
    fn inside(&self, path: &str) -> PathBuf {
        self.folder.path().join("inside").join(path)
    }

    fn serial(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.inside("r/log/serial.log")).unwrap()).into_owned()
    }

    /// Asks the launcher to migrate its VM through the sockets of its pod, and waits for the end.
    fn migrate(&self, id: &str, limits: &Value, meanwhile: impl FnOnce(&Vm)) -> Value {
        let socket = |n: usize| Path::new(INSIDE).join(SOCKETS[n]);
        let sockets =
            json!({"libvirt": socket(0), "memory": socket(1), "disks": socket(2), "release": socket(3)});
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
fn hop(source: &mut Pod, id: &str, resolved: &Value) -> Pod {
    hop_to(source, id, Pod::receiving(resolved))
}

/// Migrates the VM to a launcher that waits for it.
fn hop_to(source: &mut Pod, id: &str, target: Pod) -> Pod {
    let qemu = source.vm.state()["qemu_pid"].as_u64().unwrap();
    carry(source, &target);
    for request in ["start", "pause", "shutdown", "destroy"] {
        let early = target.vm.answer(&json!({"request": request}));
        assert_eq!((&early["answer"], &early["code"]), (&json!("denied"), &json!("Receiving")), "{early}");
    }
    let left = source.migrate(id, &json!({}), |_| {});
    assert_eq!(
        (&left["life"], &left["reason"]),
        (&json!("Succeeded"), &json!("Migrated")),
        "{left}\n{}",
        target.vm.log()
    );
    let migration = &left["migration"];
    assert_eq!((&migration["phase"], &migration["id"]), (&json!("Succeeded"), &json!(id)), "{left}");
    let again = source.vm.answer(&json!({"request": "start"}));
    assert_eq!((&again["answer"], &again["code"]), (&json!("denied"), &json!("Moved")), "{again}");
    source.vm.kill();
    let state = target.vm.until_runs();
    assert_ne!(state["qemu_pid"].as_u64().unwrap(), qemu);
    assert_eq!((&state["receives"], &state["doing"]), (&Value::Null, &Value::Null), "{state}");
    // No daemon is left, nor anything of its own, nor the record that the VM is elsewhere.
    for gone in ["r/receive", SOCKETS[0], SOCKETS[3], "r/migration"] {
        assert!(!target.inside(gone).exists(), "{gone}");
    }
    let children = Command::new("pgrep").args(["--parent", &target.vm.pid().to_string()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&children.stdout), "", "the launcher has a child");
    target
}

/// Begins a migration that would take minutes. Returns the state at its end.
fn stay(source: &Pod, id: &str, resolved: &Value, limits: &Value, meanwhile: impl FnOnce(&Vm)) -> Value {
    let target = Pod::receiving(resolved);
    carry(source, &target);
    let state = source.migrate(id, limits, meanwhile);
    not_received(&target);
    assert_eq!(state["life"], "Running", "{state}");
    assert!(!source.inside("r/migration").exists());
    state["migration"].clone()
}

/// Waits until the launcher says that the VM is not there.
fn not_received(target: &Pod) {
    let state = target.vm.until("an end", ended);
    assert_eq!((&state["life"], &state["reason"]), (&json!("Failed"), &json!("NotReceived")), "{state}");
    assert!(state["message"].as_str().unwrap().contains("was not received"), "{state}");
    assert_eq!(target.vm.answer(&json!({"request": "start"}))["code"], "Moved");
    assert!(!target.inside("r/receive").exists() && !target.inside("r/etc/qemu/test_hop.xml").exists());
}

/// A migration that is aborted, and one that is paused when its time is over, and ends.
fn stay_twice(source: &Pod, resolved: &Value) {
    let migration = stay(source, "aborted", resolved, &json!({"bandwidth": 1 << 20}), |vm| {
        vm.until("progress", |state| state["migration"]["progress"]["processed"].as_u64() > Some(0));
        vm.request(&json!({"request": "abortMigration", "id": "aborted"}));
    });
    assert_eq!(migration["phase"], "Aborted", "{migration}");
    assert_eq!(migration["message"], "Live migration has been aborted");

    let limits = json!({"bandwidth": 1 << 20, "completionSecondsPerGib": 3, "allowPause": true});
    let migration = stay(source, "late", resolved, &limits, |vm| {
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
    let resolved = json!({"accelerator": "emulation", "kernel": first.vm.tiny_for_all()});
    first.vm.put_resolved(&vmi("hop"), &resolved);
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

    stay_twice(&first, &resolved);
    let mut second = hop(&mut first, "one", &resolved);
    let third = hop(&mut second, "two", &resolved);
    third.vm.until_log("count ");

    let mut console = third.vm.console();
    console.types(&format!("kill $!; [ \"$before\" = \"$({sum})\" ] && echo same $((6 * 7)) disk"));
    console.says("same 42 disk");
    let serial = [&first, &second, &third].map(Pod::serial).concat();
    let (numbers, longest) = counted(&serial);
    eprintln!("the guest counted to {}; the longest pause of its clock was {longest:.2} s", numbers.len());
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "a number is missing");

    third.vm.request(&json!({"request": "shutdown"}));
    let state = third.vm.until("an end", ended);
    assert_eq!((&state["life"], &state["reason"]), (&json!("Succeeded"), &json!("Shutdown")), "{state}");
}

/// The disk of a PVC: a raw file with holes.
fn make_disk(pod: &Pod, size: u64) {
    let file = fs::File::create(pod.inside("disk.img")).unwrap();
    file.set_len(size).unwrap();
}

/// The bytes of a PVC's disk that are allocated.
fn allocated(pod: &Pod) -> u64 {
    fs::metadata(pod.inside("disk.img")).unwrap().blocks() * 512
}

/// The disk of a PVC that only one node can use goes along into a new PVC, whose file is as large. A hole stays a hole.
#[test]
fn a_vm_takes_the_disk_of_its_pvc_along() {
    const SIZE: u64 = 256 << 20;
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may become another user");
        return;
    }
    let mut on_claim = vmi("hop");
    on_claim["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]);
    let mut first = Pod::new();
    make_disk(&first, SIZE);
    give(first.folder.path());
    first.vm.launch();
    let disk = json!({"kind": "file", "path": "/mnt/disk.img", "format": "raw"});
    let resolved =
        json!({"accelerator": "emulation", "kernel": first.vm.tiny_for_all(), "volumes": {"data": disk}});
    first.vm.put_resolved(&on_claim, &resolved);
    let state = first.vm.until_runs();
    assert_eq!(state["sizes"], json!({"data": SIZE}), "{state}");
    first.vm.until_log("tiny login:");
    let mut console = first.vm.console();
    console.log_in();
    let sum = "echo 3 >/proc/sys/vm/drop_caches; md5sum </dev/vda";
    console.types(&format!(
        "dd if=/dev/urandom of=/dev/vda bs=1M count=8 seek=100; sync; before=$({sum}); echo sum is $((6 * 7))"
    ));
    console.says("sum is 42");
    console.types(
        "(i=0; while :; do i=$((i+1)); echo kept $i | dd of=/dev/vda bs=512 conv=sync,notrunc,fsync 2>/dev/null; echo at $i.; \
         sleep 0.1; done) &",
    );
    console.says("at 5.");
    drop(console);

    // A disk of another size takes nothing, and the guest stays.
    for (id, size) in [("smaller", SIZE / 2), ("larger", SIZE + (1 << 20))] {
        let target = Pod::receiving_vm(&on_claim, &resolved, |pod| make_disk(pod, size));
        carry(&first, &target);
        let state = first.migrate(id, &json!({}), |_| {});
        let migration = &state["migration"];
        assert_eq!((&state["life"], &migration["phase"]), (&json!("Running"), &json!("Failed")), "{state}");
        let message = migration["message"].as_str().unwrap();
        assert!(message.contains("different sizes"), "{message}");
        not_received(&target);
    }

    let target = Pod::receiving_vm(&on_claim, &resolved, |pod| make_disk(pod, SIZE));
    let mut second = hop_to(&mut first, "one", target);
    eprintln!("allocated: {} at the source, {} at the target", allocated(&first), allocated(&second));
    assert!(allocated(&second) < 32 << 20, "{} bytes of 8 MiB are allocated", allocated(&second));
    let target = Pod::receiving_vm(&on_claim, &resolved, |pod| make_disk(pod, SIZE));
    let third = hop_to(&mut second, "two", target);
    let state = third.vm.until("the size", |state| state["sizes"]["data"].as_u64() > Some(0));
    assert_eq!(state["life"], "Running", "{state}");

    third.vm.until_log("at 1");
    let mut console = third.vm.console();
    console
        .types("kill $!; sleep 1; head -n 1 /dev/vda; dd if=/dev/zero of=/dev/vda bs=512 count=1 conv=fsync");
    console.types(&format!("[ \"$before\" = \"$({sum})\" ] && echo same $((6 * 7)) disk"));
    console.says("same 42 disk");
    third.vm.request(&json!({"request": "shutdown"}));
    let state = third.vm.until("an end", ended);
    assert_eq!((&state["life"], &state["reason"]), (&json!("Succeeded"), &json!("Shutdown")), "{state}");
}

#[test]
fn a_vm_that_does_not_arrive_is_not_started() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may become another user");
        return;
    }
    let files = Vm::new();
    let resolved = json!({"accelerator": "emulation", "kernel": files.tiny_for_all()});
    give(files.place.path());
    let mut target = Pod::receiving(&resolved);
    drop(UnixStream::connect(target.inside(SOCKETS[0])).unwrap());
    not_received(&target);
    // Nor by the next launcher, whatever the last one was doing.
    target.vm.kill();
    target.vm.launch();
    let state = target.vm.until("an end", ended);
    assert_eq!(state["reason"], "NotReceived", "{state}");
    assert_eq!(target.vm.answer(&json!({"request": "start"}))["code"], "Moved");

    // The daemon of a launcher that was killed holds the driver's lock.
    let mut target = Pod::receiving(&resolved);
    target.vm.kill();
    target.vm.launch();
    let state = target.vm.until("an end", ended);
    assert_eq!(state["reason"], "MigrationUnknown", "{state}");
    assert!(target.vm.log().contains("ending the libvirt daemon"), "{}", target.vm.log());
    assert!(!target.inside("r/receive").exists());

    let mut target = Pod::receiving(&resolved);
    target.vm.end();
    assert!(!target.inside(SOCKETS[0]).exists() && !target.inside("r/receive").exists());
}

#[test]
fn root_receives_no_vm() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root is refused");
        return;
    }
    let mut vm = Vm::new();
    let socket = vm.place.path().join("receive.sock");
    vm.args = vec!["--receive".into(), socket.display().to_string()];
    vm.launch();
    vm.put(&vmi("root"), &json!({}));
    let state = vm.until("an end", ended);
    assert_eq!((&state["life"], &state["reason"]), (&json!("Failed"), &json!("NotReceived")), "{state}");
    assert!(state["message"].as_str().unwrap().contains("root cannot receive a VM"), "{state}");
}
