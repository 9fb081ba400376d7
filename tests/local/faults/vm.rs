//! `coracle run` without room for the VM's files: from none at all to a little less than enough. It says so, nothing of the VM stays,
//! and the same command runs it once there is room.

use super::{PROGRAM, is_long, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tests::coracle::Ran;
use tests::full_disk::{FullDisk, PAGE};
use tests::place::Place;

/// Pages that are left.
const SHORT: [u64; 4] = [0, 12, 40, 100];

/// A computer whose folder of VMs lies on a disk of its own, with a small guest in its store.
struct Laptop {
    place: Place,
    disk: FullDisk,
}

impl Laptop {
    /// `None`, with the reason printed, where there can be none.
    fn new() -> Option<Laptop> {
        let launcher = Path::new(PROGRAM).with_file_name("virt-launcher");
        if !launcher.is_file() {
            println!("left out: {} was not built", launcher.display());
            return None;
        }
        let laptop = Laptop { place: Place::empty(PROGRAM), disk: FullDisk::of_bytes(512 << 20)? };
        let guest = guest();
        let file = |name: &str| guest.join(name).display().to_string();
        let words = std::fs::read_to_string(guest.join("cmdline")).unwrap();
        let (kernel, initrd) = (file("vmlinux"), file("initrd"));
        let build = ["build", "-q", "-t", "tiny:1", "--kernel", &kernel, "--initrd", &initrd];
        laptop.run(&[&build[..], &["--cmdline", words.trim()]].concat()).ok();
        std::fs::write(laptop.place.path("user-data"), "#!/bin/sh\n".repeat(4000)).unwrap();
        // What is out of the image, and libvirt's findings, are kept from one VM to the next.
        laptop.start().ok();
        laptop.run(&["rm", "-f", "vm"]).ok();
        Some(laptop)
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.place.command(args);
        command.env("CORACLE_HOME", self.disk.path().join("h"));
        // The store does not lie on the disk that is filled.
        command.env("CORACLE_STORE", self.place.path("store"));
        Ran::of(command.output().unwrap())
    }

    /// A VM with an overlay and a seed.
    fn start(&self) -> Ran {
        let seed = self.place.path("user-data");
        let args = ["run", "-d", "-q", "tiny:1", "--memory", "256M", "--accel", "emulation", "--name", "vm"];
        self.run(&[&args[..], &["--disk", "64M", "--cloud-init", text(&seed)]].concat())
    }

    /// The launchers and the processes of QEMU whose files lie on the disk.
    fn processes(&self) -> Vec<String> {
        let home = text(self.disk.path());
        let lines = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        lines
            .filter(|line| {
                line.contains(home) && (line.contains("virt-launcher") || line.contains("qemu-system"))
            })
            .collect()
    }

    fn qemus(&self) -> usize {
        self.processes().iter().filter(|line| line.starts_with("/usr/bin/qemu-system")).count()
    }
}

impl Drop for Laptop {
    fn drop(&mut self) {
        self.disk.empty();
        let _ = self.run(&["rm", "-f", "vm"]);
    }
}

/// The folder with the guest's kernel and initrd.
fn guest() -> PathBuf {
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("images/guests/tiny/build");
    let output = Command::new(recipe).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "the guest cannot be built");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

#[test]
fn a_vm_without_room_for_its_files_is_told_and_runs_once_there_is_room() {
    let Some(laptop) = Laptop::new() else { return };
    let long: Vec<u64> = (0..256).collect();
    let (mut failed, mut enough) = (0, 0);
    for &pages in if is_long() { &long[..] } else { &SHORT } {
        laptop.disk.fill_but(pages * PAGE);
        let ran = laptop.start();
        if ran.code == 0 {
            enough += 1;
            assert_eq!(laptop.qemus(), 1, "{pages} pages");
        } else {
            failed += 1;
            println!("{pages} pages: {}", ran.err);
            assert_eq!(ran.code, 1, "{pages} pages: {}", ran.err);
            assert!(!ran.err.contains("panicked") && ran.err.contains("pace"), "{pages} pages: {}", ran.err);
            assert_eq!(laptop.processes(), [""; 0], "{pages} pages");
        }
        laptop.disk.empty();
        if ran.code != 0 {
            let names = laptop.run(&["ps", "-q", "-a"]).ok();
            assert!(names.out.is_empty(), "{pages} pages: {} stays", String::from_utf8_lossy(&names.out));
            laptop.start().ok();
            assert_eq!(laptop.qemus(), 1, "{pages} pages");
        }
        laptop.run(&["rm", "-f", "vm"]).ok();
        if enough == 2 {
            break;
        }
    }
    assert!(failed >= SHORT.len() - 1, "{failed} runs failed");
}
