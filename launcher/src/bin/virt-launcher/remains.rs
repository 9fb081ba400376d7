//! Removal of libvirt's files about a QEMU process that is gone.
//!
//! libvirt's driver takes over each domain of `ROOT/run/qemu/NAME.xml` when it is opened. It connects to
//! QEMU's monitor as long as a process has the ID in `NAME.pid`, and kills that process if the monitor does
//! not answer. A zombie never goes away by that, so its domain would count as running for ever. If another
//! process has the ID by now, that process would be killed. In both cases the files are removed before the
//! driver is opened. libvirt itself handles an ID without a process.

use api::launcher::State;
use launcher::root::Root;
use launcher_client::process::Process;
use std::fs;
use std::path::Path;

/// Removes libvirt's files about a QEMU process that is gone.
pub(crate) fn clear(root: &Root) {
    let state: Option<State> =
        fs::read(root.state()).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let known = state.and_then(|state| Some((state.qemu_pid?, state.qemu_started?)));
    // Without the folder there are no files.
    for entry in fs::read_dir(root.pids()).into_iter().flatten().flatten() {
        let path = entry.path();
        let notes = path.with_extension("xml");
        if path.extension().is_some_and(|extension| extension == "pid")
            // The driver's own pid file has no such XML file.
            && notes.exists()
            && let Some(why) = stale_reason(&path, known)
        {
            tracing::warn!("{}: {why}; the VM is not taken over", path.display());
            for note in [notes, path] {
                if let Err(e) = fs::remove_file(&note)
                    && e.kind() != std::io::ErrorKind::NotFound
                {
                    tracing::warn!("cannot remove {}: {e}", note.display());
                }
            }
        }
    }
}

/// Reason why the process of a pid file is not the QEMU that libvirt started; `None` if it may be. `known`:
/// ID and start of the last QEMU.
fn stale_reason(file: &Path, known: Option<(u32, u64)>) -> Option<String> {
    let pid: u32 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    match (Process::of(pid), known) {
        (Process::Zombie, _) => Some(format!("QEMU has ended, process {pid} is a zombie")),
        (Process::Runs { started }, Some((number, since))) if number == pid && started != since => {
            Some(format!("QEMU has ended, {pid} is the number of another process now"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pid: u32, started: u64) -> Vec<u8> {
        let state = serde_json::json!({
            "number": 1, "generation": 1, "life": "Running", "since": "now", "agent": false,
            "qemu_pid": pid, "qemu_started": started,
        });
        state.to_string().into_bytes()
    }

    #[test]
    fn notes_of_a_process_that_has_another_start_are_removed_and_those_of_others_stay() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::open(&place.path().join("a"), place.path()).unwrap();
        let own = std::process::id();
        let started = Process::of(own).started().unwrap();
        let notes = ["vm.pid", "vm.xml", "driver.pid"].map(|name| root.pids().join(name));
        let there = || notes.iter().map(|note| note.exists()).collect::<Vec<_>>();
        let clear_with = |state: Option<Vec<u8>>, pid: u32| {
            fs::create_dir_all(root.pids()).unwrap();
            for (note, pid) in notes.iter().zip([pid, 0, own]) {
                fs::write(note, pid.to_string()).unwrap();
            }
            drop(fs::remove_file(root.state()));
            state.into_iter().for_each(|state| fs::write(root.state(), state).unwrap());
            clear(&root);
            there()
        };
        let all = [true; 3];
        assert_eq!(clear_with(None, own), all);
        assert_eq!(clear_with(Some(b"broken".to_vec()), own), all);
        assert_eq!(clear_with(Some(state(own, started)), own), all);
        assert_eq!(clear_with(Some(state(own + 1, started + 1)), own), all, "of an earlier QEMU");
        assert_eq!(clear_with(Some(state(own, started)), u32::MAX), all, "libvirt sees that itself");
        let but_the_driver = [false, false, true];
        assert_eq!(clear_with(Some(state(own, started + 1)), own), but_the_driver);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while Process::of(child.id()) != Process::Zombie {
            std::thread::yield_now();
        }
        assert_eq!(clear_with(None, child.id()), but_the_driver);
        child.wait().unwrap();
    }
}
