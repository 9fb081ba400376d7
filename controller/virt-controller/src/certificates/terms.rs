//! Validity and renewal times of certificates, from the KubeVirt object or by default.

use super::{Certificate, created_at, saturating_add, saturating_sub};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Default validity: 7 days for an authority, a day for a server's certificate.
const AUTHORITY: SignedDuration = SignedDuration::from_hours(7 * 24);
const SERVER: SignedDuration = SignedDuration::from_hours(24);
/// Shortest validity. Shorter ones are ignored, because such a certificate would end while it is being
/// spread.
const LEAST: SignedDuration = SignedDuration::from_mins(10);
/// Default part of a certificate's life that is left when it is renewed.
const LEFT: i32 = 5;

/// The terms of all certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) authority: Term,
    pub(super) server: Term,
}

/// The terms of one kind of certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) length: SignedDuration,
    before: SignedDuration,
}

impl Terms {
    /// Terms from a KubeVirt object.
    pub(super) fn from_kubevirt(object: &Value) -> Terms {
        let said = &object["spec"]["certificateRotateStrategy"]["selfSigned"];
        // The old field names count where the new ones are not set.
        let authority =
            Term::parse(&said["ca"], &said["caRotateInterval"], &said["caOverlapInterval"], AUTHORITY);
        let server = Term::parse(&said["server"], &said["certRotateInterval"], &Value::Null, SERVER);
        Terms { authority, server }
    }
}

impl Term {
    /// An authority of uploads, as in CDI.
    pub(super) const SIGNER: Term =
        Term { length: SignedDuration::from_hours(48), before: SignedDuration::from_hours(24) };
    /// A certificate that such an authority signs, as in CDI.
    pub(super) const LEAF: Term =
        Term { length: SignedDuration::from_hours(24), before: SignedDuration::from_hours(12) };

    fn parse(said: &Value, old_length: &Value, old_before: &Value, usual: SignedDuration) -> Term {
        let span = |new: &Value, old: &Value| {
            let text = new.as_str().or(old.as_str())?;
            Some(SignedDuration::from_nanos(api::duration::Duration::parse(text)?.nanos()))
        };
        let length = span(&said["duration"], old_length).filter(|length| *length >= LEAST).unwrap_or(usual);
        let before = span(&said["renewBefore"], old_before)
            .filter(|before| *before > SignedDuration::ZERO && *before < length)
            .unwrap_or(length / LEFT);
        Term { length, before }
    }

    /// Renewal time of a certificate. These terms also hold for certificates that were created under others.
    pub(super) fn renew(&self, certificate: &Certificate) -> Timestamp {
        let end = certificate.until.min(saturating_add(created_at(certificate), self.length));
        let life = end.duration_since(created_at(certificate));
        saturating_sub(end, self.before.min(life / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_said_holds_and_what_makes_no_sense_does_not() {
        let terms = |said: Value| {
            Terms::from_kubevirt(&json!({"spec": {"certificateRotateStrategy": {"selfSigned": said}}}))
        };
        let hours = SignedDuration::from_hours;
        let usual = terms(Value::Null);
        assert_eq!((usual.authority.length, usual.server.length), (hours(168), hours(24)));
        assert_eq!(usual.server.before, hours(24) / 5);
        let said = terms(json!({
            "ca": {"duration": "48h", "renewBefore": "6h"}, "caRotateInterval": "1h",
            "server": {"duration": "1s", "renewBefore": "90h"},
        }));
        assert_eq!((said.authority.length, said.authority.before), (hours(48), hours(6)));
        assert_eq!(said.server, usual.server);
        assert_eq!(
            terms(json!({"caRotateInterval": "50h", "caOverlapInterval": "5h"})).authority.before,
            hours(5)
        );
    }
}
