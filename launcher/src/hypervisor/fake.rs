//! A hypervisor that runs nothing: it records each call, and behaves (or misbehaves) as a test sets it.

use super::{About, Condition, DomainState, End, Error, ErrorKind, Event, Hypervisor, Pause, Result, Tell};
use api::launcher::{MemoryStats, Migrate, MigrationProgress, Stats};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A hypervisor that runs nothing.
#[derive(Default)]
pub struct Fake {
    inner: Mutex<Inner>,
    /// Notified when a verb is released.
    released: Condvar,
}

#[derive(Default)]
struct Inner {
    conversation: Vec<String>,
    definition: String,
    domains: BTreeMap<String, Condition>,
    listeners: Vec<(String, Tell)>,
    failures: BTreeMap<String, Error>,
    /// Verbs whose next call panics.
    broken: BTreeSet<String>,
    agent: BTreeMap<String, String>,
    commands: Vec<String>,
    deaf: bool,
    /// True during a migration.
    migrates: bool,
    /// True for a source that does not say that its domain is gone.
    is_unreleased: bool,
    /// Events that are not sent yet, while they are held.
    held: Option<Vec<(String, Event)>>,
    /// Verbs that hang, and the number of their calls.
    hanging: BTreeSet<String>,
    hung: BTreeMap<String, usize>,
    /// Files of running domains, by name and label.
    files: BTreeMap<(String, String), OwnedFd>,
}

impl Inner {
    fn tell(&self, name: &str, event: &Event) {
        for (_, tell) in self.listeners.iter().filter(|(of, _)| of == name) {
            tell(event.clone());
        }
    }
}

impl Fake {
    /// All calls so far, in order.
    pub fn conversation(&self) -> Vec<String> {
        self.lock().conversation.clone()
    }

    /// All commands to guest agents so far, complete.
    pub fn agent_commands(&self) -> Vec<String> {
        self.lock().commands.clone()
    }

    /// The XML of the last definition.
    pub fn definition(&self) -> String {
        self.lock().definition.clone()
    }

    /// Makes the next call of this verb fail.
    pub fn fail_next(&self, verb: &str, kind: ErrorKind, why: &str) {
        self.lock().failures.insert(verb.to_owned(), Error::new(kind, verb, why));
    }

    /// Makes the next call of this verb panic.
    pub fn break_next(&self, verb: &str) {
        self.lock().broken.insert(verb.to_owned());
    }

    /// Makes calls of this verb hang, until it is released.
    pub fn hang(&self, verb: &str) {
        self.lock().hanging.insert(verb.to_owned());
    }

    /// Makes the domain that is received arrive without the source's word.
    pub fn withhold_release(&self) {
        self.lock().is_unreleased = true;
    }

    /// Lets calls of this verb return again.
    pub fn release(&self, verb: &str) {
        self.lock().hanging.remove(verb);
        self.released.notify_all();
    }

    /// Number of hanging calls of this verb, each on a thread.
    pub fn hung(&self, verb: &str) -> usize {
        self.lock().hung.get(verb).copied().unwrap_or_default()
    }

    /// Removes a domain without an event.
    pub fn forget(&self, name: &str) {
        self.lock().domains.remove(name);
    }

    pub fn condition(&self, name: &str) -> Option<Condition> {
        self.lock().domains.get(name).copied()
    }

    /// Makes the guests ignore the power button.
    pub fn deaf(&self) {
        self.lock().deaf = true;
    }

    /// Sets the guest agent's answer to a command, from now on.
    pub fn agent_says(&self, command: &str, answer: &str) {
        self.lock().agent.insert(command.to_owned(), answer.to_owned());
    }

    /// Holds events back: libvirt reports them later than the results of the calls that cause them.
    pub fn hold_events(&self) {
        self.lock().held = Some(Vec::new());
    }

    /// Sends the events that were held back, in their order.
    pub fn send_events(&self) {
        let mut inner = self.lock();
        for (name, event) in inner.held.take().unwrap_or_default() {
            inner.tell(&name, &event);
        }
    }

