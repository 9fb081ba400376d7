//! Output of a serial console, searched for texts in order. Pure; the test kit uses it too.
//!
//! Several writers share a serial console: the shell echoes and prints, programs write, and the kernel puts
//! its messages between any two letters of theirs. So a text is searched in the output as it came, and also
//! in the output without the kernel's messages (`[    1.234567] …` up to the end of the line).

use std::borrow::Cow;

/// Maximum size of the buffer in bytes.
const HELD: usize = 1 << 20;

/// Output of the console from the end of the last match on.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// Output without escape sequences, not matched yet.
    held: String,
    /// Beginning of an unfinished escape sequence.
    escape: Option<String>,
    /// Bytes of an unfinished UTF-8 character.
    rest: Vec<u8>,
}

/// Exit code in the output of a shell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExitReport {
    NotYet,
    /// Output of the command; the exit code is unreadable, since another writer's output is inside it.
    Damaged(String),
    /// Output of the command, and its exit code.
    Code(String, i32),
}

impl Transcript {
    /// Appends output of the console.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let (text, kept) = decoded(&self.rest);
        self.rest = kept;
        for c in text.chars() {
            self.letter(c);
        }
        if self.held.len() > HELD {
            let mut from = self.held.len() - HELD / 2;
            while !self.held.is_char_boundary(from) {
                from += 1;
            }
            self.held.drain(..from);
        }
    }

    fn letter(&mut self, c: char) {
        match &mut self.escape {
            // CSI ends with a letter, any other sequence with its second character.
            Some(begun) => {
                begun.push(c);
                let is_csi = begun.starts_with('[');
                let is_over = if is_csi { begun.len() > 1 && ('@'..='~').contains(&c) } else { true };
                if is_over || begun.len() > 64 {
                    self.escape = None;
                }
            }
            None if c == '\x1b' => self.escape = Some(String::new()),
            None if c == '\r' || c == '\0' => {}
            None => self.held.push(c),
        }
    }

    /// Searches a text. On a match returns the output before it, and drops the output up to its end.
    pub(crate) fn take(&mut self, text: &str) -> Option<String> {
        let (begin, end) = self.find(text)?;
        let before = self.held[..begin].to_owned();
        self.held.drain(..end);
        Some(before)
    }

    /// True if the output contains a text.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.find(text).is_some()
    }

    /// Reads the number and the full stop behind a mark, and drops the output up to there.
    pub(crate) fn code(&mut self, mark: &str) -> ExitReport {
        let Some((begin, end)) = self.find(mark) else { return ExitReport::NotYet };
        let rest = &self.held[end..];
        let words = without_kernel(rest);
        let digits = words.bytes().take_while(u8::is_ascii_digit).count();
        let Some(sign) = words.as_bytes().get(digits) else { return ExitReport::NotYet };
        let code = words[..digits].parse::<i32>().ok().filter(|_| *sign == b'.');
        let to = end + code.map_or(0, |_| place(rest, digits) + 1);
        let output = self.held[..begin].to_owned();
        self.held.drain(..to);
        match code {
            Some(code) => ExitReport::Code(output, code),
            None => ExitReport::Damaged(output),
        }
    }

    /// True if the last line looks like the prompt of a shell.
    pub(crate) fn prompts(&self) -> bool {
        let words = without_kernel(&self.held);
        let last = words.rsplit('\n').next().unwrap_or_default().trim_end();
        last.ends_with(['#', '$', '>', '%'])
    }

    /// The last line with text, for error messages.
    pub(crate) fn last_line(&self) -> &str {
        self.held.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default()
    }

    /// Range of the first match.
    fn find(&self, text: &str) -> Option<(usize, usize)> {
        let whole = self.held.find(text).map(|at| (at, at + text.len()));
        let words = without_kernel(&self.held);
        if let Cow::Borrowed(_) = words {
            return whole;
        }
        let parted = words.find(text).map(|at| {
            let last = (at + text.len()).saturating_sub(1);
            (place(&self.held, at), place(&self.held, last) + 1)
        });
        [whole, parted].into_iter().flatten().min_by_key(|(_, end)| *end)
    }
}

/// Converts an offset in the text without the kernel's messages to one in the text itself.
fn place(text: &str, at: usize) -> usize {
    let mut from = 0;
    let mut left = at;
    for message in messages(text) {
        if left < message.start - from {
            break;
        }
        left -= message.start - from;
        from = message.end;
    }
    from + left
}

/// The text without the kernel's messages, so that text around them is joined.
pub(crate) fn without_kernel(text: &str) -> Cow<'_, str> {
    let mut words = String::new();
    let mut from = 0;
    for message in messages(text) {
        words += &text[from..message.start];
        from = message.end;
    }
    if from == 0 { Cow::Borrowed(text) } else { Cow::Owned(words + &text[from..]) }
}

/// Ranges of the kernel's messages, each to the end of its line; the last may be incomplete.
fn messages(text: &str) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text.get(from..)?.find('[')?;
            if is_stamp(&text[start..]) {
                let end = text[start..].find('\n').map_or(text.len(), |at| start + at + 1);
                from = end;
                return Some(start..end);
            }
            from = start + 1;
        }
    })
}

