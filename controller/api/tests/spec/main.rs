//! The objects and the check, held against `inventory.txt`, a list of fields that does not come from this code.

mod base;
mod inventory;
mod judged;
mod known;
mod messages;
