//! The ordinary server: Debian's nginx on a free loopback port, with a folder of its own, stopped on drop.

use crate::port::{free_port, listens};
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The settings of nginx.
#[derive(Debug, Clone, Default)]
pub struct Serve {
    /// Over TLS, with this certificate and its key (PEM).
    pub tls: Option<(String, String)>,
    /// At this address of the host, for others than the host itself. Unset: at a loopback address.
    pub at: Option<Ipv4Addr>,
    /// User and password that every request must bring.
    pub basic_auth: Option<(String, String)>,
    /// The most bytes per second on each connection.
    pub limit_rate: Option<u64>,
    /// Answer every request with the whole file.
    pub no_ranges: bool,
    /// Compress for clients that accept gzip.
    pub gzip: bool,
}

/// A running nginx.
pub struct Nginx {
    process: Child,
    origin: String,
    folder: tempfile::TempDir,
}

impl Nginx {
    /// Starts it and waits until it listens. Files are added with [`Nginx::write`] and [`Nginx::link`].
    pub fn start(serve: &Serve) -> Nginx {
        let folder = tempfile::Builder::new().prefix("nginx-").tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("www")).expect("a folder for files");
        if let Some((user, password)) = &serve.basic_auth {
            fs::write(folder.path().join("users"), format!("{user}:{{PLAIN}}{password}\n")).expect("users");
        }
        if let Some((certificate, key)) = &serve.tls {
            fs::write(folder.path().join("tls.pem"), certificate).expect("a certificate");
            fs::write(folder.path().join("tls.key"), key).expect("a key");
        }
        let host = serve.at.unwrap_or(Ipv4Addr::LOCALHOST);
        let scheme = if serve.tls.is_some() { "https" } else { "http" };
        // Between choosing a port and nginx taking it somebody else may be quicker; then another one will do.
        for _ in 0..10 {
            let port = free_port();
            fs::write(folder.path().join("nginx.conf"), config(serve, folder.path(), port))
                .expect("nginx.conf");
            let mut process = spawn(folder.path());
            if listens(&mut process, host, port) {
                return Nginx { process, origin: format!("{scheme}://{host}:{port}"), folder };
            }
        }
        let log = fs::read_to_string(folder.path().join("error.log")).unwrap_or_default();
        panic!("nginx does not start: {log}");
    }

    /// The folder that is served.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("www")
    }

    /// Serves `bytes` as `/name`; gives the URL.
    pub fn write(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.root().join(name), bytes).expect("write a served file");
        self.url(name)
    }

    /// Serves the file at `path`, without a copy, as `/name`; gives the URL.
    pub fn link(&self, name: &str, path: &Path) -> String {
        symlink(path, self.root().join(name)).expect("link a served file");
        self.url(name)
    }

    /// The URL of `/name`.
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.origin)
    }

    /// The requests so far, one line each: status, bytes sent, range, path.
    pub fn access_log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("access.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master passes TERM on to its worker; KILL would leave the worker behind.
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(5));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(folder: &Path) -> Child {
    // Debian keeps nginx where an ordinary user's PATH does not look.
    let path = std::env::var("PATH").unwrap_or_default();
    Command::new("nginx")
        .env("PATH", format!("{path}:/usr/sbin:/usr/local/sbin"))
        .arg("-p")
        .arg(folder)
        .args(["-c", "nginx.conf", "-e", "error.log", "-g", "daemon off;"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nginx is installed (make setup)")
}

fn config(serve: &Serve, folder: &Path, port: u16) -> String {
    let mut options = String::new();
    if serve.basic_auth.is_some() {
        options += "auth_basic disks; auth_basic_user_file users;\n";
    }
    if let Some(rate) = serve.limit_rate {
        options += &format!("limit_rate {rate};\n");
    }
    if serve.no_ranges {
        options += "max_ranges 0;\n";
    }
    if serve.gzip {
        options += "gzip on; gzip_types *; gzip_proxied any; gzip_http_version 1.0;\n";
    }
    let host = serve.at.unwrap_or(Ipv4Addr::LOCALHOST);
    let tls = if serve.tls.is_some() { " ssl" } else { "" };
    if serve.tls.is_some() {
        options += "ssl_certificate tls.pem; ssl_certificate_key tls.key;\n";
    }
    // Started by root, workers would be another user, who may not look into a temporary folder.
    let root = fs::metadata(folder).is_ok_and(|folder| folder.uid() == 0);
    let user = if root { "user root;" } else { "" };
    format!(
        "{user} worker_processes 1; pid nginx.pid;
events {{ worker_connections 256; }}
http {{
    log_format short '$status $body_bytes_sent $http_range $uri';
    access_log access.log short;
    client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
    sendfile on; tcp_nopush on; keepalive_requests 100000;
    default_type application/octet-stream;
    server {{
        listen {host}:{port}{tls};
        root www;
        {options}
    }}
}}
"
    )
}
