//! Health of a device of the host.

use super::Device;
use crate::labels;
use api::node::Verdict;
use std::path::PathBuf;

/// Health check of one device.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    pub(crate) device: Device,
    /// Folder with the results of `virt-launcher node-info`.
    pub(crate) findings: PathBuf,
}

impl Health {
    /// Reason why the device cannot be used; `None` if it can.
    #[expect(
        clippy::disallowed_methods,
        reason = "work of virt_handler::blocking, and a device of the host's own"
    )]
    pub(crate) fn trouble(&self) -> Option<String> {
        let Device { name, path } = self.device;
        // A KVM device that opens may still not run a kernel: `node-info` has tried that.
        if name == "kvm" {
            match labels::read(&self.findings) {
                Ok(Some(node)) if node.kvm.verdict == Verdict::Full => {}
                Ok(Some(node)) => {
                    let why = node.kvm.reason.unwrap_or_else(|| "the probe did not run".into());
                    return Some(format!("KVM cannot run a kernel on this node: {why}"));
                }
                Ok(None) => {
                    return Some(format!(
                        "KVM was not probed by virt-launcher node-info: no node.json in {}",
                        self.findings.display()
                    ));
                }
                Err(e) => return Some(e.chain()),
            }
        }
        let opened = std::fs::File::options().read(true).write(true).open(path);
        opened.err().map(|e| format!("cannot open {path}: {e}"))
    }
}
