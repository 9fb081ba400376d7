//! Small disks for conversions, with everything that a converter must handle correctly.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A pseudo-random sequence that is the same every time.
#[derive(Debug, Clone)]
pub struct Noise(u64);

impl Noise {
    /// A sequence for a seed.
    pub fn new(seed: u64) -> Self {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next_u64() % limit.max(1)
    }

    /// Bytes that cannot be compressed.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// Writes a raw disk of `size` bytes: text, noise, written zeros and holes at odd offsets, the same for each
/// seed.
pub fn raw_disk(path: &Path, size: u64, seed: u64) {
    let mut noise = Noise::new(seed);
    let file = File::create(path).expect("a disk can be made");
    file.set_len(size).expect("a disk can be sized");
    let mut at = 0;
    while at < size {
        let len = (1 + noise.below(300_000)).min(size - at);
        let bytes = match noise.below(5) {
            0 | 1 => text(&mut noise, len as usize),
            2 => noise.bytes(len as usize),
            3 => vec![0; len as usize],
            _ => vec![],
        };
        file.write_all_at(&bytes, at).expect("a disk can be written");
        at += len;
    }
}

fn text(noise: &mut Noise, len: usize) -> Vec<u8> {
    let words =
        ["disk", "image", "cluster", "boat", "river", "paddle", "kernel", "sector", "\n", "0123456789"];
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        let word = words[noise.below(words.len() as u64) as usize];
        let _ = write!(text, "{word} ");
    }
    text.truncate(len);
    text
}

/// Runs a tool of the host and returns its output. A failure panics with the tool's message.
pub fn tool(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|e| panic!("cannot run {command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?} failed: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Runs a line of shell in a folder.
pub fn shell(folder: &Path, line: &str) -> Vec<u8> {
    tool(Command::new("bash").args(["-euo", "pipefail", "-c", line]).current_dir(folder))
}

/// Copies a program that a test then starts. `cp` writes it: a copy that this process wrote would be busy for as long as
/// a child that another test forked meanwhile has its descriptor.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    tool(Command::new("cp").arg(from.as_ref()).arg(to.as_ref()));
}

/// Runs `qemu-img convert` with these arguments and returns the path of its output.
pub fn qemu_convert(words: &str, from: &Path, to: &Path) -> PathBuf {
    tool(Command::new("qemu-img").arg("convert").args(words.split_whitespace()).arg(from).arg(to));
    to.to_owned()
}

/// True if two files have the same bytes.
pub fn same(a: &Path, b: &Path) -> bool {
    Command::new("cmp").arg("-s").args([a, b]).status().is_ok_and(|status| status.success())
}
