//! The inputs of the fuzz targets in `launcher/fuzz/seeds`: seeds, and every input that once failed.

// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used)]

#[path = "../fuzz/src/agent.rs"]
mod agent;
#[path = "../fuzz/src/console.rs"]
mod console;
#[path = "../fuzz/src/dhcp.rs"]
mod dhcp;
#[path = "../fuzz/src/dhcp6.rs"]
mod dhcp6;
#[path = "../fuzz/src/screen.rs"]
mod screen;
#[path = "../fuzz/src/server.rs"]
mod server;
#[path = "../fuzz/src/tasks.rs"]
mod tasks;

use ::tests::seeds::all_hold;
use std::path::{Path, PathBuf};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target)
}

#[test]
fn seeds_of_agent_pass() {
    all_hold(&folder("agent"), 6, agent::agent);
}

#[test]
fn seeds_of_console_pass() {
    all_hold(&folder("console"), 6, console::console);
}

#[test]
fn seeds_of_dhcp_pass() {
    all_hold(&folder("dhcp"), 5, dhcp::dhcp);
}

#[test]
fn seeds_of_dhcp6_pass() {
    all_hold(&folder("dhcp6"), 5, dhcp6::dhcp6);
}

#[test]
fn seeds_of_screen_pass() {
    all_hold(&folder("screen"), 5, screen::screen);
}

#[test]
fn seeds_of_server_pass() {
    all_hold(&folder("server"), 10, server::server);
}
