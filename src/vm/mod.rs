//! VMs on this computer, for the verbs of `coracle run` and its kin; the verbs themselves are in `commands/`.
//!
//! ```text
//!  a manifest ──manifest/──► objects with lines ─┐
//!  a disk, an image ──from_image──► objects ─────┴─check─► Machine ─resolve/─► Resolved
//!                                                                               │ start
//!     record ◄── vm.json, kept for every other verb ────────────────────────────┤
//!     launch ── starts virt-launcher, detached ◄────────────────────────────────┘
//!     worker ── reads foreign bytes, in a confined process of its own
//!     confined ── logs the confinement of all these processes at -v
//!     client ── requests to the launcher; console, terminal, relay: its streams
//!     steps  ── the script of `coracle test` for a console; pure
//!     place  ── folders, sockets and locks; disks ── files unpacked of images, removed when no VM needs them
//! ```

mod check;
pub(crate) mod client;
pub(crate) mod confined;
pub(crate) mod console;
pub(crate) mod disks;
pub(crate) mod from_image;
pub(crate) mod launch;
pub(crate) mod manifest;
pub(crate) mod place;
pub(crate) mod record;
pub(crate) mod relative_time;
pub(crate) mod relay;
pub(crate) mod resolve;
pub(crate) mod start;
pub(crate) mod steps;
pub(crate) mod terminal;
pub(crate) mod transcript;
pub(crate) mod worker;
