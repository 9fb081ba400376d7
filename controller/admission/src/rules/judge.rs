//! Who judges what a webhook asks.

use super::{Answer, Around, Operation, Request, instance, kubevirt, machine, replicaset, size};
use kubernetes::webhooks::{Question, Webhook};

/// The answer to a request that came to this webhook.
pub fn judge(webhook: &Webhook, request: &Request, around: &Around) -> Answer {
    if let Some(fault) = size::fault(request) {
        return Answer::no(vec![fault]);
    }
    match (webhook.question, request.operation) {
        (Question::FillVm, _) => machine::complete(request, around),
        (Question::FillVmi, Operation::Create) => instance::complete(request, around),
        (Question::FillVmi, _) => instance::restore(request, around),
        (Question::Vm, _) => machine::judge(request, around),
        (Question::NewVmi, _) => instance::create(request, around),
        (Question::ChangedVmi, _) => instance::update(request, around),
        (Question::ReplicaSet, _) => replicaset::judge(request, around),
        (Question::KubeVirt, _) => kubevirt::judge(request, around),
        (Question::KubeVirtRemoval, _) => kubevirt::deletion(request, around),
    }
}

/// It has to be known what is left before this can be answered.
pub fn asks_what_is_left(webhook: &Webhook, request: &Request) -> bool {
    webhook.counts && kubevirt::blocks(request)
}
