//! Tokens: virt-api signs an upload token for a user who may upload to a PVC, and cdi-uploadproxy verifies
//! it. virt-api also signs a clone token for a user who may clone a PVC into another namespace (`clone`),
//! which virt-controller verifies.
//!
//! ```text
//!  UploadTokenRequest ─► virt-api ── sign(Pair, Claims) ─► HEADER.CLAIMS.SIGNATURE ─► client ─► cdi-uploadproxy
//!                          ▲ Secret cdi-api-signing-key                               verify(keys, token, now)
//!                                                                 ConfigMap cdi-api-signing-key ─┘
//! ```
//!
//! A token is a JSON Web Token (RFC 7519) signed with PS256: RSA-PSS with SHA-256, as CDI's. No part of the
//! token is trusted before its signature: the algorithm is fixed, only `alg` of the header is read, and a
//! header with `crit` is refused. After the signature come the times, with [`LEEWAY`] for clocks that differ,
//! the issuer, and then the purpose of the token ([`TokenError::OtherPurpose`]): other tokens of CDI that the
//! same key signs do not permit an upload.
//!
//! Pure: callers pass the time. Key files are followed by [`mounted`](crate::mounted), and kept by [`Signer`]
//! and [`Verifier`].

mod clone;
mod keys;
#[cfg(test)]
mod tests;

pub use clone::{CloneSourceKind, Cloned, verify_clone, verify_clone_of};
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

/// Issuer of upload tokens, as in CDI.
pub const ISSUER: &str = "cdi-apiserver";
/// Validity of a token in seconds.
pub const VALID: i64 = 300;
/// Seconds by which clocks may differ.
pub const LEEWAY: i64 = 10;
/// Longest token that is read.
pub const LONGEST: usize = 8 << 10;
/// Header of every token that we sign.
const HEADER: &str = r#"{"alg":"PS256","typ":"JWT"}"#;
const UPLOAD: &str = "Upload";

/// Claims of a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// Issuer of the token, always [`ISSUER`].
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
    /// Resource type of `name`.
    pub resource: Resource,
    /// Parameters of the operation: the target of a clone. An upload has none.
    #[serde(default)]
    pub params: Option<Map<String, Value>>,
}

/// A resource of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    pub group: String,
    pub version: String,
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
    /// Claims for an upload to a PVC, valid from now on.
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

/// Reason to refuse a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Not a token signed with PS256.
    Malformed,
    /// No accepted key has signed the token.
    BadSignature,
    /// The token has expired.
    Expired,
    /// The token is not valid yet: a clock is wrong.
    NotYetValid,
    /// Another program has issued the token.
    OtherIssuer,
    /// The token is valid, but not for an upload to a PVC.
    OtherPurpose,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenError::Malformed => "the token is not a JSON Web Token by PS256; ask for one with an UploadTokenRequest",
            TokenError::BadSignature => {
                "no key of this installation has signed the token; ask for a new one with an UploadTokenRequest"
            }
            TokenError::Expired => "the token has expired; ask for a new one with an UploadTokenRequest",
            TokenError::NotYetValid => "the token is not valid yet: the clocks of the nodes differ",
            TokenError::OtherIssuer => "the token has another issuer than cdi-apiserver",
            TokenError::OtherPurpose => "the token does not permit an upload to a PVC",
        })
    }
}

/// Signs a token with these claims.
pub fn sign(pair: &Pair, claims: &Claims) -> Result<String> {
    let body = serde_json::to_vec(claims).map_err(|e| Error::setup("cannot write a token as JSON", e))?;
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(body));
    let signature = pair.sign(signed.as_bytes())?;
    let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
    if token.len() > LONGEST {
        let what = format!("a token of {} bytes is longer than cdi-uploadproxy accepts", token.len());
        return Err(Error::new(ErrorKind::Refused, what));
    }
    Ok(token)
}

/// Claims of a token that one of the keys has signed and that permits an upload now.
pub fn verify(keys: &[PublicKey], token: &str, now: Timestamp) -> std::result::Result<Claims, TokenError> {
    let claims = signed_claims(keys, token)?;
    permits(&claims, now)?;
    Ok(claims)
}

/// Claims of a token that one of the keys has signed, whatever they permit.
fn signed_claims(keys: &[PublicKey], token: &str) -> std::result::Result<Claims, TokenError> {
    if token.len() > LONGEST {
        return Err(TokenError::Malformed);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, body) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed);
    let (header, body, signature) = (decode(header)?, decode(body)?, decode(signature)?);
    let header: Header = serde_json::from_slice(&header).map_err(|_| TokenError::Malformed)?;
    if header.alg != "PS256" || header.crit.is_some() {
        return Err(TokenError::Malformed);
    }
    if !keys.iter().any(|key| key.has_signed(signed.as_bytes(), &signature)) {
        return Err(TokenError::BadSignature);
    }
    serde_json::from_slice(&body).map_err(|_| TokenError::OtherPurpose)
}

/// Parts of the header that are read; a header with a repeated field is refused.
#[derive(Deserialize)]
struct Header {
    alg: String,
    crit: Option<Value>,
}

/// Checks that signed claims permit an upload now.
fn permits(claims: &Claims, now: Timestamp) -> std::result::Result<(), TokenError> {
    let now = now.as_second();
    if claims.exp.saturating_add(LEEWAY) <= now {
        return Err(TokenError::Expired);
    }
    let latest = now.saturating_add(LEEWAY);
    if claims.iat > latest || claims.nbf > latest {
        return Err(TokenError::NotYetValid);
    }
    if claims.iss != ISSUER {
        return Err(TokenError::OtherIssuer);
    }
    let is_upload = claims.operation == UPLOAD && claims.resource == Resource::pvcs();
    // An invalid name could point to another path of the API server, or to another host.
    if !is_upload || !is_name(&claims.name) || !is_name(&claims.namespace) {
        return Err(TokenError::OtherPurpose);
    }
    Ok(())
}
