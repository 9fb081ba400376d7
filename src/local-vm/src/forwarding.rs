//! Port forwards of a VM after its start: changed in its QEMU, and recorded for its next start.

use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::record::Vm;
use crate::resolve::network;
use api::launcher::{Forward, Link, MonitorCommand};

/// Adds a forward. That of a stopped VM is there at its next start.
pub fn add(vm: &Vm, forward: &Forward) -> Result<()> {
    let mut change = Change::begin(vm)?;
    let known = change.forwards()?;
    if known.contains(forward) {
        let what = format!("{} of {} is forwarded already", shown(forward), vm.name());
        return Err(Error::new(ErrorKind::Usage, what));
    }
    known.push(forward.clone());
    if change.client.is_some() {
        network::check(&vm.home, std::slice::from_ref(forward))?;
    }
    let Forward { protocol, address, port, guest_port } = forward;
    change.monitor(&format!("hostfwd_add {} {protocol}:{address}:{port}-:{guest_port}", change.netdev))?;
    change.vm.record.save(&vm.home)
}

/// Removes the forwards that are meant, and returns them.
pub fn remove(vm: &Vm, is_meant: impl Fn(&Forward) -> bool) -> Result<Vec<Forward>> {
    let mut change = Change::begin(vm)?;
    let known = change.forwards()?;
    let (removed, kept): (Vec<Forward>, Vec<Forward>) = known.drain(..).partition(is_meant);
    if removed.is_empty() {
        let all: Vec<String> = kept.iter().map(shown).collect();
        let hint =
            if all.is_empty() { "it has none".to_owned() } else { format!("it has {}", all.join(", ")) };
        let what = format!("{} has no such forward", vm.name());
        return Err(Error::new(ErrorKind::NotFound, what).with_hint(hint));
    }
    *known = kept;
    for Forward { protocol, address, port, .. } in &removed {
        change.monitor(&format!("hostfwd_remove {} {protocol}:{address}:{port}", change.netdev))?;
    }
    change.vm.record.save(&vm.home)?;
    Ok(removed)
}

/// A forward as it is written: `127.0.0.1:2222:22/tcp`.
pub fn shown(forward: &Forward) -> String {
    let Forward { protocol, address, port, guest_port } = forward;
    format!("{address}:{port}:{guest_port}/{protocol}")
}

/// A change of the forwards of one VM, which is locked meanwhile.
struct Change {
    vm: Vm,
    /// Launcher of the VM, if it is up.
    client: Option<Client>,
    /// Name of the interface that forwards lead to.
    interface: String,
    /// QEMU's name of that network.
    netdev: String,
    _lock: crate::place::Lock,
}

impl Change {
    fn begin(vm: &Vm) -> Result<Change> {
        // A new launcher takes the lock itself.
        let client = if vm.standing()?.is_up() { Some(vm.launcher()?) } else { None };
        let lock = vm.home.lock_vm(vm.name())?;
        let vm = Vm::open(&vm.home, vm.name())?;
        let (position, interface) = interface(&vm).ok_or_else(|| {
            let what = format!("{} has no user-mode network, so no port can be forwarded", vm.name());
            Error::new(ErrorKind::Usage, what)
        })?;
        Ok(Change { client, interface, netdev: format!("net-{position}"), _lock: lock, vm })
    }

    fn forwards(&mut self) -> Result<&mut Vec<Forward>> {
        match self.vm.record.sync.resolved.interfaces.get_mut(&self.interface) {
            Some(Link::User { forwards, .. }) => Ok(forwards),
            _ => Err(Error::failed(format!("{} is not a user-mode network", self.interface))),
        }
    }

    /// Sends words to QEMU's monitor, if the VM is up. QEMU answers a failure with a sentence.
    fn monitor(&self, words: &str) -> Result<()> {
        let Some(client) = &self.client else { return Ok(()) };
        let said = client.monitor(&MonitorCommand { command: words.to_owned(), human: true })?;
        match said.trim() {
            "" => Ok(()),
            said if said.starts_with("host forwarding rule for") => Ok(()),
            said => {
                let what = format!("QEMU of {} refuses: {}", self.vm.name(), printable::line(said));
                Err(Error::failed(what))
            }
        }
    }
}

/// Position and name of the interface that forwards lead to: the one that has some, else the first of a user-mode
/// network.
fn interface(vm: &Vm) -> Option<(usize, String)> {
    let links = &vm.record.sync.resolved.interfaces;
    let interfaces = vm.record.sync.vmi["spec"]["domain"]["devices"]["interfaces"].as_array()?;
    let user = |(position, interface): (usize, &serde_json::Value)| {
        let name = interface["name"].as_str()?;
        match links.get(name)? {
            Link::User { forwards, .. } => Some((forwards.is_empty(), position, name.to_owned())),
            Link::Tap { .. } | Link::Device { .. } | Link::Sidecar { .. } | Link::Passt { .. } => None,
        }
    };
    interfaces.iter().enumerate().filter_map(user).min().map(|(_, position, name)| (position, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Home;
    use crate::record::Record;
    use api::launcher::{Resolved, Sync};
    use serde_json::json;
    use std::path::Path;

    fn vm(home: &Home, forwards: &[&str]) -> Vm {
        let user = |forwards: &[&str]| Link::User {
            mac: "02:00:00:00:00:01".into(),
            cidr: None,
            forwards: forwards.iter().map(|text| network::forward(text).unwrap()).collect(),
            isolated: false,
        };
        let interfaces = [("one".to_owned(), user(&[])), ("two".to_owned(), user(forwards))].into();
        let resolved = Resolved { interfaces, ..Resolved::default() };
        let vmi =
            json!({"spec": {"domain": {"devices": {"interfaces": [{"name": "one"}, {"name": "two"}]}}}});
        let sync = Sync { vmi, generation: 1, resolved };
        std::fs::create_dir_all(home.vm("vm")).unwrap();
        Record::new("vm", "x", false, sync, Path::new("/launcher")).save(home).unwrap();
        Vm::open(home, "vm").unwrap()
    }

    #[test]
    fn a_forward_of_a_stopped_vm_is_recorded() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
        let own = |vm: &Vm| -> Vec<String> {
            let vm = Vm::open(&vm.home, "vm").unwrap();
            vm.record.sync.resolved.interfaces.values().flat_map(Link::forwards).map(shown).collect()
        };
        let one = vm(&home, &[]);
        assert_eq!(interface(&one), Some((0, "one".to_owned())));
        add(&one, &network::forward("2222:22").unwrap()).unwrap();
        assert_eq!(own(&one), ["127.0.0.1:2222:22/tcp"]);

        let two = vm(&home, &["2222:22", "5353:53/udp"]);
        assert_eq!(interface(&two), Some((1, "two".to_owned())));
        add(&two, &network::forward("8080:80").unwrap()).unwrap();
        assert!(
            add(&two, &network::forward("8080:80").unwrap()).unwrap_err().to_string().contains("already")
        );
        assert_eq!(remove(&two, |forward| forward.port == 5353).unwrap().len(), 1);
        assert_eq!(own(&two), ["127.0.0.1:2222:22/tcp", "127.0.0.1:8080:80/tcp"]);
        let e = remove(&two, |forward| forward.port == 1).unwrap_err();
        assert!(e.to_string().contains("it has 127.0.0.1:2222:22/tcp, 127.0.0.1:8080:80/tcp"), "{e}");
    }
}
