//! The permit of a pod that writes to a block device.
//!
//! ```text
//!  virt-controller sees the pod, and the disk is incomplete ─► annotation with the pod's uid ─► file of the pod
//!  cdi-worker waits until the file has the uid of its pod ─► first attempt
//! ```
//!
//! A file system keeps the mark of a complete disk ([`cdi::done_marker`]), and a device has no place for one.
//! A pod whose creation was delayed may find that another pod has completed the disk, and that a VMI uses it.
//! Such a pod gets no permit. The uid is not known before the pod exists, so no request that was delayed
//! brings a permit along.

use crate::pod::setting;
use crate::stop::Stop;
use cdi::Result;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The environment variable with the file that virt-controller's annotation is in.
const FILE: &str = "PERMIT_FILE";
/// The environment variable with the uid of the pod.
const UID: &str = "POD_UID";
/// Time between two looks at the file.
const PERIOD: Duration = Duration::from_millis(200);
/// The longest wait. Then the pod ends, and virt-controller decides on the next one.
const LONGEST: Duration = Duration::from_secs(3600);

/// The permit that a pod needs.
#[derive(Debug)]
pub(crate) struct Permit {
    file: PathBuf,
    uid: String,
}

impl Permit {
    /// The permit that the environment asks for; `None` if the pod needs none.
    pub(crate) fn from_environment() -> Result<Option<Permit>> {
        let Some(file) = std::env::var_os(FILE) else { return Ok(None) };
        Ok(Some(Permit { file: file.into(), uid: setting(UID)? }))
    }

    /// Waits for the permit. `false`: the process was asked to end, or the wait was too long.
    pub(crate) fn wait(&self, stop: &Stop) -> bool {
        if self.is_given() {
            return true;
        }
        tracing::info!("waits until virt-controller permits this pod to write to the device");
        let until = Instant::now() + LONGEST;
        while !stop.is_asked() && Instant::now() < until {
            stop.wait(PERIOD);
            if self.is_given() && !stop.is_asked() {
                return true;
            }
        }
        false
    }

    fn is_given(&self) -> bool {
        match fs::read_to_string(&self.file) {
            Ok(uid) => uid.trim() == self.uid,
            Err(e) => {
                if e.kind() != ErrorKind::NotFound {
                    tracing::warn!("cannot read the permit {}: {e}", self.file.display());
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_names_the_pod_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let permit = Permit { file: folder.path().join("permit"), uid: "uid-1".to_owned() };
        assert!(!permit.is_given(), "there is no file");
        // An annotation that is not set is an empty file.
        for (text, is_given) in [("", false), ("uid-2", false), ("uid-11", false), ("uid-1", true)] {
            fs::write(&permit.file, text).expect("it can be written");
            assert_eq!(permit.is_given(), is_given, "{text:?}");
        }
    }
}
