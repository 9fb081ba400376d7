//! UUIDs that are derived from names.

use sha1::{Digest, Sha1};

/// Namespace of the UUIDs of VMs.
const VMS: [u8; 16] =
    [0x6a, 0x1a, 0x24, 0xa1, 0x40, 0x61, 0x46, 0x07, 0x8b, 0xf4, 0xa3, 0x96, 0x3d, 0x0c, 0x58, 0x95];

/// The firmware UUID of a VM without one: version 5 of its name, so that the guest keeps its identity over
/// restarts.
pub fn of_vm(name: &str) -> String {
    version_5(&VMS, name)
}

/// Namespace of the UUIDs of mediated devices that virt-handler creates.
const MEDIATED: [u8; 16] =
    [0x2e, 0x5b, 0x0c, 0x71, 0x9d, 0x3f, 0x4b, 0x86, 0xa1, 0x57, 0x60, 0xe4, 0x8c, 0x12, 0x3b, 0xd9];

/// The UUID of the n-th mediated device of a type that virt-handler creates on a card. It recognizes its
/// devices by it.
pub fn of_mediated(card: &str, kind: &str, n: u32) -> String {
    version_5(&MEDIATED, &format!("{card} {kind} {n}"))
}

fn version_5(space: &[u8; 16], name: &str) -> String {
    let sum = Sha1::new().chain_update(space).chain_update(name).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&sum[..16]);
    write(bytes, 5)
}

/// The uuid of version 4 of these random bytes, which must be unpredictable.
pub fn from_random(bytes: [u8; 16]) -> String {
    write(bytes, 4)
}

fn write(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = |range: std::ops::Range<usize>| -> String {
        bytes[range].iter().map(|byte| format!("{byte:02x}")).collect()
    };
    [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_keeps_the_form() {
        assert_eq!(from_random([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(from_random([0; 16]), "00000000-0000-4000-8000-000000000000");
    }

    #[test]
    fn names_have_the_uuids_that_others_compute() {
        // From the standard's own example of the space of host names, as Python's uuid5 says it.
        let dns =
            [0x6b, 0xa7, 0xb8, 0x10, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0, 0xc0, 0x4f, 0xd4, 0x30, 0xc8];
        assert_eq!(version_5(&dns, "python.org"), "886313e1-3b8a-5372-9b90-0c9aee199e5d");
        assert_eq!(of_vm("web"), "d32ff544-f682-571b-8677-3762f07ab8a4");
    }
}
