//! The loop that owns the VM.
//!
//! ```text
//!            ┌── Command ── of the server            ┐
//!            ├── Event ──── of the hypervisor        │
//!   select ◄─┼── Outcome ── of a thread              ├─► changes Queue and State, then begins the next work
//!            ├── grace ──── the time to end is over  │
//!            ├── tick ───── press again; is there space again? │    (driver_time.rs; driver_room.rs: for the start)
//!            ├── tried ──── missing parts were sought again    │    (driver_take_over.rs)
//!            ├── asks ───── the launcher ends, the VM does not │    (driver_end.rs)
//!            └── look ───── the work hangs                     ┘    (driver_time.rs)
//! ```
//!
//! **Owns** every decision after the queue's. **Guarantees:** one piece of work at a time; events that arrive while the
//! VM is being started are kept and handled afterwards, in order; the last event decides its state. A forced end is done beside
//! work that hangs.
//! **Never** blocks, and never forgets a VM: its end is published before anything else is begun.

use super::blocking_work::{self, Begun, Outcome};
use super::changeable;
use super::disk_pressure::DiskPressure;
use super::grace::Grace;
use super::handle::{self, Command, CurrentVm, Handle, SyncError, judge};
use super::keep;
use super::life::{self, Before, DiskError, Standing};
use super::migration::Control;
use super::missing_parts::{self, Search};
use super::publish::Publisher;
use super::queue::{Mode, Next, Queue, word};
use super::resume_waits::ResumeWaits;
use super::work::{self, Work};
use crate::console::Give;
use crate::domain;
use crate::error::{Error, ErrorKind, Result};
use crate::hypervisor::{Condition, DomainState, End, Event, Hypervisor, Pause, Tell};
use crate::net;
use crate::root::Root;
use crate::selinux;
use api::launcher::{Answer, Denial, DenialReason, Life, Request, State, Sync};
use std::future::pending;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// Interval at which the power button is pressed again, a full disk is checked, and a start without space is
/// tried again. A guest that is still booting loses a press.
const TICK: Duration = Duration::from_secs(5);

/// Parts of the loop.
pub struct Parts {
    pub hypervisor: Arc<dyn Hypervisor>,
    pub root: Root,
    /// Sender of the VM's serial console to the relay.
    pub lines: Give,
    /// Clock with the time as RFC 3339.
    pub clock: fn() -> String,
}

/// Takes over the VM of an earlier launcher, and returns the loop to run and its handle.
pub fn drive(parts: Parts) -> Result<(Handle, impl Future<Output = ()>)> {
    drive_or_receive(parts, None)
}

/// The same for a launcher whose VM comes from another one, through the socket `receive` that is made for it.
pub fn drive_or_receive(
    parts: Parts,
    receive: Option<PathBuf>,
) -> Result<(Handle, impl Future<Output = ()>)> {
    let (sync, last) = keep::kept(&parts.root)?;
    let (commands, asked) = mpsc::channel(32);
    let (told, events) = mpsc::unbounded_channel();
    let publisher = Publisher::new(last, parts.root.state(), parts.clock);
    let name = Arc::new(OnceLock::new());
    let handle = Handle {
        commands,
        state: publisher.reader(),
        hypervisor: parts.hypervisor.clone(),
        root: parts.root.clone(),
        name: name.clone(),
        media: handle::places(),
    };
    let mut driver = Driver {
        parts,
        receive,
        name,
        queue: Queue::default(),
        publisher,
        known: None,
        search: None,
        servers: net::Servers::default(),
        work: None,
        told,
        early: Vec::new(),
        passing: false,
        before: Before::default(),
        disk_error: None,
        resume_waits: ResumeWaits::default(),
        disk_pressure: DiskPressure::default(),
        heard: pause::PauseEvents::default(),
        grace: None,
        tick: None,
        ending: false,
        ask_at: None,
        broken_start: None,
        migration: None,
        awaits_release: false,
        held_to_end: None,
    };
    if let Some(sync) = sync {
        driver.take_over(sync)?;
    }
    Ok((handle, driver.run(asked, events)))
}

