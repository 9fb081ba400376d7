//! A file from a server that does not support ranges, or does not state their position, or does not prove
//! their version: one response, read once in order. When it breaks, the rest is requested nevertheless. It is
//! accepted if a strong validator shows that it is the rest of the same file.

use super::remote_file::RemoteFile;
use bytes::Bytes;
use fetch::ordered::{ended_by_error, hand_out};
use fetch::queue::{Filler, Next, Queue};
use fetch::{Attempts, ContentRange, Fault, FaultKind, PartSink, Permit, Result, Validators, runtime};
use reqwest::{Response, StatusCode, Version, header};
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// Bytes that may lie between the task and the reader.
const MOST_HELD: usize = 4 << 20;

/// The reason why two answers cannot be shown to be of one version.
const WEAK: &str = "the server gives neither a strong ETag nor a Last-Modified that is older than its answer";

/// A file that comes as one response.
pub(super) struct Whole {
    file: Arc<File>,
    /// The response to the first request. The first reader takes it; later ones request the file again.
    pending: Mutex<Option<Begun>>,
    /// True if a lost connection can be told from the end: the length is known, or the end is marked.
    pub(super) marks_its_end: bool,
}

/// True if the protocol tells the end of a body from the loss of its connection: HTTP/2 does, and so does
/// HTTP/1.1 with chunks.
fn marks_its_end(response: &Response) -> bool {
    let coding = response.headers().get(header::TRANSFER_ENCODING).and_then(|value| value.to_str().ok());
    let is_chunked = coding.is_some_and(|coding| coding.to_ascii_lowercase().trim_end().ends_with("chunked"));
    is_chunked || response.version() >= Version::HTTP_2
}

/// A response and the bytes read from it.
pub(super) struct Begun {
    pub(super) head: Bytes,
    pub(super) response: Response,
    /// The size of the whole file, if this answer states it.
    pub(super) size: Option<u64>,
}

struct File {
    remote_file: RemoteFile,
    validators: Validators,
    size: Option<u64>,
}

impl Whole {
    pub(super) fn new(
        remote_file: RemoteFile,
        validators: Validators,
        size: Option<u64>,
        begun: Begun,
    ) -> Whole {
        let marks_its_end = size.is_some() || marks_its_end(&begun.response);
        let file = Arc::new(File { remote_file, validators, size });
        Whole { file, pending: Mutex::new(Some(begun)), marks_its_end }
    }

    pub(super) fn name(&self) -> &str {
        self.file.remote_file.name()
    }

    pub(super) fn stream(&self) -> Result<InOrder> {
        let begun = self.pending.lock().ok().and_then(|mut pending| pending.take());
        let queue = Queue::new(MOST_HELD);
        let (file, mut filler) = (Arc::clone(&self.file), Filler(Arc::clone(&queue)));
        let task = runtime()?.spawn(async move {
            let end = file.pump(begun, &mut filler).await;
            filler.0.close(end);
        });
        let name = self.name().to_owned();
        Ok(InOrder { name, queue, task, current: Bytes::new(), state: State::Open })
    }
}

impl File {
    async fn pump(&self, begun: Option<Begun>, sink: &mut Filler) -> Result<()> {
        let mut at = 0;
        let mut attempts = self.remote_file.attempts(at);
        let mut next = begun;
        let mut broke = None;
        loop {
            let done = match next.take() {
                Some(begun) => self.body(begun, &mut at, sink, &mut attempts).await,
                None => match self.open_again(at, &mut attempts).await {
                    Ok(begun) => self.body(begun, &mut at, sink, &mut attempts).await,
                    Err(fault) => Err(fault),
                },
            };
            match done {
                Ok(()) => return Ok(()),
                Err(fault) if !Attempts::is_final(&fault) => {
                    broke = Some(fault.error.to_string());
                    attempts.pause(at, fault).await?;
                }
                // The reason for the repetition is the cause of the error.
                Err(Fault { error, .. }) => {
                    return Err(match broke {
                        Some(broke) if std::error::Error::source(&error).is_none() => error.because(broke),
                        _ => error,
                    });
                }
            }
        }
    }

