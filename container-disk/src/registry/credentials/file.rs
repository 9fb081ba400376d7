//! `config.json` of docker and `auth.json` of podman. The format is the same, but podman's keys may include a
//! group.

use super::{Credential, helper, server_name};
use crate::{Error, Result};
use base64::Engine;
use fetch::Secret;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A parsed file of credentials.
pub(super) struct File {
    path: PathBuf,
    config: ConfigFile,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ConfigFile {
    auths: BTreeMap<String, Auth>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl File {
    pub(super) fn parse(path: &Path, text: &str) -> Result<File> {
        // The parser's message may quote a secret, so only the position is reported.
        let config = serde_json::from_str(text).map_err(|e| {
            let at = format!("line {}, column {}", e.line(), e.column());
            Error::usage(format!(
                "{} is not a valid file of credentials: syntax error at {at}",
                path.display()
            ))
        })?;
        Ok(File { path: path.to_owned(), config })
    }

    /// Removes the credential helpers. The file's author must not be able to run programs here.
    pub(super) fn without_programs(mut self) -> File {
        self.config.cred_helpers.clear();
        self.config.creds_store.clear();
        self
    }

    pub(super) fn find(&self, address: &str, repository: &str) -> Result<Option<Credential>> {
        let server = server_name(address);
        let helper = self.config.cred_helpers.iter().find(|(key, _)| same_server(key, address));
        if let Some((_, name)) = helper {
            return helper::ask(name, server);
        }
        if !self.config.creds_store.is_empty()
            && let Some(found) = helper::ask(&self.config.creds_store, server)?
        {
            return Ok(Some(found));
        }
        let auths = &self.config.auths;
        // Tries the full repository name first, then each parent, then the host alone.
        let mut name = format!("{address}/{repository}");
        loop {
            if let Some((key, auth)) = auths.iter().find(|(key, _)| same_server(key, &name)) {
                return self.credential(key, auth);
            }
            match name.rsplit_once('/') {
                Some((shorter, _)) => name.truncate(shorter.len()),
                None => return Ok(None),
            }
        }
    }

    fn credential(&self, key: &str, auth: &Auth) -> Result<Option<Credential>> {
        let bad = || {
            let what = format!("{}: the entry {key:?} is invalid", self.path.display());
            Error::usage(format!("{what}; log in to that registry again"))
        };
        if let Some(token) = auth.identitytoken.as_ref().filter(|token| !token.is_empty()) {
            return Ok(Some(Credential::Identity(Secret::new(token))));
        }
        let coded = auth.auth.as_ref().filter(|coded| !coded.is_empty());
        let (user, password) = match (coded, &auth.username, &auth.password) {
            (Some(coded), ..) => {
                let plain = base64::engine::general_purpose::STANDARD.decode(coded.trim());
                let plain = plain.ok().and_then(|plain| String::from_utf8(plain).ok()).ok_or_else(bad)?;
                let (user, password) = plain.split_once(':').ok_or_else(bad)?;
                (user.to_owned(), password.trim_end_matches('\0').to_owned())
            }
            (None, Some(user), Some(password)) => (user.clone(), password.clone()),
            // An empty entry only records a login. The secret is in a credential helper.
            (None, ..) => return Ok(None),
        };
        Ok(Some(Credential::Basic(user, Secret::new(password))))
    }
}

/// True if a key of the file matches a name: `host`, `host/group`, `https://host/v1/`.
fn same_server(key: &str, name: &str) -> bool {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let key = key.trim_end_matches('/');
    let key = key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key);
    let hub = |host: &str| matches!(host, "docker.io" | "index.docker.io" | "registry-1.docker.io");
    let (key_host, key_rest) = key.split_once('/').unwrap_or((key, ""));
    let (host, rest) = name.split_once('/').unwrap_or((name, ""));
    key_rest == rest && (key_host.eq_ignore_ascii_case(host) || hub(key_host) && hub(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, address: &str, repository: &str) -> Result<Option<Credential>> {
        File::parse(Path::new("/h/config.json"), text)?.find(address, repository)
    }

    fn basic(user: &str, password: &str) -> Option<Credential> {
        Some(Credential::Basic(user.into(), Secret::new(password)))
    }

    /// Entries of "me:secret", "you:p:w" and "nul:pw\0".
    const AUTHS: &str = r#"{"auths": {
        "h:5000": {"auth": "bWU6c2VjcmV0"},
        "https://old.example/v1/": {"auth": "eW91OnA6dw=="},
        "https://index.docker.io/v1/": {"username": "hub", "password": "pw"},
        "quay.io/group": {"auth": "bWU6c2VjcmV0"},
        "quay.io/group/os": {"auth": "bnVsOnB3AA=="},
        "token.example": {"auth": "bWU6c2VjcmV0", "identitytoken": "long"},
        "empty.example": {}
    }, "currentContext": "default"}"#;

    #[test]
    fn the_entry_that_fits_best_counts() {
        for (address, repository, found) in [
            ("h:5000", "a", basic("me", "secret")),
            ("h", "a", None),
            ("old.example", "a", basic("you", "p:w")),
            ("registry-1.docker.io", "library/debian", basic("hub", "pw")),
            ("quay.io", "group/os", basic("nul", "pw")),
            ("quay.io", "group/other", basic("me", "secret")),
            ("quay.io", "groups/other", None),
            ("token.example", "a", Some(Credential::Identity(Secret::new("long")))),
            ("empty.example", "a", None),
        ] {
            assert_eq!(find(AUTHS, address, repository).unwrap(), found, "{address}/{repository}");
        }
        assert_eq!(find("{}", "h", "a").unwrap(), None);
    }

    #[test]
    fn what_cannot_be_read_is_told_without_repeating_it() {
        for (text, says) in [
            (r#"{"auths": {"h": {"auth": "topsecret!"}}}"#, "is invalid"),
            (r#"{"auths": {"h": {"auth": "dG9wc2VjcmV0"}}}"#, "is invalid"),
            (r#"{"auths": {"h": "topsecret"}}"#, "syntax error at line 1, column 27"),
            (r#"{"auths": {"h": {"auth": "topsecret"#, "is not a valid file of credentials"),
        ] {
            let e = find(text, "h", "a").unwrap_err();
            let shown = format!("{e:?}");
            assert!(shown.contains(says) && shown.contains("/h/config.json"), "{shown}");
            assert!(!shown.contains("topsecret"), "{shown}");
        }
    }

    #[test]
    fn a_helper_for_the_host_is_asked_before_the_entries() {
        let text = r#"{"auths": {"h": {"auth": "bWU6c2VjcmV0"}}, "credHelpers": {"h": "no/path"}}"#;
        let e = find(text, "h", "a").unwrap_err();
        assert!(e.to_string().contains("no/path"), "{e}");
        assert_eq!(find(text, "i", "a").unwrap(), None);
        let text = r#"{"credsStore": "no/path"}"#;
        assert!(find(text, "h", "a").unwrap_err().to_string().contains("no/path"));
    }
}
