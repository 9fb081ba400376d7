//! HTTP/1.1 on one connection.

use hyper::server::conn::http1::Builder;
use hyper_util::rt::TokioTimer;
use std::time::Duration;

/// Limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Http1 {
    /// Bytes that are read ahead, and that wait to be sent. A head has at most as many.
    pub buffer: usize,
    /// Header fields of a request.
    pub fields: usize,
    /// Time for the head of a request, also of a later one. `None` if heads need no limit, or have another.
    pub head: Option<Duration>,
}

impl Http1 {
    /// Builder of connections with these limits.
    pub fn builder(&self) -> Builder {
        let mut builder = Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.head);
        builder.max_buf_size(self.buffer).max_headers(self.fields);
        builder
    }
}
