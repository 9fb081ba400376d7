//! The program virt-api as a child process.

use crate::client::{Client, LONG, answer, say};
use cluster_model::uploads::PRIVATE_KEY;
use kit::{Running, free_address};
use rustls::RootCertStore;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::process::Command;
use std::sync::Arc;

/// Folder of the Secret with the key of upload tokens.
const SIGNING_KEY: &str = "signing-key";

pub(crate) struct Program {
    running: Running,
    pub(crate) address: SocketAddr,
}

impl Program {
    /// Starts with this API server, and waits until it is ready.
    pub(crate) async fn begin(api_server: &str, trusts: Arc<RootCertStore>) -> Program {
        let (folder, address) = (tempfile::tempdir().unwrap(), free_address());
        let key = folder.path().join(SIGNING_KEY);
        std::fs::create_dir(&key).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_virt-api"));
        command.args(["--namespace", "kubevirt", "--listen", &address.to_string(), "--signing-key"]).arg(key);
        let mut running = Running::begin(&mut command, folder, api_server, LONG);
        let client = Client::new(address, trusts, None);
        running.until(async || is_ready(&client).await).await;
        Program { running, address }
    }

    /// Creates the Secret with the key of upload tokens.
    pub(crate) fn signs_by(&self, key: &[u8]) {
        self.running.mounts(SIGNING_KEY, PRIVATE_KEY, key);
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
    let asked = async {
        let mut connection = client.try_connect().await?;
        say(&mut connection, b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").await?;
        answer(&mut connection).await
    };
    asked.await.is_ok_and(|answer| answer.status == 200)
}
