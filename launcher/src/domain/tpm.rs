//! The TPM 2.0: swtpm, which libvirt starts beside QEMU and which ends with it. As upstream, a persistent TPM
//! has the command response buffer (CRB), any other the older interface (TIS).

use super::Domain;
use super::xml::Element;

impl Domain<'_> {
    pub(super) fn tpm(&self) -> Option<Element> {
        let tpm = self.machine.tpm?;
        let kept = tpm.persistent.then_some("yes");
        let backend = Element::new("backend")
            .at("type", "emulator")
            .at("version", "2.0")
            .maybe_at("persistent_state", kept);
        let model = if tpm.persistent { "tpm-crb" } else { "tpm-tis" };
        Some(Element::new("tpm").at("model", model).and(backend))
    }
}