struct Driver {
    parts: Parts,
    /// Socket through which the VM comes from another launcher. Unset: it starts here.
    receive: Option<PathBuf>,
    name: Arc<OnceLock<String>>,
    queue: Queue,
    publisher: Publisher,
    known: Option<CurrentVm>,
    /// Parts of a VM that was taken over, which are missing.
    search: Option<Search>,
    servers: net::Servers,
    work: Option<Work>,
    told: mpsc::UnboundedSender<Event>,
    /// Events that came while the VM was being started.
    early: Vec<Event>,
    /// True if the launcher has paused the VM, for its start or for a change of media, and its resumption has
    /// not come yet.
    passing: bool,
    before: Before,
    disk_error: Option<DiskError>,
    resume_waits: ResumeWaits,
    disk_pressure: DiskPressure,
    /// Events since the begin of the work.
    heard: pause::PauseEvents,
    /// Grace period of the guest, after it was asked to shut down.
    grace: Option<Grace>,
    tick: Option<Instant>,
    /// True after the launcher was asked to end.
    ending: bool,
    /// Time at which its VM is asked to shut down again.
    ask_at: Option<Instant>,
    /// Failure of a start that broke off. Its QEMU may run.
    broken_start: Option<Standing>,
    /// The migration in progress.
    migration: Option<Arc<Control>>,
    /// True of a VM that has arrived from another launcher, and is paused until that one has released it.
    awaits_release: bool,
    /// Time at which its launcher was told to end.
    held_to_end: Option<Instant>,
}

impl Driver {
    async fn run(mut self, mut asked: mpsc::Receiver<Command>, mut events: mpsc::UnboundedReceiver<Event>) {
        loop {
            self.go_on();
            // Hanging work belongs to a VM that has ended.
            let works = self.work.as_ref().is_some_and(|work| !work.hangs());
            if self.ending && !works && matches!(self.queue.mode(), Mode::Empty | Mode::Ended | Mode::Moved) {
                return;
            }
            let until = |time: Option<Instant>| async move {
                match time {
                    Some(time) => sleep_until(time).await,
                    None => pending().await,
                }
            };
            let (grace, tick, asks) = (self.grace.map(Grace::end), self.tick, self.ask_at);
            let look = self.work.as_ref().map(|work| work.look);
            // Without `biased` an event could be read before the command that caused it is answered; either
            // is right.
            tokio::select! {
                command = asked.recv() => match command {
                    Some(command) => self.command(command),
                    None => self.ending = true,
                },
                Some(event) = events.recv() => self.event(event),
                outcome = work::outcome(&mut self.work) => self.finished(outcome),
                () = until(grace) => self.grace_is_over(),
                () = until(tick) => self.ticked(),
                () = until(asks) => self.end(),
                () = until(look) => self.work_hangs(),
                tried = missing_parts::tried(&mut self.search) => self.sought(tried),
            }
        }
    }

    // ---- Requests ----

    fn command(&mut self, command: Command) {
        // The client may be gone; then the answer is dropped.
        match command {
            Command::Sync(sync, tell) => drop(tell.send(self.sync(*sync))),
            Command::Request(request, tell) => drop(tell.send(self.request(request))),
            Command::Credentials(told) => self.publisher.change(|state| {
                if matches!(state.life, Life::Running | Life::Paused | Life::Stopping) {
                    state.credentials = Some(told);
                }
            }),
            Command::Frozen(frozen) => self.publisher.change(|state| {
                state.frozen = frozen && matches!(state.life, Life::Running | Life::Paused | Life::Stopping);
            }),
            Command::End => self.end(),
        }
    }

    fn sync(&mut self, sync: Sync) -> std::result::Result<Answer, SyncError> {
        if let Some(known) = &self.known
            && sync.generation < known.sync.generation
        {
            let (old, new) = (sync.generation, known.sync.generation);
            return Ok(Answer::Denied(Denial::new(DenialReason::OlderGeneration, &[&old, &new])));
        }
        let machine = judge(&sync.vmi).map_err(SyncError::of_faults)?;
        let name = machine.domain_name();
        if let Some(known) = &self.known
            && known.name != name
        {
            return Ok(Answer::Denied(Denial::new(DenialReason::OtherVm, &[&known.name, &name])));
        }
        let receive = self.receive.clone().filter(|_| self.queue.mode() == Mode::Empty);
        if receive.is_some() {
            keep::migration(&self.parts.root, keep::RECEPTION)?;
        }
        keep::sync(&self.parts.root, &sync)?;
        let same = self.known.as_ref().is_some_and(|known| known.machine == machine);
        let host = self.known.take().and_then(|known| known.host);
        if let Some(socket) = receive {
            self.receive(CurrentVm { sync, machine, name, host: None }, socket);
            return Ok(Answer::Queued);
        }
        if self.queue.mode() == Mode::Empty {
            self.learn(CurrentVm { sync, machine, name, host: None })?;
            self.start();
            return Ok(Answer::Queued);
        }
        // The state keeps the generation that runs until a start takes this one up. An ended VM is not started by a repeated
        // sync: that takes the request 'start'.
        self.known = Some(CurrentVm { sync, machine, name, host });
        let reason = match (self.queue.mode(), same) {
            (Mode::Moved, _) => "the VM has migrated away from this launcher",
            (Mode::Receiving, _) => "the VM is being received already",
            (Mode::Ended, true) => "the VM has ended; the request 'start' starts it again",
            (Mode::Ended, false) => {
                "the VM has ended; its new spec is used when the request 'start' starts it again"
            }
            (_, true) => "the VM exists already",
            (_, false) => "the VM exists already; its new spec is used at its next start",
        };
        Ok(Answer::Ignored { reason: reason.into() })
    }

