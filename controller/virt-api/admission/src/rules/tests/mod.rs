//! Tables of requests and their answers.

mod base;
mod cdi;
mod documents;
mod eviction;
mod manifests;
mod messages;
mod migration;
mod migration_policy;
mod others;
mod sizes;
mod vm;
mod vmi;
