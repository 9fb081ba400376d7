//! The serial console of a VMI, through virt-api, until the user leaves it: a broken stream is opened again.
//!
//! ```text
//!            ┌── Ctrl-], end of the input ──────────────────────────────────────────► left
//!  open ─► session ── the stream ends ─► read VM and VMI each second
//!    ▲                                      │ the VMI runs, or the VM starts it again
//!    └──────────────────────────────────────┤
//!                                           └ the VM is off, another client has the console ─► over
//! ```
//!
//! **Guarantees.** Input is dropped while no stream is open, since it was meant for another moment. A
//! reopened console is not taken from another client: our virt-api refuses that. With another virt-api, a
//! console that breaks twice within [`FIGHT`] is left to the other client.

use super::client::Cluster;
use super::failure::Failure;
use super::keys::{Keys, Typed};
use super::websocket::{End, Input, Output, PING, Stream};
use crate::error::{Error, Result};
use crate::terminal::Raw;
use crate::ui;
use cluster_model::objects::Kind;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

/// Pause between two attempts.
const AGAIN: Duration = Duration::from_secs(1);
/// Delay of VM and VMI: for so long their status may not show the end of a stream yet.
const LATE: Duration = Duration::from_secs(5);
/// Within this time, a second break of the same VMI's console is taken for the work of another client.
const FIGHT: Duration = Duration::from_secs(30);

/// A console to open, by the flags of the verb.
#[derive(Debug, Clone)]
pub(crate) struct Console {
    /// Name of the VMI.
    pub(crate) name: String,
    /// Timeout until the VMI runs.
    pub(crate) timeout: Duration,
    /// True if input is not sent.
    pub(crate) read_only: bool,
}

/// Effect on other clients of the console.
#[derive(Debug, Clone, Copy)]
enum Mode {
    /// Takes the keyboard; the other client continues read-only. Upstream's virt-api closes the other
    /// client's console.
    Take,
    /// Takes the keyboard if no other client has it.
    Write,
    Read,
}

/// End of a session.
enum Session {
    /// The user left the console.
    Left,
    /// The stream ended, for this reason.
    Ended(End),
}

/// Continuation after the end of a stream.
enum Next {
    Stream(Box<Stream>),
    Left,
    Over(String),
}

/// State of a VMI by the status of VM and VMI.
#[derive(Debug, Clone, PartialEq, Eq)]
enum VmiState {
    /// The VMI is running.
    Up { uid: String },
    /// The VMI will run soon. The text says why.
    Comes(String),
    /// The VMI will not run by itself. The text says why.
    Gone(String),
    /// The API server could not be asked. The text says why.
    Unknown(String),
}

impl Console {
    /// Joins the terminal to the console until the user leaves it or the VMI is over.
    pub(crate) async fn attach(&self, cluster: &Cluster) -> Result<()> {
        let mode = if self.read_only { Mode::Read } else { Mode::Take };
        let mut stream = self.first(cluster, mode).await?;
        let mut uid = self.uid(cluster).await;
        ui::say(&format!(
            "Successfully connected to {} console. Press Ctrl+] or Ctrl+5 to exit console.",
            self.name
        ));
        let raw = Raw::of_stdin()?;
        // In raw mode a message has to begin with a carriage return.
        let tell = |text: &str| {
            ui::err(&if raw.is_some() { format!("\r\n{text}\r\n") } else { format!("{text}\n") })
        };
        let mut keys = Keys::of_stdin();
        let mut broke: Option<Instant> = None;
        loop {
            let end = match self.session(stream, &mut keys).await? {
                Session::Left => break,
                Session::Ended(end) => end,
            };
            let is_second = broke.is_some_and(|before| before.elapsed() < FIGHT);
            broke = Some(Instant::now());
            tell(&format!(
                "coracle: the console of {} ended: {end}; it is opened again, Ctrl-] leaves",
                self.name
            ));
            match self.again(cluster, &end, &mut uid, is_second, &mut keys).await? {
                Next::Left => break,
                Next::Stream(next) => {
                    tell(&format!("coracle: the console of {} is back", self.name));
                    stream = *next;
                }
                Next::Over(why) => {
                    drop(raw);
                    let what = format!("the console of VMI {} is over: {why}", self.name);
                    return match end.is_normal() {
                        true => {
                            ui::say(&format!("coracle: {what}"));
                            Ok(())
                        }
                        false => Err(Error::failed(what).because(end.to_string())),
                    };
                }
            }
        }
        if raw.is_some() {
            ui::err("\r\n");
        }
        Ok(())
    }

