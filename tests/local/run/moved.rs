//! A tag that moves while a VM is made of its image: the VM uses one image all the same.

use super::apart::holders;
use super::{Laptop, until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tests::coracle::Ran;
use tests::registry::Registry;

/// An image with a kernel and a disk, both marked with `which`.
fn build(laptop: &Laptop, which: &str, name: &str) {
    let place = &laptop.place;
    let kernel = format!("vmlinux-{which}");
    fs::write(place.path(&kernel), format!("the kernel {which}")).unwrap();
    let disk = format!("disk-{which}.raw");
    tests::disk::raw_disk(&place.path(&disk), 1 << 20, which.len() as u64);
    laptop.run(&["build", "-q", "--format", "raw", "-t", name, "--kernel", &kernel, &disk]).ok();
}

fn run(laptop: &Laptop, image: &str, policy: &str) -> std::process::Command {
    let args = ["run", "-d", "-q", image, "--pull", policy, "--name", "m", "--accel", "emulation"];
    laptop.command(&[&args[..], &["--launcher=/bin/false"]].concat())
}

/// Files that were unpacked of images.
fn unpacked(laptop: &Laptop) -> Vec<PathBuf> {
    let files = super::below(&laptop.place.path("h/data/disks")).into_iter().filter(|path| path.is_file());
    // Locks, and the note with the path of an image's disk.
    let is_beside =
        |path: &Path| ["lock", "path"].iter().any(|end| has_end(path, end)) || path.ends_with("lock");
    files.filter(|path| !is_beside(path)).collect()
}

fn has_end(path: &Path, end: &str) -> bool {
    path.extension().is_some_and(|own| own == end)
}

/// Runs `image` and moves its tag while the kernel is unpacked. No file of the second image may be unpacked.
fn moves(image: &str, policy: &str, laptop: &Laptop, build: impl Fn(&str)) {
    let place = &laptop.place;
    build("one");
    run(laptop, image, policy).output().map(Ran::of).unwrap().refused(1, "the launcher ended with");
    let of_one = unpacked(laptop);
    assert_eq!(of_one.len(), 2, "a kernel and a disk: {of_one:?}");
    // The second run waits at this lock: it has resolved the image, and has not unpacked any file of it.
    of_one.iter().for_each(|path| fs::remove_file(path).unwrap());
    let locks = super::below(&place.path("h/data/disks"));
    let lock = locks
        .iter()
        .find(|path| path.to_string_lossy().ends_with(".boot.lock"))
        .expect("a kernel was unpacked");
    let lock = &lock.canonicalize().unwrap();
    let held = fs::File::options().write(true).open(lock).unwrap();
    held.lock().unwrap();
    let mut child = run(laptop, image, policy).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let own = PathBuf::from(format!("/proc/{}", std::process::id()));
    let waits = || holders(lock).iter().any(|(process, _)| *process != own);
    until(waits, || "nobody unpacks the kernel".to_owned());
    assert!(child.try_wait().unwrap().is_none(), "it ended before its kernel was unpacked");
    build("other");
    drop(held);
    Ran::of(child.wait_with_output().unwrap()).refused(1, "the launcher ended with");
    let mut now = unpacked(laptop);
    now.sort();
    let mut of_one = of_one;
    of_one.sort();
    assert_eq!(now, of_one, "something of the image was unpacked that the tag moved to");
    for path in now {
        let bytes = fs::read(&path).unwrap();
        let is_kernel = bytes.starts_with(b"the kernel");
        let expected = if is_kernel { b"the kernel one".to_vec() } else { place.bytes("disk-one.raw") };
        assert!(bytes == expected, "{} is not of the first image", path.display());
    }
    laptop.is_empty();
}

#[test]
fn a_tag_that_moves_in_the_registry_makes_no_vm_of_two_images() {
    let (laptop, registry) = (Laptop::new(), Registry::start());
    let image = format!("docker://{}/group/os:1", registry.address());
    moves(&image, "always", &laptop, |which| build(&laptop, which, &image));
}

#[test]
fn a_tag_that_moves_in_the_store_makes_no_vm_of_two_images() {
    let laptop = Laptop::new();
    moves("store:os:1", "missing", &laptop, |which| build(&laptop, which, "store:os:1"));
}

/// Two volumes of one image, one as the store has it and one as the registry has it now.
#[test]
fn an_image_that_is_wanted_old_and_new_is_refused_where_it_moved() {
    let (laptop, registry) = (Laptop::new(), Registry::start());
    let image = format!("docker://{}/group/os:1", registry.address());
    let volume = |name: &str, policy: &str| {
        format!("  - {{name: {name}, containerDisk: {{image: '{image}', imagePullPolicy: {policy}}}}}\n")
    };
    let text = format!(
        "apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {{name: m}}
spec:
  domain:
    memory: {{guest: 128Mi}}
    devices: {{disks: [{{name: a, disk: {{}}}}, {{name: b, disk: {{}}}}]}}
  volumes:
{}{}",
        volume("a", "IfNotPresent"),
        volume("b", "Always")
    );
    fs::write(laptop.place.path("vm.yaml"), text).unwrap();
    let run = || laptop.run(&["run", "-d", "-q", "vm.yaml", "--accel", "emulation", "--launcher=/bin/false"]);
    build(&laptop, "one", &image);
    run().refused(1, "the launcher ended with");
    build(&laptop, "other", &image);
    let ran = run().refused(3, "which are two images");
    assert!(ran.err.contains("write the same imagePullPolicy"), "{}", ran.err);
    laptop.is_empty();
}