    /// Changes the domain's condition and sends the event.
    pub fn happen(&self, name: &str, event: &Event) {
        let mut inner = self.lock();
        inner.conversation.push(format!("  {name}: {event:?}"));
        let condition = match event {
            Event::Resumed => Some(Condition::Running),
            Event::Paused(pause) => Some(Condition::Paused(*pause)),
            Event::Ended(end) => Some(Condition::Off(*end)),
            _ => None,
        };
        if let Some(condition) = condition {
            inner.domains.insert(name.to_owned(), condition);
        }
        if let Some(Condition::Off(_)) = condition {
            inner.files.retain(|(of, _), _| of != name);
        }
        match &mut inner.held {
            Some(held) => held.push((name.to_owned(), event.clone())),
            None => inner.tell(name, event),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call, and fails if the test asks for it.
    fn said(&self, verb: &str, rest: &str) -> Result<()> {
        let mut inner = self.lock();
        inner.conversation.push(format!("{verb} {rest}").trim_end().to_owned());
        if inner.hanging.contains(verb) {
            *inner.hung.entry(verb.to_owned()).or_default() += 1;
            let hangs = |inner: &mut Inner| inner.hanging.contains(verb);
            inner = self.released.wait_while(inner, hangs).unwrap_or_else(PoisonError::into_inner);
            inner.hung.entry(verb.to_owned()).and_modify(|calls| *calls -= 1);
        }
        if inner.broken.remove(verb) {
            drop(inner);
            std::panic::panic_any(format!("the test breaks '{verb}'"));
        }
        inner.failures.remove(verb).map_or(Ok(()), Err)
    }

    /// The condition of a running domain.
    fn running(&self, verb: &str, name: &str) -> Result<Condition> {
        self.said(verb, name)?;
        match self.lock().domains.get(name).copied() {
            None => Err(Error::new(ErrorKind::NotFound, format!("{verb} {name}"), "there is no such domain")),
            Some(Condition::Off(_)) => {
                Err(Error::new(ErrorKind::NotNow, format!("{verb} {name}"), "it does not run"))
            }
            Some(condition) => Ok(condition),
        }
    }
}

/// The text of the first element of this name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once('<').map(|(text, _)| text)
}

impl Hypervisor for Fake {
    fn about(&self) -> Result<About> {
        Ok(About { version: "0.0.0".into(), uri: "fake:///".into() })
    }

    fn has_iothread_mapping(&self) -> Result<bool> {
        Ok(true)
    }

    fn watch(&self, name: &str, tell: Tell) -> Result<()> {
        self.said("watch", name)?;
        self.lock().listeners.push((name.to_owned(), tell));
        Ok(())
    }

