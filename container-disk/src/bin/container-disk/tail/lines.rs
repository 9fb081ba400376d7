//! Lines from the output of a serial console. Container runtimes show a line only when it has ended.
//!
//! A prompt has no end of line: after a silence the caller ends it here. A line that never ends is cut after
//! 8 KiB, which is shorter than the limit of any runtime, and not inside a UTF-8 character. The guest's bytes
//! are not interpreted otherwise.

/// Bytes after which a line is cut.
const LONGEST: usize = 8 << 10;

/// Splits the output of a serial console into lines.
#[derive(Default)]
pub(super) struct Lines {
    /// Length of the unfinished line.
    length: usize,
    /// A carriage return was read, and the next byte decides whether it ends a line.
    held: bool,
}

impl Lines {
    /// Adds the bytes of one piece to the output.
    pub(super) fn take(&mut self, piece: &[u8], to: &mut Vec<u8>) {
        for &byte in piece {
            if std::mem::take(&mut self.held) && byte != b'\n' {
                self.put(b'\r', to);
            }
            match byte {
                b'\r' => self.held = true,
                byte => self.put(byte, to),
            }
        }
    }

    fn put(&mut self, byte: u8, to: &mut Vec<u8>) {
        let within = byte & 0xc0 == 0x80 && self.length < LONGEST + 4;
        if byte != b'\n' && self.length >= LONGEST && !within {
            to.push(b'\n');
            self.length = 0;
        }
        to.push(byte);
        self.length = if byte == b'\n' { 0 } else { self.length + 1 };
    }

    /// Ends the unfinished line.
    pub(super) fn end(&mut self, to: &mut Vec<u8>) {
        self.held = false;
        if std::mem::take(&mut self.length) > 0 {
            to.push(b'\n');
        }
    }
}
