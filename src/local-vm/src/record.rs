//! Record of a VM on disk: the facts that list it, start it again, and remove all of its files.
//!
//! ```text
//!  vms/NAME/vm.json     a Record: written before the launcher gets the VM, read by every verb
//! ```
//!
//! The launcher keeps the state that it needs to take over a running VM in a root folder of its own. The
//! record is the part of `coracle run`.

use super::client::{Client, NextState};
use super::host_file::{HostDevices, HostDisks};
use super::launch;
use super::lock::{self, LOCK};
use super::moved_home;
use super::place::{Home, Lock};
use super::pool_disk::PoolDisk;
use super::raw_disks::RecordedDisks;
use super::record_folder::RecordFolder;
use super::user_words::UserWords;
use super::whole_file::write_whole;
use crate::error::{Error, ErrorKind, Result};
use api::launcher::{Answer, Life, Request, State, Sync};
use launcher_client::process;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time after which an end that did not count is judged again.
const JUDGED_AGAIN: Duration = Duration::from_secs(1);

/// Version of the file's schema.
const SCHEMA: &str = "coracle.vm/v1";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the schema of this JSON.
    pub schema: String,
    pub name: String,
    /// Time of the first run, RFC 3339.
    pub created: String,
    /// Name of the manifest, image or disk that the VM was made from, for messages.
    pub source: String,
    /// File, image or URL that `run` made the VM of without a manifest, by which it knows the VM again. Unset for a manifest, and in
    /// records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_from: Option<String>,
    /// Drives that `run` made that VM with, and whose writes outlive a run ([`VmSource`](super::new_name::VmSource)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting_drives: Option<BTreeSet<String>>,
    /// Mark of the process that made the VM and removes it at its own end, and no other VM of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// True if the VM is removed after its end.
    pub remove: bool,
    /// The last request to the launcher: VMI, generation, resolved volumes and networks.
    pub sync: Sync,
    /// Path of the launcher's program.
    pub launcher: PathBuf,
    /// Files of the hostDisks as they were at the last start, with their formats.
    #[serde(default, skip_serializing_if = "HostDisks::is_empty")]
    pub host_disks: HostDisks,
    /// Block devices of the VM as they were at the last start. Earlier versions recorded none.
    #[serde(default, skip_serializing_if = "HostDevices::is_empty")]
    pub devices: HostDevices,
    /// Disks of the pool as they were at the last start. Earlier versions recorded none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pool_disks: BTreeMap<String, PoolDisk>,
    /// Folder that the record was written to. Earlier versions recorded none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<RecordFolder>,
    /// Volumes of the VMs whose records this one has replaced: their launchers made files by these names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub earlier_volumes: BTreeSet<String>,
}

impl Record {
    /// A record of a VM that is created now.
    pub fn new(name: &str, source: &str, remove: bool, sync: Sync, launcher: &Path) -> Record {
        Record {
            schema: SCHEMA.to_owned(),
            name: name.to_owned(),
            created: now(),
            source: source.to_owned(),
            made_from: None,
            lasting_drives: None,
            owner: None,
            remove,
            sync,
            launcher: launcher.to_owned(),
            host_disks: HostDisks::new(),
            devices: HostDevices::new(),
            pool_disks: BTreeMap::new(),
            folder: None,
            earlier_volumes: BTreeSet::new(),
        }
    }

    /// The parts that tell its disks.
    pub(crate) fn disks(&self) -> RecordedDisks<'_> {
        RecordedDisks { sync: &self.sync, host_disks: &self.host_disks, devices: &self.devices }
    }

    /// Names of all volumes that VMs of this folder had.
    pub(crate) fn all_volumes(&self) -> BTreeSet<String> {
        let volumes = self.sync.vmi["spec"]["volumes"].as_array().into_iter().flatten();
        let own = volumes.filter_map(|volume| volume["name"].as_str()).map(str::to_owned);
        own.chain(self.earlier_volumes.iter().cloned()).collect()
    }

    /// Namespace of the VM.
    pub(crate) fn namespace(&self) -> &str {
        self.sync.vmi["metadata"]["namespace"].as_str().unwrap_or("default")
    }

    /// Paths of all files that the VM uses: those of its volumes and its kernel, hostDisks that its launcher makes or has made, and the files
    /// under its loop devices.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.disks().files()
    }

    /// Writes the record to disk, whole or not at all.
    pub fn save(&self, home: &Home) -> Result<()> {
        let folder = Some(RecordFolder::find(&home.vm(&self.name))?);
        let text = serde_json::to_vec_pretty(&Record { folder, ..self.clone() })
            .map_err(|e| Error::failed("cannot write the record of a VM").because(e))?;
        write_whole(&home.vm_record(&self.name), &text)
    }
}

