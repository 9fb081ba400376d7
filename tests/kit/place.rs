//! A folder for one test: a disk in it, the program run there, and what must hold of the files it leaves.

use crate::coracle::{self, Ran};
use crate::disk::{qemu_convert, raw_disk, same, shell};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The folder, gone with the value.
#[derive(Debug)]
pub struct Place {
    program: &'static str,
    folder: TempDir,
}

impl Place {
    /// An empty one.
    pub fn empty(program: &'static str) -> Self {
        Place { program, folder: tempfile::tempdir().expect("a folder can be made") }
    }

    /// One with a raw disk `disk.raw` in it.
    pub fn with_disk(program: &'static str, size: u64, seed: u64) -> Self {
        let place = Place::empty(program);
        raw_disk(&place.path("disk.raw"), size, seed);
        place
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A name in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The bytes of a file in it.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("the file is there")
    }

    /// Runs a line of bash in it.
    pub fn shell(&self, line: &str) -> Vec<u8> {
        shell(self.folder(), line)
    }

    /// The program, to be started in it.
    pub fn command(&self, args: &[&str]) -> Command {
        coracle::command(self.program, self.folder(), args)
    }

    /// Runs the program in it to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        coracle::run(self.program, self.folder(), args)
    }

    /// The disk as qcow2, by qemu-img with these words.
    pub fn qcow2(&self, name: &str, words: &str) -> PathBuf {
        qemu_convert(&format!("-f raw -O qcow2 {words}"), &self.path("disk.raw"), &self.path(name))
    }

    /// True if a file is the disk.
    pub fn same(&self, name: &str) -> bool {
        same(&self.path("disk.raw"), &self.path(name))
    }

    /// A file is the whole disk, and nothing else was left.
    #[track_caller]
    pub fn is_the_disk(&self, name: &str) {
        assert!(self.path(name).exists(), "there is no {name}");
        assert!(self.same(name), "{name} is not the disk");
        self.nothing_beside(name);
    }

    /// No `.partial` and no journal.
    #[track_caller]
    pub fn nothing_beside(&self, name: &str) {
        for end in [".partial", ".partial.journal"] {
            assert!(!self.path(&format!("{name}{end}")).exists(), "{name}{end} was left behind");
        }
    }
}
