//! Headless Chromium, driven by its DevTools protocol.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

/// Timeout, longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page, ended on drop.
pub(crate) struct Browser {
    child: Child,
    socket: WebSocket<TcpStream>,
    session: String,
    next: u64,
    /// Violations of the page's policy, exceptions, and requests.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// A new browser; `None`, with a message, if none is installed.
    pub(crate) fn start() -> Option<Browser> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let Some(program) =
            std::env::split_paths(&path).map(|at| at.join("chromium")).find(|at| at.is_file())
        else {
            eprintln!("skipped: chromium is not installed");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.arg("--headless=new").arg("--remote-debugging-port=0").arg("--no-first-run");
        command.args(["--disable-gpu", "--disable-extensions", "--disable-background-networking"]);
        command.args([
            "--disable-component-update",
            "--disable-dev-shm-usage",
            "--disable-sync",
            "--mute-audio",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        // Chromium's sandbox does not work as root; the page here is our own.
        if rustix::process::geteuid().is_root() {
            command.arg("--no-sandbox");
        }
        command.env("HOME", profile.path()).arg("about:blank");
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("chromium tells where it listens").unwrap();
            if let Some((_, address)) = line.split_once("DevTools listening on ") {
                break address.trim().to_owned();
            }
        };
        // Later output must be read, or the browser would block.
        std::thread::spawn(move || lines.for_each(drop));
        let host = address.split('/').nth(2).unwrap().to_owned();
        let stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = tungstenite::client(address.as_str(), stream).unwrap();
        let mut browser =
            Browser { child, socket, session: String::new(), next: 0, events: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", &json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser.call("Emulation.setFocusEmulationEnabled", &json!({"enabled": true}));
        Some(browser)
    }

    /// Sends a command to the browser, and waits for its result.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.ask(method, parameters).unwrap_or_else(|e| panic!("{method}: {e}"))
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Result<Value, String> {
        self.next += 1;
        let mut call = json!({"id": self.next, "method": method, "params": parameters});
        if !self.session.is_empty() {
            call["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::Text(call.to_string().into())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let said: Value = serde_json::from_str(&text).unwrap();
            if said["id"] == self.next {
                return match said["error"].is_null() {
                    true => Ok(said["result"].clone()),
                    false => Err(said["error"].to_string()),
                };
            }
            if said["method"].is_string() {
                self.events.push(said);
            }
        }
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        self.evaluated(expression).unwrap_or_else(|e| panic!("{expression}: {e}"))
    }

    #[track_caller]
    fn evaluated(&mut self, expression: &str) -> Result<Value, String> {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true});
        let result = self.ask("Runtime.evaluate", &parameters)?;
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        Ok(result["result"]["value"].clone())
    }

    #[track_caller]
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let expression = format!("document.querySelector({selector:?})?.innerText ?? ''");
        self.value(&expression).as_str().unwrap().to_owned()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn until(&mut self, expression: &str) {
        let begun = Instant::now();
        // A page that is being left, like the one with the token, has no values; the next one has.
        let is_gone = |e: &str| e.contains("navigated") || e.contains("context");
        loop {
            match self.evaluated(expression) {
                Ok(Value::Bool(true)) => return,
                Err(e) if !is_gone(&e) => panic!("{expression}: {e}"),
                _ => {}
            }
            if begun.elapsed() > PATIENCE {
                let body = self.value("document.body.innerText");
                panic!("not so within {PATIENCE:?}: {expression}\n{body}\n{:?}", self.complaints());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until an element contains this text.
    #[track_caller]
    pub(crate) fn says(&mut self, selector: &str, text: &str) {
        self.until(&format!(
            "[...document.querySelectorAll({selector:?})].some((e) => e.innerText.includes({text:?}))"
        ));
    }

    #[track_caller]
    pub(crate) fn open(&mut self, address: &str) {
        self.call("Page.navigate", &json!({"url": address}));
    }

    /// Clicks in the middle of an element.
    #[track_caller]
    pub(crate) fn click(&mut self, selector: &str) {
        let place = self.middle(selector);
        for kind in ["mousePressed", "mouseReleased"] {
            let at = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", &at);
        }
    }

    /// Drops a file of this computer on an element.
    #[track_caller]
    pub(crate) fn drops(&mut self, selector: &str, file: &Path) {
        let place = self.middle(selector);
        let data = json!({"items": [], "files": [file.display().to_string()], "dragOperationsMask": 1});
        for kind in ["dragEnter", "dragOver", "drop"] {
            let event = json!({"type": kind, "x": place[0], "y": place[1], "data": data});
            self.call("Input.dispatchDragEvent", &event);
        }
    }

    /// Chooses a file of this computer in the dialog that an `<input>` would open.
    #[track_caller]
    pub(crate) fn chooses(&mut self, selector: &str, file: &Path) {
        let found = self.call(
            "Runtime.evaluate",
            &json!({"expression": format!("document.querySelector({selector:?})")}),
        );
        let object = &found["result"]["objectId"];
        let files = json!({"files": [file.display().to_string()], "objectId": object});
        self.call("DOM.setFileInputFiles", &files);
    }

    /// Turns the wheel over an element.
    #[track_caller]
    pub(crate) fn wheel(&mut self, selector: &str, down: i32) {
        let place = self.middle(selector);
        let turn = json!({"type": "mouseWheel", "x": place[0], "y": place[1], "deltaX": 0, "deltaY": down});
        self.call("Input.dispatchMouseEvent", &turn);
    }

    /// The middle of an element, once it is shown.
    #[track_caller]
    fn middle(&mut self, selector: &str) -> Value {
        self.until(&format!("!!document.querySelector({selector:?})?.getClientRects().length"));
        self.value(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center'}}); \
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] }})()"
        ))
    }

    /// Presses a key that has a name and a code; `text` is what it types.
    pub(crate) fn key(&mut self, key: &str, code: &str, number: u32, modifiers: u32, text: &str) {
        let mut press = json!({
            "type": if text.is_empty() { "rawKeyDown" } else { "keyDown" }, "key": key, "code": code,
            "windowsVirtualKeyCode": number, "modifiers": modifiers,
        });
        if !text.is_empty() {
            press["text"] = json!(text);
        }
        self.call("Input.dispatchKeyEvent", &press);
        press["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", &press);
    }

    /// Types letters and Enter.
    pub(crate) fn types(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '\n' => self.key("Enter", "Enter", 13, 0, "\r"),
                _ => {
                    let number = u32::from(letter.to_ascii_uppercase());
                    let code = format!("Key{}", letter.to_ascii_uppercase());
                    self.key(&letter.to_string(), &code, number, 0, &letter.to_string());
                }
            }
        }
    }

    /// Sets the size of the page, and whether it is a phone's.
    pub(crate) fn size(&mut self, width: u32, height: u32, phone: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        self.call("Emulation.setTouchEmulationEnabled", &json!({"enabled": phone}));
    }

    /// Sets the colour scheme that the user prefers: `light` or `dark`.
    pub(crate) fn prefers(&mut self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", &features);
    }

    /// Saves a picture of the page.
    pub(crate) fn picture(&mut self, name: &str) {
        let data = self.call("Page.captureScreenshot", &json!({"format": "png"}))["data"].clone();
        let folder = pictures();
        std::fs::create_dir_all(&folder).unwrap();
        let bytes = BASE64_STANDARD.decode(data.as_str().unwrap()).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }

    /// Faults of the page: exceptions, and violations of its policy.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        let is_one = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => {
                let entry = &event["params"]["entry"];
                // A refused request is shown to the user, and is not a fault.
                entry["level"] == "error" && entry["source"] != "network"
            }
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            _ => false,
        };
        self.events.iter().filter(is_one).map(|event| event["params"].to_string()).collect()
    }

    /// URLs that the page requested.
    pub(crate) fn requests(&mut self) -> Vec<String> {
        let asked = |event: &Value| match event["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                event["params"]["request"]["url"].as_str().map(str::to_owned)
            }
            Some("Network.webSocketCreated") => event["params"]["url"].as_str().map(str::to_owned),
            _ => None,
        };
        self.events.iter().filter_map(asked).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Folder of the pictures.
pub(crate) fn pictures() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target")).join("page")
}
