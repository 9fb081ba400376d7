//! One request as it came.

use std::io::{self, Read};
use std::ops::Range;

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The number of the connection it came on.
    pub connection: u32,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case, values as sent.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The bytes asked for, in a file of `size` bytes; `None` when no range was asked for.
    pub fn range(&self, size: u64) -> Option<Range<u64>> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        let first = first.parse().ok()?;
        let end = if last.is_empty() { size } else { last.parse::<u64>().ok()?.saturating_add(1) };
        Some(first..end.min(size))
    }

    /// Reads up to the empty line; `None` when the client has closed the connection. Bodies are not expected.
    pub(crate) fn read(stream: &mut impl Read, connection: u32) -> io::Result<Option<Request>> {
        let mut head = vec![];
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read(&mut byte)? == 0 || head.len() > 64 << 10 {
                return Ok(None);
            }
            head.push(byte[0]);
            // A greeting of TLS, for whom nobody is here: waiting for the rest of a head would be for ever.
            if !head[0].is_ascii_uppercase() {
                return Ok(None);
            }
        }
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned())).collect();
        Ok(Some(Request { connection, method: method.into(), path: path.into(), headers }))
    }
}
