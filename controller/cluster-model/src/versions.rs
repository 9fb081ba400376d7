//! Which version of the manifests an installed object is of, and which of two versions is older.
//!
//! `install` writes the annotations on every object and on the pods of the programs; virt-controller reads them of its own
//! Deployments and DaemonSets, and an admission policy compares them before an object is replaced.

/// The annotation of an installed object: the version of its manifests, which is the tag of the images. The name is upstream's.
pub const VERSION: &str = "kubevirt.io/install-strategy-version";
/// The annotation of an installed object: where its images are.
pub const REGISTRY: &str = "kubevirt.io/install-strategy-registry";
/// The annotation of a program of the installation: the images of its containers, separated by commas, as the manifest names them.
pub const IMAGES: &str = "kubevirt.io/install-strategy-images";
/// The form of a version that can be compared, as a regular expression: what follows the three numbers is not looked at.
pub const COMPARABLE: &str = "^v?[0-9]{1,9}[.][0-9]{1,9}[.][0-9]{1,9}";

/// One version is older than another. Of what is no version (`latest`), and of two that differ only behind their three
/// numbers, nothing is known: neither is older.
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
        // Only behind the last one something may follow.
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
