//! Debian's Prometheus on a free loopback port, with a folder of its own, stopped on drop; and its promtool.

use crate::coracle::Ran;
use crate::port::{free_port, listens};
use serde_json::{Value, json};
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running Prometheus.
#[derive(Debug)]
pub struct Prometheus {
    process: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Prometheus {
    /// Starts it with these scrapes (`scrape_configs`), and these groups of rules. It looks each second.
    pub fn start(scrapes: &Value, groups: &Value) -> Prometheus {
        let folder = tempfile::Builder::new().prefix("prometheus-").tempdir().expect("a temporary folder");
        // Its settings are YAML, which JSON is.
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": scrapes,
        });
        fs::write(folder.path().join("prometheus.yml"), config.to_string()).expect("settings");
        fs::write(folder.path().join("rules.yml"), json!({"groups": groups}).to_string()).expect("rules");
        for _ in 0..10 {
            let port = free_port();
            let mut process = spawn(folder.path(), port);
            if listens(&mut process, Ipv4Addr::LOCALHOST, port) && is_ready(port) {
                return Prometheus { process, port, folder };
            }
            // Somebody else was quicker at the port.
            let _ = (process.kill(), process.wait());
        }
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        panic!("prometheus does not start: {log}");
    }

    /// The answer to a query: its series, or what is wrong with it.
    pub fn ask(&self, query: &str) -> Result<Vec<Value>, String> {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-m", "20", "--get", "--data-urlencode", &format!("query={query}")]);
        let done = curl.arg(format!("http://127.0.0.1:{}/api/v1/query", self.port)).output().expect("curl");
        let answer: Value = serde_json::from_slice(&done.stdout).map_err(|e| e.to_string())?;
        match answer["data"]["result"].as_array() {
            Some(series) if answer["status"] == "success" => Ok(series.clone()),
            _ => Err(answer.to_string()),
        }
    }

    /// What it has written about itself.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = (self.process.kill(), self.process.wait());
    }
}

fn spawn(folder: &Path, port: u16) -> Child {
    let log = fs::File::create(folder.join("log")).expect("a log");
    let mut command = Command::new("prometheus");
    command.current_dir(folder).args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("prometheus is installed: make setup")
}

/// It listens before it answers.
fn is_ready(port: u16) -> bool {
    let url = format!("http://127.0.0.1:{port}/-/ready");
    let wait = ["-sf", "-m", "5", "--retry", "60", "--retry-delay", "1", "--retry-all-errors"];
    Command::new("curl").args(wait).arg(url).output().is_ok_and(|done| done.status.success())
}

/// `promtool WORDS FILE`, with this content in the file, and others of these names beside it.
pub fn promtool(words: &[&str], content: &Value, beside: &[(&str, &Value)]) -> Ran {
    let folder = tempfile::Builder::new().prefix("promtool-").tempdir().expect("a temporary folder");
    fs::write(folder.path().join("file.yml"), content.to_string()).expect("a file");
    for (name, content) in beside {
        fs::write(folder.path().join(name), content.to_string()).expect("a file");
    }
    let mut command = Command::new("promtool");
    command.current_dir(folder.path()).args(words).arg("file.yml").stdin(Stdio::null());
    Ran::of(command.output().expect("promtool is installed: make setup"))
}
