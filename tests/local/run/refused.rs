//! Refused VMs: each case has its message and exit code, and leaves no files.

use super::{Laptop, PROGRAM};
use std::process::Command;
use tests::coracle::Ran;
use tests::disk::copy_program;

const RUN: [&str; 8] = ["run", "-d", "-q", "tiny:1", "--memory", "256M", "--name", "no"];

/// Starts the guest on a host that this shell line has modified; needs root.
fn where_it(laptop: &Laptop, line: &str, more: &[&str]) -> Option<Ran> {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root may take something away from one process");
        return None;
    }
    let own = laptop.command(&[]);
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &format!("{line} && exec \"$@\""), "sh", PROGRAM])
        .args(RUN)
        .args(more);
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Some(Ran::of(command.current_dir(laptop.place.folder()).output().unwrap()))
}

#[test]
fn what_is_missing_names_the_command_that_brings_it() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let emulated = ["--accel", "emulation"];
    let account = "grep -v ^libvirt-qemu: /etc/passwd >passwd; mount --bind passwd /etc/passwd";
    if let Some(ran) = where_it(&laptop, account, &emulated) {
        ran.refused(1, "as root: useradd --system");
    }
    laptop.is_empty();
    // A file that is not a program counts as missing. The cache of another test would hide that.
    let qemu = "mount --bind /dev/null \"$(command -v qemu-system-$(uname -m))\"";
    if let Some(ran) = where_it(&laptop, qemu, &emulated) {
        ran.refused(1, "as root: apt-get install qemu-system-x86");
    }
    laptop.is_empty();
    laptop.run(&[&RUN[..], &["--launcher", "/bin/false"]].concat()).refused(1, "the launcher ended with");
    laptop.is_empty();

    // The launcher is alone in its folder, and PATH is empty.
    copy_program(PROGRAM, laptop.place.path("alone"));
    let mut alone = Command::new(laptop.place.path("alone"));
    alone.args(RUN).env("PATH", "/nowhere").env("CORACLE_HOME", laptop.place.path("h"));
    alone.env("HOME", laptop.place.folder()).env_remove("CORACLE_LAUNCHER").env_remove("CORACLE_STORE");
    Ran::of(alone.output().unwrap()).refused(4, "neither beside coracle nor in PATH");
    laptop.is_empty();
}

#[test]
fn who_insists_on_kvm_learns_why_there_is_none() {
    let Some(laptop) = Laptop::with_guest() else { return };
    // A device that is not KVM: the probe says so, and so does the resulting error.
    if let Some(ran) = where_it(&laptop, "mount --bind /dev/null /dev/kvm", &["--accel", "kvm"]) {
        let ran = ran.refused(1, "--accel kvm: ");
        assert!(ran.err.contains("may not come up: "), "{}", ran.err);
    }
    laptop.is_empty();
    if !std::path::Path::new("/dev/kvm").exists() {
        laptop.run(&[&RUN[..], &["--accel", "kvm"]].concat()).refused(4, "this computer does not offer it");
    }
}

#[test]
fn a_disk_over_another_file_is_not_used() {
    let Some(laptop) = Laptop::with_guest() else { return };
    laptop.place.shell("truncate -s 1M base && qemu-img create -q -f qcow2 -b base -F raw over.qcow2");
    let ran = laptop.run(&["run", "-d", "-q", "over.qcow2", "--accel", "emulation"]);
    let ran = ran.refused(3, "it is an overlay over the backing file \"base\"");
    assert!(ran.err.contains("qemu-img convert"), "{}", ran.err);
    laptop.is_empty();
}

#[test]
fn a_manifest_is_told_what_this_computer_does_not_do() {
    let laptop = Laptop::new();
    let long = "x".repeat(2049);
    let text = format!(
        "apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {{name: seed}}
spec:
  domain:
    memory: {{guest: 128Mi}}
    devices: {{disks: [{{name: seed, disk: {{}}}}]}}
  volumes:
  - name: seed
    cloudInitNoCloud: {{userData: '{long}'}}
"
    );
    std::fs::write(laptop.place.path("vm.yaml"), &text).unwrap();
    laptop.run(&["run", "vm.yaml", "--dry-run"]).refused(3, "exceeds 2048 byte limit");

    let secret = "containerDisk: {image: 'registry.example/os:1', imagePullSecret: mine}";
    let text = text.replace(&format!("cloudInitNoCloud: {{userData: '{long}'}}"), secret);
    std::fs::write(laptop.place.path("vm.yaml"), text).unwrap();
    std::fs::write(laptop.place.path("launcher"), "").unwrap();
    let ran = laptop.run(&["run", "-d", "vm.yaml", "--launcher", "launcher"]);
    let ran = ran.refused(3, "vm.yaml:10: spec.volumes[0].containerDisk.imagePullSecret: not supported");
    assert!(ran.err.contains("docker login"), "{}", ran.err);
    laptop.is_empty();
}