/// Current time, RFC 3339.
pub fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    container_disk::image::time::rfc3339(seconds)
}

/// State of a VM as far as it is known here.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// State reported by the running launcher.
    Known(State),
    /// The launcher has ended. The state is the last one that it saved, corrected if QEMU has ended since.
    Left(Option<State>),
}

impl Standing {
    /// Status of the VM in a table, one word.
    pub fn word(&self) -> &'static str {
        match self {
            Standing::Known(state) => word(state.life),
            Standing::Left(Some(_)) if self.is_unwatched() => "Unwatched",
            Standing::Left(Some(state)) => word(state.life),
            Standing::Left(None) => "Stopped",
        }
    }

    /// True if the VM ran at the last report of its launcher, which has ended.
    pub fn is_unwatched(&self) -> bool {
        matches!(self, Standing::Left(Some(state)) if !state.life.is_final())
    }

    /// True if the VM runs, or ran at the last report of its launcher.
    pub fn is_up(&self) -> bool {
        match self {
            Standing::Known(state) => !state.life.is_final() && state.life != Life::Empty,
            Standing::Left(_) => self.is_unwatched(),
        }
    }
}

fn word(life: Life) -> &'static str {
    match life {
        Life::Empty => "Created",
        Life::Preparing => "Starting",
        Life::Running => "Running",
        Life::Paused => "Paused",
        Life::Stopping => "Stopping",
        Life::Succeeded => "Stopped",
        Life::Failed => "Failed",
    }
}

/// A VM of this computer.
#[derive(Debug, Clone)]
pub struct Vm {
    pub home: Home,
    pub record: Record,
}

impl Vm {
    /// The VM of this name, or an error if it does not exist or its record is a copy.
    pub fn open(home: &Home, name: &str) -> Result<Vm> {
        super::place::check_name(name)?;
        match Vm::find(home, name)? {
            Some(vm) => vm.refuse_copy().map(|()| vm),
            None => {
                let what = format!("VM {name:?} not found; 'coracle ps -a' lists all VMs");
                Err(Error::new(ErrorKind::NotFound, what))
            }
        }
    }

