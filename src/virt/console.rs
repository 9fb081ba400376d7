//! The serial console of a VMI, through virt-api, for as long as somebody wants it: a stream that breaks is opened again.
//!
//! ```text
//!            ┌── Ctrl-], end of the input ──────────────────────────────────────────► left
//!  open ─► session ── the stream ends ─► look at VM and VMI each second
//!    ▲                                      │ the VMI runs, or the VM starts it again
//!    └──────────────────────────────────────┤
//!                                           └ the VM is off, somebody else has the console ─► over
//! ```
//!
//! **Guarantees.** What is typed while there is no stream reaches nobody: it was meant for another moment. A console that is
//! opened again is not taken from another client: virt-api refuses that, and where it is another virt-api, a console
//! that breaks twice within [`FIGHT`] is left to whoever has it.

use super::client::{Cluster, Failure};
use super::keys::{Keys, Typed};
use super::object::Kind;
use super::websocket::{End, Input, Output, PING, Stream};
use crate::ui;
use crate::vm::terminal::Raw;
use cdi::{Error, Result};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

/// From one try to the next.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the objects may take to say what the end of a stream meant.
const LATE: Duration = Duration::from_secs(5);
/// Within this time, a second break of the same VMI's console is another client's doing.
const FIGHT: Duration = Duration::from_secs(30);

/// How a console is wanted.
#[derive(Debug, Clone)]
pub(crate) struct Console {
    /// The VMI.
    pub(crate) name: String,
    /// How long to wait until it runs.
    pub(crate) timeout: Duration,
    /// Nothing is typed.
    pub(crate) read_only: bool,
}

/// What a client does to others that have the console.
#[derive(Debug, Clone, Copy)]
enum Mode {
    /// It takes the keyboard; whoever has it reads on. Upstream's clients close the console before theirs.
    Take,
    /// It takes it if it is free.
    Write,
    Read,
}

/// Why a session is over.
enum Session {
    /// Somebody left it.
    Left,
    /// The stream did.
    Ended(End),
}

/// What comes after a stream that ended.
enum Next {
    Stream(Box<Stream>),
    Left,
    Over(String),
}

/// What the objects say of a VMI.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    /// It runs.
    Up { uid: String },
    /// It is about to run, as this says.
    Comes(String),
    /// It will not run by itself, as this says.
    Gone(String),
    /// Nobody can tell.
    Unknown(String),
}

impl Console {
    /// Joins the terminal to the console until somebody leaves it, or nothing comes any more.
    pub(crate) async fn attach(&self, cluster: &Cluster) -> Result<()> {
        let mode = if self.read_only { Mode::Read } else { Mode::Take };
        let mut stream = self.first(cluster, mode).await?;
        let mut uid = self.uid(cluster).await;
        ui::say(&format!(
            "Successfully connected to {} console. Press Ctrl+] or Ctrl+5 to exit console.",
            self.name
        ));
        let raw = Raw::of_stdin()?;
        // What is told meanwhile has to begin at the left.
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
        // Another virt-api knows no modes, and takes the console for whoever comes.
        let mode = match mode {
            Mode::Take => "console?mode=take",
            Mode::Write => "console?mode=write",
            Mode::Read => "console?mode=read",
        };
        let path = Kind::VirtualMachineInstance.part(cluster.namespace(), &self.name, mode);
        Stream::open(cluster, &path).await
    }

