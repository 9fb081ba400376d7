//! What virt-api measures: what it is asked and how long it takes to answer, its own requests, its certificate.
//!
//! The names that dashboards look for have no word for admission: these two are our own.

use super::live::Live;
use super::rules::{AdmissionResponse, Operation, Request};
use api_server::metrics::{ANSWERS, Histograms, Is, Page};
use kubernetes::webhooks::Webhook;
use serve::health::Ask;
use serve::transport::Transport;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc::Receiver;

/// How long each answer took, of this process.
static JUDGED: Mutex<Histograms> = Mutex::new(Histograms::of(ANSWERS));

/// A webhook has an answer, or none.
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
    let labels = [("webhook", hook.name), ("operation", operation), ("result", result)];
    let labels = labels.map(|(key, value)| (key, value.to_owned())).to_vec();
    JUDGED.lock().unwrap_or_else(PoisonError::into_inner).took(labels, began.elapsed().as_secs_f64());
}

/// Answers whoever asks for a page, for ever.
pub(crate) async fn tell(live: Arc<Live>, transport: Arc<Transport>, mut asked: Receiver<Ask>) {
    while let Some(tell) = asked.recv().await {
        // Whoever asked may be gone.
        let _ = tell.send(page(&live, &transport));
    }
}

fn page(live: &Live, transport: &Transport) -> String {
    let mut page = Page::default();
    let ready = if live.is_ready() { 1.0 } else { 0.0 };
    page.family("kubevirt_virt_api_ready_status", Is::Gauge, "This replica answers.").is(&[], ready);
    page.requests();
    let all = JUDGED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    page.histogram(
        "kubevirt_virt_api_admission_duration_seconds",
        "How long the answer to an admission review took.",
        &all,
    );
    connections(&mut page, transport);
    if let Some(until) = live.shown.until() {
        let name = "kubevirt_virt_api_certificate_expiration_timestamp_seconds";
        page.family(name, Is::Gauge, "When the certificate that is shown ends to hold.")
            .is(&[], until.as_second() as f64);
    }
    page.text()
}

/// Who comes, and who had to give way.
fn connections(page: &mut Page, transport: &Transport) {
    let is = transport.counts();
    is.tell(page, "kubevirt_virt_api");
    page.family("kubevirt_virt_api_requests_bytes", Is::Gauge, "Memory that requests and answers hold.")
        .is(&[], is.held as f64);
    page.family("kubevirt_virt_api_connections_total", Is::Counter, "Connections that came.")
        .is(&[], is.taken as f64);
    let cut = "Requests that were cut because others needed the memory.";
    page.family("kubevirt_virt_api_requests_cut_total", Is::Counter, cut).is(&[], is.cut as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::fault::{Fault, Reason};
    use serve::transport::Limits;

    #[test]
    fn it_tells_what_it_was_asked() {
        let hook = Webhook::at("/virtualmachinereplicaset-validate").unwrap();
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
