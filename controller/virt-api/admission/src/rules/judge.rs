//! Dispatch of a review to the rules of its webhook.

use super::{
    AdmissionResponse, Operation, Request, RequestContext, cdi, clone, eviction, instancetype, kubevirt,
    migration, migration_policy, pool, preset, replica_set, size, vm, vmi,
};
use cluster_model::webhooks::{Question, Webhook};

/// The answer to a request of this webhook.
pub fn judge(webhook: &Webhook, request: &Request, context: &RequestContext) -> AdmissionResponse {
    if let Some(fault) = size::fault(request) {
        return AdmissionResponse::no(vec![fault]);
    }
    match (webhook.question, request.operation) {
        (Question::FillVm, _) => vm::complete(request, context),
        (Question::FillVmi, Operation::Create) => vmi::complete(request, context),
        (Question::FillVmi, _) => vmi::restore(request, context),
        (Question::Vm, _) => vm::judge(request, context),
        (Question::NewVmi, _) => vmi::create(request, context),
        (Question::ChangedVmi, _) => vmi::update(request, context),
        (Question::FillMigration, _) => migration::complete(request),
        (Question::NewMigration, _) => migration::create(request, context),
        (Question::ChangedMigration, _) => migration::update(request),
        (Question::MigrationPolicy, _) => migration_policy::judge(request, context),
        (Question::ReplicaSet, _) => replica_set::judge(request, context),
        (Question::Preset, _) => preset::judge(request),
        (Question::Pool, _) => pool::judge(request, context),
        (Question::Instancetype, _) => instancetype::instancetype(request),
        (Question::Preference, _) => instancetype::preference(request),
        (Question::KubeVirt, _) => kubevirt::judge(request, context),
        (Question::KubeVirtRemoval, _) => kubevirt::deletion(request, context),
        (Question::Eviction, _) => eviction::judge(request, context),
        (Question::FillDataVolume, _) => clone::fill(request, context),
        (Question::FillClaim, _) => cdi::claim(request, context),
        (Question::Claim, _) => cdi::judge_claim(request),
        (Question::DataVolume, _) => cdi::data_volume(request),
        (Question::DataImportCron, _) => cdi::import_cron(request),
        (Question::Populator, _) => cdi::populator(request),
        (Question::ObjectTransfer, _) => cdi::object_transfer(request),
        (Question::CdiSettings, _) => cdi::settings(request),
        (Question::CdiRemoval, _) => cdi::deletion(request, context),
    }
}

/// True if the answer depends on remaining workloads.
pub fn needs_workloads(webhook: &Webhook, request: &Request) -> bool {
    let stays = match webhook.question {
        Question::CdiRemoval => cdi::blocks(request),
        _ => kubevirt::blocks(request),
    };
    webhook.counts && stays
}
