//! Metrics as XML, and as the bytes of a disk, in the forms of vhostmd.
//!
//! ```text
//!  disk, 256 KiB, numbers of 4 bytes, the highest first:
//!  0  "mvbd"   4  1 while it is written   8  the sum of the text's bytes   12  its length   16  the text
//! ```

use super::Metrics;
use std::fmt::Write as _;

/// The size of a disk.
pub(super) const DISK: usize = 256 << 10;
const HEADER: usize = 16;

/// The text of the metrics.
pub(super) fn xml(metrics: &Metrics) -> String {
    let Metrics { name, node, guest, time } = metrics;
    let mut text = "<metrics>\n".to_owned();
    let mut metric = |context: &str, kind: &str, unit: &str, name: &str, value: &str| {
        let unit = if unit.is_empty() { String::new() } else { format!(" unit=\"{unit}\"") };
        // Formatting into a text cannot fail.
        let _ = writeln!(
            text,
            "  <metric type=\"{kind}\" context=\"{context}\"{unit}><name>{name}</name><value>{value}</value></metric>"
        );
    };
    for (name, value) in [
        ("HostName", plain(name)),
        ("HostSystemInfo", "linux".into()),
        ("VirtualizationVendor", "kubevirt.io".into()),
    ] {
        metric("host", "string", "", name, &value);
    }
    for (name, unit, value) in [
        ("Time", "s", *time),
        ("NumberOfPhysicalCPUs", "", node.cpus),
        ("TotalCPUTime", "s", node.worked),
        ("FreePhysicalMemory", "KiB", node.free),
        ("FreeVirtualMemory", "KiB", node.free_virtual),
        ("UsedVirtualMemory", "KiB", node.used_virtual),
        ("MemoryAllocatedToVirtualServers", "KiB", node.memory),
        ("PagedInMemory", "KiB", node.paged_in),
        ("PagedOutMemory", "KiB", node.paged_out),
    ] {
        let kind = if unit == "s" { "real64" } else { "uint64" };
        metric("host", kind, unit, name, &value.to_string());
    }
    metric("vm", "real64", "s", "TotalCPUTime", &format!("{:.6}", guest.cpu_ns as f64 / 1e9));
    metric("vm", "uint64", "", "ResourceProcessorLimit", &guest.cpus.to_string());
    let memory = guest.memory / 1024;
    for name in ["PhysicalMemoryAllocatedToVirtualSystem", "ResourceMemoryLimit"] {
        metric("vm", "uint64", "KiB", name, &memory.to_string());
    }
    text.push_str("</metrics>\n");
    text
}

/// The bytes of a disk with this text; without it if it is too long.
pub(super) fn disk(text: &str) -> Vec<u8> {
    let text = if text.len() <= DISK - HEADER { text } else { "" };
    let sum = text.bytes().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(byte)));
    let length = u32::try_from(text.len()).unwrap_or(0);
    let mut bytes = Vec::with_capacity(DISK);
    bytes.extend_from_slice(b"mvbd");
    for number in [0, sum, length] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(DISK, 0);
    bytes
}

/// The name of a node, without characters that a node's name cannot have.
fn plain(name: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    name.chars().filter(is_plain).take(253).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Guest;
    use super::super::node::Node;
    use super::*;

    fn metrics() -> Metrics {
        Metrics {
            name: "node<1>".into(),
            node: Node { cpus: 4, free: 7, ..Node::default() },
            guest: Guest { cpu_ns: 1_500_000_000, cpus: 2, memory: 64 << 20 },
            time: 9,
        }
    }

    #[test]
    fn metrics_are_elements_that_a_client_of_vhostmd_reads() {
        let text = xml(&metrics());
        for line in [
            "<metric type=\"string\" context=\"host\"><name>HostName</name><value>node1</value></metric>",
            "<metric type=\"uint64\" context=\"host\"><name>NumberOfPhysicalCPUs</name><value>4</value></metric>",
            "<metric type=\"uint64\" context=\"host\" unit=\"KiB\"><name>FreePhysicalMemory</name><value>7</value></metric>",
            "<metric type=\"real64\" context=\"vm\" unit=\"s\"><name>TotalCPUTime</name><value>1.500000</value></metric>",
            "<metric type=\"uint64\" context=\"vm\" unit=\"KiB\"><name>ResourceMemoryLimit</name><value>65536</value></metric>",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(text.starts_with("<metrics>\n") && text.ends_with("</metrics>\n"));
    }

    #[test]
    fn a_disk_says_how_long_its_text_is_and_what_its_bytes_sum_up_to() {
        let bytes = disk("ab");
        assert_eq!(bytes.len(), DISK);
        assert_eq!(&bytes[..18], b"mvbd\0\0\0\0\0\0\0\xc3\0\0\0\x02ab");
        assert!(bytes[18..].iter().all(|byte| *byte == 0));
        assert_eq!(&disk(&"x".repeat(DISK))[12..16], [0; 4], "what does not fit is not there");
    }
}
