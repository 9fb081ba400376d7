//! Versions of the manifests of installed objects, and their order.
//!
//! `install` writes the annotations on every object and on the pods of the programs; virt-controller reads
//! them of its own Deployments and DaemonSets, and an admission policy compares them before an object is
//! replaced.

/// The annotation of an installed object with the version of its manifests, which is the tag of the images.
/// The name is upstream's.
pub const VERSION: &str = "kubevirt.io/install-strategy-version";
/// The annotation of an installed object with the registry of its images.
pub const REGISTRY: &str = "kubevirt.io/install-strategy-registry";
/// The annotation of a component with the images of its containers, separated by commas, as in the manifest.
pub const IMAGES: &str = "kubevirt.io/install-strategy-images";
/// Regular expression for a comparable version. Text after the three numbers is ignored.
pub const COMPARABLE: &str = "^v?[0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,9}";

/// True if one version is older than another. A text that is not a version (`latest`), and two versions that
/// differ only after the three numbers, do not compare: neither is older.
pub fn is_older(one: &str, other: &str) -> bool {
    numbers(one).zip(numbers(other)).is_some_and(|(one, other)| one < other)
}

/// The first three numbers of a version.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let mut parts = version.splitn(3, '.');
    let mut numbers = [0; 3];
    for (place, number) in numbers.iter_mut().enumerate() {
        let part = parts.next()?;
        let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        // Only the last number may have a suffix.
        if place < 2 && end < part.len() || end > 9 {
            return None;
        }
        *number = part.get(..end)?.parse().ok()?;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_three_numbers() {
        for (one, other) in
            [("0.1.0", "0.2.0"), ("v1.9.9", "1.10.0"), ("1.2.3-rc.1", "1.2.4"), ("0.9.0", "1.0.0")]
        {
            assert!(is_older(one, other) && !is_older(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("1.2.3", "1.2.3"),
            ("1.2.3-rc.1", "1.2.3"),
            ("latest", "1.2.3"),
            ("", "1.2.3"),
            ("1.2", "1.2.3"),
            ("1.x.3", "1.2.3"),
            ("-1.0.0", "1.2.3"),
            ("1..3", "1.2.3"),
            ("0.0.99999999999999999999", "1.2.3"),
        ] {
            assert!(!is_older(one, other) && !is_older(other, one), "{one} {other}");
        }
    }
}
