//! What is answered: tables of what is asked.

mod base;
mod cdi;
mod documents;
mod eviction;
mod manifests;
mod messages;
mod others;
mod sizes;
mod vm;
mod vmi;
