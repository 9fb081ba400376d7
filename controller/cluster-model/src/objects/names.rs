//! Names derived from other names. They are deterministic and within the limits of Kubernetes.

pub use api::meta::is_name;

use super::LauncherAttempt;
use crate::clones::{CLIENT, SOURCE};
use crate::polls::POLLER;
use crate::state::STATE_FOR;
use crate::uploads::UPLOADER;
use crate::worker::{EXPORTER, IMPORTER};
use sha1::{Digest as _, Sha1};

/// Maximum length of a label value or of a DNS label.
const LABEL: usize = 63;

/// Maximum length of an object's name.
const LONGEST: usize = 253;

/// Name prefix of launcher pods.
pub const LAUNCHER: &str = "virt-launcher-";

/// Name of the launcher pod of an attempt to run a VMI. It depends only on the VMI (its uid) and the attempt.
/// So a second creation of the pod, from an outdated cache or by a second leader, fails with a conflict, and
/// no disk ever has two VMIs.
pub fn pod(vmi: &str, uid: &str, attempt: LauncherAttempt<'_>) -> String {
    let end = match attempt {
        LauncherAttempt::Start => letters(&format!("{vmi}/{uid}"), 5),
        LauncherAttempt::Migration(migration) => letters(&format!("{vmi}/{uid}/{migration}"), 5),
    };
    // The name is also the default of the pod's host name. Dots are allowed in it, a dash at the end is not.
    let room = LABEL - LAUNCHER.len() - "-".len() - end.len();
    let name: String = vmi.chars().take(room).collect();
    format!("{LAUNCHER}{}-{end}", name.trim_end_matches(['-', '.']))
}

/// Namespace and name in a text `NAMESPACE/NAME`.
pub fn namespaced(text: &str) -> Option<(&str, &str)> {
    let (namespace, name) = text.split_once('/')?;
    [namespace, name].into_iter().all(is_name).then_some((namespace, name))
}

/// A name as a label value. A long one is cut and gets a hash at its end.
pub fn label(name: &str) -> String {
    if name.len() <= LABEL {
        return name.to_owned();
    }
    let start: String = name.chars().take(LABEL - 9).collect();
    format!("{}-{}", start.trim_end_matches(['-', '.', '_']), letters(name, 8))
}

