//! The number of requests in flight, and that no byte is fetched twice.

use super::{open, quick, read_all};
use cdi::source::Source;
use cdi::source::options::Options;
use std::io::Read;
use std::time::{Duration, Instant};
use tests::http::{Behaviour, Server, pattern};

/// A server of which each connection is slow.
fn slow() -> Behaviour {
    Behaviour { latency: Duration::from_millis(20), rate: Some(8 << 20), ..Behaviour::default() }
}

fn asked_for(server: &Server, size: usize) -> u64 {
    server.requests().iter().filter_map(|r| r.range(size as u64)).map(|range| range.end - range.start).sum()
}

#[test]
fn a_stream_of_slow_connections_uses_several_and_fetches_each_byte_once() {
    let disk = pattern(40_000_000);
    let server = Server::start(disk.clone(), slow());
    let source = open(&server.url("/d"), &quick());
    assert!(read_all(&source) == disk);
    assert!((3..=8).contains(&server.peak()), "{} at once", server.peak());
    assert_eq!(asked_for(&server, disk.len()), disk.len() as u64);
}

#[test]
fn reads_from_many_threads_stay_under_the_given_number() {
    let disk = pattern(30_000_000);
    let server = Server::start(disk.clone(), slow());
    let source = open(&server.url("/d"), &Options { max_connections: 3, ..quick() });
    let at = source.read_at().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..12usize {
            let (at, disk) = (&at, &disk);
            scope.spawn(move || {
                for i in 0..4 {
                    let offset = 300_000 + (thread * 4 + i) * 600_000;
                    let mut buf = vec![0; 600_000];
                    at.read_exact_at(&mut buf, offset as u64).unwrap();
                    assert!(buf == disk[offset..offset + 600_000]);
                }
            });
        }
    });
    assert!((2..=3).contains(&server.peak()), "{} at once", server.peak());
    assert!(server.connections() <= 12, "49 requests share connections, not {}", server.connections());
}

#[test]
fn small_reads_of_many_threads_fetch_each_block_once() {
    let disk = pattern(8_000_000);
    let server =
        Server::start(disk.clone(), Behaviour { latency: Duration::from_millis(5), ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    let at = source.read_at().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let (at, disk) = (&at, &disk);
            scope.spawn(move || {
                // Neighbouring pieces, as a table walk reads them, shared out among the threads.
                for i in (thread..1000).step_by(4) {
                    let offset = 300_000 + i * 1_500;
                    let mut buf = vec![0; 1_500];
                    at.read_exact_at(&mut buf, offset as u64).unwrap();
                    assert!(buf == disk[offset..offset + 1_500], "at {offset}");
                }
            });
        }
    });
    let (requests, bytes) = (server.requests().len(), asked_for(&server, disk.len()));
    assert!(requests <= 12, "{requests} requests");
    assert!(bytes <= 262_144 + 1_500_000 + (2 << 20), "{bytes} bytes for a million and a half");
}

#[test]
fn more_threads_than_cached_blocks_all_get_their_bytes() {
    let disk = pattern(40_000_000);
    let server = Server::start(disk.clone(), Behaviour::default());
    let source = open(&server.url("/d"), &quick());
    let at = source.read_at().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..80usize {
            let (at, disk) = (&at, &disk);
            scope.spawn(move || {
                for i in 0..5 {
                    let offset = 300_000 + (thread * 7919 + i * 104_729) % 600 * 65_536;
                    let mut buf = vec![0; 1000];
                    at.read_exact_at(&mut buf, offset as u64).unwrap();
                    assert!(buf == disk[offset..offset + 1000], "at {offset}");
                }
            });
        }
    });
}

#[test]
fn single_small_reads_do_not_fetch_much_around_them() {
    let disk = pattern(64_000_000);
    let server = Server::start(disk.clone(), Behaviour::default());
    let source = open(&server.url("/d"), &quick());
    let at = source.read_at().unwrap();
    for i in 1..=20usize {
        let offset = i * 3_000_000;
        let mut buf = vec![0; 512];
        at.read_exact_at(&mut buf, offset as u64).unwrap();
        assert!(buf == disk[offset..offset + 512]);
    }
    let asked = asked_for(&server, disk.len());
    assert!(asked <= 262_144 + 20 * 2 * 65_536, "{asked} bytes");
}

#[test]
fn a_dropped_reader_stops_asking() {
    let server =
        Server::start(pattern(60_000_000), Behaviour { rate: Some(4 << 20), ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    let mut reader = source.stream(0).unwrap();
    reader.read_exact(&mut vec![0; 1_000_000]).unwrap();
    drop(reader);
    let until = Instant::now() + Duration::from_secs(120);
    while server.in_flight() > 0 {
        assert!(Instant::now() < until, "{} requests are still being answered", server.in_flight());
        std::thread::sleep(Duration::from_millis(10));
    }
    let asked = server.requests().len();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.requests().len(), asked, "nothing more is asked for");
}

#[test]
fn a_reader_that_pauses_holds_little() {
    let server = Server::start(pattern(80_000_000), Behaviour::default());
    let source = open(&server.url("/d"), &quick());
    let mut reader = source.stream(0).unwrap();
    reader.read_exact(&mut vec![0; 1_000_000]).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let asked = asked_for(&server, 80_000_000);
    assert!(asked <= 24 << 20, "{asked} bytes were asked for");
}

#[test]
fn a_reader_that_pauses_does_not_keep_others_from_the_network() {
    let disk = pattern(60_000_000);
    let server = Server::start(disk.clone(), Behaviour::default());
    let source = open(&server.url("/d"), &Options { max_connections: 1, ..quick() });
    let mut paused: Vec<_> = (0..3).map(|_| source.stream(0).unwrap()).collect();
    for reader in &mut paused {
        reader.read_exact(&mut vec![0; 1_000_000]).unwrap();
    }
    let mut buf = vec![0; 200_000];
    source.read_at().unwrap().read_exact_at(&mut buf, 50_000_000).unwrap();
    assert!(buf == disk[50_000_000..50_200_000]);
    for mut reader in paused {
        let mut rest = vec![];
        reader.read_to_end(&mut rest).unwrap();
        assert!(rest == disk[1_000_000..]);
    }
}
