//! The termination message of the launcher's container: the end of its VM, for the kubelet.
//!
//! The kubelet copies the message to the status of the pod. So the end of a VM is known even if virt-handler
//! was not running at that time, and the launcher's folder went with the pod.
//!
//! The file is opened, and space reserved for it, when the launcher begins: so it can be written on a full
//! disk.

use api::launcher::{Ending, State};
use api::termination::LONGEST;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The file of the termination message.
#[derive(Debug)]
pub struct Termination {
    path: PathBuf,
    file: Option<File>,
    /// True after an ending was written.
    is_left: AtomicBool,
}

impl Termination {
    /// Opens the file, which the container runtime creates. Without it the VM runs as well.
    pub fn open(path: &Path) -> Termination {
        let file = File::options().write(true).open(path);
        let file = file
            .inspect_err(|e| tracing::warn!("cannot open the termination message {}: {e}", path.display()));
        let file = file.ok().inspect(|file| {
            // Some file systems cannot reserve space.
            let reserved = fallocate(file, FallocateFlags::KEEP_SIZE, 0, LONGEST as u64);
            let _ =
                reserved.inspect_err(|e| tracing::debug!("cannot reserve space in {}: {e}", path.display()));
        });
        Termination { path: path.to_owned(), file, is_left: AtomicBool::new(false) }
    }

    /// Writes the end of the VM, if it has ended.
    pub fn leave(&self, state: &State) {
        if let Some(ending) = Ending::from_state(state) {
            self.is_left.store(true, Ordering::Relaxed);
            self.write(&ending);
        }
    }

    /// Writes why the launcher fails, unless its VM has ended before.
    pub fn fail(&self, why: &str) {
        if !self.is_left.load(Ordering::Relaxed) {
            self.write(&Ending::failed(why));
        }
    }

    fn write(&self, ending: &Ending) {
        let Some(file) = &self.file else { return };
        let text = ending.termination();
        // The reserved space is overwritten, and only then truncated.
        let written = file.write_all_at(text.as_bytes(), 0).and_then(|()| file.set_len(text.len() as u64));
        let _: io::Result<()> = written.inspect_err(|e| {
            tracing::warn!("cannot write the termination message {}: {e}", self.path.display());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::Life;

    fn state(life: Life, message: &str) -> State {
        State { life, message: Some(message.to_owned()), ..State::default() }
    }

    #[test]
    fn the_last_ending_stands_alone_in_the_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("termination-log");
        std::fs::write(&path, "").unwrap();
        let left = || Ending::of_termination(&std::fs::read_to_string(&path).unwrap());
        let termination = Termination::open(&path);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "what is reserved is not read");
        termination.leave(&state(Life::Running, "it runs"));
        assert_eq!(left(), None);
        termination.leave(&state(Life::Failed, &"long ".repeat(2000)));
        assert_eq!(left().unwrap().life, Life::Failed);
        termination.leave(&state(Life::Succeeded, "the guest shut down"));
        let ending = left().unwrap();
        assert_eq!((ending.life, ending.message.as_deref()), (Life::Succeeded, Some("the guest shut down")));
        termination.fail("the socket is gone");
        assert_eq!(left(), Some(ending), "a launcher that fails after its VM has ended changes nothing");
    }

    #[test]
    fn a_launcher_that_fails_says_why_and_one_without_the_file_goes_on() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("termination-log");
        Termination::open(&path).fail("nobody reads this");
        assert!(!path.exists(), "it is the runtime's to make");
        std::fs::write(&path, "").unwrap();
        Termination::open(&path).fail("cannot listen");
        let left = Ending::of_termination(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!((left.life, left.message.as_deref()), (Life::Failed, Some("cannot listen")));
    }
}
