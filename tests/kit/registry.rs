//! The ordinary registry: Debian's docker-registry on a free loopback port, with storage of its own, stopped on drop.

use crate::http::Authority;
use crate::port::{free_port, listens};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The settings of the registry.
#[derive(Default)]
pub struct Serve<'a> {
    /// Over TLS, with a certificate for `localhost` from this authority.
    pub tls: Option<&'a Authority>,
    /// And only for clients with a certificate from this one.
    pub clients: Option<&'a Authority>,
    /// The one user, and the password.
    pub basic: Option<(&'a str, &'a str)>,
    /// Wants tokens from a server that this is the configuration of (see [`crate::token`]).
    pub token: Option<String>,
    /// At this address of the host, for others than the host itself; a certificate is for that address. Unset: at a loopback
    /// address.
    pub at: Option<Ipv4Addr>,
}

/// A running registry.
pub struct Registry {
    process: Option<Child>,
    port: u16,
    tls: bool,
    at: Option<Ipv4Addr>,
    folder: tempfile::TempDir,
}

impl Registry {
    /// Plain HTTP, for everybody.
    pub fn start() -> Registry {
        Registry::serve(&Serve::default())
    }

    /// Starts it and waits until it listens.
    pub fn serve(serve: &Serve<'_>) -> Registry {
        let folder = tempfile::Builder::new().prefix("registry-").tempdir().expect("a temporary folder");
        // Between choosing a port and the registry taking it somebody else may be quicker; then another one will do.
        for _ in 0..10 {
            let port = free_port();
            let at = serve.at;
            fs::write(folder.path().join("config.yml"), config(serve, folder.path(), port))
                .expect("config.yml");
            let mut process = spawn(folder.path());
            if listens(&mut process, at.unwrap_or(Ipv4Addr::LOCALHOST), port) {
                return Registry { process: Some(process), port, tls: serve.tls.is_some(), at, folder };
            }
        }
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        panic!("docker-registry does not start: {log}");
    }

    /// `host:port`, as it stands in names.
    pub fn address(&self) -> String {
        // The certificate is for both; a name shows that names are checked.
        let host = if self.tls { "localhost" } else { "127.0.0.1" };
        match self.at {
            Some(address) => format!("{address}:{}", self.port),
            None => format!("{host}:{}", self.port),
        }
    }

    /// Stops it, as a host does that loses power: its storage stays.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again, at the same place.
    pub fn start_again(&mut self) {
        self.stop();
        // An outgoing connection of another program may have the port for a moment.
        for _ in 0..50 {
            let mut process = spawn(self.folder.path());
            if listens(&mut process, self.at.unwrap_or(Ipv4Addr::LOCALHOST), self.port) {
                self.process = Some(process);
                return;
            }
            sleep(Duration::from_millis(100));
        }
        panic!("docker-registry does not start again");
    }

    /// The file of a blob, if it has it; the digest with its algorithm.
    pub fn blob(&self, digest: &str) -> Option<PathBuf> {
        let hex = digest.strip_prefix("sha256:")?;
        let blobs = self.folder.path().join("data/docker/registry/v2/blobs/sha256");
        Some(blobs.join(hex.get(..2)?).join(hex).join("data")).filter(|path| path.exists())
    }

    /// The number of uploads that hold bytes in a repository: begun, and neither ended nor given up. (An upload that was
    /// given up leaves a few empty folders there.)
    pub fn uploads(&self, repository: &str) -> usize {
        let repositories = self.folder.path().join("data/docker/registry/v2/repositories");
        let entries = fs::read_dir(repositories.join(repository).join("_uploads")).into_iter().flatten();
        entries.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().join("data").exists())).count()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(folder: &Path) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).expect("a log");
    let errors: io::Result<fs::File> = log.try_clone();
    Command::new("docker-registry")
        .arg("serve")
        .arg(folder.join("config.yml"))
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors.expect("a second handle"))
        .spawn()
        .expect("docker-registry is installed (make setup)")
}

fn config(serve: &Serve<'_>, folder: &Path, port: u16) -> String {
    let at = folder.display();
    let mut tls = String::new();
    if let Some(authority) = serve.tls {
        let (certificate, key) = match serve.at {
            Some(address) => authority.certificate_pem_for(&[&address.to_string()]),
            None => authority.certificate_pem(),
        };
        fs::write(folder.join("tls.pem"), certificate).expect("a certificate");
        fs::write(folder.join("tls.key"), key).expect("a key");
        let mut clients = String::new();
        if let Some(authority) = serve.clients {
            fs::write(folder.join("clients.pem"), authority.pem()).expect("an authority");
            clients = format!(", clientcas: [{at}/clients.pem]");
        }
        tls = format!("  tls: {{certificate: {at}/tls.pem, key: {at}/tls.key{clients}}}\n");
    }
    let mut auth = serve.token.clone().unwrap_or_default();
    if let Some((user, password)) = serve.basic {
        fs::write(folder.join("users"), users(user, password)).expect("users");
        auth = format!("auth:\n  htpasswd: {{realm: disks, path: {at}/users}}\n");
    }
    let host = serve.at.unwrap_or(Ipv4Addr::LOCALHOST);
    format!(
        "version: 0.1
log: {{level: info}}
storage:
  filesystem: {{rootdirectory: {at}/data}}
  delete: {{enabled: true}}
  maintenance: {{uploadpurging: {{enabled: false}}}}
http:
  addr: {host}:{port}
  secret: not-secret
{tls}{auth}"
    )
}

/// The registry takes bcrypt alone, and Debian's tool for it is apache's.
fn users(user: &str, password: &str) -> Vec<u8> {
    let made = Command::new("htpasswd").args(["-nbB", "-C", "4", user, password]).output();
    made.expect("htpasswd is installed (make setup)").stdout
}