    async fn open(&self, cluster: &Cluster, mode: Mode) -> Result<Stream, Failure> {
        // Another virt-api ignores the mode, and gives the console to the newest client.
        let mode = match mode {
            Mode::Take => "console?mode=take",
            Mode::Write => "console?mode=write",
            Mode::Read => "console?mode=read",
        };
        let path = Kind::VirtualMachineInstance.part(cluster.namespace(), &self.name, mode);
        Stream::open(cluster, &path).await
    }

    /// Opens the first stream, and waits until the VMI runs.
    async fn first(&self, cluster: &Cluster, mode: Mode) -> Result<Stream> {
        let doing =
            format!("cannot open the console of VMI {} in namespace {}", self.name, cluster.namespace());
        let until = Instant::now() + self.timeout;
        let mut is_told = false;
        loop {
            let failure = match self.open(cluster, mode).await {
                Ok(stream) => return Ok(stream),
                Err(failure) => failure,
            };
            let is_for_good = failure.message().contains("serial console");
            let why = match failure.code() {
                400 if !is_for_good => failure.message().to_owned(),
                404 => match self.read_state(cluster).await {
                    VmiState::Comes(why) => why,
                    VmiState::Up { .. } => "the VMI runs".to_owned(),
                    VmiState::Gone(why) => return Err(failure.into_error(&doing).with_hint(why)),
                    VmiState::Unknown(_) => return Err(failure.into_error(&doing)),
                },
                _ => return Err(failure.into_error(&doing)),
            };
            if Instant::now() >= until {
                let what = "Timeout trying to connect to the virtual machine instance";
                return Err(Error::failed(format!("{doing}: {what}")).because(why));
            }
            if !is_told {
                is_told = true;
                let minutes = self.timeout.as_secs() / 60;
                ui::say(&format!("coracle: waiting up to {minutes} min for VMI {}: {why}", self.name));
            }
            sleep(AGAIN).await;
        }
    }

    /// Passes bytes both ways.
    async fn session(&self, stream: Stream, keys: &mut Keys) -> Result<Session> {
        let (mut input, mut output) = stream.split();
        let session = tokio::select! {
            session = self.send_keys(&mut input, keys) => session,
            ended = print_output(&mut output) => Session::Ended(ended?),
        };
        input.close().await;
        Ok(session)
    }

