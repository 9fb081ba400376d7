//! Metrics of cdi-uploadproxy: running uploads, results, bytes, connections, requests to the API server.

use cluster_client::metrics::Page;
use http::StatusCode;
use serve::health::Ask;
use serve::transport::{Transport, connection_metrics};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::Receiver;

/// Counters of uploads, which the page of metrics reads.
#[derive(Debug, Default)]
pub(crate) struct Measures(Mutex<Counters>);

#[derive(Debug, Default)]
struct Counters {
    /// Number of finished uploads by HTTP status; 0 if the client broke off.
    ended: BTreeMap<u16, u64>,
    /// Bytes that finished uploads passed on.
    bytes: u64,
    /// Bytes passed on by each running upload, by upload ID.
    running: BTreeMap<u64, Arc<AtomicU64>>,
    next: u64,
}

/// A running upload. It counts as broken off by the client if dropped before `ends`.
pub(crate) struct Running<'a> {
    measures: &'a Measures,
    id: u64,
    status: u16,
}

impl<'a> Running<'a> {
    pub(crate) fn begin(measures: &'a Measures, passed: Arc<AtomicU64>) -> Running<'a> {
        let mut counted = measures.counted();
        counted.next += 1;
        let id = counted.next;
        counted.running.insert(id, passed);
        Running { measures, id, status: 0 }
    }

    pub(crate) fn finish(mut self, status: StatusCode) {
        self.status = status.as_u16();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut counted = self.measures.counted();
        if let Some(passed) = counted.running.remove(&self.id) {
            counted.bytes = counted.bytes.saturating_add(passed.load(Ordering::Relaxed));
        }
        *counted.ended.entry(self.status).or_default() += 1;
    }
}

impl Measures {
    fn counted(&self) -> std::sync::MutexGuard<'_, Counters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn page(&self, transport: &Transport, is_ready: bool) -> String {
        let mut page = Page::default();
        let ready = if is_ready { 1.0 } else { 0.0 };
        page.family("kubevirt_cdi_upload_proxy_ready").sample(&[], ready);
        page.requests();
        {
            let counted = self.counted();
            let running: u64 = counted.running.values().map(|passed| passed.load(Ordering::Relaxed)).sum();
            page.family("kubevirt_cdi_upload_proxy_requests").sample(&[], counted.running.len() as f64);
            page.family("kubevirt_cdi_upload_proxy_bytes_total")
                .sample(&[], counted.bytes.saturating_add(running) as f64);
            let mut family = page.family("kubevirt_cdi_upload_proxy_requests_total");
            for (status, count) in &counted.ended {
                let code = if *status == 0 { "<broken off>".to_owned() } else { status.to_string() };
                family.sample(&[("code", &code)], *count as f64);
            }
        }
        let (open, ended) =
            ("kubevirt_cdi_upload_proxy_connections", "kubevirt_cdi_upload_proxy_connections_ended_total");
        connection_metrics(&transport.counts(), &mut page, open, ended);
        page.text()
    }
}

/// Renders the metrics page for each request from `asked`, until the channel is closed.
pub(crate) async fn tell(
    measures: Arc<Measures>,
    transport: Arc<Transport>,
    is_ready: impl Fn() -> bool,
    mut asked: Receiver<Ask>,
) {
    while let Some(tell) = asked.recv().await {
        // The requester may have gone meanwhile.
        let _ = tell.send(measures.page(&transport, is_ready()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serve::transport::Limits;

    #[test]
    fn an_upload_is_counted_while_it_runs_and_by_how_it_ended() {
        let (measures, transport) = (Measures::default(), Transport::new(Limits::of_program()));
        let (one, two) = (Arc::new(AtomicU64::new(5)), Arc::new(AtomicU64::new(7)));
        let (first, second) = (Running::begin(&measures, one), Running::begin(&measures, two));
        let has = |line: &str| {
            let page = measures.page(&transport, true);
            assert!(page.lines().any(|other| other == line), "{line}\n{page}");
        };
        has("kubevirt_cdi_upload_proxy_requests 2");
        has("kubevirt_cdi_upload_proxy_bytes_total 12");
        first.finish(StatusCode::OK);
        drop(second);
        has("kubevirt_cdi_upload_proxy_requests 0");
        has("kubevirt_cdi_upload_proxy_bytes_total 12");
        has("kubevirt_cdi_upload_proxy_requests_total{code=\"200\"} 1");
        has("kubevirt_cdi_upload_proxy_requests_total{code=\"<broken off>\"} 1");
    }
}
