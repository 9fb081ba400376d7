//! Confinement of the process that reads an image for a VM.

use super::{Laptop, until};
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const RUN: [&str; 9] =
    ["run", "-d", "-q", "oci-archive:os.tar", "--name", "m", "--accel", "emulation", "--launcher=/bin/false"];

/// True if this descriptor of a process is the file, open for reading. Landlock's rules name files by
/// descriptors of a path alone (`O_PATH`), before the confinement is in force.
fn reads(process: &Path, fd: &OsStr, file: &Path) -> bool {
    let flags = || -> Option<u32> {
        let info = fs::read_to_string(process.join("fdinfo").join(fd)).ok()?;
        u32::from_str_radix(info.lines().find_map(|line| line.strip_prefix("flags:"))?.trim(), 8).ok()
    };
    fs::read_link(process.join("fd").join(fd)).is_ok_and(|open| open == file)
        && flags().is_some_and(|flags| flags & OFlags::PATH.bits() == 0)
}

/// Folder of a process in /proc, with all its threads' states, if it has the file open.
fn holds(process: &Path, file: &Path) -> Option<Vec<String>> {
    let mut open = fs::read_dir(process.join("fd")).ok()?.flatten();
    open.find(|fd| reads(process, &fd.file_name(), file))?;
    let threads = fs::read_dir(process.join("task")).ok()?.flatten();
    let states = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    let states: Vec<_> = states.filter(|state| state.contains("\nSeccomp:\t")).collect();
    (!states.is_empty()).then_some(states)
}

/// Every process that has the file open.
pub(super) fn holders(file: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    all.filter_map(|process| holds(&process, file).map(|states| (process, states))).collect()
}

