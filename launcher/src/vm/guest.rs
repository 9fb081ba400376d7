//! Requests to the guest agent: JSON commands of qemu-guest-agent, answers in our types.
//!
//! The guest writes the answers, so they are not trusted: every field may be missing or of another type,
//! texts are bounded, and a command that never ends is given up.

use crate::hypervisor::{Error, ErrorKind, Hypervisor, Result};
use api::launcher::{
    Exec, Executed, GuestCommand, GuestFile, GuestFileAnswer, GuestFilesystem, GuestInfo, GuestInterface,
    GuestLoad, GuestUser,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time limit of one command.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest command. libvirt writes one to a socket with a buffer of 208 KiB. Where a part of it has no room, libvirt 9.0
/// begins anew with its first byte, and the guest agent never sees its end.
const COMMAND: usize = 160 << 10;
/// Default time limit of a program.
const EXEC: Duration = Duration::from_secs(60);
/// Time limit of freezing file systems.
const FREEZE: Duration = Duration::from_secs(30);
/// Most bytes of a program's output that are passed on.
const OUTPUT: usize = 1 << 20;
/// Maximum size of an answer of the guest agent.
const ANSWER: usize = 1 << 20;
/// Longest answer with the output of a program: libvirt gives up at this length.
const ANSWER_OF_PROGRAM: usize = 10 << 20;
/// Most bytes of a file that are read at once.
const FILE_PIECE: usize = 64 << 10;
/// Most values in an answer: a parsed object takes 600 bytes of memory, and seven in the answer.
const VALUES: usize = 1 << 15;

/// Command that returns the guest's operating system.
const GET_SYSTEM: &str = "guest-get-osinfo";
/// Command that returns the guest's load.
const GET_LOAD: &str = "guest-get-load";
/// Command that adds SSH keys of a user.
const ADD_KEYS: &str = "guest-ssh-add-authorized-keys";
/// Shell command that replaces the keys of a user by its input, in one step.
const WRITE_KEYS: &str = "umask 077 && mkdir -p ~/.ssh && cat >~/.ssh/authorized_keys.new && \
    mv -f ~/.ssh/authorized_keys.new ~/.ssh/authorized_keys";

/// Most fields of the operating system that are passed on; an agent reports nine.
const OS: usize = 64;

/// Requests to the agent of one guest.
pub struct Guest<'a> {
    pub hypervisor: &'a dyn Hypervisor,
    /// Name of the domain.
    pub name: &'a str,
}

