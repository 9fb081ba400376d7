//! Foreign text, made safe for a terminal, a log and a condition. Text of a server, an image, a launcher or a
//! guest is shown, and its control characters are not obeyed.
//!
//! **Guarantees.** The output is one line of at most the given number of characters. None of them controls a
//! terminal, turns the text beside it around, or is invisible. The log of a program is written through
//! [`Entries`], so quoted text cannot forge a log entry. The package has no dependencies.

use std::io;

/// Maximum characters of a sentence.
pub const SENTENCE: usize = 1024;

/// The end of a truncated text.
const CUT: &str = "… (truncated)";

/// The text on one line, with at most `most` characters.
pub fn text(text: &str, most: usize) -> String {
    let plain = |c: char| if is_plain(c) { c } else { ' ' };
    let mut short: String = text.chars().take(most).map(plain).collect();
    if text.chars().nth(most).is_some() {
        let kept = most.saturating_sub(CUT.chars().count());
        short = short.chars().take(kept).chain(CUT.chars()).collect();
    }
    short
}

/// The text on one line, with at most [`SENTENCE`] characters.
pub fn line(said: &str) -> String {
    text(said, SENTENCE)
}

/// A log whose writes are one entry each. An entry stays one line, whatever text it quotes.
#[derive(Debug)]
pub struct Entries<W>(pub W);

impl<W: io::Write> io::Write for Entries<W> {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(entry);
        let (text, end) = text.strip_suffix('\n').map_or((&*text, ""), |text| (text, "\n"));
        let mut plain: String = text.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect();
        plain.push_str(end);
        self.0.write_all(plain.as_bytes())?;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// True for a visible character that neither ends the line nor turns the text around.
pub fn is_plain(c: char) -> bool {
    let does_something = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !does_something
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_do_nothing_on_a_terminal() {
        for (said, shown) in [
            ("größe: 7 → 8", "größe: 7 → 8"),
            ("a\u{1b}[31mb\u{9b}0mc\r\nd\te", "a [31mb 0mc  d e"),
            ("a\u{202e}b\u{2066}c\u{200f}d", "a b c d"),
            ("a\u{200b}b\u{feff}c\u{ad}d\u{e0041}e", "a b c d e"),
        ] {
            assert_eq!(line(said), shown, "{said:?}");
        }
    }

    #[test]
    fn what_is_quoted_in_a_log_makes_no_entry() {
        let mut log = Entries(Vec::new());
        let quoted = "WARN upload: 500: no\nINFO uploads: all is well\u{1b}[2J\r\u{202e}\n";
        io::Write::write_all(&mut log, quoted.as_bytes()).unwrap();
        io::Write::write_all(&mut log, &[b"INFO gr\xc3\xb6\xc3\x9fe ", &[0xff_u8][..], b"\n"].concat())
            .unwrap();
        let said = String::from_utf8(log.0).unwrap();
        assert_eq!(said, "WARN upload: 500: no INFO uploads: all is well [2J  \nINFO größe \u{fffd}\n");
    }

    #[test]
    fn words_are_cut_and_say_so() {
        assert_eq!(text("abc", 3), "abc");
        assert_eq!(text(&"x".repeat(21), 20), "xxxxxxx… (truncated)");
        assert_eq!(line(&"é".repeat(5000)).chars().count(), SENTENCE);
        assert_eq!(text("abcd", 3).chars().count(), CUT.chars().count());
    }
}
