//! libvirt: all of its calls are made here.
//!
//! ```text
//!  Hypervisor verb ──► virDomain…  (blocking)   ──► from_libvirt.rs: libvirt's numbers and messages as our types
//!                  ◄── records.rs: libvirt's statistics, from C structures
//!  receive         ──► reception.rs: a daemon, before the driver is opened
//!  Tell            ◄── events.rs: callbacks     ◄── the thread "libvirt", which runs its event loop
//! ```
//!
//! With `qemu:///embed?root=DIR` libvirt's QEMU driver runs in this process, so this process must run its
//! event loop. It is registered before the first connection and runs until the process ends. A domain is
//! looked up by name for every verb; only the connection is kept.

mod domain;
mod events;
mod file_passing;
mod from_libvirt;
mod migration;
mod reception;
mod records;

use crate::{memory, remains};
use api::launcher::{Migrate, MigrationProgress, MonitorCommand, Stats};
use launcher::hypervisor::{
    About, Condition, DomainState, Error, ErrorKind, Hypervisor, Result, Tell, embed,
};
use launcher::root::Root;
use launcher_client::process::Process;
use reception::{Reception, Word};
use rustix::fs::{Mode, OFlags};
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::stream::Stream;
use virt::sys;

/// The size limit of a screenshot: 16 million points of 3 bytes, and a little.
const LARGEST_SCREEN: usize = 48 << 20;
/// Length of a guest agent's answer after which freed memory is given back to the kernel.
const LONG_ANSWER: usize = 1 << 20;

/// The length limit of the answer of QEMU's monitor.
const LONGEST_MONITOR: usize = 2 << 20;

/// The first versions of libvirt (10.0) and QEMU (9.0) that give a disk several IOThreads.
const IOTHREAD_MAPPING: (u32, u32) = (10_000_000, 9_000_000);

/// A connection to libvirt.
pub(crate) struct Libvirt {
    /// Not there while the VM comes from another launcher.
    connection: OnceLock<Connect>,
    uri: String,
    /// The folder of the driver's pid files, if the driver runs in this process.
    pids: Option<PathBuf>,
    /// The way in which the VM comes from another launcher.
    reception: Option<Reception>,
}

impl Libvirt {
    /// Connects. `pids` is the folder of the driver's pid files.
    pub(crate) fn open(uri: &str, pids: Option<PathBuf>) -> Result<Libvirt> {
        let connection = OnceLock::from(connect(uri)?);
        Ok(Libvirt { connection, uri: uri.to_owned(), pids, reception: None })
    }

    /// The driver in this process, which is opened when the VM has come from another launcher.
    pub(crate) fn receiving(root: &Root) -> Libvirt {
        Libvirt {
            connection: OnceLock::new(),
            uri: embed::uri(root),
            pids: Some(root.pids()),
            reception: Some(Reception::new(root.clone())),
        }
    }

    /// The connection.
    pub(crate) fn connection(&self) -> Result<&Connect> {
        let not_open = || Error::new(ErrorKind::Unavailable, "ask libvirt", "the VM has not arrived yet");
        self.connection.get().ok_or_else(not_open)
    }

    /// Opens the driver after a reception, and finds the VM. The driver ends a QEMU that was still receiving.
    fn find_received(&self, name: &str, reception: &Reception) -> Result<Condition> {
        remains::clear(reception.root());
        let _ = self.connection.set(connect(&self.uri)?);
        match self.state(name)?.condition {
            condition if reception::has_arrived(condition) => Ok(condition),
            condition => {
                let _ = self.destroy(name).inspect_err(|e| tracing::warn!("{e}"));
                let why = format!("it is {condition:?} here");
                Err(Error::new(ErrorKind::Failed, format!("receive {name}"), why))
            }
        }
    }

    /// A version as a text.
    pub(crate) fn version(number: u32) -> String {
        from_libvirt::version(number)
    }

    fn domain(&self, name: &str, doing: &str) -> Result<Domain> {
        let name = plain(name, doing)?;
        Domain::lookup_by_name(self.connection()?, name).map_err(|e| from_libvirt::error(doing, &e))
    }

    /// Carries out one verb on one domain.
    fn on<T>(&self, verb: &str, name: &str, f: impl FnOnce(&Domain) -> virt_result<T>) -> Result<T> {
        let doing = format!("{verb} {name}");
        let domain = self.domain(name, &doing)?;
        f(&domain).map_err(|e| from_libvirt::error(&doing, &e))
    }
}

