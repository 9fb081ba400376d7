//! `--dry-run` refuses what a run refuses, with the same messages, and creates nothing.

use super::{Laptop, launcher};
use std::net::TcpListener;
use tests::coracle::Ran;
use tests::disk::copy_program;

/// A VM with this volume, and more of its spec and of the file.
fn vm(volume: &str, spec: &str, beside: &str) -> String {
    format!(
        "apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {{name: dry}}
spec:
  domain:
    memory: {{guest: 128Mi}}
    devices: {{disks: [{{name: root, disk: {{bus: virtio}}}}]}}
  volumes:
  - name: root
    {volume}
{spec}{beside}"
    )
}

/// Results of a dry run and a real run with these arguments, which must be equal.
fn both(laptop: &Laptop, text: &str, more: &[&str]) -> Ran {
    std::fs::write(laptop.place.path("vm.yaml"), text).unwrap();
    let program = laptop.place.path("launcher");
    std::fs::write(&program, "").unwrap();
    let program = program.display().to_string();
    let run = |how: &[&str]| laptop.run(&[&["run", "vm.yaml"], how, more].concat());
    let (dry, earnest) = (run(&["--dry-run"]), run(&["-d", "--launcher", &program]));
    assert_eq!((dry.code, &dry.err), (earnest.code, &earnest.err), "{text}");
    assert!(dry.out.is_empty(), "{text}");
    for made in ["h/state/vms", "h/pool"] {
        let made = super::below(&laptop.place.path(made));
        assert!(made.is_empty(), "{made:?}");
    }
    dry
}

/// The disk of `web1` is kept between runs, and would boot in place of the one that was asked for.
#[test]
fn a_vm_whose_disk_was_made_from_another_address_is_refused() {
    let laptop = Laptop::new();
    let folder = laptop.place.path("h/data/pool/web1");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("disk.img"), [0; 4096]).unwrap();
    let record = r#"{"schema": "coracle.disk/v1", "from": "http://127.0.0.1:1/one.img", "size": 4096, "created": "2026-01-01T00:00:00Z"}"#;
    std::fs::write(folder.join("disk.json"), record).unwrap();
    let run = |url: &str| laptop.run(&["run", url, "--name", "web1", "--dry-run"]);
    run("http://127.0.0.1:1/one.img").ok();
    run("http://127.0.0.1:1/two.img").refused(
        3,
        "web1 has a disk already, which was made from http://127.0.0.1:1/one.img, not from http://127.0.0.1:1/two.img",
    );
}

/// A raw disk that has grown since, and begins as a qcow2. Its user's word lets it pass, and is noted by a start alone.
#[test]
fn a_dry_run_notes_no_raw_disk() {
    use std::os::unix::fs::MetadataExt as _;
    let laptop = Laptop::new();
    let disk = laptop.place.path("grown.img");
    let mut bytes = b"QFI\xfb".to_vec();
    bytes.resize(8192, 0);
    std::fs::write(&disk, bytes).unwrap();
    let list = laptop.place.path("h/data/raw-disks.json");
    std::fs::create_dir_all(list.parent().unwrap()).unwrap();
    let ino = std::fs::metadata(&disk).unwrap().ino();
    let noted = format!(
        r#"{{"schema":"coracle.raw-disks/v1","disks":[{{"path":{disk:?},"file":{{"id":{{"ino":{ino}}},"size":4096}}}}]}}"#
    );
    std::fs::write(&list, &noted).unwrap();
    let disk = disk.to_str().unwrap();
    laptop.run(&["run", disk, "--dry-run"]).refused(3, "had 4096 bytes as a raw disk and has 8192");
    for _ in 0..2 {
        laptop.run(&["run", disk, "--raw", disk, "--dry-run"]).ok();
        assert_eq!(std::fs::read_to_string(&list).unwrap(), noted);
    }
    laptop.run(&["run", disk, "--dry-run"]).refused(3, "had 4096 bytes as a raw disk and has 8192");
    let start =
        ["run", disk, "--raw", disk, "-d", "--memory=64M", "--accel=emulation", "--launcher=/bin/false"];
    laptop.run(&start).refused(1, "the launcher ended with");
    laptop.run(&["run", disk, "--dry-run"]).ok();
}

