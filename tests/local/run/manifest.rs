//! Manifests and flags, up to where a launcher would be needed.

use super::Laptop;
use std::io::Write as _;
use std::process::Stdio;
use tests::coracle::Ran;

const VM: &str = "\
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: web
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        memory: {guest: 128Mi}
        devices:
          disks:
          - name: root
            disk: {bus: virtio}
      volumes:
      - name: root
        emptyDisk: {capacity: 1Gi}
";

fn dry(laptop: &Laptop, text: &str) -> Ran {
    std::fs::write(laptop.place.path("vm.yaml"), text).unwrap();
    laptop.run(&["run", "vm.yaml", "--dry-run"])
}

#[test]
fn every_fault_is_told_with_file_line_and_field() {
    let laptop = Laptop::new();
    let text = VM
        .replace("{bus: virtio}", "{bus: floppy}")
        .replace("{guest: 128Mi}", "{guest: 128Mi, colour: red}")
        .replace("capacity: 1Gi", "capacity: much")
        + "---\napiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\nmetadata: {name: d}\nspec:\n  storage: {}\n  source:\n    vddk: {url: x}\n";
    let ran = dry(&laptop, &text).refused(3, "vm.yaml:17: spec.template.spec.volumes[0].emptyDisk.capacity");
    assert!(ran.err.contains("vm.yaml:25: spec.source.vddk: not supported yet"), "{}", ran.err);
    assert!(
        ran.err.contains("vm.yaml:14: spec.template.spec.domain.devices.disks[0].disk.bus"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("3 faults"), "{}", ran.err);

    let text =
        VM.replace("{bus: virtio}", "{bus: floppy}").replace("guest: 128Mi", "guest: 128Mi, colour: red");
    let ran = dry(&laptop, &text).refused(3, "vm.yaml:14: spec.template.spec.domain.devices.disks[0]");
    let warning = "warning: vm.yaml:10: spec.template.spec.domain.memory.colour: this field is not known";
    assert!(ran.err.contains(warning), "{}", ran.err);
}

#[test]
fn what_is_no_yaml_is_told_with_its_line() {
    let laptop = Laptop::new();
    dry(&laptop, "kind: X\n a: [\n").refused(3, "vm.yaml:2: this is not valid YAML");
    dry(&laptop, &"[".repeat(3000)).refused(3, "vm.yaml:1");
    dry(&laptop, "").refused(3, "no VirtualMachine");
}

#[test]
fn one_of_several_vms_must_be_chosen() {
    let laptop = Laptop::new();
    let two = VM.to_owned() + "---\n" + &VM.replace("name: web", "name: db");
    dry(&laptop, &two).refused(2, "web, db; choose one with --name");
    let ran = laptop.run(&["run", "vm.yaml", "--dry-run", "--name", "db"]).ok();
    assert!(String::from_utf8(ran.out).unwrap().contains("name: db"));
}

#[test]
fn what_a_vm_needs_must_be_there() {
    let laptop = Laptop::new();
    let text = VM.replace("emptyDisk: {capacity: 1Gi}", "dataVolume: {name: gone}");
    std::fs::write(laptop.place.path("vm.yaml"), text).unwrap();
    let program = laptop.place.path("launcher");
    std::fs::write(&program, "").unwrap();
    let launcher = program.display().to_string();
    laptop.run(&["run", "-d", "vm.yaml", "--launcher", &launcher]).refused(
        3,
        "vm.yaml:17: spec.template.spec.volumes[0].dataVolume.name: there is no DataVolume \"gone\"",
    );
    laptop.is_empty();
}

#[test]
fn a_disk_becomes_a_manifest_that_can_be_run() {
    let laptop = Laptop::new();
    std::fs::write(laptop.place.path("My Disk.img"), vec![0; 1 << 20]).unwrap();
    let flags =
        ["--memory", "512M", "--cpus", "1", "--disk", "1G", "--user", "me", "--password", "on", "--efi"];
    let ran = laptop.run(&[&["run", "My Disk.img", "--dry-run"], &flags[..]].concat()).ok();
    let text = String::from_utf8(ran.out).unwrap();
    for line in ["  name: my-disk", "type: Disk", "guest: \"512Mi\"", "secureBoot: false"] {
        assert!(text.contains(line), "{line:?} is not in:\n{text}");
    }
    let mut again = laptop
        .command(&["run", "-f", "-", "--dry-run"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    again.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(again.wait_with_output().unwrap().stdout).unwrap(), text);
}

#[test]
fn what_is_nothing_says_what_it_could_be() {
    let laptop = Laptop::new();
    laptop.run(&["run", "nothing.img"]).refused(4, "nothing.img");
    laptop.run(&["run", "vm.yaml"]).refused(4, "vm.yaml");
    laptop.run(&["run"]).refused(2, "SRC");
    laptop.run(&["stop", "nobody"]).refused(4, "VM \"nobody\" not found");
    laptop.run(&["rm", "../x"]).refused(2, "is not a valid name");
    std::fs::write(laptop.place.path("vm.yaml"), VM).unwrap();
    laptop.run(&["run", "vm.yaml", "--memory", "1G"]).refused(2, "--memory is for disks and images");
    laptop.run(&["run", "-d", "vm.yaml", "--launcher", "/nowhere"]).refused(4, "/nowhere is not a program");
}

#[test]
fn a_path_too_long_for_a_socket_is_told() {
    let laptop = Laptop::new();
    std::fs::write(laptop.place.path("vm.yaml"), VM).unwrap();
    let program = laptop.place.path("launcher");
    std::fs::write(&program, "").unwrap();
    let (launcher, name) = (program.display().to_string(), "n".repeat(100));
    let args = ["run", "-d", "vm.yaml", "--launcher", &launcher, "--name", &name];
    laptop.run(&args).refused(2, "no more than 107 are possible");
}

#[test]
fn a_shell_completes_the_names_of_vms() {
    let laptop = Laptop::new();
    for name in ["web-1", "web-2", "db"] {
        std::fs::create_dir_all(laptop.place.path(&format!("h/state/vms/{name}"))).unwrap();
    }
    let asked = laptop
        .command(&["--", "coracle", "stop", "web"])
        .env("COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "2")
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_COMPLETE_SPACE", "true")
        .env("_CLAP_IFS", "\n")
        .output()
        .unwrap();
    let names = String::from_utf8(asked.stdout).unwrap();
    assert_eq!(names.lines().collect::<Vec<_>>(), ["web-1", "web-2"]);
    let script = laptop.run(&["completions", "bash"]).ok();
    assert!(String::from_utf8(script.out).unwrap().contains("COMPLETE="));
}
