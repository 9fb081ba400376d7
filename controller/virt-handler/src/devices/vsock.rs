//! Context ID (CID) of a VMI's VSOCK device, which virt-controller assigns.

use crate::error::{Error, Result};
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;

/// CID for the launcher; `None` if the VMI has no VSOCK device. A status with the CID of the node itself, or
/// the wildcard, is refused.
pub(crate) fn cid(machine: &Machine, vmi: &VirtualMachineInstance) -> Result<Option<u32>> {
    if !machine.vsock {
        return Ok(None);
    }
    match vmi.status.as_ref().and_then(|status| status.vsock_cid) {
        None => {
            Err(Error::failed("virt-controller has not assigned a VSOCK context ID (status.VSOCKCID) yet"))
        }
        Some(cid @ (0..=2 | u32::MAX)) => Err(Error::refused(format!(
            "status.VSOCKCID: {cid} is not the context ID of a guest: 3 to 4294967294 are"
        ))),
        Some(cid) => Ok(Some(cid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use serde_json::{Value, json};

    fn of(vsock: bool, cid: &Value) -> Result<Option<u32>> {
        let vmi: VirtualMachineInstance = api::wire::read(json!({
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {"domain": {
                "memory": {"guest": "128Mi"},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"autoattachPodInterface": false, "autoattachVSOCK": vsock},
            }},
            "status": {"VSOCKCID": cid},
        }))
        .unwrap();
        cid_of(&vmi)
    }

    fn cid_of(vmi: &VirtualMachineInstance) -> Result<Option<u32>> {
        cid(&Machine::check_again(vmi).unwrap(), vmi)
    }

    #[test]
    fn a_cid_is_waited_for_and_those_of_the_node_are_refused() {
        assert_eq!(of(true, &json!(3)).unwrap(), Some(3));
        assert_eq!(of(true, &json!(u32::MAX - 1)).unwrap(), Some(u32::MAX - 1));
        assert_eq!(of(false, &json!(3)).unwrap(), None);
        assert_eq!(of(true, &Value::Null).unwrap_err().kind(), ErrorKind::Failed);
        for cid in [0, 1, 2, u32::MAX] {
            assert_eq!(of(true, &json!(cid)).unwrap_err().kind(), ErrorKind::Refused, "{cid}");
        }
    }
}
