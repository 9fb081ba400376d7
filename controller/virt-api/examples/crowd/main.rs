//! Measures how long virt-api takes to answer a review under load: idle connections, and bodies that arrive
//! slowly and use all the memory for bodies.
//!
//! ```text
//!  crowd [IDLE] [SLOW] [REVIEWS]     10000 100 1000 by default; prints the times without a crowd and with it
//!  crowd serve                       the server alone: started by the first command as a separate process
//! ```
//!
//! The server is the shipped one: its transport with its limits, its routes, its webhooks. Both ends are on
//! this host, and share its processors. `cargo run --release -p controller --example crowd`
#![allow(clippy::print_stdout)] // A program for measuring, not part of the product.

mod client;
mod serve;

use client::{Client, Connection};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Result of the program. An error ends it.
pub(crate) type Fault = Box<dyn Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// Bytes that each slow body sends at once, before it slows down: a hundred of them fill the server's 32 MiB.
const AT_ONCE: usize = 320 << 10;
/// Announced length of a slow body.
const ANNOUNCED: usize = 8 << 20;

fn main() -> Result<()> {
    rustls::crypto::ring::default_provider().install_default().map_err(|_| "TLS has a provider already")?;
    ::serve::transport::raise()?;
    // The same number of threads as in the product.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|word| word == "serve") {
        return runtime.block_on(serve::run());
    }
    let number = |at: usize, usual: usize| args.get(at).map_or(Ok(usual), |word| word.parse());
    let (idle, slow, reviews) = (number(0, 10_000)?, number(1, 100)?, number(2, 1000)?);
    runtime.block_on(measure(idle, slow, reviews))
}

async fn measure(idle: usize, slow: usize, reviews: usize) -> Result<()> {
    let mut server = serve::Child::begin()?;
    let client = Arc::new(Client::of(&server)?);
    let mut kept = client.connect().await?;
    let alone = ask(&client, &mut kept, reviews).await?;
    print("nobody else", &alone);
    let began = Instant::now();
    let mut crowd = Vec::with_capacity(idle);
    while crowd.len() < idle {
        let some = (0..64.min(idle - crowd.len())).map(|_| client.connected());
        for connection in futures_util::future::join_all(some).await {
            crowd.push(connection?);
        }
    }
    println!(
        "{idle} idle connections, each after one request, within {:.1} s",
        began.elapsed().as_secs_f64()
    );
    let mut trickles = tokio::task::JoinSet::new();
    for _ in 0..slow {
        let client = Arc::clone(&client);
        trickles.spawn(async move {
            loop {
                // A client whose connection was cut or timed out reconnects at once.
                let _ = trickle(&client).await;
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let among = ask(&client, &mut kept, reviews).await?;
    print("among them", &among);
    println!("the server's memory: {} MiB", server.memory()? >> 10);
    trickles.abort_all();
    drop((crowd, kept));
    println!("{}", server.end()?);
    Ok(())
}

/// Durations of the reviews in seconds: on one connection, and on new ones.
async fn ask(client: &Client, kept: &mut Connection, reviews: usize) -> Result<[Vec<f64>; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for at in 0..reviews {
        let began = Instant::now();
        kept.review().await?;
        times[0].push(began.elapsed().as_secs_f64());
        if at % 5 == 0 {
            let began = Instant::now();
            client.connect().await?.review().await?;
            times[1].push(began.elapsed().as_secs_f64());
        }
    }
    Ok(times)
}

async fn trickle(client: &Client) -> Result<()> {
    let mut connection = client.connect().await?;
    connection.announce(ANNOUNCED).await?;
    connection.send(&vec![b' '; AT_ONCE]).await?;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        connection.send(b" ").await?;
    }
}

fn print(what: &str, times: &[Vec<f64>; 2]) {
    for (name, times) in ["one connection", "a new connection each"].iter().zip(times) {
        let mut times = times.clone();
        times.sort_by(f64::total_cmp);
        let part = |part: f64| {
            let at = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
            times.get(at).copied().unwrap_or_default() * 1000.0
        };
        println!(
            "{what}, {name}: {} reviews, p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
            times.len(),
            part(0.5),
            part(0.99),
            part(1.0)
        );
    }
}
