//! The verbs that show something: data of the launcher, as libvirt's program prints it.

use super::Failed;
use super::command::Arguments;
use super::json::indented;
use super::replacement::Vm;
use super::table::table;
use super::xml::devices;
use api::launcher::{Domain, MonitorCommand};
use launcher_client::{Client, Error, wait};

/// Groups of statistics: the option, and the prefix of the names of its fields.
const GROUPS: [(&str, &str); 11] = [
    ("state", "state."),
    ("cpu-total", "cpu."),
    ("balloon", "balloon."),
    ("vcpu", "vcpu."),
    ("interface", "net."),
    ("block", "block."),
    ("perf", "perf."),
    ("iothread", "iothread."),
    ("memory", "memory."),
    ("dirtyrate", "dirtyrate."),
    ("vm", "vm."),
];

const RUNNING: u32 = 1;
const PAUSED: u32 = 3;
const SHUT_OFF: u32 = 5;

/// Output of a verb.
pub(super) fn show(verb: &str, given: &Arguments, client: &Client, quiet: bool) -> Result<String, Failed> {
    match verb {
        "list" => Ok(list(given, current_domain(client)?.as_ref(), quiet)),
        "version" => version(client),
        "uri" => Ok(format!("{}\n", wait(client.info()).map_err(|e| unreached(&e))?.uri)),
        "domstats" => stats(given, client),
        "qemu-monitor-command" => {
            named_domain(given, client)?;
            monitor(given, client)
        }
        _ => {
            let domain = named_domain(given, client)?;
            let xml = if given.has("inactive") { &domain.inactive_xml } else { &domain.xml };
            Ok(match verb {
                "dumpxml" => format!("{}\n", xml.trim_end_matches('\n')),
                "domstate" => state_line(&domain, given.has("reason")),
                "dominfo" => info(&domain),
                "domblklist" => disks(xml, given.has("details"), quiet),
                "domiflist" => interfaces(xml, quiet),
                "domid" => format!("{}\n", id(&domain)),
                "domname" => format!("{}\n", domain.name),
                _ => format!("{}\n", domain.uuid),
            })
        }
    }
}

/// The VM of this pod, if its launcher answers.
pub(super) fn vm(client: &Client) -> Option<Vm> {
    let domain = current_domain(client).ok()??;
    domain.name.split_once('_').map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
}

/// Version of libvirt in the launcher; that of this program if no launcher answers.
pub(super) fn libvirt_version(client: &Client) -> String {
    wait(client.info()).map_or_else(|_| env!("CARGO_PKG_VERSION").to_owned(), |info| info.libvirt)
}

fn unreached(e: &Error) -> Failed {
    Failed { lines: vec!["failed to connect to the hypervisor".to_owned(), e.chain()], begun: false }
}

/// The domain, if the launcher has a VM.
fn current_domain(client: &Client) -> Result<Option<Domain>, Failed> {
    match wait(client.domain()) {
        Ok(domain) => Ok(Some(domain)),
        // The launcher has no VM yet, or libvirt has not defined it yet.
        Err(e) if matches!(e.status(), Some(404 | 409)) => Ok(None),
        Err(e) => Err(unreached(&e)),
    }
}

fn named_domain(given: &Arguments, client: &Client) -> Result<Domain, Failed> {
    let wanted = given.domain.as_deref().unwrap_or_default();
    match current_domain(client)? {
        Some(domain) if is(&domain, wanted) => Ok(domain),
        _ => Err(Failed::begun(format!("failed to get domain '{wanted}'"))),
    }
}

fn is(domain: &Domain, wanted: &str) -> bool {
    domain.name == wanted
        || domain.uuid.eq_ignore_ascii_case(wanted)
        || domain.id.is_some_and(|id| wanted.parse() == Ok(id))
}

fn id(domain: &Domain) -> String {
    domain.id.map_or_else(|| "-".to_owned(), |id| id.to_string())
}

