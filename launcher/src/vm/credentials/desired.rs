//! Credentials that a guest should have: keys and passwords of its users, from their Secrets.

use super::Result;
use crate::error::Error;
use crate::seed::cloud_init::{LONGEST_TEXT, secret, ssh_keys};
use api::job::Confidential;
use api::launcher::Resolved;
use api::machine::{Credential, KeyDelivery};
use std::collections::BTreeMap;

/// Credentials that a guest should have. `Debug` shows none of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DesiredCredentials {
    /// All SSH keys by user. A user without keys gets an empty file.
    pub(super) keys: BTreeMap<String, Vec<String>>,
    pub(super) passwords: BTreeMap<String, Confidential<String>>,
}

impl DesiredCredentials {
    /// Reads the credentials from the Secrets.
    pub(super) fn read(credentials: &[Credential], resolved: &Resolved) -> Result<DesiredCredentials> {
        let mut wish = DesiredCredentials::default();
        for credential in credentials {
            match credential {
                Credential::SshKeys { secret, delivery: KeyDelivery::Agent { users } } => {
                    let keys = ssh_keys(secret, resolved)?;
                    for user in users {
                        let theirs = wish.keys.entry(user.clone()).or_default();
                        theirs.extend(
                            keys.iter().filter(|key| !theirs.contains(key)).cloned().collect::<Vec<_>>(),
                        );
                    }
                }
                Credential::SshKeys { .. } => {}
                Credential::Passwords { secret: name } => {
                    for (user, text) in secret(name, resolved)?.texts(LONGEST_TEXT)? {
                        let word = password(name, &user, text)?;
                        if let Some(word) = word {
                            wish.passwords.insert(user, Confidential(word));
                        }
                    }
                }
            }
        }
        Ok(wish)
    }
}

/// A password without surrounding white space; `None` if it is empty. No error repeats the text.
fn password(secret: &str, user: &str, text: Vec<u8>) -> Result<Option<String>> {
    let wrong = |what: &str| Err(Error::refused(format!("the key {user:?} of the secret {secret:?} {what}")));
    let Ok(text) = String::from_utf8(text) else { return wrong("is not text: it should hold a password") };
    let word = text.trim();
    // A guest sets passwords line by line, so a second line could be another user's.
    if word.contains(char::is_control) {
        return wrong("holds a password with a line break or another control character in it");
    }
    Ok(Some(word.to_owned()).filter(|word| !word.is_empty()))
}
