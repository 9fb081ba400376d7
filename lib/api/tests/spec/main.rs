//! The objects and the check, held against `inventory.txt`, a list of fields that does not come from this code.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod accepts;
mod base;
mod chance;
mod crd;
mod defaults;
mod descriptions;
mod import;
mod inventory;
mod judged;
mod known;
mod messages;
mod parity;
mod settings;
mod status;
mod windows;
mod yaml;
