use crate::confine::{offered, run_confined};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::time::{Duration, Instant};
use tests::thief;

fn secret() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"not for parsers").unwrap();
    file
}

/// A kernel without seccomp cannot show anything.
fn can_confine() -> bool {
    let offered = offered();
    if !offered.seccomp.in_force {
        eprintln!("skipped: {offered}");
    }
    offered.seccomp.in_force
}

#[test]
fn a_thread_that_parses_reaches_nothing() {
    if !can_confine() {
        return;
    }
    let file = secret();
    let free = thief::got_through(thief::try_what_is_harmless(file.path()));
    assert_eq!(free.len(), 6, "nothing keeps this thread from it: {free:?}");
    let through = run_confined(|| thief::got_through(thief::try_everything(file.path()))).unwrap();
    assert!(through.is_empty(), "{through:#?}");
    let other_threads = || thief::got_through(thief::try_other_threads());
    assert_eq!(other_threads().len(), 2, "nothing keeps this thread from it");
    let through = run_confined(other_threads).unwrap();
    assert!(through.is_empty(), "{through:#?}");
    assert_eq!(
        std::fs::read(file.path()).unwrap(),
        b"not for parsers",
        "everybody else is as free as before"
    );
}

#[test]
fn a_thread_that_such_a_thread_starts_reaches_nothing_either() {
    if !can_confine() {
        return;
    }
    let file = secret();
    let path = file.path().to_owned();
    let through = run_confined(move || {
        std::thread::spawn(move || thief::got_through(thief::try_everything(&path))).join().unwrap()
    });
    let through = through.unwrap();
    assert!(through.is_empty(), "{through:#?}");
}

#[test]
fn landlock_alone_keeps_files_away() {
    if !offered().landlock.in_force {
        eprintln!("skipped: {}", offered());
        return;
    }
    let file = secret();
    let opened = std::thread::scope(|scope| {
        let alone = || {
            super::files::restrict(&[], super::Ports::None);
            File::open(file.path()).map(drop)
        };
        scope.spawn(alone).join().unwrap()
    });
    assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::EACCES));
}

#[test]
fn what_a_parser_needs_works() {
    let mut out = tempfile::tempfile().unwrap();
    let sum = run_confined(|| {
        let begun = Instant::now();
        let big: Vec<u8> = vec![7; 8 << 20];
        let (to, from) = std::sync::mpsc::sync_channel(1);
        let helper = std::thread::Builder::new().name("helper".into()).spawn(move || {
            std::thread::sleep(Duration::from_millis(1));
            to.send(big.iter().map(|&b| u64::from(b)).sum::<u64>())
        });
        helper.unwrap().join().unwrap().unwrap();
        out.write_all(b"written").unwrap();
        out.set_len(1 << 20).unwrap();
        out.sync_data().unwrap();
        rustix::fs::fadvise(&out, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        assert!(begun.elapsed() > Duration::ZERO && out.metadata().unwrap().len() == 1 << 20);
        assert!(std::panic::catch_unwind(|| panic!("as a parser may")).is_err());
        from.recv().unwrap()
    });
    let sum = sum.unwrap();
    assert_eq!(sum, 7 * (8 << 20));
    let mut text = [0; 7];
    out.rewind().unwrap();
    out.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"written");
}

#[test]
fn a_panic_comes_out_as_it_was() {
    let caught = std::panic::catch_unwind(|| run_confined(|| panic!("a fault of ours")));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "a fault of ours");
}