/// A folder for VMs is needed to start one, not to report on the host.
#[test]
fn a_computer_is_shown_to_somebody_without_a_home() {
    let laptop = Laptop::new();
    let place = &laptop.place;
    let node = serde_json::json!({
        "kvm": {"verdict": "none"}, "arch": "x86_64", "libvirt": null, "qemu": null, "accelerators": [],
        "machineTypes": [], "devices": [], "hugepages": [], "firmware": [], "missing": [],
        "cpu": {"vendor": null, "hostModel": null, "models": [], "features": [], "count": 1},
    });
    std::fs::write(place.path("node.json"), node.to_string()).unwrap();
    // No cache folder is given.
    place.shell(
        "printf '#!/bin/sh\ntest \"$*\" = node-info && cat node.json\n' >launcher && chmod +x launcher",
    );
    let show = |args: &[&str]| {
        let mut command = place.command(&[&["host", "--launcher", "./launcher"], args].concat());
        Ran::of(command.env_remove("HOME").output().unwrap()).ok()
    };
    let told = String::from_utf8(show(&[]).out).unwrap();
    for says in ["missing: a folder for VMs: HOME is not set", "set HOME to", "landlock", "x86_64"] {
        assert!(told.contains(says), "{says:?} is not in: {told}");
    }
    let missing = show(&["-o", "json"]).json()["missing"][0]["what"].clone();
    assert!(missing.as_str().unwrap().contains("CORACLE_HOME"), "{missing}");
    place.command(&["ps"]).env_remove("HOME").output().map(Ran::of).unwrap().refused(2, "HOME is not set");
}

/// Facts that need no virt-launcher are reported without one, and also that it is missing.
#[test]
fn a_computer_is_shown_without_a_launcher() {
    let laptop = Laptop::new();
    let place = &laptop.place;
    copy_program(PROGRAM, place.path("alone"));
    let show = |args: &[&str]| {
        let own = laptop.command(&[&["host"], args].concat());
        let mut command = Command::new(place.path("alone"));
        command.args(own.get_args()).env("PATH", "/nowhere").env("CORACLE_HOME", place.path("h"));
        Ran::of(command.env_remove("CORACLE_LAUNCHER").current_dir(place.folder()).output().unwrap()).ok()
    };
    place.shell("printf '#!/bin/sh\necho no libvirt here >&2; exit 127\n' >broken && chmod +x broken");
    for (args, missing, mend) in [
        (
            &[][..],
            "virt-launcher: the program virt-launcher is neither beside coracle nor in PATH",
            "install it",
        ),
        (&["--launcher", "none"], "virt-launcher: none is not a program", "by --launcher"),
        (
            &["--launcher", "./broken"],
            "cannot say what this computer can do: no libvirt here",
            "broken node-info",
        ),
    ] {
        let told = String::from_utf8(show(args).out).unwrap();
        for says in [missing, mend, "arch ", "CPUs ", "/dev/kvm: ", "landlock ", "seccomp "] {
            assert!(told.contains(says), "{says:?} is not in: {told}");
        }
        let json = show(&[args, &["-o", "json"]].concat()).json();
        assert!(json["missing"][0]["what"].as_str().unwrap().contains(missing), "{json}");
        assert!(json["cpu"]["count"].as_u64() > Some(0) && json["confinement"].is_object(), "{json}");
        assert_eq!((json.get("libvirt"), json.get("kvm")), (None, None), "nobody knows");
    }
}

#[test]
fn a_folder_for_vms_that_anybody_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let laptop = Laptop::new();
    let (home, open) = (laptop.place.path("h"), std::fs::Permissions::from_mode(0o777));
    std::fs::create_dir(&home).unwrap();
    std::fs::set_permissions(&home, open).unwrap();
    for verb in [&RUN[..], &["ps"], &["console", "no"]] {
        let ran = laptop.run(verb).refused(1, "h can be written to by others (mode 0777)");
        assert!(ran.err.contains(&format!("(chmod go-w {})", home.display())), "{}", ran.err);
    }
    assert_eq!(std::fs::read_dir(&home).unwrap().count(), 0, "something was made in it");
}

#[test]
fn a_file_without_a_byte_is_no_disk() {
    let laptop = Laptop::new();
    std::fs::write(laptop.place.path("empty.raw"), "").unwrap();
    let said = "empty.raw is empty: there is no disk in it";
    laptop.run(&["run", "-d", "-q", "empty.raw", "--accel", "emulation"]).refused(3, said);
    laptop.run(&["run", "--dry-run", "empty.raw"]).refused(3, said);
    laptop.is_empty();
    let Some(laptop) = Laptop::with_guest() else { return };
    std::fs::write(laptop.place.path("empty.raw"), "").unwrap();
    for flag in ["--disk", "--cdrom"] {
        laptop.run(&[&RUN[..], &[flag, "empty.raw", "--accel", "emulation"]].concat()).refused(3, said);
        laptop.is_empty();
    }
}
