//! Execution of a plan: producers make jobs, the engine turns them into guest bytes, a sink takes them.
//!
//! | file | content |
//! |---|---|
//! | `engine.rs` | the engine: threads, channels, order, marks |
//! | `tables.rs`, `stream.rs` | the two producers |
//! | `worker.rs` | a job's bytes become guest bytes |
//! | `sink.rs`, `front.rs`, `packed_qcow2.rs` | sinks of the guest bytes |
//! | `holes.rs` | raw disks whose holes are known |
//! | `two_passes.rs` | a qcow2 for targets that take bytes in order, from a disk that can be read twice |
//! | `scratch.rs` | an anonymous temporary disk, for targets that need another order |
//! | `pace.rs` | the times of marks |
//! | `job.rs`, `pool.rs`, `watermark.rs`, `sum.rs` | data types |
//! | `watch.rs` | state for other threads: progress, errors, interruption |
//!
//! All choices are made before, in [`crate::plan`].

#[cfg(test)]
mod confinement_tests;
pub(crate) mod engine;
pub(crate) mod front;
pub(crate) mod holes;
pub(crate) mod job;
#[cfg(test)]
mod mark_tests;
#[cfg(test)]
mod memory_targets;
#[cfg(test)]
mod on_write;
#[cfg(test)]
mod order_tests;
pub mod pace;
pub(crate) mod packed_qcow2;
mod pool;
pub(crate) mod scratch;
pub(crate) mod sink;
pub(crate) mod stream;
pub(crate) mod sum;
pub(crate) mod tables;
pub(crate) mod two_passes;
pub mod watch;
mod watermark;
mod worker;
