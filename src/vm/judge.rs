//! The way from an instance to a machine, as the admission of a cluster goes it: defaults, then the judgement.

use api::defaults::{Binding, Given};
use api::fault::Fault;
use api::machine::{Machine, Settings};
use api::vmi::VirtualMachineInstance;
use api::wire::Path;
use cdi::source::image::architecture;

/// Fills in what is left open.
pub(crate) fn defaults(instance: &mut VirtualMachineInstance) {
    // A guest that is started again finds the computer that it knows.
    let uuid = uuid(instance.metadata.name.as_deref().unwrap_or_default());
    let architecture = architecture().to_owned();
    let given = Given { architecture, binding: Binding::Masquerade, ..Given::new(uuid) };
    api::defaults::apply(instance, &given);
}

/// The machine, or everything that is wrong with it; its spec was written at `at`. What is not known has been warned
/// about.
pub(crate) fn machine(instance: &VirtualMachineInstance, at: &str) -> Result<Machine, Vec<Fault>> {
    Machine::check(instance, &Settings { at: Path::of(at), refuse_unknown: false, ..Settings::default() })
}

/// A uuid that is the same for the same name: version 8, of our own making.
fn uuid(name: &str) -> String {
    let sum = |begin: u64| {
        let bytes = b"coracle\0".iter().chain(name.as_bytes());
        bytes.fold(begin, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let high = sum(0xcbf2_9ce4_8422_2325) & !0xf000 | 0x8000;
    let low = sum(0x8422_2325_cbf2_9ce4) & !(3 << 62) | 2 << 62;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_keeps_its_uuid_and_two_have_two() {
        assert_eq!(uuid("a"), uuid("a"));
        assert_ne!(uuid("a"), uuid("b"));
        let uuid = uuid("a");
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "8"), "{uuid}");
    }
}