    /// Sets the VM of this launcher and watches its events from now on.
    fn learn(&mut self, known: CurrentVm) -> Result<()> {
        let tell = self.teller();
        let failed =
            |e: crate::hypervisor::Error| Error::new(ErrorKind::Failed, "cannot watch the VM").because(e);
        self.parts.hypervisor.watch(&known.name, tell).map_err(failed)?;
        let _ = self.name.set(known.name.clone());
        self.known = Some(known);
        Ok(())
    }

    /// Sender of events to this loop.
    fn teller(&self) -> Tell {
        let told = self.told.clone();
        // The loop may have ended; then the event is dropped.
        Box::new(move |event| drop(told.send(event)))
    }

    // ---- Work ----

    /// Starts the next request, and publishes the work in progress.
    fn go_on(&mut self) {
        self.end_without_start();
        // A VM that is to end is not migrated further.
        if self.queue.has_end() {
            self.abort_migration();
        }
        while self.work.is_none() {
            match self.queue.pop() {
                Some(Next::Do(Request::Start)) => {
                    self.queue.done();
                    // A VM is not started by a launcher that ends.
                    if !self.ending {
                        self.start();
                    }
                }
                Some(Next::Do(Request::ResumeAfterDiskPressure)) if !self.disk_pressure.is_there() => {
                    self.queue.done();
                }
                Some(Next::Do(Request::Migrate(order))) => self.migrate(*order),
                Some(Next::Do(request)) => self.begin(request),
                Some(Next::Drop(request, reason)) => {
                    tracing::info!("{} is dropped: {reason}", word(&request));
                    if matches!(request, Request::PauseForDiskPressure { .. }) {
                        self.disk_pressure.failed();
                    }
                }
                None => break,
            }
        }
        let doing = match self.queue.mode() {
            Mode::Preparing => Some("start".to_owned()),
            Mode::Receiving => Some("receive".to_owned()),
            Mode::Stopping if self.queue.outstanding().next().is_none() => Some("shutdown".to_owned()),
            _ => self.queue.outstanding().next().map(word),
        };
        self.publisher.change(|state| state.doing = doing);
    }

    fn start(&mut self) {
        let Some(known) = self.known.clone() else { return };
        self.mode(Mode::Preparing);
        self.before = Before { acpi: known.machine.features.acpi, ..Before::default() };
        (self.disk_error, self.grace, self.tick, self.search) = (None, None, None, None);
        self.resume_waits = ResumeWaits::default();
        self.disk_pressure.end();
        self.early.clear();
        self.passing = !known.machine.start_paused;
        self.prepares(&known);
        match blocking_work::network(&known) {
            Ok(servers) => self.servers = servers,
            Err(why) => {
                tracing::warn!("{}", why.message);
                return self.failed(&why);
            }
        }
        let (hypervisor, root) = (self.parts.hypervisor.clone(), self.parts.root.clone());
        let lines = self.parts.lines.clone();
        let start = move || blocking_work::start(&*hypervisor, &known, &root, &lines);
        self.work = Some(Work::begin("start".to_owned(), start));
    }

    /// Publishes that the VM is prepared.
    fn prepares(&self, known: &CurrentVm) {
        let (targets, links) = (domain::targets(&known.machine), changeable::links(known));
        let generation = known.sync.generation;
        let selinux = selinux::context();
        self.publisher.change(|state| {
            let emptied = room::emptied(state);
            *state = State { life: Life::Preparing, generation, targets, links, selinux, ..emptied };
        });
    }

