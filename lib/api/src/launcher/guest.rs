//! Reports of the guest agent, and requests to it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Report of the guest agent about the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuestInfo {
    #[serde(default)]
    pub agent_version: Option<String>,
    /// Host name of the guest.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Operating system of the guest, in the guest agent's fields.
    #[serde(default)]
    pub os: BTreeMap<String, String>,
    /// Time zone of the guest, like `UTC`.
    #[serde(default)]
    pub timezone: Option<String>,
    #[serde(default)]
    pub interfaces: Vec<GuestInterface>,
    /// Commands that the guest agent knows.
    #[serde(default)]
    pub commands: Vec<GuestCommand>,
    /// Load of the guest; `None` if the guest agent does not report it.
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
    pub name: String,
    /// Permitted by the configuration of the guest agent.
    #[serde(default)]
    pub enabled: bool,
}

/// An interface as the guest sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestInterface {
    /// Name in the guest.
    pub name: String,
    #[serde(default)]
    pub mac: Option<String>,
    #[serde(default)]
    pub ips: Vec<String>,
}

/// A user that is logged in to the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuestUser {
    pub name: String,
    /// Domain of the user, on Windows.
    #[serde(default)]
    pub domain: Option<String>,
    /// Login time in seconds since 1970.
    #[serde(default)]
    pub login_time: Option<f64>,
}

/// A file system that the guest has mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GuestFilesystem {
    /// Device in the guest.
    pub name: String,
    pub mountpoint: String,
    /// Type of the file system in the guest's words, such as `ext4`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub used_bytes: Option<u64>,
    #[serde(default)]
    pub total_bytes: Option<u64>,
}

/// Longest time until the launcher thaws file systems by itself.
pub const LONGEST_FREEZE: Duration = Duration::from_secs(3600);

/// A freeze of the guest's file systems.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Freeze {
    /// Milliseconds after which the launcher thaws the file systems by itself, [`LONGEST_FREEZE`] at most.
    /// Unset or 0: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thaw_after_ms: Option<u64>,
}

/// A program for the guest agent to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Path of the program in the guest.
    pub command: String,
    #[serde(default)]
    pub args: Vec<String>,
    /// Standard input of the program.
    #[serde(default)]
    pub input: Option<String>,
    /// Timeout in seconds. Unset: 60.
    #[serde(default)]
    pub timeout: Option<u64>,
}

/// A request to the guest agent about a file of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GuestFile {
    /// Open a file in a mode of fopen(3). A FIFO is opened for reading and writing: other modes block the guest agent.
    Open {
        path: String,
        mode: String,
    },
    /// Read from the position of an open file, at most 64 KiB.
    Read {
        handle: i64,
    },
    /// Write bytes, in base64, to an open file.
    Write {
        handle: i64,
        data: String,
    },
    /// Move the position of an open file to its beginning.
    Rewind {
        handle: i64,
    },
    Close {
        handle: i64,
    },
}

/// Answer to a [`GuestFile`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GuestFileAnswer {
    /// Number of the file that was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<i64>,
    /// Bytes that were read, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// Result of a program that ran in the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Executed {
    /// Exit code; 128 plus the signal if the program was killed.
    pub exit_code: i32,
    pub stdout: String,
    pub stderr: String,
}
