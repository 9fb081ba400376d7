//! The kubelet's work for an upload pod: it mounts the Secret and the volume, starts the program with the
//! pod's arguments and environment, and reports the state of the container.

use crate::client::LONG;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_model::uploads::{CONTAINER, TLS_FOLDER};
use cluster_model::worker::{DISK, FOLDER};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) struct UploadPod {
    process: Child,
    folder: tempfile::TempDir,
    /// Address of the server, once it is printed.
    says: Receiver<SocketAddr>,
    log: Arc<Mutex<String>>,
}

/// Status of a pod whose container runs and answers its probe.
pub(crate) fn runs() -> Value {
    status("Running", "True", &json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}))
}

/// Status of a pod whose container ended well, with this message.
pub(crate) fn ended(message: &str) -> Value {
    let ended = json!({"exitCode": 0, "reason": "Completed", "message": message, "finishedAt": "2026-01-01T00:01:00Z"});
    status("Succeeded", "False", &json!({"terminated": ended}))
}

fn status(phase: &str, ready: &str, state: &Value) -> Value {
    json!({"status": {
        "phase": phase,
        "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": ready}],
        "containerStatuses": [{"name": CONTAINER, "ready": ready == "True", "state": state}],
    }})
}

impl UploadPod {
    /// Starts the one container of the pod; its paths lie in a folder.
    pub(crate) fn start(pod: &Value, secret: &Value) -> UploadPod {
        let folder = tempfile::tempdir().unwrap();
        let own = |path: &str| format!("{}{path}", folder.path().display());
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["name"], CONTAINER);
        for mount in container["volumeMounts"].as_array().unwrap() {
            std::fs::create_dir_all(own(mount["mountPath"].as_str().unwrap())).unwrap();
        }
        for (name, value) in secret["data"].as_object().unwrap() {
            let file = Path::new(&own(TLS_FOLDER)).join(name);
            std::fs::write(file, STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap();
        }
        // Beside the other programs: the workspace is built as a whole.
        let program = Path::new(env!("CARGO_BIN_EXE_cdi-uploadproxy")).with_file_name("cdi-worker");
        assert!(program.exists(), "{} is not built: build the whole workspace", program.display());
        let words = container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        let mut command = Command::new(program);
        command.args(words).args(["--listen", "127.0.0.1:0"]).env("TERMINATION_LOG", own("/termination-log"));
        for variable in container["env"].as_array().unwrap() {
            // A variable without a value is a limit, which is not set here.
            if let Some(value) = variable["value"].as_str() {
                let value = value.replace(DISK, &own(DISK));
                let value = if value.starts_with(TLS_FOLDER) { own(&value) } else { value };
                command.env(variable["name"].as_str().unwrap(), value);
            }
        }
        let mut process = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, says) = channel();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, kept) = (BufReader::new(process.stderr.take().unwrap()), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("serves https://") {
                    let _ = tell.send(rest.split('/').next().unwrap().parse().unwrap());
                }
                kept.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        UploadPod { process, folder, says, log }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.says.recv_timeout(LONG).unwrap_or_else(|e| panic!("it does not serve: {e}\n{}", self.log()))
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until it has ended, and reads its last words.
    pub(crate) fn ends(&mut self) -> String {
        let since = Instant::now();
        let code = loop {
            if let Some(code) = self.process.try_wait().unwrap() {
                break code;
            }
            assert!(since.elapsed() < LONG, "it does not end\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(code.success(), "{code}\n{}", self.log());
        std::fs::read_to_string(self.folder.path().join("termination-log")).unwrap()
    }

    /// The names in its volume, but for the mark that the work is done, and the disk.
    pub(crate) fn volume(&self) -> (Vec<String>, Vec<u8>) {
        let data = self.folder.path().join(FOLDER.trim_start_matches('/'));
        let names = std::fs::read_dir(&data).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let is_mark = |name: &String| name.starts_with(".cdi-") && name.ends_with(".done");
        let names = names.filter(|name| !is_mark(name)).collect();
        (names, std::fs::read(data.join("disk.img")).unwrap())
    }
}

impl Drop for UploadPod {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
