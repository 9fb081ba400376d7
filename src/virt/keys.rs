//! Standard input as keys for a console, read by a thread for as long as the program runs.

use rustix::io::Errno;
use rustix::termios::isatty;
use tokio::sync::mpsc;

/// Key that leaves the console: Ctrl-].
const LEAVE: u8 = 0x1d;
/// Maximum size of one read in bytes.
const PIECE: usize = 32 << 10;

/// Standard input, read by a thread.
pub(crate) struct Keys {
    pieces: mpsc::Receiver<Vec<u8>>,
    is_terminal: bool,
}

/// Input of a console.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// Bytes for the guest.
    Bytes(Vec<u8>),
    /// Ctrl-], or the end of the input, with the bytes before it.
    End(Vec<u8>),
}

impl Keys {
    /// Begins to read standard input. There must be one reader at a time.
    pub(crate) fn of_stdin() -> Keys {
        let (sender, pieces) = mpsc::channel(4);
        std::thread::spawn(move || {
            let stdin = std::io::stdin();
            let mut buffer = vec![0; PIECE];
            loop {
                let count = match rustix::io::read(&stdin, &mut buffer) {
                    Err(Errno::INTR) => continue,
                    // The terminal hung up, or standard input is closed.
                    Err(_) => 0,
                    Ok(count) => count,
                };
                if count == 0 || sender.blocking_send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Keys { pieces, is_terminal: isatty(std::io::stdin()) }
    }

    /// True if standard input is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The next bytes, unchanged; `None` at the end of the input.
    pub(crate) async fn raw(&mut self) -> Option<Vec<u8>> {
        self.pieces.recv().await
    }

    /// The next bytes for a console, up to Ctrl-].
    pub(crate) async fn next(&mut self) -> Typed {
        match self.raw().await {
            Some(piece) => typed(piece, self.is_terminal),
            None => Typed::End(Vec::new()),
        }
    }

    /// Waits until the user leaves, and drops all other input.
    pub(crate) async fn end(&mut self) {
        while let Typed::Bytes(_) = self.next().await {}
    }
}

/// Splits input at Ctrl-]. A pipe may carry any byte; there, as upstream has it, Ctrl-] counts only as the
/// first byte of a read.
fn typed(mut piece: Vec<u8>, is_terminal: bool) -> Typed {
    let found = piece.iter().position(|&key| key == LEAVE);
    match found.filter(|at| is_terminal || *at == 0) {
        Some(at) => {
            piece.truncate(at);
            Typed::End(piece)
        }
        None => Typed::Bytes(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_escape_ends_a_console() {
        let bytes = |text: &[u8]| Typed::Bytes(text.to_vec());
        assert_eq!(typed(b"ab".to_vec(), true), bytes(b"ab"));
        assert_eq!(typed(b"ab\x1dc".to_vec(), true), Typed::End(b"ab".to_vec()));
        assert_eq!(typed(b"\x1d".to_vec(), false), Typed::End(Vec::new()));
        assert_eq!(typed(b"ab\x1dc".to_vec(), false), bytes(b"ab\x1dc"));
    }
}