#[test]
fn run_reads_no_image_itself_and_what_does_is_confined() {
    let laptop = Laptop::new();
    let place = &laptop.place;
    if !laptop.run(&["-v", "inspect", "/dev/null"]).err.contains("seccomp (system calls): in force") {
        eprintln!("skipped: this computer has no seccomp");
        return;
    }
    tests::disk::raw_disk(&place.path("disk.raw"), 3 << 20, 77);
    laptop.run(&["build", "-q", "--format", "raw", "-t", "oci-archive:os.tar", "disk.raw"]).ok();
    // The disk is unpacked first; then the file given as launcher fails.
    laptop.run(&RUN).refused(1, "the launcher ended with");
    let paths = |name: &str| -> Vec<PathBuf> {
        let folders = fs::read_dir(place.path("h/data/disks")).unwrap().flatten();
        folders.map(|folder| folder.path().join(name)).filter(|path| path.exists()).collect()
    };
    let [note] = &paths("default.path")[..] else { panic!("one image was unpacked") };
    let disk = PathBuf::from(fs::read_to_string(note).unwrap().trim());
    assert!(tests::disk::same(&place.path("disk.raw"), &disk), "{} is not the disk", disk.display());
    assert_eq!(fs::metadata(&disk).unwrap().permissions().mode() & 0o777, 0o400, "nobody writes to it");

    // The second run waits at this lock, with the image open.
    fs::remove_file(note).unwrap();
    let lock = fs::File::options().write(true).open(note.with_extension("path.lock")).unwrap();
    lock.lock().unwrap();
    let mut run = laptop.command(&RUN).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let file = place.path("os.tar").canonicalize().unwrap();
    let mut found = vec![];
    let mut seen = |run: &mut std::process::Child| {
        found = holders(&file);
        !found.is_empty() || run.try_wait().unwrap().is_some()
    };
    while !seen(&mut run) {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    drop(lock);
    let own = PathBuf::from(format!("/proc/{}", run.id()));
    tests::coracle::Ran::of(run.wait_with_output().unwrap()).refused(1, "the launcher ended with");
    assert!(!found.is_empty(), "nobody has read the image");
    for (process, threads) in found {
        assert_ne!(process, own, "coracle run reads the image itself");
        for state in threads {
            assert!(state.contains("\nSeccomp:\t2\n") && state.contains("\nNoNewPrivs:\t1\n"), "{state}");
        }
    }
    laptop.is_empty();
}

/// A killed `coracle run` leaves no worker process.
#[test]
fn who_reads_an_image_ends_with_who_wants_it() {
    let laptop = Laptop::new();
    let place = &laptop.place;
    tests::disk::raw_disk(&place.path("disk.raw"), 1 << 20, 78);
    laptop.run(&["build", "-q", "--format", "raw", "-t", "oci-archive:os.tar", "disk.raw"]).ok();
    laptop.run(&RUN).refused(1, "the launcher ended with");
    let folders = fs::read_dir(place.path("h/data/disks")).unwrap().flatten();
    let note = folders.map(|folder| folder.path().join("default.path")).find(|path| path.exists()).unwrap();
    fs::remove_file(&note).unwrap();
    let lock = fs::File::options().write(true).open(note.with_extension("path.lock")).unwrap();
    lock.lock().unwrap();
    let mut run = laptop.command(&RUN).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let file = place.path("os.tar").canonicalize().unwrap();
    until(|| !holders(&file).is_empty(), || "nobody reads the image".to_owned());
    run.kill().unwrap();
    run.wait().unwrap();
    until(|| holders(&file).is_empty(), || format!("left behind: {:?}", holders(&file)));
    drop(lock);
}

/// Each process logs a line with its purpose.
#[test]
fn by_v_each_process_says_what_confines_it() {
    let laptop = Laptop::new();
    let place = &laptop.place;
    tests::disk::raw_disk(&place.path("disk.raw"), 1 << 20, 79);
    laptop.run(&["build", "-q", "--format", "raw", "-t", "oci-archive:os.tar", "disk.raw"]).ok();
    let lines = |confine: &str, args: &[&str]| -> Vec<String> {
        let mut command = laptop.command(&[&RUN[..], args].concat());
        let ran = tests::coracle::Ran::of(command.env("CORACLE_CONFINE", confine).output().unwrap());
        let ran = ran.refused(1, "the launcher ended with");
        ran.err.lines().filter(|line| line.contains("confined:")).map(str::to_owned).collect()
    };
    assert_eq!(lines("on", &[]), [""; 0], "only who asks is told");
    for (confine, says) in [("on", "Landlock (files): "), ("off", "not in force: CORACLE_CONFINE=off")] {
        let lines = lines(confine, &["-v"]);
        for job in ["look at oci-archive:os.tar", "unpack the disk of oci-archive:os.tar"] {
            let of_job: Vec<_> = lines.iter().filter(|line| line.contains(&format!("job={job:?}"))).collect();
            let [line] = &of_job[..] else { panic!("{job}: {lines:#?}") };
            assert!(line.contains(says) && line.contains("seccomp (system calls): "), "{line}");
        }
        let own = lines.iter().find(|line| line.contains("confined: coracle (process "));
        let own = own.unwrap_or_else(|| panic!("{lines:#?}"));
        assert!(own.contains("not in force: it must start programs"), "{own}");
    }
}

#[test]
fn by_v_the_launcher_and_qemu_are_told_too() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let ran = laptop.start("m", &["-v"]);
    for name in ["virt-launcher", "QEMU"] {
        let line = ran.err.lines().find(|line| line.contains(&format!("confined: {name} (process ")));
        let line = line.unwrap_or_else(|| panic!("{name}: {}", ran.err));
        assert!(line.contains("seccomp (system calls): ") && !line.contains("not known"), "{line}");
    }
    laptop.run(&["rm", "-f", "m"]).ok();
    laptop.is_empty();
}

#[test]
fn a_word_for_the_confinement_that_means_nothing_is_refused() {
    let laptop = Laptop::new();
    for verb in [&RUN[..], &["convert", "a", "b"], &["ps"]] {
        let ran =
            tests::coracle::Ran::of(laptop.command(verb).env("CORACLE_CONFINE", "banana").output().unwrap());
        let ran = ran.refused(2, "CORACLE_CONFINE is \"banana\"");
        assert!(ran.err.contains("it can be on (") && ran.err.contains("or off ("), "{}", ran.err);
    }
}
