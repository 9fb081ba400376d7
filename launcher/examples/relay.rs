//! Feeds the console's relay from a unix socket as quickly as it takes it, and prints how quickly one reader has it.
//! `relay [MIB] [stopped]`; with `stopped` there is a second reader that never reads.
//! `cargo run --release -p launcher --no-default-features --example relay`
#![allow(clippy::print_stdout)] // A program for a person and for `make bench`, not part of the product.

use launcher::console::{Begin, Mode, Options, Relay, lines};
use std::error::Error;
use std::io;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const PIECE: usize = 64 << 10;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mib: u64 = args.next().as_deref().unwrap_or("4096").parse()?;
    let has_stopped = args.next().is_some();
    let size = mib << 20;

    let (give, lines) = lines();
    let relay = Relay::start(lines, Options::default());
    let (ours, mut qemu) = UnixStream::pair()?;
    give.send(ours.into_std()?.into())?;

    let (client, theirs) = UnixStream::pair()?;
    tokio::spawn(relay.reserve(Mode::Read, Begin::Now)?.serve(theirs));
    let (_stopped, theirs) = UnixStream::pair()?;
    if has_stopped {
        tokio::spawn(relay.reserve(Mode::Read, Begin::Now)?.serve(theirs));
    }

    let begin = Instant::now();
    let feed = tokio::spawn(async move {
        let piece = vec![b'x'; PIECE];
        for _ in 0..size / PIECE as u64 {
            qemu.write_all(&piece).await?;
        }
        Ok::<_, io::Error>(begin.elapsed())
    });
    let reader = tokio::spawn(read(client));
    let fed = feed.await??;
    relay.finish().await;
    let (own, markers) = reader.await??;
    let rate = |bytes: u64, time: f64| bytes as f64 / time / 1e6;
    println!(
        "fed {mib} MiB at {:.0} MB/s; one reader had {:.2} % of it at {:.0} MB/s, {markers} bytes of markers{}",
        rate(size, fed.as_secs_f64()),
        own as f64 * 100.0 / size as f64,
        rate(own, begin.elapsed().as_secs_f64()),
        if has_stopped { "; beside one that had stopped" } else { "" },
    );
    Ok(())
}

/// Reads to the end: bytes of the feed, and others (the markers of lost bytes).
async fn read(mut client: UnixStream) -> io::Result<(u64, u64)> {
    let mut buffer = vec![0; PIECE];
    let (mut own, mut others) = (0, 0);
    loop {
        let size = client.read(&mut buffer).await?;
        if size == 0 {
            return Ok((own, others));
        }
        // Counted in bytes at first, so that the compiler makes it quick.
        let of_feed: u64 = buffer[..size]
            .chunks(255)
            .map(|part| u64::from(part.iter().map(|b| u8::from(*b == b'x')).sum::<u8>()))
            .sum();
        own += of_feed;
        others += size as u64 - of_feed;
    }
}
