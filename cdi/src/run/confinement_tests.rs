//! A thief in each of the engine's threads: where the tables are read, where bytes are read, and where they are written.

use super::engine::{Engine, Size};
use super::job::{Job, Span};
use super::on_write::OnWrite;
use super::sink::EngineSink;
use super::watch::Watch;
use disk_format::{Data, Extent, ReadAt};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Mutex;
use tests::thief;

/// Tries everything wherever it is called, and keeps what was not refused.
struct Thief {
    secret: PathBuf,
    called: Mutex<Vec<&'static str>>,
    got: Mutex<Vec<(&'static str, String)>>,
}

impl Thief {
    fn new(secret: PathBuf) -> Thief {
        Thief { secret, called: Mutex::default(), got: Mutex::default() }
    }

    fn strike(&self, place: &'static str) {
        self.called.lock().unwrap().push(place);
        let through = thief::got_through(thief::try_everything(&self.secret));
        self.got.lock().unwrap().extend(through.into_iter().map(|attempt| (place, format!("{attempt:?}"))));
    }
}

impl ReadAt for Thief {
    fn size(&self) -> u64 {
        4096
    }

    fn read_exact_at(&self, buf: &mut [u8], _: u64) -> io::Result<()> {
        self.strike("a worker that reads");
        buf.fill(1);
        Ok(())
    }
}

#[test]
fn a_thief_in_a_thread_of_the_engine_reaches_nothing() {
    let offered = guard::confine::offered();
    if !offered.seccomp.in_force {
        eprintln!("skipped: {offered}");
        return;
    }
    let mut secret = tempfile::NamedTempFile::new().unwrap();
    secret.write_all(b"not for parsers").unwrap();
    let thief = Thief::new(secret.path().to_owned());
    let watch = Watch::default();
    let size = Size { workers: 2, readers: 0, buffers: 5, sum: false };
    let target = OnWrite(|_: u64| thief.strike("a worker that writes"));
    let engine =
        Engine { bytes: Some(&thief), sink: EngineSink::Any(&target), watch: &watch, size, marks: None };
    engine
        .run(|feed| {
            thief.strike("the producer");
            let extents = vec![Extent { guest: 0, len: 4096, data: Data::Raw { at: 0 } }];
            let spans = vec![Span { file: 0, at: 0, len: 4096 }];
            feed.send(Job { spans, extents, ..feed.job() })
        })
        .unwrap();
    let mut called = thief.called.into_inner().unwrap();
    called.sort_unstable();
    assert_eq!(called, ["a worker that reads", "a worker that writes", "the producer"]);
    let got = thief.got.into_inner().unwrap();
    assert!(got.is_empty(), "{got:#?}");
    assert_eq!(std::fs::read(secret.path()).unwrap(), b"not for parsers");
}
