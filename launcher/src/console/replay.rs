//! Finds the last screen in the last bytes of a line.
//!
//! A terminal is a program, and none runs here. The bytes after the last clearing of the screen, or the last
//! lines that fill a screen, whichever is less, look right on any terminal.

/// The lines of a tall screen.
const LINES: usize = 60;
/// Sequences that clear a screen, or leave it for another: reset, erase all, home and erase, the alternate
/// screen.
const CLEARING: &[&[u8]] = &[b"\x1bc", b"\x1b[2J", b"\x1b[H\x1b[J", b"\x1b[?1049h"];

/// The offset of the last screen in `tail`. With `whole`, `tail` is the whole output, and the first line in
/// it is complete.
pub(super) fn screen(tail: &[u8], whole: bool) -> usize {
    let cleared = CLEARING.iter().filter_map(|mark| last(tail, mark)).max();
    let mut lines = tail.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    // The last line is still being written, without an end.
    let full = lines.nth(LINES - 1);
    let first = || {
        let first = tail.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole || first == tail.len() { 0 } else { first }
    };
    cleared.max(full).unwrap_or_else(first)
}

fn last(tail: &[u8], mark: &[u8]) -> Option<usize> {
    tail.windows(mark.len()).rposition(|window| window == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tail: &str, whole: bool) -> &str {
        &tail[screen(tail.as_bytes(), whole)..]
    }

    #[test]
    fn the_screen_begins_after_the_last_clearing() {
        assert_eq!(shown("old\n\x1b[2J\x1b[Hnew\nmore", true), "\x1b[2J\x1b[Hnew\nmore");
        assert_eq!(shown("\x1b[2Ja\x1bcb", true), "\x1bcb");
        assert_eq!(shown("shell\n\x1b[?1049hvim", true), "\x1b[?1049hvim");
    }

    #[test]
    fn without_a_clearing_the_last_lines_are_the_screen() {
        let text: String = (0..1000).map(|i| format!("{i}\r\n")).collect();
        let shown = shown(&text, true);
        assert!(shown.starts_with("941\r\n") && shown.ends_with("999\r\n"), "{shown}");
        assert_eq!(shown.lines().count(), LINES - 1);
        let cleared = format!("\x1b[2J{text}");
        assert_eq!(screen(cleared.as_bytes(), true), cleared.len() - shown.len());
    }

    #[test]
    fn the_screen_begins_with_a_whole_line() {
        assert_eq!(shown("[31mhalf\nwhole\n", false), "whole\n");
        assert_eq!(shown("first\nsecond", true), "first\nsecond");
        assert_eq!(shown("one long line", false), "one long line");
        assert_eq!(shown("only\n", false), "only\n");
        assert_eq!(shown("", false), "");
    }
}