impl Guest<'_> {
    /// Succeeds if the agent answers.
    pub fn ping(&self) -> Result<()> {
        self.ask("guest-ping", None, PATIENCE).map(|_| ())
    }

    /// Data about the guest. Fields that an older agent does not know stay empty. While file systems are
    /// frozen all are empty: the guest agent then refuses nearly all commands.
    pub fn info(&self) -> Result<GuestInfo> {
        let about = self.ask("guest-info", None, PATIENCE)?;
        let commands: Vec<GuestCommand> =
            list(&about["supported_commands"]).iter().filter_map(command).collect();
        if commands.iter().any(|one| one.name == GET_SYSTEM && !one.enabled) && self.is_frozen() {
            let doing = format!("ask the guest agent in {} for facts", self.name);
            let why = "file systems of the guest are frozen: its guest agent answers again after the thaw";
            return Err(Error::new(ErrorKind::NotNow, doing, why));
        }
        let maybe = |command: &str| self.ask(command, None, PATIENCE).unwrap_or(Value::Null);
        let os = maybe(GET_SYSTEM);
        let text = |(key, value): (&String, &Value)| Some((short(key), string(value)?));
        Ok(GuestInfo {
            agent_version: string(&about["version"]),
            hostname: string(&maybe("guest-get-host-name")["host-name"]),
            os: os.as_object().into_iter().flatten().take(OS).filter_map(text).collect::<BTreeMap<_, _>>(),
            timezone: string(&maybe("guest-get-timezone")["zone"]),
            interfaces: list(&maybe("guest-network-get-interfaces")).iter().filter_map(interface).collect(),
            // Most guest agents do not have the command yet, and libvirt logs each refusal.
            load: commands
                .iter()
                .any(|one| one.name == GET_LOAD && one.enabled)
                .then(|| load(&maybe(GET_LOAD)))
                .flatten(),
            commands,
        })
    }

    /// Replaces the SSH keys of a user: other keys in `authorized_keys` are removed. Needs a guest agent of
    /// QEMU 5.2 or newer.
    pub fn set_keys(&self, user: &str, keys: &[String]) -> Result<()> {
        let arguments = json!({"username": user, "keys": keys, "reset": true});
        self.ask(ADD_KEYS, Some(arguments), PATIENCE).map(drop)
    }

    /// True if the guest agent has no command for keys, but may run programs: it is older than QEMU 5.2, or
    /// the command is disabled.
    pub fn writes_keys_by_program(&self) -> bool {
        let Ok(about) = self.ask("guest-info", None, PATIENCE) else { return false };
        let all: Vec<GuestCommand> = list(&about["supported_commands"]).iter().filter_map(command).collect();
        let has = |name: &str| all.iter().any(|one| one.name == name && one.enabled);
        !has(ADD_KEYS) && has("guest-exec") && has("guest-exec-status")
    }

    /// Replaces the SSH keys of a user by a program that runs as that user: root would follow a link of the
    /// user's.
    pub fn write_keys(&self, user: &str, keys: &[String]) -> Result<()> {
        let failed = |why: String| {
            let doing = format!("write the SSH keys of a user in {}", self.name);
            Error::new(ErrorKind::Failed, doing, why)
        };
        if user.starts_with('-') {
            return Err(failed("no user has such a name".to_owned()));
        }
        let input = keys.iter().map(|key| format!("{key}\n")).collect();
        let args = ["-s", "/bin/sh", "-c", WRITE_KEYS, user].map(str::to_owned).to_vec();
        let exec = Exec { command: "su".into(), args, input: Some(input), timeout: Some(30) };
        let done = self.exec(&exec)?;
        match done.exit_code {
            0 => Ok(()),
            code => Err(failed(format!(
                "exit code {code}: {}",
                done.stderr.chars().take(500).collect::<String>()
            ))),
        }
    }

    /// Sets the password of a user. No error repeats it, whatever the guest answers.
    pub fn set_password(&self, user: &str, password: &str) -> Result<()> {
        let encoded = STANDARD.encode(password);
        let arguments = json!({"username": user, "password": encoded, "crypted": false});
        let command = "guest-set-user-password";
        self.ask(command, Some(arguments), PATIENCE).map(drop).map_err(|error| {
            let said = error.to_string();
            match said.contains(password) || said.contains(&encoded) {
                true => {
                    let doing = format!("ask the guest agent in {} for {command}", self.name);
                    Error::new(error.kind(), doing, "its answer has the password in it, and is not repeated")
                }
                false => error,
            }
        })
    }

    /// True if the guest's file systems are frozen. An agent that does not know counts as not frozen.
    pub fn is_frozen(&self) -> bool {
        self.freeze_status() == Some(Freezing::Frozen)
    }

    /// State of the guest's file systems; `None` if the guest agent does not know it.
    pub fn freeze_status(&self) -> Option<Freezing> {
        match self.ask("guest-fsfreeze-status", None, PATIENCE).ok()?.as_str()? {
            "frozen" => Some(Freezing::Frozen),
            "thawed" => Some(Freezing::Thawed),
            _ => None,
        }
    }

    /// Users that are logged in.
    pub fn users(&self) -> Result<Vec<GuestUser>> {
        let answer = self.ask("guest-get-users", None, PATIENCE)?;
        let user = |user: &Value| {
            Some(GuestUser {
                name: string(&user["user"])?,
                domain: string(&user["domain"]),
                login_time: user["login-time"].as_f64(),
            })
        };
        Ok(list(&answer).iter().filter_map(user).collect())
    }

    /// File systems that are mounted in the guest.
    pub fn filesystems(&self) -> Result<Vec<GuestFilesystem>> {
        let answer = self.ask("guest-get-fsinfo", None, PATIENCE)?;
        let filesystem = |found: &Value| {
            Some(GuestFilesystem {
                name: string(&found["name"])?,
                mountpoint: string(&found["mountpoint"])?,
                kind: string(&found["type"]).unwrap_or_default(),
                used_bytes: found["used-bytes"].as_u64(),
                total_bytes: found["total-bytes"].as_u64(),
            })
        };
        Ok(list(&answer).iter().filter_map(filesystem).collect())
    }

    /// Freezes the guest's file systems. Returns their number.
    pub fn freeze(&self) -> Result<u64> {
        Ok(self.ask("guest-fsfreeze-freeze", None, FREEZE)?.as_u64().unwrap_or_default())
    }

    /// Thaws the guest's file systems. Returns their number.
    pub fn thaw(&self) -> Result<u64> {
        Ok(self.ask("guest-fsfreeze-thaw", None, FREEZE)?.as_u64().unwrap_or_default())
    }

    /// Runs a program and waits for it.
    pub fn exec(&self, exec: &Exec) -> Result<Executed> {
        let mut program = self.begin(exec)?;
        loop {
            match self.progress(&mut program)? {
                Progress::Done(done) => return Ok(done),
                Progress::Runs(pause) => std::thread::sleep(pause),
            }
        }
    }

    /// Starts a program in the guest.
    pub fn begin(&self, exec: &Exec) -> Result<Program> {
        let limit = exec.timeout.map_or(EXEC, Duration::from_secs);
        let mut arguments = json!({"path": exec.command, "arg": exec.args, "capture-output": true});
        if let Some(input) = &exec.input {
            arguments["input-data"] = STANDARD.encode(input).into();
        }
        let started = self.ask("guest-exec", Some(arguments), PATIENCE)?;
        let pid = started["pid"].as_i64().ok_or_else(|| self.nonsense("guest-exec"))?;
        let (command, began, pause) = (exec.command.clone(), Instant::now(), Duration::from_millis(10));
        Ok(Program { pid, command, began, limit, pause })
    }

    /// Asks whether a program has ended.
    pub fn progress(&self, program: &mut Program) -> Result<Progress> {
        let Program { pid, began, limit, pause, .. } = *program;
        let arguments = Some(json!({"pid": pid}));
        let status = self.ask_for("guest-exec-status", arguments, PATIENCE, ANSWER_OF_PROGRAM)?;
        if status["exited"].as_bool().unwrap_or_default() {
            return Ok(Progress::Done(executed(&status)));
        }
        let Some(left) = limit.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) else {
            let (command, limit) = (&program.command, limit.as_secs());
            let why = format!("'{command}' still runs after {limit} s; it goes on in the guest");
            return Err(Error::new(ErrorKind::TimedOut, format!("run a program in {}", self.name), why));
        };
        program.pause = (pause * 2).min(Duration::from_millis(500));
        Ok(Progress::Runs(pause.min(left)))
    }

    /// Carries out a request about a file of the guest.
    pub fn file(&self, request: &GuestFile) -> Result<GuestFileAnswer> {
        let ask = |command: &str, arguments: Value| self.ask(command, Some(arguments), PATIENCE);
        let mut answer = GuestFileAnswer::default();
        match request {
            GuestFile::Open { path, mode } => {
                let command = "guest-file-open";
                let handle = ask(command, json!({"path": path, "mode": mode}))?.as_i64();
                answer.handle = Some(handle.ok_or_else(|| self.nonsense(command))?);
            }
            GuestFile::Read { handle } => {
                let command = "guest-file-read";
                let read = ask(command, json!({"handle": handle, "count": FILE_PIECE}))?;
                answer.data =
                    Some(read["buf-b64"].as_str().ok_or_else(|| self.nonsense(command))?.to_owned());
            }
            GuestFile::Write { handle, data } => {
                ask("guest-file-write", json!({"handle": handle, "buf-b64": data}))?;
                // The guest agent keeps the bytes of a small write.
                ask("guest-file-flush", json!({"handle": handle}))?;
            }
            GuestFile::Rewind { handle } => {
                ask("guest-file-seek", json!({"handle": handle, "offset": 0, "whence": "set"}))?;
            }
            GuestFile::Close { handle } => {
                ask("guest-file-close", json!({"handle": handle}))?;
            }
        }
        Ok(answer)
    }

    fn ask(&self, command: &str, arguments: Option<Value>, patience: Duration) -> Result<Value> {
        self.ask_for(command, arguments, patience, ANSWER)
    }

    /// The answer to a command, of at most `most` bytes.
    fn ask_for(
        &self,
        command: &str,
        arguments: Option<Value>,
        patience: Duration,
        most: usize,
    ) -> Result<Value> {
        let mut question = json!({"execute": command});
        if let Some(arguments) = arguments {
            question["arguments"] = arguments;
        }
        let question = question.to_string();
        if question.len() > COMMAND {
            let doing = format!("ask the guest agent in {} for {command}", self.name);
            let why = format!("the command with its input is longer than {} KiB in JSON", COMMAND >> 10);
            return Err(Error::new(ErrorKind::Unsupported, doing, why));
        }
        let text = self.hypervisor.agent(self.name, &question, patience)?;
        self.check_bounds(command, &text, most)?;
        let mut answer: Value = serde_json::from_str(&text).map_err(|_| self.nonsense(command))?;
        if let Some(why) = answer["error"]["desc"].as_str() {
            let why = why.chars().take(500).collect::<String>();
            return Err(Error::new(
                ErrorKind::Failed,
                format!("ask the guest agent in {} for {command}", self.name),
                why,
            ));
        }
        // Reading a field of a value that is not an object is harmless, changing it is not.
        let result = answer.as_object_mut().and_then(|answer| answer.remove("return"));
        result.ok_or_else(|| self.nonsense(command))
    }

    /// Refuses a long answer before it is parsed: a parsed one is many times as large.
    fn check_bounds(&self, command: &str, text: &str, most: usize) -> Result<()> {
        let values = || text.bytes().filter(|byte| matches!(byte, b'{' | b'[' | b',')).count();
        let why = match text.len() {
            size if size > most => format!("its answer is longer than {} MiB", most >> 20),
            _ if values() > VALUES => format!("its answer has more than {VALUES} values"),
            _ => return Ok(()),
        };
        Err(Error::new(ErrorKind::Failed, format!("ask the guest agent in {} for {command}", self.name), why))
    }

    fn nonsense(&self, command: &str) -> Error {
        let doing = format!("ask the guest agent in {} for {command}", self.name);
        Error::new(ErrorKind::Failed, doing, "its answer is not understood")
    }
}

