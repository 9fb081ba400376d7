//! The fields of the objects, held against `inventory.txt`, a list that does not come from this code.

mod inventory;
mod known;
