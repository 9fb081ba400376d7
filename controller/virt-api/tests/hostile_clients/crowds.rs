//! Crowds: idle connections, incomplete heads, and clients that send requests and never read.

use crate::client::{Client, Connection, LONG, answer, say};
use crate::scene::Scene;
use futures_util::future::join_all;

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
/// Limit on the memory of an idle connection, in KiB: TLS, HTTP, and its state in virt-api.
const IDLE: u64 = 40;
/// Limit on all other memory, in KiB.
const REST: u64 = 100 << 10;

/// Number of connections, reduced to the file limits of this process and virt-api.
fn as_many(wanted: usize) -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(3000).clamp(100, wanted)
}

/// Makes one request, so that the connection is trusted, and leaves it idle. On a busy host the time-out of a
/// handshake or of the first request may pass: it is then repeated.
async fn idle(client: Client, then: &str) -> Connection {
    let asked = async || {
        let mut connection = client.try_connect().await?;
        say(&mut connection, HEALTH.as_bytes()).await?;
        assert_eq!(answer(&mut connection).await?.status, 200);
        say(&mut connection, then.as_bytes()).await?;
        Ok::<_, std::io::Error>(connection)
    };
    let until = async {
        loop {
            if let Ok(connection) = asked().await {
                return connection;
            }
        }
    };
    tokio::time::timeout(LONG, until).await.expect("no connection is taken")
}

async fn crowd(client: &Client, count: usize, then: &str) -> Vec<Connection> {
    let mut crowd = Vec::with_capacity(count);
    while crowd.len() < count {
        let some = (0..50.min(count - crowd.len())).map(|_| idle(client.clone(), then));
        crowd.extend(join_all(some).await);
    }
    crowd
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_connections_hold_up_nobody() {
    let scene = Scene::begin().await;
    let count = as_many(10_000);
    let crowd = crowd(&scene.stranger(), count, "").await;
    scene.start("idle connections").await;
    let (open, memory) = (scene.program.files(), scene.program.most_memory());
    eprintln!("{count} idle connections: virt-api had {open} files open, and at most {} MiB", memory >> 10);
    assert!(open > count / 2, "only {open} of {count} are open");
    assert!(memory < REST + IDLE * count as u64, "{memory} KiB");
    drop(crowd);
}

/// An incomplete head belongs to no user, and must not use much memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_only_begin_cost_little() {
    let scene = Scene::begin().await;
    let count = as_many(2000);
    let half = format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx: {}", "a".repeat(31 << 10));
    let before = scene.program.memory();
    let crowd = crowd(&scene.stranger(), count, &half).await;
    scene.start("heads that only begin").await;
    let memory = scene.program.most_memory();
    eprintln!(
        "{count} half heads of 31 KiB: virt-api had {} MiB before, and at most {} MiB",
        before >> 10,
        memory >> 10
    );
    assert!(memory < REST + IDLE * count as u64, "{memory} KiB");
    drop(crowd);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_ask_and_never_read_hold_up_nobody() {
    let scene = Scene::begin().await;
    let stranger = scene.stranger();
    let asks = "GET /openapi/v2 HTTP/1.1\r\nhost: a\r\n\r\n".repeat(50);
    let mut crowd = Vec::new();
    for _ in 0..20 {
        let some = (0..10).map(async |_| {
            let mut connection = stranger.connect().await;
            // The server may refuse it before it is sent completely.
            let said = say(&mut connection, asks.as_bytes());
            let _ = tokio::time::timeout(std::time::Duration::from_secs(1), said).await;
            connection
        });
        crowd.extend(join_all(some).await);
    }
    scene.start("200 clients that ask and never read").await;
    let memory = scene.program.most_memory();
    eprintln!("200 clients that never read: virt-api had at most {} MiB", memory >> 10);
    assert!(memory < REST, "{memory} KiB");
    drop(crowd);
}
