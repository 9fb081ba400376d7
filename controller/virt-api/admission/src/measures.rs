//! Metrics of virt-api: reviews and their durations, its own requests, its certificate.
//!
//! Upstream has no metrics of admission: these two names are our own.

use super::live::Live;
use super::rules::{AdmissionResponse, Operation, Request};
use cluster_client::metrics::{ANSWERS, Histograms, Page};
use cluster_model::webhooks::Webhook;
use serve::health::Ask;
use serve::transport::{Transport, connection_metrics};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc::Receiver;

/// Durations of answers, of this process.
static JUDGED: Mutex<Histograms> = Mutex::new(Histograms::new(ANSWERS));

/// Number of admitted new VMs, by namespace, of this process.
static CREATED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Records the answer of a webhook, or its absence.
pub(crate) fn judged(hook: &Webhook, request: &Request, answer: Option<&AdmissionResponse>, began: Instant) {
    let operation = match request.operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    };
    let result = match answer {
        Some(answer) if answer.is_yes() => "allowed",
        Some(_) => "refused",
        None => "failed",
    };
    if is_created(hook, request) && result == "allowed" {
        let mut created = CREATED.lock().unwrap_or_else(PoisonError::into_inner);
        *created.entry(request.namespace.clone()).or_default() += 1;
    }
    let labels = [("webhook", hook.name), ("operation", operation), ("result", result)];
    let labels = labels.map(|(key, value)| (key, value.to_owned())).to_vec();
    JUDGED.lock().unwrap_or_else(PoisonError::into_inner).took(labels, began.elapsed().as_secs_f64());
}

/// True for the last webhook call about a new VM that is stored.
fn is_created(hook: &Webhook, request: &Request) -> bool {
    let is_last = hook.name == "virtualmachine-validator.kubevirt.io";
    is_last && request.operation == Operation::Create && !request.dry_run
}

/// Serves requests for the metrics page, for ever.
pub(crate) async fn tell(live: Arc<Live>, transport: Arc<Transport>, mut asked: Receiver<Ask>) {
    while let Some(tell) = asked.recv().await {
        // The receiver may be gone.
        let _ = tell.send(page(&live, &transport));
    }
}

fn page(live: &Live, transport: &Transport) -> String {
    let mut page = Page::default();
    let ready = if live.is_ready() { 1.0 } else { 0.0 };
    page.family("kubevirt_virt_api_ready_status").sample(&[], ready);
    page.requests();
    let all = JUDGED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    page.histogram("kubevirt_virt_api_admission_duration_seconds", &all);
    let created = CREATED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut family = page.family("kubevirt_vm_created_by_pod_total");
    for (namespace, count) in &created {
        family.sample(&[("namespace", namespace)], *count as f64);
    }
    subresources::sessions::write(&mut page);
    connections(&mut page, transport);
    if let Some(until) = live.shown.until() {
        page.family("kubevirt_virt_api_certificate_expiration_timestamp_seconds")
            .sample(&[], until.as_second() as f64);
    }
    page.text()
}

/// Metrics of connections, open and closed ones.
fn connections(page: &mut Page, transport: &Transport) {
    let is = transport.counts();
    let (open, ended) = ("kubevirt_virt_api_connections", "kubevirt_virt_api_connections_ended_total");
    connection_metrics(&is, page, open, ended);
    page.family("kubevirt_virt_api_requests_bytes").sample(&[], is.held as f64);
    page.family("kubevirt_virt_api_connections_total").sample(&[], is.taken as f64);
    page.family("kubevirt_virt_api_requests_cut_total").sample(&[], is.cut as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::fault::{Fault, Reason};
    use serve::transport::Limits;

    #[test]
    fn it_tells_what_it_was_asked() {
        let hook = Webhook::find_by_path("/virtualmachinereplicaset-validate").unwrap();
        let request = Request { operation: Operation::Delete, ..Request::default() };
        let refusal = AdmissionResponse::no(vec![Fault::new("spec", Reason::Invalid, "no")]);
        for answer in [Some(&refusal), Some(&AdmissionResponse::yes()), None, None] {
            judged(hook, &request, answer, Instant::now());
        }
        let live = Live::new("kubevirt", Arc::default());
        let text = page(&live, &Transport::new(Limits::of_program()));
        for (result, count) in [("refused", 1), ("allowed", 1), ("failed", 2)] {
            let line = format!(
                "kubevirt_virt_api_admission_duration_seconds_count{{webhook=\"virtualmachinereplicaset-validator.kubevirt.io\",\
                 operation=\"DELETE\",result=\"{result}\"}} {count}"
            );
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(text.contains("\nkubevirt_virt_api_ready_status 0\n"), "{text}");
        assert!(text.contains("\nkubevirt_virt_api_connections 0\n"), "{text}");
        assert!(!text.contains("certificate"), "there is none yet");
    }
}
