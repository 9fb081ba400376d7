//! The program under test, as a user runs it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The result of a run of the program.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; -1 for a signal.
    pub code: i32,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// The result of a program that has ended.
    pub fn of(output: Output) -> Self {
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts success.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.err);
        self
    }

    /// Asserts this exit code and this text in the error output.
    #[track_caller]
    pub fn refused(self, code: i32, said: &str) -> Self {
        assert_eq!(self.code, code, "{}", self.err);
        assert!(self.err.contains(said), "{:?} is not in: {}", said, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Standard output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out).expect("it printed JSON")
    }
}

/// Folders of the user's images, registry settings and logins. In a test all of them are below its folder.
const USERS_OWN: [&str; 13] = [
    "CORACLE_CONFINE",
    "CORACLE_STORE",
    "CORACLE_HOME",
    "CORACLE_LAUNCHER",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "DOCKER_CONFIG",
    "REGISTRY_AUTH_FILE",
    "CONTAINERS_REGISTRIES_CONF",
    "SOURCE_DATE_EPOCH",
];

/// Command for the program with these arguments in this folder, without the user's own settings.
pub fn command(program: &str, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).stdin(Stdio::null()).env("HOME", folder);
    for name in USERS_OWN {
        command.env_remove(name);
    }
    for name in
        ["RUST_LOG", "http_proxy", "https_proxy", "all_proxy", "CORACLE_HTTP_BEARER", "CORACLE_HTTP_PASSWORD"]
    {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    command
}

/// Runs a command to its end.
pub fn run(program: &str, folder: &Path, args: &[&str]) -> Ran {
    Ran::of(command(program, folder, args).output().expect("the program can be started"))
}