/// Value of the label by which Services select the pod of a VMI: its name, or the beginning of a long name and
/// a checksum. Upstream's virtctl computes the same.
pub fn vmi_id(name: &str) -> String {
    const KEPT: usize = 54;
    if name.len() <= LABEL {
        return name.to_owned();
    }
    let start: String = name.chars().take(KEPT).collect();
    let sum: String =
        Sha1::digest(name.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{start}-{sum}")
}

/// A name as a DNS label: dots become dashes, and a name that is changed or too long ends with a hash. So
/// does a name that already ends like a hash, so that no object can be named like the shortened name of
/// another.
pub fn dns_label(name: &str) -> String {
    let plain = name.replace(['.', '_'], "-").to_lowercase();
    if plain == name && name.len() <= LABEL && !ends_with_sum(name) {
        return plain;
    }
    let start: String = plain.chars().take(LABEL - 9).collect();
    format!("{}-{}", start.trim_matches('-'), letters(name, 8))
}

/// The PVC for EFI variables and the TPM of the VM of this name and uid.
pub fn state(vm: &str, uid: &str) -> String {
    let end = letters(&format!("{vm}/{uid}"), 5);
    let start = format!("{STATE_FOR}-{vm}");
    let start: String = start.chars().take(LONGEST - "-".len() - end.len()).collect();
    format!("{}-{end}", start.trim_end_matches(['-', '.']))
}

/// The PVC that the disk of another one is copied into by the migration of this uid. The end of an earlier name of this kind is left out.
pub fn moved(claim: &str, migration: &str) -> String {
    const MOVED: &str = "-moved-";
    const SHORT: usize = 5;
    let is_end = |end: &str| end.len() == SHORT && end.bytes().all(|letter| ALPHABET.contains(&letter));
    let begin = claim.rsplit_once(MOVED).filter(|(begin, end)| !begin.is_empty() && is_end(end));
    let begin = begin.map_or(claim, |(begin, _)| begin);
    let begin: String = begin.chars().take(LONGEST - MOVED.len() - SHORT).collect();
    format!(
        "{}{MOVED}{}",
        begin.trim_end_matches(['-', '.']),
        letters(&format!("{claim}/{migration}"), SHORT)
    )
}

/// The migration by which a VMI of this uid leaves its node; `before` tells it from earlier ones.
pub fn evacuation(vmi_uid: &str, before: &str) -> String {
    format!("kubevirt-evacuation-{}", letters(&format!("{vmi_uid}/{before}"), 8))
}

/// The migration by which a VMI of this uid gets a launcher pod of the current version; `before` tells it from earlier ones.
pub fn workload_update(vmi_uid: &str, before: &str) -> String {
    format!("kubevirt-workload-update-{}", letters(&format!("{vmi_uid}/{before}"), 8))
}

/// The migration that copies the volumes of a VMI of this uid; `before` tells it from earlier ones.
pub fn volume_update(vmi_uid: &str, before: &str) -> String {
    format!("kubevirt-volume-update-{}", letters(&format!("{vmi_uid}/{before}"), 8))
}

/// The worker pod that imports into the PVC of a name.
pub fn importer(claim: &str) -> String {
    prefixed(IMPORTER, claim)
}

/// The worker pod that makes an image of the PVC of a name.
pub fn exporter(claim: &str) -> String {
    prefixed(EXPORTER, claim)
}

/// The pod that polls for the DataImportCron of a name, after so many failures in a row.
pub fn poller(cron: &str, failures: i64) -> String {
    prefixed(POLLER, &format!("{cron}-{failures}"))
}

/// The pod that takes the upload into the PVC of a name, and its Service and its Secret. A Service's name is
/// a DNS label.
pub fn uploader(claim: &str) -> String {
    dns_label(&format!("{UPLOADER}{claim}"))
}

/// The pod that serves a PVC to the clone into the PVC of this uid, and its Service and its Secret.
pub fn cloner(target: &str) -> String {
    dns_label(&format!("{SOURCE}{target}"))
}

/// Secret with the client certificate that the clone into the PVC of this uid presents to its source pod.
pub fn clone_client(target: &str) -> String {
    dns_label(&format!("{CLIENT}{target}"))
}

/// The ControllerRevision of an instance type or of a preference, as a VM first used it: by the names of
/// both, and by the version, the uid and the generation of the object.
pub fn revision(vm: &str, object: &str, version: &str, uid: &str, generation: i64) -> String {
    let (begin, end) = (format!("{vm}-{object}"), format!("-{version}-{uid}-{generation}"));
    if begin.len() + end.len() <= LONGEST {
        return format!("{begin}{end}");
    }
    let room = LONGEST.saturating_sub(end.len() + 1 + SUM);
    let start: String = begin.chars().take(room).collect();
    format!("{}-{}{end}", start.trim_end_matches(['-', '.']), letters(&begin, SUM))
}

/// A name with a prefix. A long one is cut and gets a hash at its end.
fn prefixed(prefix: &str, name: &str) -> String {
    let whole = format!("{prefix}{name}");
    if whole.len() <= LONGEST && !ends_with_sum(&whole) {
        return whole;
    }
    let start: String = whole.chars().take(LONGEST - 9).collect();
    format!("{}-{}", start.trim_end_matches(['-', '.']), letters(name, 8))
}

/// True if the name ends like one that was cut.
fn ends_with_sum(name: &str) -> bool {
    let sum = name.rsplit_once('-').map(|(_, sum)| sum);
    sum.is_some_and(|sum| sum.len() == SUM && sum.bytes().all(|letter| ALPHABET.contains(&letter)))
}

/// Length of the hash at the end of a name that was cut.
const SUM: usize = 8;
/// The alphabet of the API server for generated names: without vowels, so that no words arise.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A hash of a text, as so many letters and digits.
fn letters(text: &str, count: usize) -> String {
    let mut sum = fnv(text);
    (0..count)
        .map(|_| {
            let letter = ALPHABET[(sum % ALPHABET.len() as u64) as usize];
            sum = fnv(&format!("{sum}{text}"));
            char::from(letter)
        })
        .collect()
}

/// FNV-1a hash of a text. Names depend on it, so it must never change.
pub fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_one_name_for_each_attempt_at_a_vmi() {
        let (start, migration) = (LauncherAttempt::Start, LauncherAttempt::Migration);
        assert_eq!(pod("web", "1", start), "virt-launcher-web-fhrzj");
        assert_eq!(pod("web", "1", migration("m")), pod("web", "1", migration("m")));
        assert_ne!(pod("web", "1", start), pod("web", "2", start));
        assert_ne!(pod("web", "1", start), pod("web", "1", migration("m")));
        assert_ne!(pod("web", "1", migration("m")), pod("web", "1", migration("n")));
        let long = pod(&"a.".repeat(100), "1", start);
        assert!(long.len() <= 63 && !long.contains(".-"), "{long}");
    }

    #[test]
    fn a_long_vmi_is_selected_by_the_beginning_of_its_name_and_a_sum() {
        assert_eq!(vmi_id(&"a".repeat(63)), "a".repeat(63));
        // printf %064d 0 | tr 0 a | sha1sum
        assert_eq!(vmi_id(&"a".repeat(64)), format!("{}-0098ba82", "a".repeat(54)));
    }

    #[test]
    fn what_leads_elsewhere_is_no_name() {
        for name in ["a", "web.1", "virt-launcher-web-fhrzj", "1", &"a".repeat(253)] {
            assert!(is_name(name), "{name}");
        }
        for odd in
            ["", ".", "..", "a/b", "../a", "a?b", "a%2Fb", "a#b", "-a", "a-", "A", "é", &"a".repeat(254)]
        {
            assert!(!is_name(odd), "{odd}");
        }
    }

    #[test]
    fn a_namespace_and_a_name_are_two_names() {
        assert_eq!(namespaced("n/disk.1"), Some(("n", "disk.1")));
        for odd in ["", "n", "n/", "/disk", "n/a/b", "n/../a", "N/a"] {
            assert_eq!(namespaced(odd), None, "{odd}");
        }
        assert_eq!(cloner("9f1c"), "clone-source-9f1c");
        assert_ne!(cloner("9f1c"), clone_client("9f1c"));
    }

    #[test]
    fn a_pvc_that_moves_again_has_a_new_name_that_is_no_longer() {
        let first = moved("disk", "1");
        assert!(
            first.starts_with("disk-moved-") && first.len() == 16 && first == moved("disk", "1"),
            "{first}"
        );
        let second = moved(&first, "2");
        assert!(second.starts_with("disk-moved-") && second.len() == 16 && second != first, "{second}");
        assert_ne!(moved("disk", "2"), first);
        assert!(moved("disk-moved-house", "1").starts_with("disk-moved-house-moved-"), "vowels are a user's");
        let long = moved(&"a.".repeat(126), "1");
        assert!(long.len() <= 253 && is_name(&long), "{long}");
    }

    #[test]
    fn the_pvc_of_a_vms_state_is_another_for_each_vm() {
        let name = state("web", "1");
        assert!(name.starts_with("persistent-state-for-web-") && name.len() == 30, "{name}");
        assert_eq!(name, state("web", "1"));
        assert_ne!(name, state("web", "2"));
        let long = state(&"a.".repeat(126), "1");
        assert!(long.len() <= 253 && is_name(&long), "{long}");
    }

    #[test]
    fn a_name_with_a_word_before_it_fits() {
        assert_eq!(prefixed("importer-", "web.disk"), "importer-web.disk");
        let (one, two) = ("x".repeat(253), format!("{}y", "x".repeat(252)));
        let (one, two) = (prefixed("importer-", &one), prefixed("importer-", &two));
        assert!(one.len() <= 253 && two.len() <= 253 && one != two && is_name(&one));
    }

    #[test]
    fn the_revision_of_an_instance_type_is_named_as_upstream_names_it() {
        assert_eq!(revision("web", "u1.medium", "v1beta1", "9f1c", 2), "web-u1.medium-v1beta1-9f1c-2");
        let long = |end: &str| revision(&format!("{}{end}", "x".repeat(252)), "a", "v1beta1", "9f1c", 2);
        assert!(long("y").len() <= 253 && is_name(&long("y")) && long("y") != long("z"));
        assert!(long("y").ends_with("-v1beta1-9f1c-2"));
    }

    #[test]
    fn an_upload_pod_is_reached_by_its_name() {
        assert_eq!(uploader("disk"), "cdi-upload-disk");
        let odd = ["web.disk", "web-disk", &"x".repeat(253), &format!("{}y", "x".repeat(252))].map(uploader);
        for name in &odd {
            assert!(name.len() <= LABEL && !name.contains('.') && is_name(name), "{name}");
            assert!(name.starts_with(UPLOADER), "{name}");
        }
        assert_eq!(odd.iter().collect::<std::collections::BTreeSet<_>>().len(), odd.len(), "{odd:?}");
    }

    #[test]
    fn nobody_names_a_pvc_so_that_it_meets_the_shortened_name_of_another() {
        for long in ["web.disk".to_owned(), "x".repeat(253), format!("{}.y", "x".repeat(90))] {
            let cut = uploader(&long);
            let other = cut.strip_prefix(UPLOADER).unwrap();
            assert!(is_name(other));
            assert_ne!(uploader(other), cut);
            let again = uploader(other);
            assert_ne!(uploader(again.strip_prefix(UPLOADER).unwrap()), again);
        }
        let cut = importer(&"x".repeat(253));
        let other = cut.strip_prefix(IMPORTER).unwrap();
        assert_ne!(importer(other), cut);
        assert_eq!(uploader("disk-7d4b9c6f5d-abcde"), "cdi-upload-disk-7d4b9c6f5d-abcde");
    }

    #[test]
    fn long_names_fit_and_differ() {
        let (one, two) = ("x".repeat(80), format!("{}y", "x".repeat(79)));
        assert!(label(&one).len() <= 63 && label(&one) != label(&two));
        assert_eq!(label("short.name"), "short.name");
        assert!(dns_label("a.b").starts_with("a-b-"));
        assert_ne!(dns_label("a.b"), dns_label("a-b"));
    }
}
