//! Credentials for registries, from the files that `docker login` and `podman login` write.
//!
//! ```text
//!  $REGISTRY_AUTH_FILE, $DOCKER_CONFIG/config.json               set by the user: first
//!  ~/.docker/config.json                                         docker's
//!  $XDG_RUNTIME_DIR/containers/auth.json, ~/.config/containers/auth.json    podman's
//!        │ the first with an entry for the host is used
//!        ├── credHelpers.HOST, credsStore ──► docker-credential-NAME get          helper.rs
//!        └── auths.HOST[/GROUP]           ──► user and password, or an identity token
//! ```
//!
//! A login for one operation (`config::UserSettings`) takes precedence over all of them.
//!
//! Credentials never appear in a log, in an error or in the output of `Debug`.

mod file;
mod helper;

use super::config::{Access, Advice, Source};
use crate::{Error, Result};
use fetch::authorize::{Credential, Credentials};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Credentials for one server.
pub(crate) struct ServerCredentials {
    source: Source,
    address: String,
    advice: Advice,
}

impl ServerCredentials {
    pub(crate) fn new(access: &Access, address: &str) -> ServerCredentials {
        ServerCredentials {
            source: access.credentials.clone(),
            address: address.to_owned(),
            advice: access.advice,
        }
    }
}

impl Credentials for ServerCredentials {
    fn find(&self, repository: &str) -> Result<Option<Credential>> {
        find(&self.source, &self.address, repository)
    }

    fn advice(&self, address: &str) -> String {
        self.advice.about_login(address)
    }
}

/// Finds the credential for a repository of a server. It may run a program, so call it only where blocking is
/// allowed.
fn find(source: &Source, address: &str, repository: &str) -> Result<Option<Credential>> {
    match source {
        Source::Nothing => Ok(None),
        Source::Helper(name) => helper::ask(name, server_name(address)),
        Source::Given(user, password) => {
            Ok(Some(Credential::Basic(user.reveal().to_owned(), password.clone())))
        }
        Source::Text(text) => {
            let file = file::File::parse(Path::new("the login"), text.reveal())?;
            file.without_programs().find(address, repository)
        }
        Source::File(path) => match read(path)? {
            Some(file) => file.find(address, repository),
            None => Err(Error::usage(format!(
                "the file of credentials {} does not exist; check the path in the settings",
                path.display()
            ))),
        },
        Source::Usual => {
            for path in usual_files(&|name| std::env::var_os(name)) {
                if let Some(file) = read(&path)?
                    && let Some(credential) = file.find(address, repository)?
                {
                    return Ok(Some(credential));
                }
            }
            Ok(None)
        }
    }
}

fn read(path: &Path) -> Result<Option<file::File>> {
    let text = super::config::read_file(path)?;
    text.map(|text| file::File::parse(path, &text)).transpose()
}

fn usual_files(environment: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |name| environment(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = |rest: &str| set("HOME").map(|home| home.join(rest));
    let files = [
        set("REGISTRY_AUTH_FILE"),
        set("DOCKER_CONFIG").map(|folder| folder.join("config.json")),
        home(".docker/config.json"),
        set("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")),
        home(".config/containers/auth.json"),
    ];
    files.into_iter().flatten().collect()
}

/// The key of an address in files and helpers.
fn server_name(address: &str) -> &str {
    if address == "registry-1.docker.io" { "https://index.docker.io/v1/" } else { address }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetch::Secret;

    #[test]
    fn files_that_the_user_names_come_first() {
        let files = usual_files(&|name| Some(format!("/{name}").into()));
        let names: Vec<_> = files.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "/REGISTRY_AUTH_FILE",
                "/DOCKER_CONFIG/config.json",
                "/HOME/.docker/config.json",
                "/XDG_RUNTIME_DIR/containers/auth.json",
                "/HOME/.config/containers/auth.json"
            ]
        );
        assert!(usual_files(&|_| Some("".into())).is_empty(), "an empty variable is none");
    }

    #[test]
    fn nothing_shows_a_secret() {
        let secret = Secret::new("topsecret");
        for shown in [
            format!("{secret:?}"),
            format!("{:?}", Credential::Basic("me".into(), secret.clone())),
            format!("{:?}", Credential::Identity(secret)),
        ] {
            assert!(!shown.contains("topsecret") && !shown.contains("me"), "{shown}");
        }
    }
}
