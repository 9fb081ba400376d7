//! The network between the two pods: as slow as it is told to be, and to one server after the other.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Connections to whatever serves now. It ends with the test.
pub(super) struct Relay {
    pub(super) at: String,
    shared: Arc<Shared>,
}

struct Shared {
    to: Mutex<String>,
    /// Bytes per second on each connection from the server.
    rate: AtomicU64,
    /// Bytes that came from servers.
    sent: AtomicU64,
}

impl Relay {
    pub(super) fn to(server: &str, rate: u64) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("a port").to_string();
        let shared = Arc::new(Shared {
            to: Mutex::new(server.to_owned()),
            rate: AtomicU64::new(rate),
            sent: AtomicU64::new(0),
        });
        let all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&all);
                std::thread::spawn(move || connection(&client, &shared));
            }
        });
        Relay { at, shared }
    }

    /// Connects later clients to another server.
    pub(super) fn leads_to(&self, server: &str) {
        *self.shared.to.lock().expect("a name") = server.to_owned();
    }

    pub(super) fn hurry(&self) {
        self.shared.rate.store(u64::MAX, SeqCst);
    }

    pub(super) fn sent(&self) -> u64 {
        self.shared.sent.load(SeqCst)
    }
}

fn connection(client: &TcpStream, shared: &Shared) {
    let to = shared.to.lock().expect("a name").clone();
    let Ok(server) = TcpStream::connect(to) else { return };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            copy(client, &server, |_| ());
            let _ = server.shutdown(Shutdown::Write);
        });
        copy(&server, client, |bytes| {
            shared.sent.fetch_add(bytes, SeqCst);
            let nanos = bytes.saturating_mul(1_000_000_000) / shared.rate.load(SeqCst);
            std::thread::sleep(Duration::from_nanos(nanos));
        });
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    });
}

fn copy(mut from: &TcpStream, mut to: &TcpStream, count: impl Fn(u64)) {
    let mut bytes = [0; 16 << 10];
    while let Ok(n) = from.read(&mut bytes) {
        if n == 0 || to.write_all(&bytes[..n]).is_err() {
            return;
        }
        count(n as u64);
    }
}
