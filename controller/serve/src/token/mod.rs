//! Tokens: virt-api signs one for whoever may upload to a PVC, and cdi-uploadproxy verifies it; and one for whoever may clone a
//! PVC into another namespace (`clone`), which virt-controller verifies.
//!
//! ```text
//!  UploadTokenRequest ─► virt-api ── sign(Pair, Claims) ─► HEADER.CLAIMS.SIGNATURE ─► client ─► cdi-uploadproxy
//!                          ▲ Secret cdi-api-signing-key                               verify(keys, token, now)
//!                                                                 ConfigMap cdi-api-signing-key ─┘
//! ```
//!
//! A token is a JSON Web Token (RFC 7519) by PS256: RSA-PSS with SHA-256, as CDI's. Nobody has to believe the token before
//! its signature: the algorithm is fixed, of its header nothing but `alg` is looked at, and a header that wants more (`crit`)
//! is refused. After the signature come the times, with [`LEEWAY`] for clocks that differ, the issuer, and then what the
//! token is for ([`Refused::OtherPurpose`]): a key that signs other tokens of CDI opens no upload.
//!
//! Pure: the time is handed in. Key files are followed by [`mounted`](crate::mounted), and kept by [`Signer`] and
//! [`Verifier`].

mod clone;
mod keys;
#[cfg(test)]
mod tests;

pub use clone::{Cloned, Named, verify_clone, verify_clone_of};
pub use keys::{Pair, PublicKey, Signer, Verifier, public_keys};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cluster_client::error::{Error, ErrorKind, Result};
use cluster_model::objects::Kind;
use cluster_model::objects::names::is_name;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// The issuer of upload tokens, as in CDI.
pub const ISSUER: &str = "cdi-apiserver";
/// Seconds that a token is valid.
pub const VALID: i64 = 300;
/// Seconds by which clocks may differ.
pub const LEEWAY: i64 = 10;
/// The longest token that is looked at.
pub const LONGEST: usize = 8 << 10;
/// The header of every token that we sign.
const HEADER: &str = r#"{"alg":"PS256","typ":"JWT"}"#;
const UPLOAD: &str = "Upload";

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// Issuer: [`ISSUER`].
    pub iss: String,
    /// Time of issue, in seconds since 1970.
    pub iat: i64,
    /// Time before which the token is not valid.
    pub nbf: i64,
    /// Time after which the token is not valid.
    pub exp: i64,
    /// The operation that the token permits: `Upload` or `Clone`.
    pub operation: String,
    /// Name of the PVC.
    pub name: String,
    /// Namespace of the PVC.
    pub namespace: String,
    /// The resource that `name` is one of.
    pub resource: Resource,
    /// Parameters of the operation: the target of a clone. An upload has none.
    #[serde(default)]
    pub params: Option<Map<String, Value>>,
}

/// A resource of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// Group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural name.
    pub resource: String,
}

impl Resource {
    fn pvcs() -> Resource {
        Resource { group: String::new(), version: "v1".into(), resource: "persistentvolumeclaims".into() }
    }

    fn data_sources() -> Resource {
        let about = Kind::DataSource;
        let version = about.api_version().rsplit('/').next().unwrap_or_default().to_owned();
        Resource { group: about.group().to_owned(), version, resource: about.plural().to_owned() }
    }
}

impl Claims {
    /// An upload to a PVC, from now on.
    pub fn upload(namespace: &str, pvc: &str, now: Timestamp) -> Claims {
        let now = now.as_second();
        Claims {
            iss: ISSUER.to_owned(),
            iat: now,
            nbf: now,
            exp: now.saturating_add(VALID),
            operation: UPLOAD.to_owned(),
            name: pvc.to_owned(),
            namespace: namespace.to_owned(),
            resource: Resource::pvcs(),
            params: Some(Map::new()),
        }
    }
}

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not a token by PS256.
    Malformed,
    /// No key that holds has signed it.
    BadSignature,
    /// Its time is over.
    Expired,
    /// Its time has not begun: a clock is wrong.
    NotYetValid,
    /// Another program has issued it.
    OtherIssuer,
    /// It is good, and permits something else than an upload to a PVC.
    OtherPurpose,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Malformed => "the token is not a JSON Web Token by PS256; ask for one with an UploadTokenRequest",
            Refused::BadSignature => {
                "no key of this installation has signed the token; ask for a new one with an UploadTokenRequest"
            }
            Refused::Expired => "the token has expired; ask for a new one with an UploadTokenRequest",
            Refused::NotYetValid => "the token is not valid yet: the clocks of the nodes differ",
            Refused::OtherIssuer => "the token has another issuer than cdi-apiserver",
            Refused::OtherPurpose => "the token does not permit an upload to a PVC",
        })
    }
}

/// A token with these claims.
pub fn sign(pair: &Pair, claims: &Claims) -> Result<String> {
    let body = serde_json::to_vec(claims).map_err(|e| Error::setup("a token cannot be written", e))?;
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(body));
    let signature = pair.sign(signed.as_bytes())?;
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
    if token.len() > LONGEST {
        let what = format!("a token of {} bytes is longer than cdi-uploadproxy takes", token.len());
        return Err(Error::new(ErrorKind::Refused, what));
    }
    Ok(token)
}

/// The claims of a token that one of the keys has signed, and that permits an upload now.
pub fn verify(keys: &[PublicKey], token: &str, now: Timestamp) -> std::result::Result<Claims, Refused> {
    let claims = signed_claims(keys, token)?;
    permits(&claims, now)?;
    Ok(claims)
}

/// The claims of a token that one of the keys has signed, whatever they permit and whenever.
fn signed_claims(keys: &[PublicKey], token: &str) -> std::result::Result<Claims, Refused> {
    if token.len() > LONGEST {
        return Err(Refused::Malformed);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(Refused::Malformed)?;
    let (header, body) = signed.split_once('.').ok_or(Refused::Malformed)?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::Malformed);
    let (header, body, signature) = (decode(header)?, decode(body)?, decode(signature)?);
    let header: Header = serde_json::from_slice(&header).map_err(|_| Refused::Malformed)?;
    if header.alg != "PS256" || header.crit.is_some() {
        return Err(Refused::Malformed);
    }
    if !keys.iter().any(|key| key.has_signed(signed.as_bytes(), &signature)) {
        return Err(Refused::BadSignature);
    }
    serde_json::from_slice(&body).map_err(|_| Refused::OtherPurpose)
}

/// What of a token's header is looked at; where a name stands twice, it is refused.
#[derive(Deserialize)]
struct Header {
    alg: String,
    crit: Option<Value>,
}

/// Claims whose signature is right permit an upload now.
fn permits(claims: &Claims, now: Timestamp) -> std::result::Result<(), Refused> {
    let now = now.as_second();
    if claims.exp.saturating_add(LEEWAY) <= now {
        return Err(Refused::Expired);
    }
    let latest = now.saturating_add(LEEWAY);
    if claims.iat > latest || claims.nbf > latest {
        return Err(Refused::NotYetValid);
    }
    if claims.iss != ISSUER {
        return Err(Refused::OtherIssuer);
    }
    let is_upload = claims.operation == UPLOAD && claims.resource == Resource::pvcs();
    // What is no name would lead to another path of the API server, or to another host.
    if !is_upload || !is_name(&claims.name) || !is_name(&claims.namespace) {
        return Err(Refused::OtherPurpose);
    }
    Ok(())
}