fn list(given: &Arguments, domain: Option<&Domain>, quiet: bool) -> String {
    let active = |domain: &&Domain| match (given.has("all"), given.has("inactive")) {
        (true, _) => true,
        (false, inactive) => domain.id.is_none() == inactive,
    };
    let states = [("state-running", RUNNING), ("state-paused", PAUSED), ("state-shutoff", SHUT_OFF)];
    let is_other = |state: u32| states.iter().all(|(_, known)| *known != state);
    let any_state = states.iter().all(|(flag, _)| !given.has(flag)) && !given.has("state-other");
    let state = |domain: &&Domain| {
        any_state
            || states.iter().any(|(flag, known)| given.has(flag) && domain.state == *known)
            || given.has("state-other") && is_other(domain.state)
    };
    let shown: Vec<&Domain> = domain.iter().copied().filter(active).filter(state).collect();
    if ["uuid", "name", "id"].iter().any(|flag| given.has(flag)) {
        let line = |domain: &&Domain| {
            let parts = [("uuid", domain.uuid.clone()), ("name", domain.name.clone()), ("id", id(domain))];
            let parts: Vec<String> =
                parts.into_iter().filter(|(flag, _)| given.has(flag)).map(|(_, part)| part).collect();
            format!("{}\n", parts.join(" "))
        };
        return shown.iter().map(line).collect();
    }
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|domain| vec![id(domain), domain.name.clone(), state_word(domain.state).to_owned()])
        .collect();
    table(&["Id", "Name", "State"], &rows, quiet)
}

fn state_line(domain: &Domain, with_reason: bool) -> String {
    match with_reason {
        true => format!("{} ({})\n", state_word(domain.state), reason_word(domain.state, domain.reason)),
        false => format!("{}\n", state_word(domain.state)),
    }
}

fn info(domain: &Domain) -> String {
    let yes = |is: bool| if is { "yes" } else { "no" };
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:<15} {value}\n");
    line("Id:", id(domain));
    line("Name:", domain.name.clone());
    line("UUID:", domain.uuid.clone());
    line("OS Type:", domain.os_type.clone());
    line("State:", state_word(domain.state).to_owned());
    line("CPU(s):", domain.vcpus.to_string());
    if domain.cpu_ns > 0 {
        let tenths = domain.cpu_ns.saturating_add(50_000_000) / 100_000_000;
        line("CPU time:", format!("{}.{}s", tenths / 10, tenths % 10));
    }
    line("Max memory:", format!("{} KiB", domain.max_memory_kib));
    line("Used memory:", format!("{} KiB", domain.memory_kib));
    line("Persistent:", yes(domain.persistent).to_owned());
    line("Autostart:", if domain.autostart { "enable" } else { "disable" }.to_owned());
    line("Managed save:", yes(domain.managed_save).to_owned());
    if let Some((model, doi)) = &domain.security {
        line("Security model:", model.clone());
        line("Security DOI:", doi.clone());
    }
    for (at, message) in domain.messages.iter().enumerate() {
        line(if at == 0 { "Messages:" } else { "" }, message.clone());
    }
    text
}

fn disks(xml: &str, with_details: bool, quiet: bool) -> String {
    let all = devices(xml, "disk").into_iter().map(|disk| {
        let source = disk.of("source", &["file", "dev", "dir", "name", "volume"]).unwrap_or("-");
        let target = disk.of("target", &["dev"]).unwrap_or("-");
        let (kind, device) = (disk.own("type").unwrap_or("-"), disk.own("device").unwrap_or("disk"));
        match with_details {
            true => [kind, device, target, source].map(str::to_owned).to_vec(),
            false => [target, source].map(str::to_owned).to_vec(),
        }
    });
    let rows: Vec<Vec<String>> = all.collect();
    match with_details {
        true => table(&["Type", "Device", "Target", "Source"], &rows, quiet),
        false => table(&["Target", "Source"], &rows, quiet),
    }
}

