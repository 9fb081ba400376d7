//! The server as a separate process, with its own files and memory.
#![expect(
    clippy::disallowed_methods,
    reason = "a program for measuring begins its server, and serves nobody else"
)]

use super::Result;
use ::admission::live::Live;
use ::admission::routes::Routes;
use ::serve::health::Health;
use ::serve::transport::tls::{self, CurrentCertificate};
use ::serve::transport::{Limits, Transport, listen};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use tokio::sync::watch;

/// Prints its address and certificate. Ends when its standard input is closed, and prints its counters.
pub(crate) async fn run() -> Result<()> {
    let key = rcgen::KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::new(vec!["virt-api".to_owned()])?.self_signed(&key)?;
    let shown = Arc::new(CurrentCertificate::default());
    shown.take(&json!({"data": {
        "tls.crt": STANDARD.encode(certificate.pem()), "tls.key": STANDARD.encode(key.serialize_pem()),
    }}))?;
    let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let address = listener.local_addr()?.to_string();
    println!("{}", json!({"address": address, "certificate": certificate.pem()}));
    // This server needs no API server.
    let client = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse()?))?;
    let live = Arc::new(Live::new("kubevirt", Arc::clone(&shown)));
    // Webhooks are served at their plain paths.
    live.take_paths(&json!({}));
    let routes = Arc::new(Routes::new(live, Health::default(), client.clone(), client));
    let transport = Arc::new(Transport::new(Limits::of_server()));
    let (_end, ends) = watch::channel(false);
    let (server, config) = (Arc::clone(&transport), tls::config(shown, None, Arc::default())?);
    tokio::spawn(async move { server.serve(listener, config, routes, ends).await });
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    println!("{:?}", transport.counts());
    std::io::stdout().flush()?;
    std::process::exit(0)
}

/// The server process.
pub(crate) struct Child {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: String,
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Child {
    pub(crate) fn begin() -> Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take().ok_or("no output")?);
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line)?;
        let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
        Ok(Child {
            address: text("address").parse()?,
            certificate: text("certificate"),
            process,
            input,
            output,
        })
    }

    /// Resident memory in KiB.
    pub(crate) fn memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// The counters that the server printed.
    pub(crate) fn end(&mut self) -> Result<String> {
        drop(self.input.take());
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        self.process.wait()?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
    }
}
