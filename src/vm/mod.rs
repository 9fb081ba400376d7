//! VMs on this computer, for whoever types `coracle run`: everything about them that is not a verb.
//!
//! ```text
//!  a manifest ──manifest/──► objects with lines ─┐
//!  a disk, an image ──bare──► objects ───────────┴─judge─► Machine ─resolve/─► Resolved
//!                                                                               │ start
//!     record ◄── vm.json, kept for every other verb ────────────────────────────┤
//!     launch ── starts virt-launcher, detached ◄────────────────────────────────┘
//!     apart  ── what is done with foreign bytes, in a confined process of its own
//!     confined ── what of all this is confined, for whoever asks by -v
//!     client ── what is said to it; console, terminal, relay: its streams
//!     steps  ── what `coracle test` does with a console; pure
//!     place  ── where all of this is kept; disks ── what came out of images, and goes when nobody needs it
//! ```

pub(crate) mod apart;
pub(crate) mod bare;
pub(crate) mod client;
pub(crate) mod confined;
pub(crate) mod console;
pub(crate) mod disks;
mod judge;
pub(crate) mod launch;
pub(crate) mod manifest;
pub(crate) mod place;
pub(crate) mod record;
pub(crate) mod relay;
pub(crate) mod resolve;
pub(crate) mod since;
pub(crate) mod start;
pub(crate) mod steps;
pub(crate) mod terminal;
pub(crate) mod transcript;
