//! Disks behind HTTP: servers that behave (nginx) and servers that do not (the kit's own), one module per theme.

mod change;
mod nginx;
mod open;
mod parallel;
mod proxy;
mod redirect;
mod resume;
mod tls;

use cdi::source::Source;
use cdi::source::http::Http;
use cdi::source::options::Options;
use cdi::{Error, ErrorKind};
use std::io::{self, Read};
use std::time::Duration;

/// Options with which a test need not wait.
fn quick() -> Options {
    Options { first_pause: Duration::from_millis(1), ..Options::default() }
}

fn open(url: &str, options: &Options) -> Http {
    Http::open(url, options).expect("the file opens")
}

/// The error of a file that does not open.
fn refusal(url: &str, options: &Options) -> Told {
    match Http::open(url, options) {
        Ok(source) => panic!("{:?} was opened", source.facts()),
        Err(e) => Told::new(&e),
    }
}

fn read(source: &Http, from: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    source.stream(from)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_all(source: &Http) -> Vec<u8> {
    read(source, 0).expect("the stream ends well")
}

fn read_at(source: &Http, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut buf = vec![0; len];
    source.read_at().expect("a seekable source").read_exact_at(&mut buf, offset)?;
    Ok(buf)
}

/// The error of a read that must fail. (The bytes of one that does not are not worth printing.)
#[track_caller]
fn failure(result: io::Result<Vec<u8>>) -> Told {
    match result {
        Ok(bytes) => panic!("{} bytes were read", bytes.len()),
        Err(e) => Told::io(e),
    }
}

/// An error as a user is told it: the kind, and the whole chain.
#[derive(Debug)]
struct Told {
    kind: ErrorKind,
    chain: String,
}

impl Told {
    fn new(e: &Error) -> Told {
        Told { kind: e.kind(), chain: e.chain() }
    }

    fn io(e: io::Error) -> Told {
        Told::new(&Error::io("reading", e))
    }

    #[track_caller]
    fn says(&self, kind: ErrorKind, words: &[&str]) {
        assert_eq!(self.kind, kind, "{}", self.chain);
        for word in words {
            assert!(self.chain.contains(word), "\"{word}\" is missing in: {}", self.chain);
        }
    }
}
