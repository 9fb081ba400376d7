//! Sums in annotations, by which versions of a template are compared.
//!
//! The rule of a sum is what it is made of, and how. Sums of two rules differ for the same template, so they
//! are not compared: an upgrade that changes a rule would restart VMs, or delete them with their disks. A sum
//! of another rule counts as equal, and is replaced.
//!
//! ```text
//! 0123456789abcdef       rule 1
//! v2.0123456789abcdef    rule 2
//! ```

/// Version of a rule. It is raised with each change of what a sum is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SumRule(pub(crate) u32);

impl SumRule {
    /// A sum of this rule, as it is written. Rule 1 is not named, since programs of before know no other.
    pub(crate) fn note(self, sum: &str) -> String {
        match self.0 {
            1 => sum.to_owned(),
            rule => format!("v{rule}.{sum}"),
        }
    }

    /// The sum in an annotation, if it is of this rule.
    pub(crate) fn read(self, noted: &str) -> Option<&str> {
        let named = noted.strip_prefix('v').and_then(|rest| rest.split_once('.'));
        let (rule, sum) = named.map_or((Some(1), noted), |(rule, sum)| (rule.parse().ok(), sum));
        (rule == Some(self.0)).then_some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_read_by_its_own_rule_alone() {
        for (noted, first, second) in [
            ("0a.0b", Some("0a.0b"), None),
            ("v2.0a.0b", None, Some("0a.0b")),
            ("v3.0a", None, None),
            ("vx.0a", None, None),
        ] {
            assert_eq!((SumRule(1).read(noted), SumRule(2).read(noted)), (first, second), "{noted}");
        }
        assert_eq!((SumRule(1).note("0a"), SumRule(2).note("0a")), ("0a".to_owned(), "v2.0a".to_owned()));
    }
}