    async fn body(
        &self,
        begun: Begun,
        at: &mut u64,
        sink: &mut Filler,
        attempts: &mut Attempts,
    ) -> Result<(), Fault> {
        let mut permit: Option<Permit<'_>> = None;
        let Begun { head, mut response, size } = begun;
        let mut next = Some(head);
        while let Some(mut bytes) = next.take() {
            if let Some(size) = size {
                bytes.truncate(usize::try_from(size.saturating_sub(*at)).unwrap_or(usize::MAX));
            }
            *at += bytes.len() as u64;
            if !bytes.is_empty() {
                sink.take(bytes, &mut permit).await;
            }
            let here = *at;
            let wanted = || format!("bytes from {here} on");
            next = self.remote_file.chunk(&mut response, &mut attempts.silence, wanted).await?;
        }
        match size {
            Some(size) if *at < size => {
                let what = format!("the server promised {size} bytes and sent only {at}");
                Err(Fault::new(FaultKind::Cut, self.remote_file.failed(what)))
            }
            _ => Ok(()),
        }
    }

    async fn open_again(&self, at: u64, attempts: &mut Attempts) -> Result<Begun, Fault> {
        let (range, if_range) = match at {
            0 => (None, None),
            _ => (Some(at..self.size.unwrap_or(u64::MAX)), self.validators.if_range()),
        };
        let response = self.remote_file.get(range, if_range.as_ref(), &mut attempts.silence).await?;
        let partial = response.status() == StatusCode::PARTIAL_CONTENT;
        let range = ContentRange::parse(response.headers());
        let size = if partial { range.and_then(|range| range.total) } else { response.content_length() };
        let now = Validators::new(response.headers(), size);
        if let Some(difference) = self.validators.difference(&now) {
            let name = self.remote_file.name();
            let what = format!("{name}: the file changed while it was read ({difference}); start again");
            return Err(Fault::from_kind(FaultKind::Changed, what));
        }
        let agrees = self.validators.agrees(&now);
        if at == 0 && !agrees {
            let what =
                "it was read once already, and nothing shows that a second reading is of the same file";
            return Err(self.remote_file.failed(format!("{what}: {WEAK}")).into());
        }
        // Without the total the end of the file could not be told from that of the range.
        let placed = range.is_some_and(|range| range.start == at && range.total.or(self.size).is_some());
        let right = if partial { placed } else { at == 0 };
        let of = self.size.map(|size| format!(" of {size}")).unwrap_or_default();
        let broke = format!("the connection broke at byte {at}{of}");
        if !right {
            let what = format!(
                "{broke}, and it cannot go on there: the server does not support ranges (asked for the rest, it \
                 answered {}); start again",
                response.status()
            );
            return Err(self.remote_file.failed(what).into());
        }
        if !agrees {
            let what =
                format!("{broke}, and nothing shows that the rest is of the same file: {WEAK}; start again");
            return Err(self.remote_file.failed(what).into());
        }
        Ok(Begun { head: Bytes::new(), response, size: self.size.or(size) })
    }
}

/// The reader of a [`Whole`].
pub(super) struct InOrder {
    name: String,
    queue: Arc<Queue>,
    task: JoinHandle<()>,
    current: Bytes,
    state: State,
}

enum State {
    Open,
    Done,
    Failed,
}

impl Read for InOrder {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() && !buf.is_empty() {
            match self.state {
                State::Open => match self.queue.next().0 {
                    Next::Bytes(bytes) => self.current = bytes,
                    Next::End(Ok(())) => self.state = State::Done,
                    Next::End(Err(e)) => {
                        self.state = State::Failed;
                        return Err(e.into());
                    }
                },
                State::Done => return Ok(0),
                State::Failed => return Err(ended_by_error(&self.name).into()),
            }
        }
        Ok(hand_out(&mut self.current, buf))
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        self.task.abort();
    }
}