    /// The first stream. A VMI that does not run yet is waited for.
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
            let is_for_good = failure.words().contains("serial console");
            let why = match failure.code() {
                400 if !is_for_good => failure.words().to_owned(),
                404 => match self.look(cluster).await {
                    Standing::Comes(why) => why,
                    Standing::Up { .. } => "the VMI runs".to_owned(),
                    Standing::Gone(why) => return Err(failure.of(&doing).with_hint(why)),
                    Standing::Unknown(_) => return Err(failure.of(&doing)),
                },
                _ => return Err(failure.of(&doing)),
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
            session = self.types(&mut input, keys) => session,
            ended = shows(&mut output) => Session::Ended(ended?),
        };
        input.close().await;
        Ok(session)
    }

    async fn types(&self, input: &mut Input, keys: &mut Keys) -> Session {
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

    /// Who only watches does so until the console ends, also where there is no input at all.
    fn listens(&self, keys: &Keys) -> bool {
        keys.is_terminal() || !self.read_only
    }

    /// Waits until somebody leaves.
    async fn left(&self, keys: &mut Keys) {
        match self.listens(keys) {
            true => keys.end().await,
            false => std::future::pending().await,
        }
    }

    /// The stream after one that ended.
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
                self.look(cluster).await
            };
            let standing = tokio::select! {
                () = self.left(keys) => return Ok(Next::Left),
                standing = look => standing,
            };
            match &standing {
                Standing::Gone(why) => {
                    // A restart takes the old VMI away before the new one is there.
                    gone += 1;
                    if gone >= 3 {
                        return Ok(Next::Over(why.clone()));
                    }
                    continue;
                }
                Standing::Up { uid: now } => {
                    gone = 0;
                    let is_same = uid.as_ref() == Some(now);
                    if is_same && end.is_final() {
                        // The stream ends a moment before the objects say so.
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
                Standing::Comes(why) | Standing::Unknown(why) => {
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
                    if let Standing::Up { uid: now } = standing {
                        *uid = Some(now);
                    }
                    return Ok(Next::Stream(Box::new(stream)));
                }
                Err(failure) if matches!(failure.code(), 401 | 403) => {
                    return Err(failure.of(&format!("cannot open the console of VMI {} again", self.name)));
                }
                // virt-handler may still take the client for there that went with virt-api.
                Err(failure) if failure.code() == 409 && begun.elapsed() > LATE => {
                    return Ok(Next::Over(failure.words().to_owned()));
                }
                Err(failure) => failure.words().clone_into(&mut last),
            }
            if begun.elapsed() > self.timeout {
                let what = format!("the console of VMI {} did not come back: {last}", self.name);
                return Err(Error::failed(what));
            }
        }
    }

    async fn uid(&self, cluster: &Cluster) -> Option<String> {
        let path = Kind::VirtualMachineInstance.one(cluster.namespace(), &self.name);
        let vmi = cluster.get(&path).await.ok()?;
        vmi["metadata"]["uid"].as_str().map(str::to_owned)
    }

    async fn look(&self, cluster: &Cluster) -> Standing {
        let find = async |kind: Kind| cluster.find(&kind.one(cluster.namespace(), &self.name)).await;
        match (find(Kind::VirtualMachineInstance).await, find(Kind::VirtualMachine).await) {
            (Ok(vmi), Ok(vm)) => standing(vm.as_ref(), vmi.as_ref()),
            (Err(e), _) | (_, Err(e)) => Standing::Unknown(e.words().to_owned()),
        }
    }
}

async fn shows(output: &mut Output) -> Result<End> {
    loop {
        match output.next().await {
            Ok(bytes) => ui::raw(&bytes)?,
            Err(end) => return Ok(end),
        }
    }
}

fn standing(vm: Option<&Value>, vmi: Option<&Value>) -> Standing {
    let phase = vmi.and_then(|vmi| vmi["status"]["phase"].as_str()).unwrap_or_default();
    let is_final = matches!(phase, "Succeeded" | "Failed");
    let leaves = vmi.is_some_and(|vmi| vmi["metadata"]["deletionTimestamp"].is_string());
    if let Some(vmi) = vmi.filter(|_| !is_final && !leaves) {
        return match phase {
            "Running" => Standing::Up { uid: vmi["metadata"]["uid"].as_str().unwrap_or_default().to_owned() },
            "" => Standing::Comes("the VMI is new".to_owned()),
            phase => Standing::Comes(format!("the VMI is {}", printable::line(phase))),
        };
    }
    let ended = if leaves { "the VMI is being stopped" } else { "there is no VMI" };
    let ended = if is_final { format!("the VMI has ended ({phase})") } else { ended.to_owned() };
    let Some(vm) = vm else { return Standing::Gone(ended) };
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
        true => Standing::Comes(format!("{ended}, and the VM starts another one")),
        false => {
            let strategy = printable::line(strategy);
            Standing::Gone(format!("{ended}, and the VM does not start one (run strategy {strategy})"))
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
        assert_eq!(standing(None, Some(&vmi("Running"))), Standing::Up { uid: "u1".to_owned() });
        for phase in ["", "Pending", "Scheduling", "Scheduled"] {
            assert!(matches!(standing(None, Some(&vmi(phase))), Standing::Comes(_)), "{phase}");
        }
    }

    #[test]
    fn words_of_the_cluster_do_nothing_on_a_terminal() {
        let phase = standing(None, Some(&vmi("Sche\u{1b}[2Jduling")));
        assert_eq!(phase, Standing::Comes("the VMI is Sche [2Jduling".to_owned()));
        let said = "there is no VMI, and the VM does not start one (run strategy  [31mManual)";
        assert_eq!(standing(Some(&vm("\u{1b}[31mManual")), None), Standing::Gone(said.to_owned()));
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
            let found = standing(vm.as_ref(), vmi);
            assert_eq!(matches!(found, Standing::Comes(_)), comes, "{vm:?} {vmi:?}: {found:?}");
            assert_eq!(matches!(found, Standing::Gone(_)), !comes, "{vm:?} {vmi:?}: {found:?}");
        }
    }
}
