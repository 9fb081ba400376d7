//! The files that a program reads to find servers, and to know whom to trust. Some are read late: a name is looked up
//! again for each connection, and the trust store is read when TLS is spoken for the first time.

use std::path::{Path, PathBuf};

/// Resolver, trust store, and the C library's plug-ins for names.
const FILES: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/localtime",
    "/etc/ld.so.cache",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/usr/share/pki",
    "/var/lib/ca-certificates",
    "/usr/lib/ssl",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/run/connman",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    // A kernel's facts that the C library asks for.
    "/proc/sys/net",
    "/dev/urandom",
];

/// Variables that name a trust store elsewhere.
const NAMED: &[&str] = &["SSL_CERT_FILE", "SSL_CERT_DIR"];

pub(super) fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = FILES.iter().map(PathBuf::from).collect();
    files.extend(NAMED.iter().filter_map(std::env::var_os).map(PathBuf::from));
    if !rustix::process::geteuid().is_root() {
        // What an ordinary user can read there is no secret, and who moves to another network gets another resolv.conf.
        files.push("/etc".into());
    } else if let Ok(real) = Path::new("/etc/resolv.conf").canonicalize() {
        files.push(real);
    }
    files
}