/// The state of a guest's file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freezing {
    Frozen,
    Thawed,
}

/// A program in the guest.
#[derive(Debug)]
pub struct Program {
    pid: i64,
    command: String,
    began: Instant,
    limit: Duration,
    /// Time until the next poll.
    pause: Duration,
}

/// State of a program.
#[derive(Debug)]
pub enum Progress {
    /// The program has ended.
    Done(Executed),
    /// The program runs; time until the next poll.
    Runs(Duration),
}

fn executed(status: &Value) -> Executed {
    let code = |value: &Value| value.as_i64().and_then(|code| i32::try_from(code).ok());
    let exit_code = match (code(&status["exitcode"]), code(&status["signal"])) {
        (_, Some(signal)) => signal.saturating_add(128),
        (Some(code), None) => code,
        (None, None) => -1,
    };
    let output = |data: &str, cut: &str| {
        let encoded = status[data].as_str().unwrap_or_default();
        // A little more than is passed on, so that a cut is noticed; in groups of four characters.
        let whole = encoded.get(..(OUTPUT / 3 + 1) * 4).unwrap_or(encoded);
        let bytes = STANDARD.decode(whole).unwrap_or_default();
        let whole = bytes.len() <= OUTPUT && !status[cut].as_bool().unwrap_or_default();
        let mut text = String::from_utf8_lossy(bytes.get(..OUTPUT).unwrap_or(&bytes)).into_owned();
        if !whole {
            text.push_str("\n[… the rest is cut off]\n");
        }
        text
    };
    Executed {
        exit_code,
        stdout: output("out-data", "out-truncated"),
        stderr: output("err-data", "err-truncated"),
    }
}

