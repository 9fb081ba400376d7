//! The key pairs that sign upload tokens: RSA of 2048 bits, as CDI has them, and the Secret that keeps them.
//!
//! ```text
//!  first     new pair ─► id_rsa, id_rsa.pub
//!  next      new pair ─► next.id_rsa, next.id_rsa.pub
//!  promoted  next.id_rsa, next.id_rsa.pub ─► id_rsa, id_rsa.pub        (the previous pair is removed)
//! ```
//!
//! The functions that build the Secret are pure. Creating a pair takes about a second, on a separate thread.
//! Nothing is signed or decrypted here: `ring`, which cannot create RSA keys, signs with them
//! (`serve::token`).

use crate::error::{Error, ErrorKind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_model::issue::{IssueKey, LABEL, OPAQUE};
use cluster_model::objects::Kind;
use cluster_model::uploads::{NEXT, PRIVATE_KEY, PUBLIC_KEY, SINCE};
use rsa::RsaPrivateKey;
use rsa::pkcs8::{EncodePrivateKey as _, EncodePublicKey as _, LineEnding};
use serde_json::{Map, Value, json};
use std::fmt;

/// Length of the keys in bits, as in CDI.
const BITS: usize = 2048;

/// A key pair in PEM.
pub struct Pair {
    /// The private key, in PKCS#8.
    pub private: String,
    /// The public key, as a SubjectPublicKeyInfo.
    pub public: String,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key pair")
    }
}

/// Creates a key pair. It takes a CPU for about a second.
pub fn make() -> Result<Pair> {
    let cannot = |why: &dyn fmt::Display| {
        Error::new(ErrorKind::Setup, format!("cannot create the signing key of upload tokens: {why}"))
    };
    let key = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, BITS).map_err(|e| cannot(&e))?;
    let private = key.to_pkcs8_pem(LineEnding::LF).map_err(|e| cannot(&e))?;
    let public = key.to_public_key().to_public_key_pem(LineEnding::LF).map_err(|e| cannot(&e))?;
    Ok(Pair { private: private.to_string(), public })
}

/// Creates a key pair on a separate thread.
#[expect(clippy::disallowed_methods, reason = "once a month, and one at a time: a step of one plan")]
pub(crate) async fn make_aside() -> Result<Pair> {
    let done = tokio::task::spawn_blocking(make).await;
    done.unwrap_or_else(|e| Err(Error::setup("the task that creates a signing key panicked", e)))
}

/// The Secret, or the change of it, with a key pair that signs at once. A next key pair is removed.
pub(crate) fn signing_secret(issue: &IssueKey, pair: &Pair) -> Value {
    let mut secret = secret(issue, "", pair);
    secret["metadata"]["annotations"] = json!({SINCE: issue.at.to_string()});
    if issue.version.is_some() {
        forget_next(&mut secret);
    }
    secret
}

/// The change of the Secret that adds a key pair to sign later.
pub(crate) fn next(issue: &IssueKey, pair: &Pair) -> Value {
    secret(issue, NEXT, pair)
}

/// The change of the Secret that replaces the signing key pair by the next one. `is` is the present Secret.
pub(crate) fn promoted(issue: &IssueKey, is: &Value) -> Result<Value> {
    let version = is["metadata"]["resourceVersion"].as_str();
    if version != issue.version.as_deref() {
        let what = format!("{} has changed; the cache was outdated", issue.key);
        return Err(Error::new(ErrorKind::Conflict, what));
    }
    let mut change = json!({
        "metadata": {"resourceVersion": version, "annotations": {SINCE: issue.at.to_string()}},
        "data": {},
    });
    for name in [PRIVATE_KEY, PUBLIC_KEY] {
        let file = &is["data"][format!("{NEXT}{name}")];
        if file.as_str().is_none_or(str::is_empty) {
            let what = format!("{} has no {NEXT}{name}, which is to sign from now on", issue.key);
            return Err(Error::new(ErrorKind::Conflict, what));
        }
        change["data"][name] = file.clone();
    }
    forget_next(&mut change);
    Ok(change)
}

