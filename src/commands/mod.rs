//! Verbs of the command: one file each, with its arguments and help texts.

pub(crate) mod build;
pub(crate) mod completions;
pub(crate) mod console;
pub(crate) mod convert;
pub(crate) mod copy;
mod disk;
pub(crate) mod guest;
pub(crate) mod host;
pub(crate) mod inspect;
pub(crate) mod logs;
pub(crate) mod manifests;
pub(crate) mod power;
pub(crate) mod ps;
pub(crate) mod pull;
pub(crate) mod push;
mod registry_args;
pub(crate) mod run;
mod source;
pub(crate) mod store;
pub(crate) mod test;
mod transfer;
pub(crate) mod ui;
pub(crate) mod verify;
pub(crate) mod virt;
mod vms;
pub(crate) mod vnc;
pub(crate) mod worker;
