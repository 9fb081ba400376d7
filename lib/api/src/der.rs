//! Reader of a certificate (DER) for two parts of it: its dates, and the common name of its subject.
//!
//! The libraries that check certificates show neither. They must check the signature, before or after: a name
//! that is read here proves nothing. The bytes are foreign: a truncated certificate, or one with more than
//! three bytes of length, gives `None`.

/// Tag of a list of values.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const VERSION: u8 = 0xa0;
/// Object identifier 2.5.4.3, `commonName`.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// Parts of a certificate that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body<'a> {
    /// The two dates, each a DER value.
    pub dates: &'a [u8],
    /// The subject, in DER.
    pub subject: &'a [u8],
}

impl<'a> Body<'a> {
    /// Reads the body of `Certificate { body { (version) serial algorithm issuer dates subject … } … }`.
    pub fn parse(der: &'a [u8]) -> Option<Body<'a>> {
        let (whole, _) = expect(der, SEQUENCE)?;
        let (mut body, _) = expect(whole, SEQUENCE)?;
        if body.first() == Some(&VERSION) {
            body = next(body)?.2;
        }
        for _ in ["serial", "algorithm", "issuer"] {
            body = next(body)?.2;
        }
        let (dates, body) = expect(body, SEQUENCE)?;
        let (subject, _) = expect(body, SEQUENCE)?;
        Some(Body { dates, subject })
    }

    /// The common name of the subject; `None` if it has none, or more than one. The subject may have other
    /// names.
    pub fn common_name(&self) -> Option<&'a str> {
        let mut subject = self.subject;
        let mut found = None;
        while !subject.is_empty() {
            let (mut set, rest) = expect(subject, SET)?;
            while !set.is_empty() {
                let (pair, more) = expect(set, SEQUENCE)?;
                let (kind, value) = expect(pair, OBJECT)?;
                let (_, text, end) = next(value)?;
                if kind == COMMON_NAME {
                    let is_alone = found.is_none() && end.is_empty();
                    found = Some(is_alone.then(|| std::str::from_utf8(text).ok())??);
                }
                set = more;
            }
            subject = rest;
        }
        found
    }
}

/// The content of the next value, which must have this tag, and the bytes after it.
fn expect(bytes: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = next(bytes)?;
    (found == kind).then_some((content, rest))
}

/// The tag of the next value, its content, and the bytes after it.
pub fn next(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let length = match first {
        0..=0x7f => usize::from(first),
        0x81..=0x83 => {
            let (digits, more) = rest.split_at_checked(usize::from(first & 0x7f))?;
            rest = more;
            digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit))
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((kind, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A value of a kind.
    fn value(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        let head = if length < 0x80 { vec![kind, length] } else { vec![kind, 0x81, length] };
        [head, content.to_vec()].concat()
    }

    fn name(text: &str) -> Vec<u8> {
        let pair = [value(OBJECT, &COMMON_NAME), value(0x0c, text.as_bytes())].concat();
        value(SET, &value(SEQUENCE, &pair))
    }

    fn certificate(subject: &[Vec<u8>]) -> Vec<u8> {
        let part = |content: &[u8]| value(SEQUENCE, content);
        let body = [
            value(VERSION, &[2]),
            value(2, &[1]),
            part(b""),
            part(b""),
            part(b"dates"),
            part(&subject.concat()),
        ];
        part(&part(&body.concat()))
    }

    #[test]
    fn one_common_name_is_found_and_two_are_none() {
        let of = |subject: &[Vec<u8>]| {
            let der = certificate(subject);
            let body = Body::parse(&der).unwrap();
            assert_eq!(body.dates, b"dates");
            body.common_name().map(str::to_owned)
        };
        assert_eq!(of(&[name("proxy")]).as_deref(), Some("proxy"));
        assert_eq!(of(&[name("proxy"), name("kubelet")]), None);
        assert_eq!(of(&[]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), at in 0_usize..80, byte in any::<u8>()) {
            let _ = Body::parse(&bytes).map(|body| body.common_name());
            let mut der = certificate(&[name("proxy")]);
            let at = at % der.len();
            der[at] = byte;
            let _ = Body::parse(&der).map(|body| body.common_name());
        }
    }
}
