//! Who judges what a webhook asks.

use super::{AdmissionResponse, Around, Operation, Request, eviction, kubevirt, replicaset, size, vm, vmi};
use kubernetes::webhooks::{Question, Webhook};

/// The answer to a request that came to this webhook.
pub fn judge(webhook: &Webhook, request: &Request, around: &Around) -> AdmissionResponse {
    if let Some(fault) = size::fault(request) {
        return AdmissionResponse::no(vec![fault]);
    }
    match (webhook.question, request.operation) {
        (Question::FillVm, _) => vm::complete(request, around),
        (Question::FillVmi, Operation::Create) => vmi::complete(request, around),
        (Question::FillVmi, _) => vmi::restore(request, around),
        (Question::Vm, _) => vm::judge(request, around),
        (Question::NewVmi, _) => vmi::create(request, around),
        (Question::ChangedVmi, _) => vmi::update(request, around),
        (Question::ReplicaSet, _) => replicaset::judge(request, around),
        (Question::KubeVirt, _) => kubevirt::judge(request, around),
        (Question::KubeVirtRemoval, _) => kubevirt::deletion(request, around),
        (Question::Eviction, _) => eviction::judge(request, around),
    }
}

/// It has to be known what is left before this can be answered.
pub fn asks_what_is_left(webhook: &Webhook, request: &Request) -> bool {
    webhook.counts && kubevirt::blocks(request)
}
