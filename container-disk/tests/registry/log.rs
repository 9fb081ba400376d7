//! The log as an operator sees it. All tests run in one process and share one log.

use std::io::{self, Write};
use std::sync::{Mutex, Once, PoisonError};
use tracing::Level;

static LINES: Mutex<Vec<String>> = Mutex::new(vec![]);

/// Number of lines about a change of registry that contain all of these words. The log begins with the first
/// call.
pub(crate) fn logged(words: &[&str]) -> usize {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let log = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false).with_writer(|| Log);
        tracing::subscriber::set_global_default(log.finish()).unwrap();
    });
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let switches = lines.iter().filter(|line| line.contains("the transfer continues from another registry"));
    switches.filter(|line| words.iter().all(|word| line.contains(word))).count()
}

/// All lines, to assert the absence of text.
pub(crate) fn text() -> String {
    LINES.lock().unwrap_or_else(PoisonError::into_inner).concat()
}

struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push(String::from_utf8_lossy(line).into_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
