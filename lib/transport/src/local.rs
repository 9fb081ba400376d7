//! Server for a few clients on this computer. So many connections are open, and one more waits until another has
//! ended.

use crate::{Acceptor, Http1};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

/// Server with its limits.
#[derive(Clone, Copy, Debug)]
pub struct LocalServer {
    /// Most connections at once. Those that have left HTTP are not counted.
    pub connections: usize,
    /// Limits of each connection.
    pub http: Http1,
}

impl LocalServer {
    /// Answers until the future is dropped. `accept` accepts a connection, and `admit` decides whether its client
    /// may have it; its error is logged.
    pub async fn serve<S, T, A, H, F, B>(
        &self,
        accept: impl Fn() -> A,
        admit: impl Fn(&S) -> Result<(), String>,
        handler: H,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        A: Future<Output = io::Result<(S, T)>>,
        H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let slots = Arc::new(Semaphore::new(self.connections));
        let mut acceptor = Acceptor::default();
        // The semaphore is never closed.
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            let (stream, _) = acceptor.next(&accept, || ()).await;
            if let Err(why) = admit(&stream) {
                tracing::warn!("{why}");
                continue;
            }
            let handler = handler.clone();
            let service = service_fn(move |request| {
                let answer = handler(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let connection = self.http.builder().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move {
                // A client that disconnects in the middle is not an error of the server.
                if let Err(e) = connection.with_upgrades().await {
                    tracing::debug!("a client: {e}");
                }
                drop(slot);
            });
        }
    }
}

#[cfg(test)]
mod tests;