fn load(said: &Value) -> Option<GuestLoad> {
    let one = |name: &str| said[name].as_f64().filter(|load| load.is_finite() && *load >= 0.0);
    let load = GuestLoad { load1m: one("load1m"), load5m: one("load5m"), load15m: one("load15m") };
    (load != GuestLoad::default()).then_some(load)
}

fn interface(found: &Value) -> Option<GuestInterface> {
    let ips = list(&found["ip-addresses"]).iter().filter_map(|ip| string(&ip["ip-address"])).collect();
    Some(GuestInterface { name: string(&found["name"])?, mac: string(&found["hardware-address"]), ips })
}

fn command(found: &Value) -> Option<GuestCommand> {
    Some(GuestCommand { name: string(&found["name"])?, enabled: found["enabled"] == true })
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(short)
}

fn short(text: &str) -> String {
    text.chars().take(4096).collect()
}

/// The first 1,024 entries of a list.
fn list(value: &Value) -> &[Value] {
    let all = value.as_array().map(Vec::as_slice).unwrap_or_default();
    all.get(..1024).unwrap_or(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hypervisor::fake::Fake;

    fn with(answers: &[(&str, &str)]) -> Fake {
        let fake = Fake::default();
        for (command, answer) in answers {
            fake.agent_says(command, answer);
        }
        fake
    }

    /// libvirt sent it, waited in vain, and said that the guest has no agent.
    #[test]
    fn a_command_that_libvirt_would_not_pass_on_is_refused() {
        let exec = |size: usize| {
            let fake = with(&[("guest-exec", r#"{"return":{"pid":42}}"#)]);
            let exec =
                Exec { command: "x".into(), args: vec![], input: Some("x".repeat(size)), timeout: None };
            let begun = Guest { hypervisor: &fake, name: "a_b" }.begin(&exec);
            (begun.map(drop).map_err(|e| e.to_string()), fake.agent_commands().len())
        };
        assert_eq!(exec(96 << 10), (Ok(()), 1));
        let (begun, asked) = exec(160 << 10);
        assert!(begun.unwrap_err().contains("longer than 160 KiB"));
        assert_eq!(asked, 0);
    }

    #[test]
    fn output_of_a_program_is_cut() {
        let long = STANDARD.encode(vec![b'x'; OUTPUT + 5]);
        let status =
            format!(r#"{{"return":{{"exited":true,"exitcode":7,"out-data":"{long}","err-data":"aGk="}}}}"#);
        let fake = with(&[("guest-exec", r#"{"return":{"pid":42}}"#), ("guest-exec-status", &status)]);
        let exec = Exec { command: "/bin/x".into(), args: vec![], input: None, timeout: None };
        let got = Guest { hypervisor: &fake, name: "a_b" }.exec(&exec).unwrap();
        assert_eq!((got.exit_code, got.stderr.as_str()), (7, "hi"));
        assert!(got.stdout.len() < OUTPUT + 50 && got.stdout.ends_with("cut off]\n"));
    }

    #[test]
    fn a_program_that_never_ends_is_given_up() {
        let fake = with(&[
            ("guest-exec", r#"{"return":{"pid":42}}"#),
            ("guest-exec-status", r#"{"return":{"exited":false}}"#),
        ]);
        let exec = Exec { command: "/bin/x".into(), args: vec![], input: None, timeout: Some(0) };
        let error = Guest { hypervisor: &fake, name: "a_b" }.exec(&exec).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn a_file_of_the_guest_is_opened_written_and_read() {
        let fake = with(&[
            ("guest-file-open", r#"{"return":7}"#),
            ("guest-file-write", r#"{"return":{"count":2}}"#),
            ("guest-file-flush", r#"{"return":{}}"#),
            ("guest-file-read", r#"{"return":{"count":2,"eof":false,"buf-b64":"aGk="}}"#),
            ("guest-file-close", r#"{"return":null}"#),
        ]);
        let guest = Guest { hypervisor: &fake, name: "a_b" };
        let opened = guest.file(&GuestFile::Open { path: "/x".into(), mode: "r+".into() }).unwrap();
        assert_eq!(opened.handle, Some(7));
        guest.file(&GuestFile::Write { handle: 7, data: "aGk=".into() }).unwrap();
        assert_eq!(guest.file(&GuestFile::Read { handle: 7 }).unwrap().data.as_deref(), Some("aGk="));
        assert!(guest.file(&GuestFile::Rewind { handle: 7 }).is_err(), "the agent has no such command");
        for answer in [r#"{"return":null}"#, r#"{"return":{"buf-b64":7}}"#, r#"{"return":[]}"#] {
            let fake = with(&[("guest-file-open", answer), ("guest-file-read", answer)]);
            let guest = Guest { hypervisor: &fake, name: "a_b" };
            assert!(guest.file(&GuestFile::Read { handle: 7 }).is_err(), "{answer}");
            assert!(
                guest.file(&GuestFile::Open { path: "/x".into(), mode: "r".into() }).is_err(),
                "{answer}"
            );
        }
    }

    #[test]
    fn answers_that_are_not_understood_are_errors() {
        for answer in
            ["", "[]", r#"{"return": 7}"#, r#"{"return":{"pid":"x"}}"#, r#"{"error":{"desc":"no such"}}"#]
        {
            let fake = with(&[("guest-exec", answer), ("guest-info", answer), ("guest-get-users", answer)]);
            let guest = Guest { hypervisor: &fake, name: "a_b" };
            let exec = Exec { command: "/bin/x".into(), args: vec![], input: None, timeout: None };
            assert!(guest.exec(&exec).is_err(), "{answer}");
            let _ = (guest.info(), guest.users());
        }
    }

    #[test]
    fn endless_facts_about_the_operating_system_are_cut() {
        // Less than an answer may have at all.
        let long = "x".repeat(5_000);
        let many = (0..90).map(|i| (format!("{i}{long}"), json!(long))).collect();
        let os = json!({"return": Value::Object(many)}).to_string();
        let fake = with(&[("guest-info", r#"{"return":{}}"#), ("guest-get-osinfo", &os)]);
        let info = Guest { hypervisor: &fake, name: "a_b" }.info().unwrap();
        assert_eq!(info.os.len(), OS);
        assert!(info.os.iter().all(|(key, value)| key.len() <= 4096 && value.len() <= 4096));
    }

    /// Ten MiB of small values are 300 MB, once they are parsed.
    #[test]
    fn an_answer_that_is_too_long_is_not_parsed() {
        let values = |count: usize| format!(r#"{{"return":[{}0]}}"#, r#"{"":0},"#.repeat(count));
        let text = format!(r#"{{"return":["{}"]}}"#, "x".repeat(1 << 20));
        for (answer, why) in [(text, "longer than 1 MiB"), (values(100_000), "more than 32768 values")] {
            let fake = with(&[("guest-get-users", &answer)]);
            let error = Guest { hypervisor: &fake, name: "a_b" }.users().unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        let fake = with(&[("guest-get-users", &values(10_000))]);
        assert!(Guest { hypervisor: &fake, name: "a_b" }.users().is_ok());
    }

    #[test]
    fn a_load_is_reported_by_guest_agents_that_know_it() {
        let of = |answer: &str| {
            let knows = r#"{"return":{"supported_commands":[{"name":"guest-get-load","enabled":true}]}}"#;
            let fake = with(&[("guest-info", knows), (GET_LOAD, answer)]);
            Guest { hypervisor: &fake, name: "a_b" }.info().unwrap().load
        };
        let old = with(&[("guest-info", r#"{"return":{}}"#), (GET_LOAD, r#"{"return":{"load1m":1}}"#)]);
        assert_eq!(Guest { hypervisor: &old, name: "a_b" }.info().unwrap().load, None);
        assert!(!old.conversation().iter().any(|said| said.ends_with(GET_LOAD)), "nobody asks it");
        let load = of(r#"{"return":{"load1m":0.5,"load5m":2,"load15m":-1}}"#).unwrap();
        assert_eq!((load.load1m, load.load5m, load.load15m), (Some(0.5), Some(2.0), None));
        for none in
            [r#"{"error":{"desc":"no such command"}}"#, r#"{"return":{"load1m":"high"}}"#, r#"{"return":7}"#]
        {
            assert_eq!(of(none), None, "{none}");
        }
    }

    /// Else a backup would take the addresses of the guest out of its status, and call its guest agent too
    /// old.
    #[test]
    fn a_guest_that_is_frozen_tells_no_facts() {
        let forbidden = r#"{"return":{"supported_commands":[{"name":"guest-get-osinfo","enabled":false}]}}"#;
        for (status, is_told) in [(r#"{"return":"frozen"}"#, false), (r#"{"return":"thawed"}"#, true)] {
            let fake = with(&[("guest-info", forbidden), ("guest-fsfreeze-status", status)]);
            let info = Guest { hypervisor: &fake, name: "a_b" }.info();
            assert_eq!(info.map_err(|e| e.kind()).err(), (!is_told).then_some(ErrorKind::NotNow), "{status}");
        }
    }

    #[test]
    fn a_guest_that_repeats_a_password_is_not_repeated() {
        let word = "hunter 2";
        for said in [word, &STANDARD.encode(word), "user not found"] {
            let answer = json!({"error": {"desc": format!("cannot: {said}!")}}).to_string();
            let fake = with(&[("guest-set-user-password", &answer)]);
            let error = Guest { hypervisor: &fake, name: "a_b" }.set_password("me", word).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(!text.contains(word) && !text.contains(&STANDARD.encode(word)), "{text}");
            assert_eq!(text.contains("user not found"), said == "user not found");
        }
    }

    #[test]
    fn facts_of_the_guest_agent_are_reported() {
        let fake = with(&[
            (
                "guest-info",
                r#"{"return":{"version":"7.2","supported_commands":[{"name":"guest-exec","enabled":false}]}}"#,
            ),
            ("guest-get-osinfo", r#"{"return":{"id":"debian","kernel-release":"6.1"}}"#),
            (
                "guest-network-get-interfaces",
                r#"{"return":[{"name":"eth0","hardware-address":"02:00:00:00:00:01","ip-addresses":[{"ip-address":"10.0.2.15"}]}]}"#,
            ),
        ]);
        let info = Guest { hypervisor: &fake, name: "a_b" }.info().unwrap();
        assert_eq!(info.agent_version.as_deref(), Some("7.2"));
        assert_eq!(info.os["id"], "debian");
        assert_eq!(info.interfaces[0].ips, ["10.0.2.15"]);
        assert_eq!(info.commands, [GuestCommand { name: "guest-exec".into(), enabled: false }]);
        assert_eq!(info.hostname, None);
    }
}