fn forget_next(change: &mut Value) {
    for name in [PRIVATE_KEY, PUBLIC_KEY] {
        change["data"][format!("{NEXT}{name}")] = Value::Null;
    }
}

/// The Secret with a key pair under names with this prefix.
fn secret(issue: &IssueKey, prefix: &str, pair: &Pair) -> Value {
    let files = [(PRIVATE_KEY, &pair.private), (PUBLIC_KEY, &pair.public)];
    let data: Map<String, Value> =
        files.iter().map(|(name, text)| (format!("{prefix}{name}"), json!(STANDARD.encode(text)))).collect();
    let mut secret = json!({
        "apiVersion": Kind::Secret.api_version(),
        "kind": Kind::Secret.name(),
        "metadata": {
            "name": issue.key.name,
            "namespace": issue.key.namespace,
            "labels": {LABEL.0: LABEL.1},
        },
        "type": OPAQUE,
        "data": data,
    });
    if let Some(version) = &issue.version {
        secret["metadata"]["resourceVersion"] = json!(version);
    }
    secret
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::issue::KeyChange;
    use cluster_model::objects::Key;
    use cluster_model::plan::merge;
    use cluster_model::uploads::SIGNING_KEY;
    use jiff::Timestamp;

    fn issue(version: Option<&str>, change: KeyChange) -> IssueKey {
        let key = Key::new(Kind::Secret, "kubevirt", SIGNING_KEY);
        IssueKey { key, version: version.map(str::to_owned), change, at: Timestamp::UNIX_EPOCH }
    }

    fn pair(name: &str) -> Pair {
        Pair { private: format!("private {name}"), public: format!("public {name}") }
    }

    fn files(secret: &Value) -> Vec<(String, String)> {
        let text =
            |value: &Value| String::from_utf8(STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap();
        let data = secret["data"].as_object().unwrap();
        data.iter().map(|(name, value)| (name.clone(), text(value))).collect()
    }

    fn has(secret: &Value, expected: &[(&str, &str)]) {
        let expected: Vec<(String, String)> =
            expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        assert_eq!(files(secret), expected);
    }

    #[test]
    fn a_key_is_first_then_the_next_is_beside_it_and_takes_its_place() {
        let mut secret = signing_secret(&issue(None, KeyChange::First), &pair("1"));
        has(&secret, &[("id_rsa", "private 1"), ("id_rsa.pub", "public 1")]);
        secret["metadata"]["resourceVersion"] = json!("7");
        merge(&mut secret, &next(&issue(Some("7"), KeyChange::Next), &pair("2")));
        has(
            &secret,
            &[
                ("id_rsa", "private 1"),
                ("id_rsa.pub", "public 1"),
                ("next.id_rsa", "private 2"),
                ("next.id_rsa.pub", "public 2"),
            ],
        );
        let promote = issue(Some("7"), KeyChange::Promote);
        let change = promoted(&promote, &secret).unwrap();
        assert_eq!(change["metadata"]["resourceVersion"], "7");
        merge(&mut secret, &change);
        has(&secret, &[("id_rsa", "private 2"), ("id_rsa.pub", "public 2")]);
        // A key is promoted once, and only from the version that was read. A new first key removes the next
        // one.
        assert!(promoted(&promote, &secret).is_err());
        merge(&mut secret, &next(&issue(Some("7"), KeyChange::Next), &pair("3")));
        secret["metadata"]["resourceVersion"] = json!("8");
        assert_eq!(promoted(&promote, &secret).unwrap_err().kind(), ErrorKind::Conflict);
        merge(&mut secret, &signing_secret(&issue(Some("8"), KeyChange::First), &pair("4")));
        has(&secret, &[("id_rsa", "private 4"), ("id_rsa.pub", "public 4")]);
    }
}