    fn begin(&mut self, request: Request) {
        let paused = self.queue.mode() == Mode::Paused;
        if let (Some(known), Request::Link { interface, up }) = (&mut self.known, &request)
            && let Some(found) = known.machine.interfaces.iter_mut().find(|known| known.name == *interface)
        {
            found.up = *up;
        }
        let Some(known) = self.known.clone() else { return self.queue.done() };
        self.passing |= !paused && matches!(request, Request::Eject { .. } | Request::Insert { .. });
        if let Request::Shutdown { grace } = &request {
            let seconds = grace.unwrap_or(known.machine.grace_period);
            self.grace = Some(Grace::begin(self.grace, seconds, Instant::now()));
            if seconds == 0 {
                self.before.grace_over = Some(0);
            }
        }
        self.heard = pause::PauseEvents::default();
        let hypervisor = self.parts.hypervisor.clone();
        let doing = word(&request);
        self.work =
            Some(Work::begin(doing, move || blocking_work::request(&*hypervisor, known, paused, request)));
    }

    fn finished(&mut self, outcome: Outcome) {
        let said = self.work.take().and_then(Work::said);
        if said.is_some() {
            // The work is done, so the state no longer reports a wait.
            self.publisher
                .change(|state| drop(state.message.take_if(|message| Some(&*message) == said.as_ref())));
        }
        match outcome {
            Outcome::Started(Ok(begun)) => self.started(*begun),
            Outcome::Started(Err(why)) => self.failed(&why),
            Outcome::Broken(why) => self.broke(why),
            Outcome::Done(request, result) => self.done(&request, result),
            Outcome::FoundOff(request, seen) => self.found_off(&request, &seen),
            Outcome::Changed(request, result) => {
                let host = self.known.as_mut().and_then(|known| known.host.as_mut());
                if let (Some(host), Ok((disk, place))) = (host, &result) {
                    host.disks.insert(disk.clone(), place.clone());
                }
                self.done(&request, result.map(drop));
            }
            Outcome::Located(host, devices) => self.located(host, devices),
            Outcome::Migrated(ended) => self.migrated(*ended),
            Outcome::Received(arrived) => self.received(arrived),
            Outcome::WentOn(Ok(())) => {}
            Outcome::WentOn(Err(e)) => tracing::warn!("{e}"),
        }
    }

    fn started(&mut self, begun: Begun) {
        let Begun { host, seen, kernel_boot } = begun;
        self.publisher.change(|state| (state.kernel_boot, state.sizes) = (kernel_boot, host.sizes.clone()));
        if let Some(known) = &mut self.known {
            known.host = Some(host);
        }
        self.saw(&seen);
        self.handle_early_events();
    }

    fn handle_early_events(&mut self) {
        for event in std::mem::take(&mut self.early) {
            self.event(event);
        }
    }

    fn done(&mut self, request: &Request, result: crate::hypervisor::Result<()>) {
        self.queue.done();
        self.passing &= result.is_ok();
        if let (Request::PauseForDiskPressure { .. }, Err(_)) = (request, &result) {
            self.disk_pressure.failed();
        }
        match (request, result) {
            (Request::Shutdown { .. }, Ok(())) if !self.queue.mode().is_over() => {
                self.mode(Mode::Stopping);
                self.tick = Some(Instant::now() + TICK);
                self.grace = self.grace.map(|grace| grace.reached(Instant::now()));
                let grace = self.grace.map(Grace::seconds);
                self.publisher.change(|state| {
                    (state.life, state.reason, state.grace) = (Life::Stopping, None, grace);
                    state.message = Some("the guest was asked to end".into());
                });
            }
            // The event of the VM's end will follow; waiting requests must not be judged as if it ran.
            (Request::Destroy, Ok(())) if !self.queue.mode().is_over() => self.mode(Mode::Stopping),
            (Request::Pause | Request::PauseForDiskPressure { .. }, Ok(())) => self.record_pause(),
            (Request::Unpause | Request::ResumeAfterDiskPressure, Ok(())) => self.record_resume(),
            (Request::Link { interface, up }, Ok(())) => {
                self.publisher.change(|state| {
                    state.links.insert(interface.clone(), *up);
                });
            }
            (_, Ok(())) => {}
            // The guest was faster.
            (_, Err(e)) if e.kind() == crate::hypervisor::ErrorKind::NotNow => tracing::info!("{e}"),
            (request, Err(e)) => {
                tracing::warn!("{e}");
                if let Request::Shutdown { .. } = request {
                    self.grace = self.grace.and_then(Grace::failed);
                }
                self.publisher.change(|state| state.message = Some(e.to_string()));
            }
        }
    }

