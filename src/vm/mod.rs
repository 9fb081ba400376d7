//! Machines on this computer, for whoever types `coracle run`: everything about them that is not a verb.
//!
//! ```text
//!  manifest/   YAML ──► objects, each fault with file, line and field path
//!  place       where machines, disks and sockets are
//!  launch      finds and starts the program virt-launcher
//!  client      what is said to it
//!  console     the terminal joined to the serial console; terminal puts it back
//! ```

pub(crate) mod bare;
pub(crate) mod client;
pub(crate) mod console;
mod judge;
pub(crate) mod launch;
pub(crate) mod manifest;
pub(crate) mod place;
pub(crate) mod record;
pub(crate) mod resolve;
pub(crate) mod start;
pub(crate) mod terminal;