/// Connects.
fn connect(uri: &str) -> Result<Connect> {
    let doing = || format!("open {uri}");
    start_event_loop().map_err(|why| Error::new(ErrorKind::Unavailable, doing(), why))?;
    let uri = plain(uri, &doing())?;
    Connect::open(Some(uri)).map_err(|e| from_libvirt::error(&doing(), &e).of_kind(ErrorKind::Unavailable))
}

/// Result type of the bindings.
#[allow(non_camel_case_types)]
type virt_result<T> = std::result::Result<T, virt::error::Error>;

/// Starts the event loop, once in this process. It must run before the first connection.
fn start_event_loop() -> std::result::Result<(), String> {
    static STARTED: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    let start = || {
        // Errors are returned; without this libvirt would also print them.
        virt::error::clear_error_callback();
        virt::event::event_register_default_impl().map_err(|e| e.to_string())?;
        let run = || {
            loop {
                if let Err(e) = virt::event::event_run_default_impl() {
                    tracing::error!("libvirt's event loop: {e}");
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        };
        std::thread::Builder::new().name("libvirt".into()).spawn(run).map_err(|e| e.to_string())?;
        Ok(())
    };
    STARTED.get_or_init(start).clone()
}

/// Checks that a text has no zero byte: the bindings panic on one.
fn plain<'a>(text: &'a str, doing: &str) -> Result<&'a str> {
    match text.contains('\0') {
        true => Err(Error::new(ErrorKind::Invalid, doing, "there is a zero byte in the text")),
        false => Ok(text),
    }
}

impl Hypervisor for Libvirt {
    fn about(&self) -> Result<About> {
        let version = Connect::get_version().map_err(|e| from_libvirt::error("ask for the version", &e))?;
        Ok(About { version: from_libvirt::version(version), uri: self.uri.clone() })
    }

    fn has_iothread_mapping(&self) -> Result<bool> {
        let connection = self.connection()?;
        let asked = connection.get_lib_version().and_then(|libvirt| {
            Ok(libvirt >= IOTHREAD_MAPPING.0 && connection.get_hyp_version()? >= IOTHREAD_MAPPING.1)
        });
        asked.map_err(|e| from_libvirt::error("ask for the versions of libvirt and QEMU", &e))
    }

    fn watch(&self, name: &str, tell: Tell) -> Result<()> {
        events::register(self.connection()?, plain(name, "watch")?, tell)
    }

    fn define(&self, xml: &str) -> Result<()> {
        let doing = "define the domain";
        let xml = plain(xml, doing)?;
        let connection = self.connection()?;
        let define = || Domain::define_xml_flags(connection, xml, 0).map(|_| ());
        // A host under load failed here once without a reason, and libvirt had changed nothing.
        let again = |e: virt::error::Error| match e.message().contains("the cause is unknown") {
            true => {
                tracing::warn!("libvirt could not {doing} and gives no reason; it is tried once more");
                std::thread::sleep(Duration::from_millis(300));
                define()
            }
            false => Err(e),
        };
        define().or_else(again).map_err(|e| from_libvirt::error(doing, &e))
    }

    fn undefine(&self, name: &str) -> Result<()> {
        // `vm::prepare` decides which state of an earlier run is kept.
        let keep = sys::VIR_DOMAIN_UNDEFINE_KEEP_NVRAM | sys::VIR_DOMAIN_UNDEFINE_KEEP_TPM;
        self.on("undefine", name, |domain| domain.undefine_flags(keep))
    }

    fn start(&self, name: &str) -> Result<()> {
        let start = |domain: &Domain| domain.create_with_flags(sys::VIR_DOMAIN_START_PAUSED).map(|_| ());
        self.on("start", name, |domain| {
            // libvirt 9.0 ends a starting domain if it learns only then that the domain's previous QEMU has
            // ended. It does not report that end, and has handled it when the start fails.
            start(domain).or_else(|e| match e.message().contains("domain is no longer running") {
                true => {
                    tracing::warn!(
                        "libvirt attributed the exit of the previous QEMU of {name} to the new one; starting it again"
                    );
                    std::thread::sleep(Duration::from_millis(300));
                    start(domain)
                }
                false => Err(e),
            })
        })
    }

    fn line(&self, name: &str) -> Result<Option<OwnedFd>> {
        let doing = || format!("open the serial console of {name}");
        let xml = self.on("open the serial console of", name, |domain| domain.get_xml_desc(0))?;
        let Some(terminal) = from_libvirt::serial(&xml) else {
            return match self.state(name)?.condition {
                Condition::Off(_) => Err(Error::new(ErrorKind::NotNow, doing(), "it does not run")),
                _ => Ok(None),
            };
        };
        // Must not become our controlling terminal, and must not block.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(terminal, flags, Mode::empty());
        let failed =
            |e| Error::new(ErrorKind::Failed, doing(), format!("{terminal}: {}", std::io::Error::from(e)));
        opened.map(Some).map_err(failed)
    }

