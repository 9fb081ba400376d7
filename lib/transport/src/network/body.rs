//! Body of a request, and of its answer. Each is charged to the memory of requests while it is held.

use super::connections::{Admitted, Connections};
use super::head_memory::Heads;
use super::memory_budget::{BASE, MemoryBudget, Phase};
use super::pieces::Pieces;
use super::server::Counters;
use super::{HttpResponse, Peer, busy, plain};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Size from which a body is large: large bodies are processed one at a time.
const LARGE: usize = 512 << 10;
/// Size of the pieces in which an answer is handed to the connection, so that the rest stays charged.
const PIECE: usize = 32 << 10;

/// State shared by all requests.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) connections: Mutex<Connections>,
    pub(super) room: Mutex<MemoryBudget>,
    pub(super) large: Arc<Semaphore>,
    pub(super) streams: Arc<Semaphore>,
    pub(super) farewells: Semaphore,
    pub(super) counters: Counters,
}

impl Shared {
    pub(super) fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn room(&self) -> MutexGuard<'_, MemoryBudget> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory and place of a request, from its head to the last byte of its answer; released on drop.
pub(super) struct Turn {
    shared: Arc<Shared>,
    admitted: Admitted,
    share: u64,
    /// Bytes of its head, at least [`BASE`].
    base: AtomicUsize,
    cut: Arc<Notify>,
    phase: AtomicU8,
    /// Heads of its connection, for HTTP/1.1.
    heads: Option<Arc<Heads>>,
    /// True once the answer is 101: the connection leaves HTTP.
    switched: Arc<AtomicBool>,
}

impl Turn {
    /// Begins a request whose head has this size; `None` without memory for it.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        admitted: &Admitted,
        peer: Peer,
        head: usize,
        heads: Option<Arc<Heads>>,
    ) -> Option<Arc<Turn>> {
        let (now, cut, base) = (Instant::now(), Arc::new(Notify::new()), head.max(BASE));
        if let Some(heads) = &heads {
            heads.begins();
        }
        let (share, cut_now) = shared.room().begin(peer, base, Arc::clone(&cut), now);
        shared.counters.cut(cut_now);
        shared.connections().begins(admitted.id, now);
        let Some(share) = share else {
            shared.connections().end_request(admitted.id, 0, true, now);
            if let Some(heads) = heads {
                heads.ends();
            }
            return None;
        };
        let (shared, admitted) = (Arc::clone(shared), admitted.clone());
        let (phase, switched) = (AtomicU8::new(Phase::Working as u8), Arc::default());
        let base = AtomicUsize::new(base);
        Some(Arc::new(Turn { shared, admitted, share, base, cut, phase, switched, heads }))
    }

    /// Flag that becomes true if the answer is 101.
    pub(super) fn switched(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.switched)
    }

    fn enters(&self, phase: Phase) -> bool {
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.shared.room().enters(self.share, phase)
    }

    fn set_bytes(&self, bytes: usize) -> bool {
        let (fits, cut) = self.shared.room().set_bytes(self.share, bytes, Instant::now());
        self.shared.counters.cut(cut);
        fits
    }

    /// Bytes that are charged beside the body.
    fn base(&self) -> usize {
        self.base.load(Ordering::Relaxed)
    }

    /// Frees the memory of the head before the body has come.
    pub(super) fn free_head(&self) {
        self.base.store(BASE, Ordering::Relaxed);
        self.set_bytes(BASE);
    }

    /// Charges the answer, and prepares it for sending.
    pub(super) fn answers(self: Arc<Self>, answer: HttpResponse) -> http::Response<ResponseBody> {
        let size = answer.body().len();
        let answer = if self.set_bytes(self.base() + size) { answer } else { too_much() };
        let success = answer.status().is_success();
        let leaves = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
        self.switched.store(leaves, Ordering::Relaxed);
        if let Some(heads) = self.heads.as_ref().filter(|_| leaves) {
            // Bytes from now on are not part of a head.
            heads.begins();
        }
        self.phase.store(Phase::Leaving as u8, Ordering::Relaxed);
        // If the client does not read the answer, the whole connection is closed: nothing else frees its
        // memory.
        self.shared.room().leaves(self.share, Arc::clone(&self.admitted.leave));
        self.shared.connections().answers(self.admitted.id, self.share, success, Instant::now());
        answer.map(|bytes| ResponseBody { bytes, turn: Some(self) })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let works = self.phase.load(Ordering::Relaxed) == Phase::Working as u8;
        self.shared.room().end(self.share);
        self.shared.connections().end_request(self.admitted.id, self.share, works, Instant::now());
        if let Some(heads) = &self.heads {
            heads.ends();
        }
    }
}

