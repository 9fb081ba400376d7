//! Clone tokens: proof that the creator of a DataVolume was permitted to clone its source in another
//! namespace.
//!
//! ```text
//!  DataVolume is made ─► virt-api asks whether its maker may ─► token in an annotation of it ─► virt-controller verifies it
//!                         iat ◄──────────── creationTimestamp within ────────────► exp            before each source pod
//! ```
//!
//! A token is for one source and one target. The source is a PVC, or a DataSource that does not point to a
//! PVC yet ([`CloneSourceKind`]). In the second case the creator may clone every PVC in the namespace of that
//! DataSource, and the verifier follows the DataSource.
//!
//! The validity of a token is not compared with the verifier's clock, since a clone may wait for days.
//! Instead the DataVolume must have been created while the token was valid. So an annotation that is copied
//! to a later DataVolume of the same name is worthless.

use super::{Claims, ISSUER, LEEWAY, PublicKey, Resource, TokenError, VALID, signed_claims};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

const CLONE: &str = "Clone";
const NAMESPACE: &str = "targetNamespace";
const NAME: &str = "targetName";
const GENERATED: &str = "targetGenerateName";

/// A clone that a token permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cloned<'a> {
    /// Namespace and name of the source PVC, or of the DataSource that will point to it.
    pub source: (&'a str, &'a str),
    /// Namespace and name of the DataVolume; the name is empty before the API server has generated it.
    pub target: (&'a str, &'a str),
    /// `generateName` of a DataVolume with a generated name; else empty.
    pub generated: &'a str,
}

/// Kind of the source of a clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneSourceKind {
    Claim,
    /// A DataSource, which points to a PVC of its own namespace when the clone begins.
    DataSource,
}

impl CloneSourceKind {
    fn resource(self) -> Resource {
        match self {
            CloneSourceKind::Claim => Resource::pvcs(),
            CloneSourceKind::DataSource => Resource::data_sources(),
        }
    }
}

impl Claims {
    /// Claims for a clone of a PVC into a DataVolume that is created now.
    pub fn cloning(clone: Cloned<'_>, now: Timestamp) -> Claims {
        Claims::cloning_of(CloneSourceKind::Claim, clone, now)
    }

    /// Claims for a clone into a DataVolume that is created now, with a source of this kind.
    pub fn cloning_of(named: CloneSourceKind, clone: Cloned<'_>, now: Timestamp) -> Claims {
        let now = now.as_second();
        let (namespace, name) = clone.source;
        let mut params = Map::new();
        params.insert(NAMESPACE.to_owned(), json!(clone.target.0));
        params.insert(NAME.to_owned(), json!(clone.target.1));
        if clone.target.1.is_empty() {
            params.insert(GENERATED.to_owned(), json!(clone.generated));
        }
        Claims {
            iss: ISSUER.to_owned(),
            iat: now,
            nbf: now,
            exp: now.saturating_add(VALID),
            operation: CLONE.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            resource: named.resource(),
            params: Some(params),
        }
    }
}

/// Verifies a token for this clone of a PVC, into a DataVolume that was created at the time `made`.
pub fn verify_clone(
    keys: &[PublicKey],
    token: &str,
    clone: Cloned<'_>,
    made: Timestamp,
) -> Result<(), TokenError> {
    verify_clone_of(CloneSourceKind::Claim, keys, token, clone, made)
}

/// Same as [`verify_clone`], for a source of this kind.
pub fn verify_clone_of(
    named: CloneSourceKind,
    keys: &[PublicKey],
    token: &str,
    clone: Cloned<'_>,
    made: Timestamp,
) -> Result<(), TokenError> {
    let claims = signed_claims(keys, token)?;
    let made = made.as_second();
    if made > claims.exp {
        return Err(TokenError::Expired);
    }
    if made < claims.iat.max(claims.nbf).saturating_sub(LEEWAY) {
        return Err(TokenError::NotYetValid);
    }
    if claims.iss != ISSUER {
        return Err(TokenError::OtherIssuer);
    }
    let param =
        |name: &str| claims.params.as_ref().and_then(|params| params.get(name)).and_then(Value::as_str);
    let (namespace, name) = clone.target;
    let is_named = match param(NAME) {
        Some("") => param(GENERATED)
            .is_some_and(|start| !start.is_empty() && start == clone.generated && name.starts_with(start)),
        said => said == Some(name),
    };
    let is_this = claims.operation == CLONE
        && claims.resource == named.resource()
        && (claims.namespace.as_str(), claims.name.as_str()) == clone.source
        && param(NAMESPACE) == Some(namespace)
        && is_named;
    if is_this { Ok(()) } else { Err(TokenError::OtherPurpose) }
}