    fn keep_file(&self, name: &str, label: &str, file: BorrowedFd<'_>) -> Result<()> {
        let doing = format!("give a file to QEMU of {name}");
        file_passing::pass(&self.domain(name, &doing)?, label, file, &doing)
    }

    fn state(&self, name: &str) -> Result<DomainState> {
        let (state, reason) = self.on("look at", name, Domain::get_state)?;
        let condition = from_libvirt::condition(state, reason);
        let runs = !matches!(condition, Condition::Off(_));
        let agent = runs
            && self
                .on("look at", name, |domain| domain.get_xml_desc(0))
                .is_ok_and(|xml| from_libvirt::agent_is_connected(&xml));
        let pid = self.pids.as_ref().filter(|_| runs).and_then(|folder| {
            let text = std::fs::read_to_string(folder.join(format!("{name}.pid"))).ok()?;
            text.trim().parse().ok()
        });
        Ok(DomainState { condition, pid, started: pid.and_then(|pid| Process::of(pid).started()), agent })
    }

    fn shutdown(&self, name: &str) -> Result<()> {
        let flags = sys::VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN;
        self.on("shut down", name, |domain| domain.shutdown_flags(flags)).map(|_| ())
    }

    fn destroy(&self, name: &str) -> Result<()> {
        self.on("destroy", name, Domain::destroy)
    }

    fn reboot(&self, name: &str) -> Result<()> {
        self.on("reboot", name, |domain| domain.reboot(sys::VIR_DOMAIN_REBOOT_DEFAULT))
    }

    fn reset(&self, name: &str) -> Result<()> {
        self.on("reset", name, Domain::reset).map(|_| ())
    }

    fn pause(&self, name: &str) -> Result<()> {
        self.on("pause", name, Domain::suspend).map(|_| ())
    }

    fn resume(&self, name: &str) -> Result<()> {
        self.on("resume", name, Domain::resume).map(|_| ())
    }

    fn change_media(&self, name: &str, disk: &str) -> Result<()> {
        let disk = plain(disk, "change the CD-ROM media")?;
        let flags = sys::VIR_DOMAIN_AFFECT_LIVE | sys::VIR_DOMAIN_DEVICE_MODIFY_FORCE;
        self.on("change the CD-ROM media of", name, |domain| domain.update_device_flags(disk, flags))
            .map(|_| ())
    }

    fn change_link(&self, name: &str, interface: &str) -> Result<()> {
        let interface = plain(interface, "change the link of an interface")?;
        let flags = sys::VIR_DOMAIN_AFFECT_LIVE;
        let verb = "change the link of an interface of";
        self.on(verb, name, |domain| domain.update_device_flags(interface, flags)).map(|_| ())
    }

    fn agent(&self, name: &str, command: &str, patience: Duration) -> Result<String> {
        let doing = format!("ask the guest agent in {name}");
        let command = plain(command, &doing)?;
        let seconds = i32::try_from(patience.as_secs().max(1)).unwrap_or(i32::MAX);
        let domain = self.domain(name, &doing)?;
        let answer = domain
            .qemu_agent_command(command, seconds, 0)
            .map_err(|e| from_libvirt::agent_error(&doing, patience, &e))?;
        // libvirt itself accepts 10 MiB, and its parsed tree is many times as large.
        if answer.len() > LONG_ANSWER {
            memory::trim();
        }
        Ok(answer)
    }

    fn stats(&self, name: &str) -> Result<Stats> {
        let verb = "read the statistics of";
        let doing = format!("{verb} {name}");
        let domain = self.domain(name, &doing)?;
        if matches!(self.state(name)?.condition, Condition::Off(_)) {
            return Err(Error::new(ErrorKind::NotNow, doing, "it does not run"));
        }
        let own = |e: virt::error::Error| from_libvirt::error(&doing, &e);
        let info = domain.get_info().map_err(own)?;
        let memory: Vec<(u32, u64)> =
            domain.memory_stats(0).map_err(own)?.iter().map(|stat| (stat.tag, stat.val)).collect();
        let xml = domain.get_xml_desc(0).map_err(own)?;
        let records = records::Records::of(&domain, &doing)?;
        let (cpu_user_ns, cpu_system_ns) = records.cpu();
        // A device that is added or removed at this moment has no statistics.
        let interfaces = from_libvirt::targets(&xml, "interface").into_iter().filter_map(|target| {
            Some((target.to_owned(), from_libvirt::interface(&domain.interface_stats(target).ok()?)))
        });
        Ok(Stats {
            cpu_ns: info.cpu_time,
            cpu_user_ns,
            cpu_system_ns,
            vcpus: records.vcpus(),
            dirty_bytes_per_second: records.dirty_rate(),
            memory: from_libvirt::memory(info.max_mem, &memory),
            disks: records.disks(),
            interfaces: interfaces.collect(),
        })
    }