/// Body of a request.
pub struct Body {
    pub(super) incoming: Incoming,
    pub(super) turn: Arc<Turn>,
    pub(super) patience: Duration,
}

/// A complete body. Its memory is released on drop, even if its request continues.
pub struct Whole {
    bytes: Vec<u8>,
    turn: Arc<Turn>,
    large: Option<OwnedSemaphorePermit>,
}

impl Whole {
    /// True if processing takes long and should not block a thread that others need.
    pub fn is_large(&self) -> bool {
        self.large.is_some()
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        self.bytes = Vec::new();
        self.turn.set_bytes(self.turn.base());
    }
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body {
    /// Streams the body, whatever its length. A client that sends nothing for `silence` has broken off.
    /// Meanwhile its connection counts as working: it is not closed in favour of others.
    pub fn pieces(self, waits_for_continue: bool, silence: Duration) -> Pieces {
        Pieces::new(self.incoming, waits_for_continue, silence)
    }

    /// Reads the complete body, at most `most` bytes. An error is the answer to a refused body.
    pub async fn whole(mut self, most: usize) -> Result<Whole, HttpResponse> {
        let turn = Arc::clone(&self.turn);
        turn.enters(Phase::Arriving);
        turn.shared.connections().mark_waiting(turn.admitted.id, Instant::now());
        let came = tokio::select! {
            came = tokio::time::timeout(self.patience, self.collect(most)) => came,
            () = turn.cut.notified() => Ok(Err(too_much())),
        };
        turn.shared.connections().works(turn.admitted.id, Instant::now());
        let goes_on = turn.enters(Phase::Working);
        match came {
            Ok(Ok(_)) if !goes_on => Err(too_much()),
            Ok(Ok((bytes, large))) => Ok(Whole { bytes, turn, large }),
            Ok(Err(answer)) => Err(answer),
            Err(_) => {
                let why = format!("the body did not come within {:?}", self.patience);
                Err(plain(StatusCode::REQUEST_TIMEOUT, &why))
            }
        }
    }

    async fn collect(
        &mut self,
        most: usize,
    ) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), HttpResponse> {
        let too_large =
            || plain(StatusCode::PAYLOAD_TOO_LARGE, &format!("a body has at most {} KiB", most >> 10));
        let announced = self.incoming.size_hint().exact().and_then(|size| usize::try_from(size).ok());
        if announced.is_some_and(|size| size > most) {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        while let Some(frame) = self.incoming.frame().await {
            let Ok(frame) = frame else {
                return Err(plain(
                    StatusCode::BAD_REQUEST,
                    "the connection broke before the end of the body",
                ));
            };
            let Ok(data) = frame.into_data() else { continue };
            let size = bytes.len().saturating_add(data.len());
            if size > most {
                return Err(too_large());
            }
            if size > bytes.capacity() {
                // The buffer doubles each time, so that each byte moves only a few times. It is charged
                // before it is allocated.
                let next = size.next_power_of_two().min(announced.unwrap_or(most)).max(size);
                if !self.turn.set_bytes(self.turn.base() + next) {
                    return Err(too_much());
                }
                bytes.reserve_exact(next - bytes.len());
            }
            bytes.extend_from_slice(&data);
        }
        let large = match bytes.len() {
            LARGE.. => Arc::clone(&self.turn.shared.large).acquire_owned().await.ok(),
            _ => None,
        };
        Ok((bytes, large))
    }
}

fn too_much() -> HttpResponse {
    busy(StatusCode::SERVICE_UNAVAILABLE, "the server has no memory for further requests; try again")
}

/// Body of an answer that is being sent.
pub(super) struct ResponseBody {
    bytes: Bytes,
    turn: Option<Arc<Turn>>,
}

impl ResponseBody {
    /// The answer to a request without memory: `answer`, or a refusal that asks to try again.
    pub(super) fn without_memory(answer: Option<HttpResponse>) -> http::Response<ResponseBody> {
        answer.unwrap_or_else(too_much).map(|bytes| ResponseBody { bytes, turn: None })
    }
}

impl hyper::body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let size = self.bytes.len().min(PIECE);
        if size == 0 {
            self.turn = None;
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(self.bytes.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}
