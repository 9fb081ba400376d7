//! Lines of what a serial console says, for a runtime that shows a line when it has ended.
//!
//! A prompt has no end of line: whoever hears nothing more for a while ends it here. A line that never ends is ended after
//! 8 KiB, which is less than any runtime splits at, and not inside of a letter. What comes from a guest is not looked at
//! otherwise.

/// The longest line.
const LONGEST: usize = 8 << 10;

/// Makes lines of what a serial console says.
#[derive(Default)]
pub(super) struct Lines {
    /// How long the line is that was begun.
    length: usize,
    /// A return came, and it is not known yet whether a line ends with it.
    held: bool,
}

impl Lines {
    /// Adds what a piece says.
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

    /// Ends the line that was begun.
    pub(super) fn end(&mut self, to: &mut Vec<u8>) {
        self.held = false;
        if std::mem::take(&mut self.length) > 0 {
            to.push(b'\n');
        }
    }
}