/// True for the timestamp of a kernel message: `[    1.234567]`.
fn is_stamp(text: &str) -> bool {
    let text = text.as_bytes();
    let mut at = 1;
    let mut many = |is: fn(&u8) -> bool| {
        let count = text[at..].iter().take_while(|byte| is(byte)).count();
        at += count;
        count
    };
    many(|byte| *byte == b' ');
    let seconds = many(u8::is_ascii_digit);
    let dot = many(|byte| *byte == b'.');
    let millionths = many(u8::is_ascii_digit);
    seconds > 0 && dot == 1 && millionths == 6 && text[at..].starts_with(b"]")
}

/// The bytes as text, and the bytes of an incomplete character at the end.
fn decoded(bytes: &[u8]) -> (String, Vec<u8>) {
    let mut text = String::new();
    let mut bytes = bytes;
    loop {
        match std::str::from_utf8(bytes) {
            Ok(good) => return (text + good, vec![]),
            Err(e) => {
                let (good, bad) = bytes.split_at(e.valid_up_to());
                text += std::str::from_utf8(good).unwrap_or_default();
                match e.error_len() {
                    Some(length) => {
                        text.push('\u{fffd}');
                        bytes = bad.get(length..).unwrap_or_default();
                    }
                    None => return (text, bad.to_vec()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.add(text.as_bytes());
        transcript
    }

    #[test]
    fn a_console_is_compared_without_its_colours_and_cuts() {
        let mut transcript = Transcript::default();
        for piece in ["\x1b[1;3", "2mready\x1b", "[0m ä".trim_end_matches('ä'), "tiny lo", "gin:\r\n"] {
            transcript.add(piece.as_bytes());
        }
        transcript.add(&"ä".as_bytes()[..1]);
        transcript.add(&"ä".as_bytes()[1..]);
        transcript.add(b"\xff!");
        assert!(transcript.has("login:") && !transcript.has("\x1b"));
        assert_eq!(transcript.take("tiny login:").unwrap(), "ready ");
        assert_eq!(transcript.take("login:"), None, "it is done with");
        assert_eq!(transcript.take("!").unwrap(), "\nä\u{fffd}");
    }

    #[test]
    fn a_prompt_is_known_by_its_last_sign() {
        for (said, is) in [
            ("~ # ", true),
            ("login:", false),
            ("a\n[root@os ~]# \x1b[6n", true),
            ("$\n", false),
            ("", false),
        ] {
            let mut transcript = Transcript::default();
            transcript.add(said.as_bytes());
            assert_eq!(transcript.prompts(), is, "{said:?}");
        }
    }

    #[test]
    fn a_console_without_end_is_not_held() {
        let mut transcript = Transcript::default();
        for _ in 0..64 {
            transcript.add("ä".repeat(50_000).as_bytes());
        }
        assert!(transcript.held.len() <= HELD);
    }

    /// The kernel writes between any two letters of a program, and does not wait for an end of a line.
    #[test]
    fn a_text_that_the_kernel_wrote_into_is_found() {
        let mut transcript = said(
            "tiny re[    1.234567] sd 0:0:0:0: found\r\nady\r\ntiny lo[   12.000001] late\r\n[   12.000002] later\r\ngin: ",
        );
        assert!(transcript.has("tiny ready") && transcript.has("found\nady") && !transcript.has("tiny late"));
        assert_eq!(transcript.take("tiny login:").unwrap(), "tiny re[    1.234567] sd 0:0:0:0: found\nady\n");
        assert_eq!(transcript.held, " ");
        let mut transcript = said("[    1.000000] one\n[    2.000000] reboot: Power down\nrest");
        assert_eq!(transcript.take("Power down").unwrap(), "[    1.000000] one\n[    2.000000] reboot: ");
        assert_eq!(transcript.take("rest").unwrap(), "\n");
        assert!(said("a [list] of [2.5] things [1.234567 and").has("[1.234567 and"));
    }

    #[test]
    fn a_prompt_is_one_behind_which_the_kernel_wrote() {
        assert!(said("~ # [    1.234567] late\r\n").prompts());
        assert!(!said("login: [    1.234567] cost 7 $\r\n").prompts());
    }

    #[test]
    fn an_exit_code_is_read_whoever_writes_beside_it() {
        let mark = "coracle-1=";
        assert_eq!(said("out\ncoracle-1=0.\r\n").code(mark), ExitReport::Code("out\n".into(), 0));
        for part in ["", "out", "cora[    1.234567] a.b", "coracle-1=", "coracle-1=12"] {
            assert_eq!(said(part).code(mark), ExitReport::NotYet, "{part}");
        }
        let mut parted = said("out\ncorac[    1.234567] a\r\nle-1=1[    2.345678] b.c.\r\n2.\r\nrest");
        assert_eq!(parted.code(mark), ExitReport::Code("out\n".into(), 12));
        assert_eq!(parted.held, "\nrest");
        let mut damaged = said("coracle-1=somebody\r\n");
        assert_eq!(damaged.code(mark), ExitReport::Damaged(String::new()));
        damaged.add(b"0.\r\ncoracle-1=3.");
        assert_eq!(damaged.code(mark), ExitReport::Code("somebody\n0.\n".into(), 3));
    }
}
