//! Metrics of the node and of the VM (`downwardMetrics`), as a guest reads them: on a disk and on a channel.

use crate::vm::{Vm, vmi};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::time::{Duration, Instant};
use tests::serial::Serial;

/// Asks on the channel, as `vm-dump-metrics --virtio` does.
const ASK: &str = "exec 3<>/dev/$(grep -l org.github.vhostmd.1 /sys/class/virtio-ports/*/name | cut -d/ -f5); \
                   printf 'GET /metrics/XML\\n\\n' >&3; sed '/<.metrics>/q' <&3; exec 3>&-";
/// The beginning of the disk, past what the guest has read of it before.
const READ: &str = "echo 3 >/proc/sys/vm/drop_caches; head -c 8192 /dev/vdb | base64";
/// A disk is written anew every 5 s.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn a_guest_reads_how_busy_its_node_and_itself_are() {
    let mut vmi = vmi("measured");
    vmi["status"] = json!({"nodeName": "node-7"});
    let devices = &mut vmi["spec"]["domain"]["devices"];
    devices["downwardMetrics"] = json!({});
    devices["disks"].as_array_mut().unwrap().push(json!({"name": "metrics", "disk": {"bus": "virtio"}}));
    vmi["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "metrics", "downwardMetrics": {}}));
    let vm = Vm::running(&vmi);
    let mut console = vm.console();
    console.log_in();

    for read in [channel, disk] {
        let first = read(&mut console);
        for (context, name, expected) in [
            ("host", "HostName", "node-7"),
            ("host", "VirtualizationVendor", "kubevirt.io"),
            ("vm", "ResourceProcessorLimit", "1"),
            ("vm", "PhysicalMemoryAllocatedToVirtualSystem", "131072"),
        ] {
            assert_eq!(value(&first, context, name), expected, "{context}: {name}\n{first}");
        }
        let number = |text: &str, context, name| value(text, context, name).parse::<f64>().unwrap();
        assert!(number(&first, "host", "NumberOfPhysicalCPUs") >= 1.0, "{first}");
        let spent = number(&first, "vm", "TotalCPUTime");
        assert!(spent > 0.0, "{first}");
        // It is told anew.
        let began = Instant::now();
        loop {
            let next = read(&mut console);
            if number(&next, "vm", "TotalCPUTime") > spent {
                assert!(number(&next, "host", "Time") >= number(&first, "host", "Time"), "{first}{next}");
                break;
            }
            assert!(began.elapsed() < PATIENCE, "nothing new is told: {first}");
        }
    }
}

fn channel(console: &mut Serial) -> String {
    console.runs(ASK)
}

/// The text of the disk, once it is whole: "mvbd", the mark that it is being written, the sum of its bytes, its length.
fn disk(console: &mut Serial) -> String {
    let began = Instant::now();
    loop {
        let packed: String = console.runs(READ).split_whitespace().collect();
        let bytes = STANDARD.decode(&packed).unwrap();
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(&bytes[..4], b"mvbd");
        let text = bytes[16..].get(..number(12) as usize).unwrap_or_else(|| panic!("{} bytes", number(12)));
        let is_whole = number(4) == 0 && text.iter().map(|byte| u32::from(*byte)).sum::<u32>() == number(8);
        if is_whole && !text.is_empty() {
            return String::from_utf8(text.to_vec()).unwrap();
        }
        assert!(began.elapsed() < PATIENCE, "the disk never is whole: {packed}");
    }
}

/// The value of a metric.
fn value<'t>(text: &'t str, context: &str, name: &str) -> &'t str {
    let (context, name) = (format!("context=\"{context}\""), format!("<name>{name}</name><value>"));
    let line = text.lines().find(|line| line.contains(&context) && line.contains(&name));
    let line = line.unwrap_or_else(|| panic!("there is no {name} of {context}: {text}"));
    line.split_once(&name).unwrap().1.split('<').next().unwrap()
}
