//! What the guest agent says, and what is asked of it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the guest agent says of the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuestInfo {
    /// The guest agent's version.
    #[serde(default)]
    pub agent_version: Option<String>,
    /// The guest's name of itself.
    #[serde(default)]
    pub hostname: Option<String>,
    /// What system it runs, in the guest agent's fields.
    #[serde(default)]
    pub os: BTreeMap<String, String>,
    /// Its zone, like `UTC`.
    #[serde(default)]
    pub timezone: Option<String>,
    /// Its interfaces.
    #[serde(default)]
    pub interfaces: Vec<GuestInterface>,
    /// Commands that the guest agent knows.
    #[serde(default)]
    pub commands: Vec<GuestCommand>,
    /// How busy it is; nothing where the guest agent does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<GuestLoad>,
}

/// Load averages of a guest: processes that run or wait for a processor or a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GuestLoad {
    pub load1m: Option<f64>,
    pub load5m: Option<f64>,
    pub load15m: Option<f64>,
}

/// A command of the guest agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestCommand {
    /// Its name.
    pub name: String,
    /// Whether the guest permits it.
    #[serde(default)]
    pub enabled: bool,
}

/// An interface as the guest sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestInterface {
    /// Its name in the guest.
    pub name: String,
    /// Its address.
    #[serde(default)]
    pub mac: Option<String>,
    /// Its IP addresses.
    #[serde(default)]
    pub ips: Vec<String>,
}

/// Someone who is logged in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuestUser {
    /// The name.
    pub name: String,
    /// The domain, on Windows.
    #[serde(default)]
    pub domain: Option<String>,
    /// Since when, in seconds since 1970.
    #[serde(default)]
    pub login_time: Option<f64>,
}

/// A file system that the guest has mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuestFilesystem {
    /// The device.
    pub name: String,
    /// Where it is mounted.
    pub mountpoint: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// In bytes.
    #[serde(default)]
    pub used_bytes: Option<u64>,
    /// In bytes.
    #[serde(default)]
    pub total_bytes: Option<u64>,
}

/// The longest time until file systems thaw by themselves.
pub const LONGEST_FREEZE: Duration = Duration::from_secs(3600);

/// A freeze of the guest's file systems.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Freeze {
    /// Milliseconds after which the launcher thaws them by itself, [`LONGEST_FREEZE`] at most. Unset or 0: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thaw_after_ms: Option<u64>,
}

/// A program for the guest agent to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// What it reads.
    #[serde(default)]
    pub input: Option<String>,
    /// How long to wait for it, in seconds.
    #[serde(default)]
    pub timeout: Option<u64>,
}

/// What became of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Executed {
    /// Its exit code; for one that was killed, 128 and the signal.
    pub exit_code: i32,
    /// What it wrote.
    pub stdout: String,
    /// What it complained.
    pub stderr: String,
}