    async fn send_keys(&self, input: &mut Input, keys: &mut Keys) -> Session {
        let mut pings = interval_at(Instant::now() + PING, PING);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let typed = tokio::select! {
                typed = keys.next(), if self.listens(keys) => typed,
                _ = pings.tick() => match input.ping().await {
                    Ok(()) => continue,
                    Err(end) => return Session::Ended(end),
                },
            };
            let (bytes, is_last) = match typed {
                Typed::Bytes(bytes) => (bytes, false),
                Typed::End(bytes) => (bytes, true),
            };
            if !bytes.is_empty()
                && !self.read_only
                && let Err(end) = input.send(bytes).await
            {
                return Session::Ended(end);
            }
            if is_last {
                return Session::Left;
            }
        }
    }

    /// A read-only console lasts until the stream ends, even if standard input is closed.
    fn listens(&self, keys: &Keys) -> bool {
        keys.is_terminal() || !self.read_only
    }

    /// Waits until the user leaves the console.
    async fn left(&self, keys: &mut Keys) {
        match self.listens(keys) {
            true => keys.end().await,
            false => std::future::pending().await,
        }
    }

    /// Opens a new stream after the end of one.
    async fn again(
        &self,
        cluster: &Cluster,
        end: &End,
        uid: &mut Option<String>,
        is_second: bool,
        keys: &mut Keys,
    ) -> Result<Next> {
        let mode = if self.read_only { Mode::Read } else { Mode::Write };
        let begun = Instant::now();
        let (mut gone, mut last) = (0, end.to_string());
        loop {
            let look = async {
                sleep(AGAIN).await;
                self.read_state(cluster).await
            };
            let state = tokio::select! {
                () = self.left(keys) => return Ok(Next::Left),
                state = look => state,
            };
            match &state {
                VmiState::Gone(why) => {
                    // A restart deletes the old VMI before it creates the new one.
                    gone += 1;
                    if gone >= 3 {
                        return Ok(Next::Over(why.clone()));
                    }
                    continue;
                }
                VmiState::Up { uid: now } => {
                    gone = 0;
                    let is_same = uid.as_ref() == Some(now);
                    if is_same && end.is_final() {
                        // The stream ends a moment before the status of the VMI print_output it.
                        if begun.elapsed() < LATE {
                            continue;
                        }
                        return Ok(Next::Over(format!("{end}; maybe another client has opened it")));
                    }
                    if is_same && is_second && !self.read_only {
                        return Ok(Next::Over(
                            "it broke twice; maybe another client has opened it".to_owned(),
                        ));
                    }
                }
                VmiState::Comes(why) | VmiState::Unknown(why) => {
                    gone = 0;
                    last.clone_from(why);
                }
            }
            let opened = tokio::select! {
                () = self.left(keys) => return Ok(Next::Left),
                opened = self.open(cluster, mode) => opened,
            };
            match opened {
                Ok(stream) => {
                    if let VmiState::Up { uid: now } = state {
                        *uid = Some(now);
                    }
                    return Ok(Next::Stream(Box::new(stream)));
                }
                Err(failure) if matches!(failure.code(), 401 | 403) => {
                    return Err(
                        failure.into_error(&format!("cannot open the console of VMI {} again", self.name))
                    );
                }
                // virt-handler may still count the old client, whose connection ended with virt-api.
                Err(failure) if failure.code() == 409 && begun.elapsed() > LATE => {
                    return Ok(Next::Over(failure.message().to_owned()));
                }
                Err(failure) => failure.message().clone_into(&mut last),
            }
            if begun.elapsed() > self.timeout {
                let what = format!("the console of VMI {} did not come back: {last}", self.name);
                return Err(Error::failed(what));
            }
        }
    }

    async fn uid(&self, cluster: &Cluster) -> Option<String> {
        let path = Kind::VirtualMachineInstance.object(cluster.namespace(), &self.name);
        let vmi = cluster.get(&path).await.ok()?;
        vmi["metadata"]["uid"].as_str().map(str::to_owned)
    }

    async fn read_state(&self, cluster: &Cluster) -> VmiState {
        let find = async |kind: Kind| cluster.find(&kind.object(cluster.namespace(), &self.name)).await;
        match (find(Kind::VirtualMachineInstance).await, find(Kind::VirtualMachine).await) {
            (Ok(vmi), Ok(vm)) => state(vm.as_ref(), vmi.as_ref()),
            (Err(e), _) | (_, Err(e)) => VmiState::Unknown(e.message().to_owned()),
        }
    }
}

async fn print_output(output: &mut Output) -> Result<End> {
    loop {
        match output.next().await {
            Ok(bytes) => ui::raw(&bytes)?,
            Err(end) => return Ok(end),
        }
    }
}

