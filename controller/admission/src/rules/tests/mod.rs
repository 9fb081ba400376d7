//! What is answered: tables of what is asked.

mod base;
mod instances;
mod machines;
mod others;