    /// The VM of this name, if it exists. A record of another name, in a folder that was renamed or copied, is an error: all verbs
    /// would reach that VM.
    pub fn find(home: &Home, name: &str) -> Result<Option<Vm>> {
        let path = home.vm_record(name);
        let bytes = match std::fs::read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?,
        };
        let record: Record = serde_json::from_slice(&bytes).map_err(|e| {
            let what = format!("{} is not what coracle wrote", path.display());
            Error::refused(what).because(e).with_hint(format!(
                "mend that file, or set it aside under another name; 'coracle rm -f {name}' removes the VM with all its files"
            ))
        })?;
        if record.name != name {
            let what =
                format!("{} is the record of the VM {:?}, and not of {name}", path.display(), record.name);
            return Err(Error::refused(what).with_hint(format!(
                "give the folder the name of that VM again; 'coracle rm -f {name}' removes the folder with all its files"
            )));
        }
        let mut record = record;
        let folder = home.vm(name);
        if let Some(noted) = record.folder.clone()
            && let Some(before) = noted.moved_from(&folder)?
        {
            moved_home::rebase(home, &mut record.sync, before, &folder);
        }
        Ok(Some(Vm { home: home.clone(), record }))
    }

    /// True if the record is a copy of that of a VM in another folder.
    pub(crate) fn is_copy(&self) -> Result<bool> {
        let noted = self.record.folder.as_ref();
        noted.map_or(Ok(false), |noted| noted.is_copied_to(&self.home.vm(self.name())))
    }

    /// Refuses a copied record: its disks and its guest are those of the original.
    pub(crate) fn refuse_copy(&self) -> Result<()> {
        match &self.record.folder {
            Some(noted) if self.is_copy()? => Err(noted.refusal(self.name())),
            _ => Ok(()),
        }
    }

    /// All VMs by name, with an error for each unreadable record.
    pub fn all(home: &Home) -> Result<Vec<(String, Result<Vm>)>> {
        let mut found = vec![];
        for name in home.names()? {
            match Vm::find(home, &name) {
                Ok(None) => {}
                Ok(Some(vm)) => found.push((name, Ok(vm))),
                Err(e) => found.push((name, Err(e))),
            }
        }
        Ok(found)
    }

    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// A client for its launcher, running or not.
    pub fn client(&self) -> Result<Client> {
        launch::client(&self.home, self.name())
    }

    /// A client for its launcher. A launcher that has ended is replaced by a new one that takes the VM over.
    pub fn launcher(&self) -> Result<Client> {
        let client = self.client()?;
        if client.is_there() {
            return Ok(client);
        }
        let is_there = || match Vm::find(&self.home, self.name())? {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::NotFound, format!("{} was removed meanwhile", self.name()))),
        };
        // The lock would make its folder again.
        is_there()?;
        let _lock = self.home.lock_vm(self.name())?;
        is_there()?;
        launch::start(&self.record.launcher, &self.home, self.name())
    }

    /// State of the VM, from its launcher or from the last state that was saved.
    pub fn standing(&self) -> Result<Standing> {
        match self.reported()? {
            // Another process has recorded a new run, and the launcher still reports the end of the run before.
            Standing::Known(state)
                if state.life.is_final()
                    && state.generation < self.record.sync.generation
                    && self.is_locked() =>
            {
                Ok(Standing::Known(State { life: Life::Preparing, ..state }))
            }
            standing => Ok(standing),
        }
    }

    /// The same for a process that has the lock of this VM: no other one starts it.
    pub fn standing_locked(&self, _: &Lock) -> Result<Standing> {
        self.reported()
    }

    /// True while a process has the lock of this VM, as a start does.
    fn is_locked(&self) -> bool {
        lock::is_locked(&self.home.vm(self.name()).join(LOCK))
    }

    /// The state that the launcher reports, or the last one that was saved.
    fn reported(&self) -> Result<Standing> {
        let client = self.client()?;
        match client.state() {
            Ok(state) => Ok(Standing::Known(state)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Standing::Left(self.last_state()?)),
            // The launcher ended during the request.
            Err(_) if !client.is_there() => Ok(Standing::Left(self.last_state()?)),
            Err(e) => Err(e),
        }
    }

    /// State that the launcher saved last in its root. Where that cannot be read, a QEMU that runs still counts. The state beside a
    /// copied record is that of the original.
    fn last_state(&self) -> Result<Option<State>> {
        if self.is_copy()? {
            return Ok(None);
        }
        let path = launch::root(&self.home, self.name()).join("state.json");
        let read = std::fs::read(&path).and_then(|bytes| Ok(serde_json::from_slice::<State>(&bytes)?));
        let mut state = match read {
            Ok(state) => state,
            Err(e) => {
                if e.kind() != io::ErrorKind::NotFound {
                    tracing::warn!("cannot read {}, the last state of {}: {e}", path.display(), self.name());
                }
                let qemu = launch::qemu(&self.home, self.name())?;
                return Ok(qemu.map(|(pid, _)| State {
                    life: Life::Running,
                    qemu_pid: Some(pid),
                    message: Some(format!(
                        "{} cannot be read; the launcher's next start tells the state",
                        path.display()
                    )),
                    ..State::default()
                }));
            }
        };
        state.message =
            state.message.map(|message| UserWords::find(&self.home, self.name()).translate(&message));
        if !state.life.is_final() && !process::runs_qemu(&state) {
            // The launcher was killed between the start of QEMU and the next state. Without a guest yet it would go on with it.
            if state.qemu_pid.is_none()
                && let Some((pid, _)) = launch::qemu(&self.home, self.name())?
            {
                (state.qemu_pid, state.qemu_started) = (Some(pid), process::Process::of(pid).started());
                return Ok(Some(state));
            }
            (state.qemu_pid, state.qemu_started) = (None, None);
            state.life = Life::Failed;
            state.reason = Some("Lost".to_owned());
            state.message = Some("the VM ended while no launcher watched it".to_owned());
        }
        Ok(Some(state))
    }

    /// Log of the guest's serial console, written by QEMU.
    pub fn serial_log(&self) -> PathBuf {
        launch::root(&self.home, self.name()).join("log/serial.log")
    }

    /// A client for the launcher of a VM that must be running.
    pub fn up(&self) -> Result<Client> {
        let standing = self.standing()?;
        if standing.is_up() {
            return self.launcher();
        }
        let name = self.name();
        let what = format!("{name} does not run ({}); 'coracle start {name}' starts it", standing.word());
        Err(Error::failed(what))
    }

    /// Sends a request that must not be denied. False if the launcher had nothing to do.
    pub fn ask(&self, client: &Client, request: &Request) -> Result<bool> {
        match client.request(request)? {
            Answer::Queued => Ok(true),
            Answer::Ignored { reason } => {
                tracing::info!("{}: {reason}", self.name());
                Ok(false)
            }
            Answer::Denied(denial) => Err(Error::failed(format!("{}: {denial}", self.name()))),
        }
    }

    /// Waits until the VM has ended.
    pub fn wait_for_end(&self, client: &Client, patience: Option<Duration>) -> Result<State> {
        let generation = self.record.sync.generation;
        self.wait_for(client, "end", patience, |state| match state.life {
            Life::Empty => true,
            // The end of an earlier run counts unless another process starts the next one.
            life => life.is_final() && (state.generation >= generation || !self.is_locked()),
        })
    }

    /// Waits until a state of the VM fulfils `is`; `what` is the verb in the error of a timeout. An end that stays is judged again
    /// each second.
    pub fn wait_for(
        &self,
        client: &Client,
        what: &str,
        patience: Option<Duration>,
        is: impl Fn(&State) -> bool,
    ) -> Result<State> {
        let since = Instant::now();
        let mut states = client.watch()?;
        let mut last: Option<State> = None;
        loop {
            let left = patience.map(|patience| patience.saturating_sub(since.elapsed()));
            let late = || {
                let life = last.as_ref().map_or("not known", |state| word(state.life));
                let seconds = patience.map_or(0, |patience| patience.as_secs());
                let name = self.name();
                Error::failed(format!("{name} did not {what} within {seconds} s; its state is: {life}"))
            };
            if left.is_some_and(|left| left.is_zero()) {
                return Err(late());
            }
            // What an end means changes when another process gives up its start.
            let is_end = last.as_ref().is_some_and(|state| state.life.is_final());
            let within =
                if is_end { Some(left.map_or(JUDGED_AGAIN, |left| left.min(JUDGED_AGAIN))) } else { left };
            match states.next_within(within) {
                Ok(NextState::State(state)) if is(&state) => return Ok(*state),
                Ok(NextState::State(state)) => last = Some(*state),
                Ok(NextState::Silence) => {
                    if let Some(state) = last.take_if(|state| is(state)) {
                        return Ok(state);
                    }
                }
                Ok(NextState::End) => {
                    let log = launch::log(&self.home, self.name());
                    let what = format!("the launcher of {} has ended{}", self.name(), launch::tail(&log));
                    return Err(Error::failed(what));
                }
                Err(_) if patience.is_some_and(|patience| since.elapsed() >= patience) => return Err(late()),
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_launcher::FakeLauncher;
    use crate::fake_qemu::Qemu;
    use crate::vm_folder::forget;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    /// A VM with a launcher that has ended. Its QEMU has this process ID.
    fn left(home: &Home, state: &[u8], pid: u32) -> Vm {
        let root = launch::root(home, "vm");
        std::fs::create_dir_all(root.join("run/qemu")).unwrap();
        std::fs::write(root.join("run/qemu/n_vm.pid"), format!("{pid}\n")).unwrap();
        std::fs::write(root.join("run/qemu/driver.pid"), std::process::id().to_string()).unwrap();
        std::fs::write(root.join("state.json"), state).unwrap();
        let sync = Sync {
            vmi: serde_json::Value::Null,
            generation: 1,
            resolved: api::launcher::Resolved::default(),
        };
        Record::new("vm", "x", true, sync, Path::new("/launcher")).save(home).unwrap();
        Vm::open(home, "vm").unwrap()
    }

    /// It passed for a stopped VM: `rm` and the next `run` removed its files, and the guest went on without any.
    #[test]
    fn a_vm_whose_last_state_is_damaged_runs_as_long_as_its_qemu() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
        let qemu = Qemu::start(place.path(), "n_vm");
        let state = State { life: Life::Succeeded, ..State::default() };
        for damaged in [&b""[..], b"{", b"[]"] {
            let standing = left(&home, damaged, qemu.id()).standing().unwrap();
            assert!(standing.is_up() && standing.is_unwatched(), "{standing:?}");
        }
        let whole = serde_json::to_vec(&state).unwrap();
        assert!(!left(&home, &whole, qemu.id()).standing().unwrap().is_up());
        let vm = left(&home, b"", qemu.id());
        std::fs::remove_file(launch::root(&home, "vm").join("state.json")).unwrap();
        assert!(vm.standing().unwrap().is_up());

        let e = forget(&home, "vm", home.lock_vm("vm").unwrap()).unwrap_err().to_string();
        assert!(e.contains(&format!("its QEMU (process {}) runs", qemu.id())), "{e}");
        assert!(e.contains(&format!("kill {}", qemu.id())) && e.contains("n_vm.pid"), "{e}");
        assert!(Vm::find(&home, "vm").unwrap().is_some());
        drop(qemu);
        assert_eq!(left(&home, b"", u32::MAX).standing().unwrap(), Standing::Left(None));
        forget(&home, "vm", home.lock_vm("vm").unwrap()).unwrap();
        assert!(!home.vm("vm").exists());
    }

    /// The launcher was killed between the start of QEMU and the next state: its successor goes on with that guest.
    #[test]
    fn a_vm_that_was_starting_is_up_while_its_qemu_runs() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
        let qemu = Qemu::start(place.path(), "n_vm");
        let state = serde_json::to_vec(&State { life: Life::Preparing, ..State::default() }).unwrap();
        let standing = left(&home, &state, qemu.id()).standing().unwrap();
        assert!(standing.is_up() && standing.is_unwatched(), "{standing:?}");
        drop(qemu);
        let standing = left(&home, &state, u32::MAX).standing().unwrap();
        assert!(!standing.is_up(), "{standing:?}");
    }

    /// `start` booted the VM of the record, and `rm -f` powered it off.
    #[test]
    fn a_record_of_another_name_is_no_vm() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
        left(&home, b"", u32::MAX);
        std::fs::rename(home.vm("vm"), home.vm("other")).unwrap();
        let e = Vm::open(&home, "other").unwrap_err().to_string();
        assert!(e.contains("other/vm.json is the record of the VM \"vm\", and not of other"), "{e}");
        let all = Vm::all(&home).unwrap();
        assert!(all.len() == 1 && all[0].0 == "other" && all[0].1.is_err());
        forget(&home, "other", home.lock_vm("other").unwrap()).unwrap();
        assert!(!home.vm("other").exists());
    }

    /// `coracle start` was killed behind the record of its new run: the VM was "Starting" for ever.
    #[test]
    fn a_start_that_was_given_up_leaves_a_stopped_vm() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
        let mut vm = left(&home, b"", u32::MAX);
        vm.record.sync.generation = 2;
        let _launcher = FakeLauncher::start(&home, Life::Succeeded, 1);
        let client = FakeLauncher::client(&home);
        assert_eq!(vm.standing().unwrap().word(), "Stopped");
        assert_eq!(vm.wait_for_end(&client, None).unwrap().life, Life::Succeeded);

        let lock = home.lock_vm("vm").unwrap();
        assert_eq!(vm.standing().unwrap().word(), "Starting", "another process starts it");
        assert_eq!(vm.standing_locked(&lock).unwrap().word(), "Stopped", "this process would know");
        let patience = Some(Duration::from_millis(100));
        let e = vm.wait_for_end(&client, patience).unwrap_err().to_string();
        assert!(e.contains("did not end"), "{e}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| vm.wait_for_end(&client, None));
            std::thread::sleep(Duration::from_millis(100));
            drop(lock);
            assert_eq!(waits.join().unwrap().unwrap().life, Life::Succeeded);
        });
    }

    #[test]
    fn the_socket_of_an_earlier_launcher_goes_with_its_vm() {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let own = |_: &str| Some(place.path().into());
        let home = Home::from_env(None, own).unwrap();
        let earlier = home.earlier_socket("vm").unwrap();
        std::fs::create_dir_all(earlier.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(&earlier).unwrap();
        left(&home, b"", u32::MAX);
        forget(&home, "vm", home.lock_vm("vm").unwrap()).unwrap();
        assert!(earlier.exists(), "a launcher of another home listens there");
        drop(listener);
        left(&home, b"", u32::MAX);
        forget(&home, "vm", home.lock_vm("vm").unwrap()).unwrap();
        assert!(!earlier.exists() && !home.vm("vm").exists());
    }
}