/// The disk holds the data of a guest. A record that could not be read once counted as none, and the disk was imported
/// anew.
#[test]
fn a_kept_disk_with_a_damaged_record_is_not_imported_anew() {
    let laptop = Laptop::new();
    let folder = laptop.place.path("h/data/pool/web1");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("disk.img"), [7; 4096]).unwrap();
    std::fs::write(folder.join("disk.json"), "").unwrap();
    let manifest = "apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\nmetadata: {name: web1}\n\
         spec: {storage: {resources: {requests: {storage: 1Mi}}}, source: {blank: {}}}\n---\n\
         apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: web1}\nspec:\n  \
         domain: {memory: {guest: 64Mi}, devices: {disks: [{name: root, disk: {}}]}}\n  \
         volumes: [{name: root, dataVolume: {name: web1}}]\n";
    std::fs::write(laptop.place.path("vm.yaml"), manifest).unwrap();
    for run in [&["run", "vm.yaml", "-d", "--launcher=/bin/false"][..], &["run", "vm.yaml", "--dry-run"]] {
        laptop.run(run).refused(3, "web1/disk.json is not what coracle wrote");
        laptop.run(run).refused(3, "'coracle pool rm -f web1' removes the disk with all its data");
    }
    assert_eq!(std::fs::read(folder.join("disk.img")).unwrap(), [7; 4096]);
    let listed = laptop.run(&["pool", "ls"]).ok();
    assert!(String::from_utf8_lossy(&listed.out).contains("damaged"), "{listed:?}");
    assert!(listed.err.contains("warning: ") && listed.err.contains("web1/disk.json"), "{}", listed.err);
    laptop.run(&["pool", "rm", "web1"]).ok();
    laptop.run(&["run", "vm.yaml", "--dry-run"]).ok();
}

#[test]
fn what_a_run_refuses_is_refused_without_one() {
    let laptop = Laptop::new();
    laptop.place.shell(
        "truncate -s 1M base && qemu-img create -q -f qcow2 -b base -F raw over.qcow2 &&
         qemu-img create -q -f vmdk d.vmdk 1M && gzip -k base &&
         head -c 4M /dev/urandom >full && qemu-img convert -O qcow2 full whole.qcow2 && head -c 2M whole.qcow2 >cut.qcow2",
    );
    let at = |name: &str| laptop.place.path(name).display().to_string();
    let host = |name: &str| format!("hostDisk: {{type: Disk, path: {}}}", at(name));
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {userdata: 'no base64!'}\n";
    let claim = "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {}\n";
    let web = "---\napiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\nmetadata: {name: v}\n\
               spec: {storage: {}, source: {http: {url: 'http://h/d', certConfigMap: m}}}\n";
    let keys = "  accessCredentials:\n  - sshPublicKey:\n      source: {secret: {secretName: k}}\n      \
                propagationMethod: {noCloud: {}}\n";
    let seed = "cloudInitNoCloud: {secretRef: {name: s}}";
    for (volume, spec, beside, code, said) in [
        (
            "containerDisk: {image: 'h.example/o:1', imagePullSecret: s}",
            "",
            "",
            3,
            "volumes[0].containerDisk.imagePullSecret",
        ),
        ("persistentVolumeClaim: {claimName: c}", "", "", 3, "there is no PersistentVolumeClaim \"c\""),
        ("persistentVolumeClaim: {claimName: c}", "", claim, 3, "an empty disk needs a size"),
        ("dataVolume: {name: v}", "", web, 4, "no ConfigMap \"m\""),
        (seed, "", "", 3, "there is no Secret \"s\""),
        (seed, "", secret, 3, "is not in base64"),
        ("cloudInitNoCloud: {userData: x}", keys, "", 3, "there is no Secret \"k\""),
        (&host("over.qcow2"), "", "", 3, "it is an overlay over the backing file \"base\""),
        (&host("cut.qcow2"), "", "", 3, "reaches past the end of the file"),
        (&host("d.vmdk"), "", "", 3, "vmdk"),
        (&host("base.gz"), "", "", 3, "is gzip"),
        (&host("none"), "", "", 4, "none"),
    ] {
        both(&laptop, &vm(volume, spec, beside), &[]).refused(code, said);
    }
    let good = vm("emptyDisk: {capacity: 1Gi}", "", "");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    both(&laptop, &good, &["-p", &format!("{port}:22")]).refused(1, "choose another one");
    if !std::path::Path::new("/dev/kvm").exists() {
        both(&laptop, &good, &["--accel", "kvm"]).refused(4, "this computer does not offer it");
    }
    laptop.run(&["run", "vm.yaml", "--dry-run"]).ok();
}

/// Manifests can be checked on a computer that cannot run VMs.
#[test]
fn a_dry_run_needs_no_launcher() {
    let laptop = Laptop::new();
    std::fs::write(laptop.place.path("vm.yaml"), vm("emptyDisk: {capacity: 1Gi}", "", "")).unwrap();
    let alone = laptop.place.path("alone");
    copy_program(launcher().with_file_name("coracle"), &alone);
    let own = laptop.command(&["run", "vm.yaml", "--dry-run"]);
    let mut command = std::process::Command::new(alone);
    command.args(own.get_args()).current_dir(laptop.place.folder()).env("PATH", "/nowhere");
    command.env("CORACLE_HOME", laptop.place.path("h")).env_remove("CORACLE_LAUNCHER");
    Ran::of(command.output().unwrap()).ok();
}