    /// Handles a request that came too late, since the VM is off. The end is taken from the state that was seen, because libvirt sends no
    /// event for a VM that it ends while it reconnects.
    fn found_off(&mut self, request: &Request, seen: &DomainState) {
        tracing::info!("{} came too late: the VM is off", word(request));
        self.queue.done();
        if !self.queue.mode().is_over() {
            self.saw(seen);
        }
    }

    // ---- Events ----

    fn event(&mut self, event: Event) {
        let is_of_start = self.work.is_some() || self.broken_start.is_some();
        if event == Event::Receives {
            return self.publisher.change(|state| state.receives = true);
        }
        if self.awaits_release {
            return self.event_of_held(event);
        }
        if matches!(self.queue.mode(), Mode::Preparing | Mode::Receiving) && is_of_start {
            return self.early.push(event);
        }
        // What comes while a start waits for room is of the one that failed.
        if self.waits_for_room() || matches!(self.queue.mode(), Mode::Empty | Mode::Ended | Mode::Moved) {
            return;
        }
        tracing::debug!("{event:?}");
        match event {
            Event::Started | Event::Ending | Event::Receives => {}
            Event::Resumed => {
                self.passing = false;
                self.saw_running();
            }
            Event::Paused(Pause::Asked | Pause::Passing) if self.passing => {}
            // The last moment of a migration. Its result follows.
            Event::Paused(Pause::Passing) if self.migration.is_some() && !self.is_paused_by_migration() => {}
            Event::Migrating { progress, mode } => self.migration_progress(progress, mode),
            Event::MigrationAborts => self.migration_aborts(),
            Event::Paused(pause) => self.saw_paused(pause),
            Event::Panicked => self.before.panicked = true,
            Event::Ended(end) => self.ended(end),
            Event::Rebooted => {
                self.before.watchdog = false;
                self.publisher.change(|state| state.frozen = false);
            }
            Event::IoError { disk, path, no_space, paused } => {
                self.disk_error = Some(DiskError { disk, path, no_space });
                if paused || self.queue.mode() == Mode::Paused {
                    self.saw_paused(Pause::IoError);
                }
            }
            Event::Watchdog { reset } => self.before.watchdog = !reset,
            Event::Agent(here) => self.publisher.change(|state| state.agent = here),
            Event::Lost(why) => {
                tracing::error!("{why}");
                self.publisher.change(|state| state.message = Some(why));
            }
        }
    }

    fn saw(&mut self, seen: &DomainState) {
        self.publisher.change(|state| {
            (state.qemu_pid, state.qemu_started, state.agent) = (seen.pid, seen.started, seen.agent)
        });
        match seen.condition {
            Condition::Running => self.saw_running(),
            Condition::Paused(pause) => self.saw_paused(pause),
            Condition::Ending => self.mode(Mode::Stopping),
            Condition::Off(end) => self.ended(end),
        }
    }

    fn ended(&mut self, end: End) {
        if matches!(end, End::Crashed | End::Failed | End::Unknown)
            && let Some(known) = &self.known
        {
            self.before.last_words = blocking_work::last_words(&self.parts.root, &known.name);
        }
        // The guest of a VM that left runs elsewhere.
        let mode = if end == End::Left { Mode::Moved } else { Mode::Ended };
        self.over(&life::ended(end, &self.before), mode);
    }

    /// The VM does not run here any more, or must not.
    fn over(&mut self, standing: &Standing, mode: Mode) {
        (self.grace, self.tick, self.search) = (None, None, None);
        self.stands(standing);
        self.publisher.change(|state| {
            (state.qemu_pid, state.qemu_started, state.agent, state.credentials) = (None, None, false, None);
            (state.frozen, state.grace) = (false, None);
        });
        self.mode(mode);
    }

    fn stands(&self, standing: &Standing) {
        self.publisher.change(|state| {
            state.life = standing.life;
            state.reason = Some(standing.reason.to_owned());
            state.message = Some(standing.message.clone());
        });
    }

    fn mode(&mut self, mode: Mode) {
        self.queue.now(mode);
    }
}

#[path = "driver_broken.rs"]
mod broken;
#[path = "driver_end.rs"]
mod end;
#[path = "driver_migration.rs"]
mod migrations;
#[path = "driver_pause.rs"]
mod pause;
#[path = "driver_receive.rs"]
mod receive;
#[path = "driver_room.rs"]
mod room;
#[path = "driver_take_over.rs"]
mod take_over;
#[path = "driver_time.rs"]
mod time;
