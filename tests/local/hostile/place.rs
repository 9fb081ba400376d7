//! A folder with a disk, and the guarantees of every run of the program there, however it ends.

use crate::image::Image;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tests::coracle::Ran;
use tests::measure::{Measured, measure};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_coracle");
/// Two L2 tables of 4 KiB clusters.
pub(crate) const SIZE: u64 = (3 << 20) + 512 * 3;
/// Limits of time and memory for every run.
pub(crate) const MEMORY: u64 = 64 << 20;
pub(crate) const TIME: Duration = Duration::from_secs(60);

pub(crate) struct Place(tests::place::Place);

impl std::ops::Deref for Place {
    type Target = tests::place::Place;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Form in which a source is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    File,
    Pipe,
}

pub(crate) const BOTH: [As; 2] = [As::File, As::Pipe];

impl Place {
    pub(crate) fn new(seed: u64) -> Self {
        Place(tests::place::Place::with_disk(PROGRAM, SIZE, seed))
    }

    /// The disk as a qcow2 that a test can change.
    pub(crate) fn image(&self, name: &str, words: &str) -> Image {
        self.qcow2(name, words);
        Image(self.bytes(name))
    }

    /// Converts to `out.img`, and checks the guarantees.
    #[track_caller]
    pub(crate) fn convert(&self, source: &str, given: As, more: &[&str]) -> Ran {
        let _ = std::fs::remove_file(self.path("out.img"));
        let name = if given == As::Pipe { "-" } else { source };
        let args = [&["convert", "-q", name, "out.img"], more].concat();
        let mut command = self.command(&args);
        let mut cat: Option<Child> = None;
        if given == As::Pipe {
            let mut child = Command::new("cat")
                .arg(self.path(source))
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            command.stdin(child.stdout.take().unwrap());
            cat = Some(child);
        }
        let measured = measure(&mut command, TIME);
        drop(command);
        if let Some(mut cat) = cat {
            cat.wait().unwrap();
        }
        self.ended_well(measured)
    }

    #[track_caller]
    pub(crate) fn ended_well(&self, measured: Measured) -> Ran {
        self.ended_well_within(MEMORY, measured)
    }

    /// Converts input whose plan states more memory.
    #[track_caller]
    pub(crate) fn ended_well_within(&self, memory: u64, Measured { ran, peak, .. }: Measured) -> Ran {
        assert!(peak <= memory, "{peak} bytes of memory: {}", ran.err);
        assert!(!ran.err.contains("panicked") && !ran.err.contains("internal error"), "{}", ran.err);
        assert!([0, 1, 2, 3, 4].contains(&ran.code), "{}: {}", ran.code, ran.err);
        assert_eq!(self.path("out.img").exists(), ran.code == 0, "{}", ran.err);
        if ran.code != 0 {
            let lines: Vec<_> = ran.err.lines().collect();
            assert!(lines[0].starts_with("coracle: "), "{}", ran.err);
            assert!(lines[1..].iter().all(|line| line.starts_with("  because: ")), "{}", ran.err);
        }
        if ran.code != 1 {
            self.nothing_beside("out.img");
        }
        ran
    }

    /// Asserts that a run refused the input, or wrote the right disk.
    #[track_caller]
    pub(crate) fn refused_or_right(&self, what: &str, source: &str, given: As) -> bool {
        let ran = self.convert(source, given, &[]);
        assert!([0, 3].contains(&ran.code), "{what} as {given:?}: {} {}", ran.code, ran.err);
        let right = ran.code == 0;
        assert!(!right || self.same("out.img"), "{what} as {given:?}: another disk");
        !right
    }
}
