//! A browser's form (`multipart/form-data`): the bytes of its part `file`, extracted as they arrive.
//!
//! A parser of its own, since the head of a part needs a limit and the bytes must flow at once; a form has
//! just one delimiter.

use bytes::{Buf as _, Bytes, BytesMut};
use hyper::header::HeaderValue;

/// The most bytes of the head of a part, and of the bytes between two parts.
const HEAD: usize = 16 << 10;
/// The most bytes of a boundary.
const BOUNDARY: usize = 70;

/// A form that arrives.
pub(super) struct Form {
    /// The delimiter of parts, `\r\n--BOUNDARY`.
    delimiter: Vec<u8>,
    buffer: BytesMut,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first part, or in another part than `file`.
    Skips,
    /// In the part `file`.
    Takes,
    /// Behind a delimiter; `true`: that of the part `file`.
    Between(bool),
    Ended,
}

/// The next piece of the part `file`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Bytes(Bytes),
    /// Unknown until more bytes have arrived.
    More,
    /// The end of the part.
    End,
}

impl Form {
    /// The form that a content type announces.
    pub(super) fn of(content_type: Option<&HeaderValue>) -> Result<Form, String> {
        let text = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let boundary = boundary(text).ok_or_else(|| {
            format!("a form has the content type multipart/form-data with a boundary, not {text:?}")
        })?;
        // The first delimiter may have nothing before it.
        Ok(Form {
            delimiter: [b"\r\n--", boundary.as_bytes()].concat(),
            buffer: BytesMut::from(&b"\r\n"[..]),
            state: State::Skips,
        })
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn next(&mut self) -> Result<Piece, String> {
        loop {
            match self.state {
                State::Ended => return Ok(Piece::End),
                State::Skips | State::Takes => {
                    let takes = self.state == State::Takes;
                    let (inside, is_end) = match find(&self.buffer, &self.delimiter) {
                        Some(at) => (at, true),
                        // A delimiter may have begun.
                        None => (self.buffer.len().saturating_sub(self.delimiter.len() - 1), false),
                    };
                    let bytes = self.buffer.split_to(inside).freeze();
                    if is_end {
                        self.buffer.advance(self.delimiter.len());
                        self.state = State::Between(takes);
                    }
                    match (takes && !bytes.is_empty(), is_end) {
                        (true, _) => return Ok(Piece::Bytes(bytes)),
                        (false, true) => {}
                        (false, false) => return Ok(Piece::More),
                    }
                }
                State::Between(true) => self.state = State::Ended,
                State::Between(false) => match self.head()? {
                    Some(is_file) => self.state = if is_file { State::Takes } else { State::Skips },
                    None => return Ok(Piece::More),
                },
            }
        }
    }

    /// Takes the head of the next part: true for the part `file`; `None` until all of it has arrived.
    fn head(&mut self) -> Result<Option<bool>, String> {
        if self.buffer.starts_with(b"--") {
            return Err("the form has no part 'file'".to_owned());
        }
        // The rest of the line of the delimiter, and an empty line behind the head.
        let Some(end) = find(&self.buffer, b"\r\n\r\n") else {
            if self.buffer.len() > HEAD {
                return Err(format!("the head of a part of the form has more than {HEAD} bytes"));
            }
            return Ok(None);
        };
        if end > HEAD {
            return Err(format!("the head of a part of the form has more than {HEAD} bytes"));
        }
        let head = self.buffer.split_to(end + 4);
        let head = String::from_utf8_lossy(&head);
        Ok(Some(head.split("\r\n").any(is_file)))
    }
}

fn is_file(line: &str) -> bool {
    let Some((name, value)) = line.split_once(':') else { return false };
    name.trim().eq_ignore_ascii_case("content-disposition")
        && parameter(value, "name").as_deref() == Some("file")
}

fn boundary(content_type: &str) -> Option<String> {
    let kind = content_type.split(';').next()?.trim();
    let boundary =
        parameter(content_type, "boundary").filter(|_| kind.eq_ignore_ascii_case("multipart/form-data"))?;
    (1..=BOUNDARY).contains(&boundary.len()).then_some(boundary)
}

/// The value of a parameter behind a word: `word; name=value; other="a value"`.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text.split_once(';')?.1;
    loop {
        let (key, value) = rest.split_once('=')?;
        let value = value.trim_start();
        let (found, behind) = match value.strip_prefix('"') {
            Some(quoted) => quoted_text(quoted)?,
            None => {
                let (found, behind) = value.split_once(';').unwrap_or((value, ""));
                (found.trim().to_owned(), behind)
            }
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(found);
        }
        rest = behind.trim_start().trim_start_matches(';');
    }
}

