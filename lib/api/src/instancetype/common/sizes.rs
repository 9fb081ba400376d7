//! Instance types: five series of sizes.

use super::Common;
use crate::instancetype::Role;
use serde_json::{Value, json};

/// Name, vCPUs and memory of a size.
type Size = (&'static str, u32, &'static str);

/// A series of sizes.
struct Series {
    name: &'static str,
    title: &'static str,
    sizes: &'static [Size],
}

/// Usual sizes, from small to large, with 4 GiB for each vCPU.
const USUAL: &[Size] = &[
    ("nano", 1, "512Mi"),
    ("micro", 1, "1Gi"),
    ("small", 1, "2Gi"),
    ("medium", 1, "4Gi"),
    ("2xmedium", 2, "4Gi"),
    ("large", 2, "8Gi"),
    ("xlarge", 4, "16Gi"),
    ("2xlarge", 8, "32Gi"),
    ("4xlarge", 16, "64Gi"),
    ("8xlarge", 32, "128Gi"),
];
const COMPUTE: &[Size] = &[
    ("medium", 1, "2Gi"),
    ("large", 2, "4Gi"),
    ("xlarge", 4, "8Gi"),
    ("2xlarge", 8, "16Gi"),
    ("4xlarge", 16, "32Gi"),
    ("8xlarge", 32, "64Gi"),
];
const MEMORY: &[Size] = &[
    ("large", 2, "16Gi"),
    ("xlarge", 4, "32Gi"),
    ("2xlarge", 8, "64Gi"),
    ("4xlarge", 16, "128Gi"),
    ("8xlarge", 32, "256Gi"),
];
const NETWORK: &[Size] = &[
    ("medium", 4, "4Gi"),
    ("large", 4, "8Gi"),
    ("xlarge", 8, "16Gi"),
    ("2xlarge", 16, "32Gi"),
    ("4xlarge", 32, "64Gi"),
    ("8xlarge", 64, "128Gi"),
];

const SERIES: &[Series] = &[
    Series { name: "u1", title: "General purpose", sizes: USUAL },
    Series { name: "o1", title: "Overcommitted memory", sizes: USUAL },
    Series { name: "cx1", title: "Compute exclusive", sizes: COMPUTE },
    Series { name: "m1", title: "Memory intensive", sizes: MEMORY },
    Series { name: "n1", title: "Network", sizes: NETWORK },
];

/// Percentage of the memory that the pod does not request.
const OVERCOMMIT: i64 = 50;

pub(super) fn all() -> impl Iterator<Item = Common> {
    SERIES.iter().flat_map(|series| {
        series.sizes.iter().map(move |(size, cpus, memory)| Common {
            role: Role::Instancetype,
            name: format!("{}.{size}", series.name),
            title: format!("{} ({size}): {cpus} vCPUs, {memory} of memory", series.title),
            labels: vec![("cpu", cpus.to_string()), ("memory", (*memory).to_owned())],
            spec: spec(series.name, *cpus, memory),
        })
    })
}

fn spec(series: &str, cpus: u32, memory: &str) -> Value {
    let mut spec = json!({"cpu": {"guest": cpus}, "memory": {"guest": memory}});
    let hugepages = |size: &str| json!({"pageSize": size});
    match series {
        "o1" => spec["memory"]["overcommitPercent"] = json!(OVERCOMMIT),
        "m1" => spec["memory"]["hugepages"] = hugepages("2Mi"),
        "cx1" => {
            own_cpus(&mut spec);
            spec["cpu"]["numa"] = json!({"guestMappingPassthrough": {}});
            spec["memory"]["hugepages"] = hugepages("2Mi");
        }
        "n1" => {
            own_cpus(&mut spec);
            spec["memory"]["hugepages"] = hugepages("1Gi");
        }
        _ => {}
    }
    spec
}

fn own_cpus(spec: &mut Value) {
    spec["cpu"]["dedicatedCPUPlacement"] = json!(true);
    spec["cpu"]["isolateEmulatorThread"] = json!(true);
}