#[cfg(test)]
mod tests {
    use super::super::{Pair, public_keys, sign, verify};
    use super::*;

    const THIS: Cloned<'_> = Cloned { source: ("s", "golden"), target: ("t", "disk"), generated: "" };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn keys(pem: &[u8]) -> Vec<PublicKey> {
        public_keys(pem).unwrap()
    }

    fn token(clone: Cloned<'_>) -> String {
        sign(&Pair::read(include_bytes!("one.pem")).unwrap(), &Claims::cloning(clone, at(0))).unwrap()
    }

    fn one() -> Vec<PublicKey> {
        keys(include_bytes!("one.pub.pem"))
    }

    #[test]
    fn a_token_is_of_one_source_and_one_target() {
        let token = token(THIS);
        assert_eq!(verify_clone(&one(), &token, THIS, at(1)), Ok(()));
        for other in [
            Cloned { source: ("s", "other"), ..THIS },
            Cloned { source: ("u", "golden"), ..THIS },
            Cloned { target: ("t", "other"), ..THIS },
            Cloned { target: ("u", "disk"), ..THIS },
        ] {
            assert_eq!(
                verify_clone(&one(), &token, other, at(1)),
                Err(TokenError::OtherPurpose),
                "{other:?}"
            );
        }
        let others = keys(include_bytes!("other.pub.pem"));
        assert_eq!(verify_clone(&others, &token, THIS, at(1)), Err(TokenError::BadSignature));
        assert_eq!(verify_clone(&one(), "", THIS, at(1)), Err(TokenError::Malformed));
        // Neither kind of token is accepted as the other.
        assert_eq!(verify(&one(), &token, at(1)), Err(TokenError::OtherPurpose));
        let pair = Pair::read(include_bytes!("one.pem")).unwrap();
        let upload = sign(&pair, &Claims::upload("s", "golden", at(0))).unwrap();
        assert_eq!(verify_clone(&one(), &upload, THIS, at(1)), Err(TokenError::OtherPurpose));
    }

    /// A DataSource and a PVC may have the same name: a token for one is not valid for the other.
    #[test]
    fn a_token_of_a_data_source_is_none_of_a_pvc_of_its_name() {
        let pair = Pair::read(include_bytes!("one.pem")).unwrap();
        for (signed, other) in [
            (CloneSourceKind::DataSource, CloneSourceKind::Claim),
            (CloneSourceKind::Claim, CloneSourceKind::DataSource),
        ] {
            let token = sign(&pair, &Claims::cloning_of(signed, THIS, at(0))).unwrap();
            let verified = |named| verify_clone_of(named, &one(), &token, THIS, at(1));
            assert_eq!((verified(signed), verified(other)), (Ok(()), Err(TokenError::OtherPurpose)));
        }
    }

    /// The creation time of the DataVolume counts, not the time of the verification.
    #[test]
    fn a_data_volume_is_made_while_its_token_is_valid() {
        let token = token(THIS);
        for (made, expected) in [
            (-11, Err(TokenError::NotYetValid)),
            (-10, Ok(())),
            (0, Ok(())),
            (VALID, Ok(())),
            (VALID + 1, Err(TokenError::Expired)),
        ] {
            assert_eq!(verify_clone(&one(), &token, THIS, at(made)), expected, "{made}");
        }
    }

    #[test]
    fn a_name_that_is_made_up_begins_as_the_token_says() {
        let token = token(Cloned { target: ("t", ""), generated: "disk-", ..THIS });
        let made = |name, generated| {
            verify_clone(&one(), &token, Cloned { target: ("t", name), generated, ..THIS }, at(1))
        };
        assert_eq!(made("disk-x7q2p", "disk-"), Ok(()));
        for (name, generated) in [("other-x7q2p", "disk-"), ("disk-x7q2p", ""), ("disk-x7q2p", "d")] {
            assert_eq!(made(name, generated), Err(TokenError::OtherPurpose), "{name} {generated}");
        }
    }
}
