//! What is answered: tables of what is asked.

mod base;
mod others;
mod vm;
mod vmi;