/// The text up to its closing quote, and the rest behind it.
fn quoted_text(text: &str) -> Option<(String, &str)> {
    let (mut found, mut is_escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => return Some((found, &text[at + 1..])),
            '\\' if !is_escaped => is_escaped = true,
            c => {
                found.push(c);
                is_escaped = false;
            }
        }
    }
    None
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let (&first, rest) = what.split_first()?;
    let mut from = 0;
    loop {
        let at = from + bytes.get(from..)?.iter().position(|&byte| byte == first)?;
        if bytes[at + 1..].starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "multipart/form-data; boundary=\"a b\"";

    fn form(kind: &str) -> Result<Form, String> {
        Form::of(Some(&HeaderValue::from_str(kind).unwrap()))
    }

    /// The bytes of the part, with the form in pieces of so many bytes; `None` where it has not come to its end.
    fn taken(text: &[u8], step: usize) -> Result<Option<Vec<u8>>, String> {
        let mut form = form(KIND)?;
        let mut all = vec![];
        let mut pieces = text.chunks(step);
        loop {
            match form.next()? {
                Piece::Bytes(bytes) => all.extend_from_slice(&bytes),
                Piece::End => return Ok(Some(all)),
                Piece::More => match pieces.next() {
                    Some(piece) => form.push(piece),
                    None => return Ok(None),
                },
            }
        }
    }

    #[test]
    fn the_part_file_is_taken_out_however_the_form_is_cut() {
        let content = b"\r\n--a\r\n-- \r\r\n--a c--\r\n\r\n";
        let text = [
            &b"before\r\n--a b\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nname=\"file\"\r\n--a b \r\n"[..],
            b"content-type: x\r\nCONTENT-DISPOSITION: form-data; filename=\"a\\\";name=x.img\"; name=file\r\n\r\n",
            content,
            b"\r\n--a b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nsecond\r\n--a b--\r\n",
        ]
        .concat();
        for step in 1..text.len() {
            assert_eq!(taken(&text, step).unwrap().as_deref(), Some(&content[..]), "{step}");
        }
        // Without the delimiter behind it, it is not whole.
        let end = text.windows(10).rposition(|w| w == b"\r\n--a b\r\nC").unwrap();
        for cut in 0..end + 7 {
            assert_eq!(taken(&text[..cut], 7).unwrap(), None, "{cut}");
        }
    }

    #[test]
    fn an_empty_part_and_one_at_the_very_beginning_are_parts() {
        let head = "--a b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n";
        assert_eq!(taken(format!("{head}\r\n--a b--").as_bytes(), 3).unwrap(), Some(vec![]));
        assert_eq!(taken(format!("{head}x\r\n--a b--").as_bytes(), 3).unwrap(), Some(b"x".to_vec()));
    }

    #[test]
    fn a_form_without_the_part_or_with_an_endless_head_is_refused() {
        let what =
            taken(b"--a b\r\nContent-Disposition: form-data; name=x\r\n\r\nx\r\n--a b--\r\n", 5).unwrap_err();
        assert!(what.contains("no part 'file'"), "{what}");
        let endless = [&b"--a b\r\nX: "[..], &b"y".repeat(HEAD + 100)].concat();
        for step in [100, endless.len()] {
            assert!(taken(&endless, step).unwrap_err().contains("more than 16384 bytes"));
        }
        let ended = [&endless[..], b"\r\n\r\n"].concat();
        assert!(taken(&ended, ended.len()).unwrap_err().contains("more than 16384 bytes"));
    }

    #[test]
    fn a_content_type_must_have_a_boundary() {
        for wrong in
            ["", "multipart/form-data", "text/plain; boundary=x", "multipart/form-data; boundary=\"\""]
        {
            assert!(form(wrong).is_err(), "{wrong}");
        }
        assert!(form(&format!("multipart/form-data; boundary={}", "x".repeat(71))).is_err());
        assert_eq!(form("Multipart/Form-Data; charset=\"a;b\"; Boundary=xy").unwrap().delimiter, b"\r\n--xy");
    }
}