fn interfaces(xml: &str, quiet: bool) -> String {
    let all = devices(xml, "interface").into_iter().map(|interface| {
        [
            interface.of("target", &["dev"]),
            interface.own("type"),
            interface.of("source", &["bridge", "dev", "network", "name"]),
            interface.of("model", &["type"]),
            interface.of("mac", &["address"]),
        ]
        .map(|cell| cell.unwrap_or("-").to_owned())
        .to_vec()
    });
    table(&["Interface", "Type", "Source", "Model", "MAC"], &all.collect::<Vec<_>>(), quiet)
}

fn stats(given: &Arguments, client: &Client) -> Result<String, Failed> {
    let Some(domain) = current_domain(client)? else { return Ok(String::new()) };
    if let Some(unknown) = given.words.iter().find(|wanted| !is(&domain, wanted)) {
        return Err(Failed::begun(format!("failed to get domain '{unknown}'")));
    }
    let records = wait(client.domain_stats()).map_err(|e| Failed::begun(e.chain()))?;
    let any = GROUPS.iter().all(|(flag, _)| !given.has(flag));
    let is_wanted =
        |name: &str| any || GROUPS.iter().any(|(flag, begin)| given.has(flag) && name.starts_with(begin));
    let lines = records.iter().filter(|(name, _)| is_wanted(name));
    Ok(format!(
        "Domain: '{}'\n{}",
        domain.name,
        lines.map(|(name, value)| format!("  {name}={value}\n")).collect::<String>()
    ))
}

fn monitor(given: &Arguments, client: &Client) -> Result<String, Failed> {
    let (human, pretty) = (given.has("hmp"), given.has("pretty"));
    if human && pretty {
        return Err(Failed::usage("Options --hmp and --pretty are mutually exclusive"));
    }
    let command = MonitorCommand { command: given.words.join(" "), human };
    let answer = wait(client.monitor(&command)).map_err(|e| Failed::begun(e.chain()))?;
    // libvirt's program ends indented texts with the empty line alone, which quiet mode leaves out.
    Ok(if pretty { indented(&answer) } else { format!("{answer}\n") })
}

fn version(client: &Client) -> Result<String, Failed> {
    let info = wait(client.info()).map_err(|e| unreached(&e))?;
    let libvirt = info.libvirt;
    let mut text = format!(
        "Compiled against library: libvirt {libvirt}\nUsing library: libvirt {libvirt}\nUsing API: QEMU {libvirt}\n"
    );
    if let Some(domain) = current_domain(client)? {
        text += &format!("Running hypervisor: QEMU {}\n", domain.qemu);
    }
    Ok(text)
}

fn state_word(state: u32) -> &'static str {
    ["no state", "running", "idle", "paused", "in shutdown", "shut off", "crashed", "pmsuspended"]
        .get(state as usize)
        .copied()
        .unwrap_or("no state")
}

fn reason_word(state: u32, reason: i32) -> &'static str {
    let words: &[&str] = match state {
        1 => &[
            "unknown",
            "booted",
            "migrated",
            "restored",
            "from snapshot",
            "unpaused",
            "migration canceled",
            "save canceled",
            "event wakeup",
            "crashed",
            "post-copy",
            "post-copy failed",
        ],
        3 => &[
            "unknown",
            "user",
            "migrating",
            "saving",
            "dumping",
            "I/O error",
            "watchdog",
            "from snapshot",
            "shutting down",
            "creating snapshot",
            "crashed",
            "starting up",
            "post-copy",
            "post-copy failed",
            "api error",
        ],
        4 => &["unknown", "user"],
        5 => &[
            "unknown",
            "shutdown",
            "destroyed",
            "crashed",
            "migrated",
            "saved",
            "failed",
            "from snapshot",
            "daemon",
        ],
        6 => &["unknown", "panicked"],
        _ => &["unknown"],
    };
    usize::try_from(reason).ok().and_then(|reason| words.get(reason)).copied().unwrap_or("unknown")
}