fn state(vm: Option<&Value>, vmi: Option<&Value>) -> VmiState {
    let phase = vmi.and_then(|vmi| vmi["status"]["phase"].as_str()).unwrap_or_default();
    let is_final = matches!(phase, "Succeeded" | "Failed");
    let leaves = vmi.is_some_and(|vmi| vmi["metadata"]["deletionTimestamp"].is_string());
    if let Some(vmi) = vmi.filter(|_| !is_final && !leaves) {
        return match phase {
            "Running" => VmiState::Up { uid: vmi["metadata"]["uid"].as_str().unwrap_or_default().to_owned() },
            "" => VmiState::Comes("the VMI is new".to_owned()),
            phase => VmiState::Comes(format!("the VMI is {}", printable::line(phase))),
        };
    }
    let ended = if leaves { "the VMI is being stopped" } else { "there is no VMI" };
    let ended = if is_final { format!("the VMI has ended ({phase})") } else { ended.to_owned() };
    let Some(vm) = vm else { return VmiState::Gone(ended) };
    let (spec, status) = (&vm["spec"], &vm["status"]);
    let strategy = spec["runStrategy"].as_str().unwrap_or(match spec["running"].as_bool() {
        Some(true) => "Always",
        _ => "Halted",
    });
    let asked = status["stateChangeRequests"]
        .as_array()
        .is_some_and(|requests| requests.iter().any(|request| request["action"] == "Start"));
    let printed = status["printableStatus"].as_str().unwrap_or_default();
    let comes = match strategy {
        _ if vm["metadata"]["deletionTimestamp"].is_string() => false,
        _ if asked || matches!(printed, "Starting" | "Provisioning" | "WaitingForVolumeBinding") => true,
        "Always" => true,
        "RerunOnFailure" => phase == "Failed",
        _ => false,
    };
    match comes {
        true => VmiState::Comes(format!("{ended}, and the VM starts another one")),
        false => {
            let strategy = printable::line(strategy);
            VmiState::Gone(format!("{ended}, and the VM does not start one (run strategy {strategy})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn vmi(phase: &str) -> Value {
        json!({"metadata": {"uid": "u1"}, "status": {"phase": phase}})
    }

    fn vm(strategy: &str) -> Value {
        json!({"spec": {"runStrategy": strategy}, "status": {"printableStatus": "Stopped"}})
    }

    #[test]
    fn a_vmi_that_runs_is_up_and_one_that_starts_comes() {
        assert_eq!(state(None, Some(&vmi("Running"))), VmiState::Up { uid: "u1".to_owned() });
        for phase in ["", "Pending", "Scheduling", "Scheduled"] {
            assert!(matches!(state(None, Some(&vmi(phase))), VmiState::Comes(_)), "{phase}");
        }
    }

    #[test]
    fn words_of_the_cluster_do_nothing_on_a_terminal() {
        let phase = state(None, Some(&vmi("Sche\u{1b}[2Jduling")));
        assert_eq!(phase, VmiState::Comes("the VMI is Sche [2Jduling".to_owned()));
        let said = "there is no VMI, and the VM does not start one (run strategy  [31mManual)";
        assert_eq!(state(Some(&vm("\u{1b}[31mManual")), None), VmiState::Gone(said.to_owned()));
    }

    #[test]
    fn after_a_vmi_its_vm_says_whether_another_one_comes() {
        let mut going = vmi("Running");
        going["metadata"]["deletionTimestamp"] = json!("2026-09-01T10:00:00Z");
        let mut asked = vm("Manual");
        asked["status"]["stateChangeRequests"] = json!([{"action": "Stop"}, {"action": "Start"}]);
        let mut deleted = vm("Always");
        deleted["metadata"] = json!({"deletionTimestamp": "2026-09-01T10:00:00Z"});
        let mut starting = vm("Manual");
        starting["status"]["printableStatus"] = json!("Starting");
        for (vm, vmi, comes) in [
            (Some(vm("Always")), Some(&going), true),
            (Some(vm("Always")), None, true),
            (Some(vm("RerunOnFailure")), Some(&vmi("Failed")), true),
            (Some(vm("RerunOnFailure")), Some(&vmi("Succeeded")), false),
            (Some(vm("Manual")), None, false),
            (Some(asked), Some(&going), true),
            (Some(starting), None, true),
            (Some(deleted), None, false),
            (Some(vm("Halted")), Some(&vmi("Succeeded")), false),
            (Some(json!({"spec": {"running": true}})), None, true),
            (Some(json!({"spec": {"running": false}})), None, false),
            (None, Some(&going), false),
            (None, None, false),
        ] {
            let found = state(vm.as_ref(), vmi);
            assert_eq!(matches!(found, VmiState::Comes(_)), comes, "{vm:?} {vmi:?}: {found:?}");
            assert_eq!(matches!(found, VmiState::Gone(_)), !comes, "{vm:?} {vmi:?}: {found:?}");
        }
    }
}
