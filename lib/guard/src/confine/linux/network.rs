//! Files that a program reads to find servers and trusted certificates. Some are read late: a name is looked
//! up again for each connection, and the trust store is read when TLS is used for the first time.
//!
//! Folders with private keys and passwords in them (`/etc/ssl`, `/etc/pki`, `/run/NetworkManager`) are not
//! allowed as a whole, since root could read those.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Resolver, and the C library's plug-ins for names.
const RESOLVER: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/localtime",
    "/etc/ld.so.cache",
    "/run/systemd/resolve",
    "/run/resolvconf/resolv.conf",
    "/run/NetworkManager/resolv.conf",
    "/run/NetworkManager/no-stub-resolv.conf",
    "/run/connman/resolv.conf",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    // Kernel settings that the C library reads.
    "/proc/sys/net",
    "/dev/urandom",
];

/// Certificates of authorities, and nothing else.
const TRUST: &[&str] = &[
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/tls/ca-bundle.pem",
    "/etc/pki/ca-trust",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certs",
    "/usr/share/pki/ca-trust-source",
    "/usr/share/pki/trust",
    "/var/lib/ca-certificates",
];

/// Maximum number of links that are followed in one folder.
const LINKS_MAX: usize = 4096;

pub(super) fn files() -> Vec<PathBuf> {
    files_of(rustix::process::geteuid().is_root(), |name| std::env::var_os(name))
}

fn files_of(is_root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut trust: Vec<PathBuf> = TRUST.iter().map(PathBuf::from).collect();
    // Trust stores in other places: a file, and a list of folders.
    trust.extend(variable("SSL_CERT_FILE").map(PathBuf::from));
    trust.extend(variable("SSL_CERT_DIR").iter().flat_map(std::env::split_paths));
    let mut files: Vec<PathBuf> = RESOLVER.iter().map(PathBuf::from).collect();
    for folder in &trust {
        files.extend(link_targets_outside(folder));
    }
    files.append(&mut trust);
    if !is_root {
        // Every file there that an ordinary user can read is public, and on another network
        // `/etc/resolv.conf` is replaced.
        files.push("/etc".into());
    } else if let Ok(real) = Path::new("/etc/resolv.conf").canonicalize() {
        files.push(real);
    }
    files
}

/// The files elsewhere to which the links in a folder of certificates lead: each such file alone.
fn link_targets_outside(folder: &Path) -> Vec<PathBuf> {
    let Ok(real) = folder.canonicalize() else { return vec![] };
    let entries = std::fs::read_dir(&real).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let goals = links.take(LINKS_MAX).filter_map(|link| link.path().canonicalize().ok());
    let within = |goal: &Path| {
        goal.starts_with(&real) || TRUST.iter().chain(RESOLVER).any(|known| goal.starts_with(known))
    };
    let mut goals: Vec<PathBuf> = goals.filter(|goal| goal.is_file() && !within(goal)).collect();
    goals.sort();
    goals.dedup();
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_folder_with_private_keys_or_passwords_is_read_as_root() {
        let files = files_of(true, |_| None);
        for secret in [
            "/etc/shadow",
            "/etc/ssl/private/server.key",
            "/etc/pki/tls/private/localhost.key",
            "/etc/pki/CA/private/cakey.pem",
            "/etc/pki/consumer/key.pem",
            "/etc/pki/nssdb/key4.db",
            "/run/NetworkManager/system-connections/home.nmconnection",
            "/run/connman/secret",
        ] {
            let open: Vec<_> = files.iter().filter(|path| Path::new(secret).starts_with(path)).collect();
            assert!(open.is_empty(), "{secret} can be read by {open:?}");
        }
    }

    #[test]
    fn what_is_trusted_elsewhere_can_be_read() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().canonicalize().unwrap().join(name);
        for folder in ["a", "b", "elsewhere"] {
            std::fs::create_dir(at(folder)).unwrap();
        }
        for file in ["b/own.pem", "elsewhere/root.pem", "elsewhere/key.pem"] {
            std::fs::write(at(file), "").unwrap();
        }
        // Through two links, as where /etc is made of a store of packages.
        symlink(at("elsewhere/root.pem"), at("elsewhere/named.pem")).unwrap();
        symlink("../elsewhere/named.pem", at("b/root.0")).unwrap();
        symlink("own.pem", at("b/own.0")).unwrap();
        symlink("../elsewhere", at("b/folder")).unwrap();
        let list = std::env::join_paths([at("a"), at("b")]).unwrap();
        let files = files_of(true, |name| match name {
            "SSL_CERT_DIR" => Some(list.clone()),
            "SSL_CERT_FILE" => Some(at("bundle.pem").into()),
            _ => None,
        });
        let ours: Vec<_> = files.into_iter().filter(|path| path.starts_with(at(""))).collect();
        assert_eq!(ours, [at("elsewhere/root.pem"), at("bundle.pem"), at("a"), at("b")]);
    }
}
