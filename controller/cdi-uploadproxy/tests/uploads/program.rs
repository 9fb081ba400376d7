//! Process of cdi-uploadproxy.

use crate::client::{Client, LONG};
use kit::{Running, free_address, mount};
use rustls::RootCertStore;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::process::Command;
use std::sync::Arc;

pub(crate) struct Program {
    running: Running,
    pub(crate) address: SocketAddr,
}

/// Files that the kubelet would mount: folder, name and text of each.
pub(crate) type Mounted = Vec<(&'static str, &'static str, Vec<u8>)>;

impl Program {
    /// Starts with this API server, these files and further arguments, and waits until it is ready.
    pub(crate) async fn begin(
        api_server: &str,
        pod: SocketAddr,
        files: Mounted,
        trusts: Arc<RootCertStore>,
        more: &[&str],
    ) -> Program {
        let (folder, address) = (tempfile::tempdir().unwrap(), free_address());
        for (place, name, text) in files {
            mount(folder.path(), place, name, &text);
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_cdi-uploadproxy"));
        for place in ["keys", "client", "authorities"] {
            command.arg(format!("--{place}")).arg(folder.path().join(place));
        }
        command.args(["--namespace", "kubevirt", "--listen", &address.to_string()]);
        command.args(["--pods-at", &pod.to_string()]).args(more);
        let mut running = Running::begin(&mut command, folder, api_server, LONG);
        let client = Client::new(address, trusts);
        running.until(async || is_ready(&client).await).await;
        Program { running, address }
    }
}

impl Deref for Program {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

impl DerefMut for Program {
    fn deref_mut(&mut self) -> &mut Running {
        &mut self.running
    }
}

async fn is_ready(client: &Client) -> bool {
    let Ok(mut connection) = client.try_connect().await else { return false };
    if connection.try_says(b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").await.is_err() {
        return false;
    }
    connection.answer().await.status == 200
}
