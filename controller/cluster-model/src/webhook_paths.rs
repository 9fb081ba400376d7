//! The segment in the paths of virt-api's webhooks that callers other than the API server cannot guess.
//!
//! ```text
//!  Secret of virt-api's certificate, entry `webhook-paths`:   next, used, former       one a line
//!       │ virt-controller: a new `next` with each certificate ─► the webhook configurations have `used`
//!       └ virt-api: answers webhooks below each of the three, and nowhere else
//! ```
//!
//! A segment is used in the configurations one rotation after it was created: by then every replica of
//! virt-api has read it. The one before is served until the next rotation, since an API server notices a
//! change late.
//! **An installation of an older version** has no segments, and its virt-api serves paths without one. The
//! first segments come when that virt-api is gone; for a minute both kinds of paths are served
//! ([`PathSegments::has_plain`]).
//! **Caveats.** A bearer secret: it is known to all users who may read webhook configurations, and the API
//! server repeats the whole path in the error of a request whose webhook failed. Nothing is signed or written
//! for a caller because of it alone.

use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::fmt;

/// The key of the Secret's data.
pub const FIELD: &str = "webhook-paths";
/// Length of a segment: 128 bits in hexadecimal.
const LENGTH: usize = 32;
/// Line for paths without a segment.
const PLAIN: &str = "-";
/// Maximum number of segments in a Secret.
const MOST: usize = 3;

/// The segments in a Secret, the newest first. They are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PathSegments(Vec<String>);

impl PathSegments {
    /// The valid segments in a Secret's entry. Other lines are skipped.
    pub fn read(text: &str) -> PathSegments {
        let lines = text.lines().filter(|line| is_segment(line) || *line == PLAIN);
        PathSegments(lines.take(MOST).map(str::to_owned).collect())
    }

    /// The entry for the Secret.
    pub fn text(&self) -> String {
        self.0.join("\n")
    }

    /// The segments after a rotation, with two new ones available. `is_upgrade`: the Secret is from a version
    /// without segments.
    pub fn rotated(&self, [new, other]: [[u8; LENGTH / 2]; 2], is_upgrade: bool) -> PathSegments {
        let [new, other] = [new, other].map(|bytes| hexadecimal(&bytes));
        PathSegments(match self.0.as_slice() {
            [next, used, ..] => vec![new, next.clone(), used.clone()],
            _ if is_upgrade => vec![new, other, PLAIN.to_owned()],
            _ => vec![new, other],
        })
    }

    /// The segment in the webhook configurations.
    pub fn configured(&self) -> Option<&str> {
        self.0.get(1).map(String::as_str).filter(|used| *used != PLAIN)
    }

    /// True if paths without a segment are served too, because the API server may still use them.
    pub fn has_plain(&self) -> bool {
        self.0.iter().any(|segment| segment == PLAIN)
    }

    /// The path after its segment, if that is valid.
    pub fn strip_segment<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (segment, rest) = path.strip_prefix('/')?.split_once('/').unwrap_or_default();
        // Hashes are compared, so the time of a comparison reveals nothing about a segment.
        let sum = |text: &str| Sha256::digest(text.as_bytes());
        let shown = sum(segment);
        let is_known = self.0.iter().fold(false, |known, one| known | (sum(one) == shown));
        if is_known && is_segment(segment) {
            return path.get(path.len() - rest.len() - 1..);
        }
        (self.configured().is_none() || self.has_plain()).then_some(path)
    }
}

impl fmt::Debug for PathSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} segments", self.0.len())
    }
}

/// A text with the segments removed: the API server repeats the path of a failed webhook.
pub fn redacted(text: &str) -> Cow<'_, str> {
    let has_one = text.split('/').any(is_segment);
    match has_one {
        true => {
            let parts: Vec<&str> =
                text.split('/').map(|part| if is_segment(part) { "..." } else { part }).collect();
            Cow::Owned(parts.join("/"))
        }
        false => Cow::Borrowed(text),
    }
}

fn is_segment(text: &str) -> bool {
    text.len() == LENGTH && text.bytes().all(|letter| matches!(letter, b'0'..=b'9' | b'a'..=b'f'))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/virtualmachines-validate";

    fn bytes(from: u8) -> [[u8; LENGTH / 2]; 2] {
        [[from; LENGTH / 2], [from + 1; LENGTH / 2]]
    }

    fn answers(segments: &PathSegments, path: &str) -> bool {
        segments.strip_segment(path) == Some(PATH)
    }

    /// Every replica of virt-api serves a segment before the API server uses it, and serves the previous one
    /// for as long.
    #[test]
    fn a_segment_is_answered_before_and_after_it_is_used() {
        let mut segments = PathSegments::default().rotated(bytes(1), false);
        assert!(!segments.has_plain());
        for round in 1..5 {
            let (before, used) = (segments.clone(), segments.configured().unwrap().to_owned());
            segments = segments.rotated(bytes(10 * round), false);
            let path = |segment: &str| format!("/{segment}{PATH}");
            assert!(
                answers(&before, &path(segments.configured().unwrap())),
                "what is used next was known before"
            );
            assert!(answers(&segments, &path(&used)), "an API server may still have the old configuration");
            assert_ne!(segments.configured(), Some(used.as_str()));
            assert_eq!(PathSegments::read(&segments.text()), segments);
        }
    }

    #[test]
    fn a_path_without_its_segment_is_not_answered() {
        let segments = PathSegments::default().rotated(bytes(1), false);
        let used = segments.configured().unwrap();
        assert!(answers(&segments, &format!("/{used}{PATH}")));
        let upper = used.to_uppercase().replace('0', "A");
        for path in [
            PATH.to_owned(),
            format!("/{PATH}"),
            format!("/-{PATH}"),
            format!("/{}{PATH}", &used[1..]),
            format!("/{upper}{PATH}"),
            format!("/{used}/{PATH}"),
            format!("/{used}"),
            format!("{PATH}/{used}"),
            format!("/{}{PATH}", "0".repeat(LENGTH)),
            String::new(),
        ] {
            assert!(!answers(&segments, &path), "{path}");
        }
    }

    /// The old virt-api serves plain paths. Its successor serves both kinds until the API server has the new
    /// ones.
    #[test]
    fn an_installation_without_segments_gets_them_in_two_steps() {
        let none = PathSegments::read("");
        assert!(none.configured().is_none() && answers(&none, PATH));
        let both = none.rotated(bytes(1), true);
        let used = format!("/{}{PATH}", both.configured().unwrap());
        assert!(both.has_plain() && answers(&both, PATH) && answers(&both, &used));
        let alone = both.rotated(bytes(5), false);
        assert!(!alone.has_plain() && !answers(&alone, PATH) && answers(&alone, &used));
    }

    #[test]
    fn segments_are_not_printed_and_foreign_lines_are_not_read() {
        let segments = PathSegments::default().rotated(bytes(7), false);
        let used = segments.configured().unwrap();
        assert_eq!(format!("{segments:?}"), "2 segments");
        let said = format!("Post \"https://virt-api.kubevirt.svc:443/{used}{PATH}?timeout=10s\": refused");
        assert_eq!(
            redacted(&said),
            "Post \"https://virt-api.kubevirt.svc:443/.../virtualmachines-validate?timeout=10s\": refused"
        );
        assert_eq!(redacted("a/b"), "a/b");
        let many = format!("x\n../a\n{}", format!("{used}\n").repeat(9));
        assert_eq!(PathSegments::read(&many).0.len(), MOST);
    }
}