    fn define(&self, xml: &str) -> Result<()> {
        let name = element(xml, "name").unwrap_or_default().to_owned();
        self.said("define", &name)?;
        self.lock().definition = xml.to_owned();
        if name.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "define the domain", "it has no name"));
        }
        self.lock().domains.entry(name).or_insert(Condition::Off(End::Unknown));
        Ok(())
    }

    fn undefine(&self, name: &str) -> Result<()> {
        self.said("undefine", name)?;
        match self.lock().domains.remove(name) {
            Some(_) => Ok(()),
            None => {
                Err(Error::new(ErrorKind::NotFound, format!("undefine {name}"), "there is no such domain"))
            }
        }
    }

    fn start(&self, name: &str) -> Result<()> {
        self.said("start", name)?;
        match self.lock().domains.get(name) {
            None => {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!("start {name}"),
                    "there is no such domain",
                ));
            }
            Some(Condition::Off(_)) => {}
            Some(_) => return Err(Error::new(ErrorKind::NotNow, format!("start {name}"), "it runs already")),
        }
        self.happen(name, &Event::Started);
        self.happen(name, &Event::Paused(Pause::Asked));
        Ok(())
    }

    /// The other end is closed: guests of the fake write nothing.
    fn line(&self, name: &str) -> Result<Option<OwnedFd>> {
        self.running("line", name)?;
        let pair =
            UnixStream::pair().map_err(|e| Error::new(ErrorKind::Failed, "make a line", e.to_string()))?;
        Ok(Some(pair.0.into()))
    }

    fn keep_file(&self, name: &str, label: &str, file: BorrowedFd<'_>) -> Result<()> {
        self.running("keep_file", name)?;
        let own = |e: std::io::Error| Error::new(ErrorKind::Failed, "keep a file", e.to_string());
        let file = file.try_clone_to_owned().map_err(own)?;
        self.lock().files.insert((name.to_owned(), label.to_owned()), file);
        Ok(())
    }

    /// The process that has the files of a domain is this one.
    fn state(&self, name: &str) -> Result<DomainState> {
        self.said("state", name)?;
        match self.lock().domains.get(name).copied() {
            Some(condition) => {
                let pid = (!matches!(condition, Condition::Off(_))).then(std::process::id);
                Ok(DomainState { condition, pid, started: None, agent: false })
            }
            None => {
                Err(Error::new(ErrorKind::NotFound, format!("look at {name}"), "there is no such domain"))
            }
        }
    }

    fn shutdown(&self, name: &str) -> Result<()> {
        self.running("shutdown", name)?;
        if !self.lock().deaf {
            self.happen(name, &Event::Ending);
            self.happen(name, &Event::Ended(End::Shutdown));
        }
        Ok(())
    }

    fn destroy(&self, name: &str) -> Result<()> {
        self.running("destroy", name)?;
        self.happen(name, &Event::Ended(End::Destroyed));
        Ok(())
    }

    fn reboot(&self, name: &str) -> Result<()> {
        self.running("reboot", name)?;
        self.happen(name, &Event::Rebooted);
        Ok(())
    }

    fn reset(&self, name: &str) -> Result<()> {
        self.running("reset", name)?;
        self.happen(name, &Event::Rebooted);
        Ok(())
    }

    fn pause(&self, name: &str) -> Result<()> {
        if self.running("pause", name)? == Condition::Running {
            let pause = if self.lock().migrates { Pause::Passing } else { Pause::Asked };
            self.happen(name, &Event::Paused(pause));
        }
        Ok(())
    }

    fn resume(&self, name: &str) -> Result<()> {
        if self.running("resume", name)? != Condition::Running {
            self.happen(name, &Event::Resumed);
        }
        Ok(())
    }

    fn change_media(&self, name: &str, disk: &str) -> Result<()> {
        self.running("change_media", name)?;
        let source = disk.split("file=").nth(1).and_then(|rest| rest.split(['"', '\'']).nth(1));
        self.lock().conversation.push(format!("  media: {}", source.unwrap_or("none")));
        Ok(())
    }

    fn change_link(&self, name: &str, interface: &str) -> Result<()> {
        self.running("change_link", name)?;
        let is_down = interface.contains("<link state=\"down\"") || interface.contains("<link state='down'");
        self.lock().conversation.push(format!("  link: {}", if is_down { "down" } else { "up" }));
        Ok(())
    }

    fn agent(&self, name: &str, command: &str, _: Duration) -> Result<String> {
        let verb = command.split('"').skip_while(|word| *word != "execute").nth(2).unwrap_or_default();
        self.lock().commands.push(command.to_owned());
        self.said("agent", &format!("{name} {verb}"))?;
        let answer = self.lock().agent.get(verb).cloned();
        answer.ok_or_else(|| {
            Error::new(ErrorKind::NoAgent, format!("ask the guest agent in {name}"), "it does not answer")
        })
    }

    fn stats(&self, name: &str) -> Result<Stats> {
        self.running("stats", name)?;
        let memory = MemoryStats { domain: 32 << 20, ..MemoryStats::default() };
        Ok(Stats { cpu_ns: 1, memory, dirty_bytes_per_second: Some(0), ..Stats::default() })
    }

    /// The domain goes at once; while `migrate` hangs, once it is released; not, where it was aborted. What was paused meanwhile is
    /// resumed then, unless the connection broke (`Unavailable`).
    fn migrate(&self, name: &str, order: &Migrate, disks: &[String]) -> Result<()> {
        let before = self.condition(name);
        self.lock().migrates = true;
        let said = self.said("migrate", &format!("{name} {} {}", order.id, disks.join(" ")));
        self.lock().migrates = false;
        if let Err(e) = said {
            let is_paused = self.condition(name) == Some(Condition::Paused(Pause::Passing));
            if is_paused && before == Some(Condition::Running) && e.kind() != ErrorKind::Unavailable {
                self.happen(name, &Event::Resumed);
            }
            return Err(e);
        }
        if !matches!(self.lock().domains.get(name), Some(Condition::Running | Condition::Paused(_))) {
            return Err(Error::new(ErrorKind::NotNow, format!("migrate {name}"), "it does not run"));
        }
        self.happen(name, &Event::Ended(End::Left));
        self.lock().domains.remove(name);
        Ok(())
    }

    fn migration_progress(&self, name: &str) -> Result<Option<MigrationProgress>> {
        let runs = self.lock().domains.contains_key(name);
        Ok(runs.then(|| MigrationProgress {
            total: 64 << 20,
            remaining: 1 << 20,
            ..MigrationProgress::default()
        }))
    }

    fn abort_migration(&self, name: &str) -> Result<()> {
        self.running("abort_migration", name)?;
        self.fail_next("migrate", ErrorKind::Failed, "it was aborted");
        self.release("migrate");
        Ok(())
    }

    fn limit_downtime(&self, name: &str, limit: Duration) -> Result<()> {
        self.said("limit_downtime", &format!("{name} {} ms", limit.as_millis()))
    }

    fn start_post_copy(&self, name: &str) -> Result<()> {
        self.running("start_post_copy", name).map(drop)
    }

    /// The domain comes at once; while `receive` hangs, once it is released.
    fn receive(&self, name: &str, _domain: &str, socket: &Path, listens: &mut dyn FnMut()) -> Result<bool> {
        listens();
        self.said("receive", &format!("{name} {}", socket.display()))?;
        let mut inner = self.lock();
        let condition =
            if inner.is_unreleased { Condition::Paused(Pause::Asked) } else { Condition::Running };
        inner.domains.insert(name.to_owned(), condition);
        Ok(!inner.is_unreleased)
    }

    fn stop_receiving(&self) {
        self.fail_next("receive", ErrorKind::Failed, "it was given up");
        self.release("receive");
    }

    fn screenshot(&self, name: &str, into: &mut dyn Write) -> Result<()> {
        self.running("screenshot", name)?;
        into.write_all(b"P6\n2 1\n255\n\x00\x00\x00\xff\xff\xff")
            .map_err(|e| Error::new(ErrorKind::Failed, "take a screenshot", e.to_string()))
    }
}