    fn domain(&self, name: &str) -> Result<api::launcher::Domain> {
        let doing = format!("describe {name}");
        domain::facts(self.connection()?, &self.domain(name, &doing)?, &doing)
    }

    fn records(&self, name: &str) -> Result<Vec<(String, String)>> {
        let doing = format!("read the statistics of {name}");
        records::all(&self.domain(name, &doing)?, &doing)
    }

    fn monitor(&self, name: &str, command: &MonitorCommand) -> Result<String> {
        let doing = format!("ask the monitor of {name}");
        let text = plain(&command.command, &doing)?;
        let flags = if command.human { sys::VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP } else { 0 };
        let answer = self.domain(name, &doing)?.qemu_monitor_command(text, flags);
        let answer = answer.map_err(|e| from_libvirt::error(&doing, &e))?;
        match answer.len() > LONGEST_MONITOR {
            true => Err(Error::new(ErrorKind::Failed, doing, "its answer is longer than 2 MiB")),
            false => Ok(answer),
        }
    }

    fn migrate(&self, name: &str, order: &Migrate, disks: &[String]) -> Result<()> {
        self.on("migrate", name, |domain| migration::migrate(domain, order, disks))
    }

    fn migration_progress(&self, name: &str) -> Result<Option<MigrationProgress>> {
        self.on("read the progress of the migration of", name, migration::progress)
    }

    fn abort_migration(&self, name: &str) -> Result<()> {
        self.on("abort the migration of", name, migration::abort)
    }

    fn limit_downtime(&self, name: &str, limit: Duration) -> Result<()> {
        let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.on("limit the downtime of", name, |domain| domain.migrate_set_max_downtime(milliseconds, 0))
            .map(drop)
    }

    fn start_post_copy(&self, name: &str) -> Result<()> {
        self.on("start post-copy of", name, migration::start_post_copy)
    }

    fn receive(&self, name: &str, domain: &str, socket: &Path, listens: &mut dyn FnMut()) -> Result<bool> {
        let doing = format!("receive {name}");
        let Some(reception) = &self.reception else {
            return Err(Error::new(ErrorKind::Unsupported, doing, "this launcher starts its VM"));
        };
        let received = reception.receive(name, domain, socket, listens);
        match (received, self.find_received(name, reception)) {
            (Ok(word), Ok(condition)) => {
                Ok(word == Word::Released { resumed: true } || condition == Condition::Running)
            }
            // Whether its source has let it go is not known.
            (Err(_), Ok(condition)) => Ok(condition == Condition::Running),
            (Err(e), _) => Err(Error::new(ErrorKind::Failed, doing, e.chain())),
            (Ok(Word::None), Err(e)) => Err(e),
            // The guest has run here.
            (Ok(Word::Released { .. }), Err(e)) => Err(Error::new(ErrorKind::Ended, doing, e.to_string())),
        }
    }

    fn stop_receiving(&self) {
        if let Some(reception) = &self.reception {
            reception.give_up();
        }
    }

    fn screenshot(&self, name: &str, into: &mut dyn Write) -> Result<()> {
        let doing = format!("take a screenshot of {name}");
        let domain = self.domain(name, &doing)?;
        let own = |e: &virt::error::Error| from_libvirt::error(&doing, e);
        let stream = Stream::new(self.connection()?, 0).map_err(|e| own(&e))?;
        domain.screenshot(&stream, 0, 0).map_err(|e| own(&e))?;
        let copied = copy(&stream, into, &doing);
        let ended = if copied.is_ok() { stream.finish() } else { stream.abort() };
        copied.and(ended.map_err(|e| own(&e)))
    }
}

fn copy(stream: &Stream, into: &mut dyn Write, doing: &str) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        let n = stream.recv(&mut buffer).map_err(|e| from_libvirt::error(doing, &e))?;
        if n == 0 {
            return Ok(());
        }
        total += n;
        if total > LARGEST_SCREEN {
            return Err(Error::new(ErrorKind::Failed, doing, "the screen is larger than 48 MiB"));
        }
        let part = buffer.get(..n).unwrap_or_default();
        into.write_all(part).map_err(|e| Error::new(ErrorKind::Failed, doing, e.to_string()))?;
    }
}
