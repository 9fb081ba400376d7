//! The connections of a migration: ports of the target node, and sockets in the two pods.

use crate::error::{Error, Result};
use crate::pod::layout::is_uid;
use cluster_model::launcher::MigrationSocketPaths;
use std::collections::BTreeMap;
use std::fmt;

/// Use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Libvirt,
    Memory,
    Disks,
    Release,
}

impl Channel {
    pub(super) const ALL: [Channel; 4] =
        [Channel::Libvirt, Channel::Memory, Channel::Disks, Channel::Release];

    /// Content of its streams, for messages.
    pub(super) fn content(self) -> &'static str {
        match self {
            Channel::Libvirt => "libvirt",
            Channel::Memory => "the memory",
            Channel::Disks => "the disks",
            Channel::Release => "the release of the guest",
        }
    }

    /// Number by which `targetDirectMigrationNodePorts` names it: upstream's port of libvirt or QEMU, and 0 for
    /// libvirt's own connection. Upstream has none for the release.
    fn number(self) -> i64 {
        match self {
            Channel::Libvirt => 0,
            Channel::Memory => 49152,
            Channel::Disks => 49153,
            Channel::Release => 49154,
        }
    }
}

/// Ports of the target node, one for each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationPorts([u16; 4]);

impl MigrationPorts {
    /// Ports in the order of [`Channel::ALL`].
    pub(super) fn new(ports: [u16; 4]) -> MigrationPorts {
        MigrationPorts(ports)
    }

    pub(super) fn of(&self, channel: Channel) -> u16 {
        let MigrationPorts([libvirt, memory, disks, release]) = *self;
        match channel {
            Channel::Libvirt => libvirt,
            Channel::Memory => memory,
            Channel::Disks => disks,
            Channel::Release => release,
        }
    }

    /// Value of `targetDirectMigrationNodePorts`.
    pub fn to_status(&self) -> BTreeMap<String, i64> {
        Channel::ALL.map(|channel| (self.of(channel).to_string(), channel.number())).into()
    }

    /// Reads `targetDirectMigrationNodePorts`. All uses must be there; others are ignored.
    pub fn from_status(status: &BTreeMap<String, i64>) -> Result<MigrationPorts> {
        let port = |channel: Channel| {
            let mut named = status.iter().filter(|(_, number)| **number == channel.number());
            let port = named.next().and_then(|(port, _)| port.parse::<u16>().ok()).filter(|port| *port != 0);
            port.ok_or_else(|| {
                let number = channel.number();
                Error::refused(format!(
                    "targetDirectMigrationNodePorts has no valid port for {number}: {status:?}"
                ))
            })
        };
        let [libvirt, memory, disks, release] = Channel::ALL.map(port);
        Ok(MigrationPorts([libvirt?, memory?, disks?, release?]))
    }
}

impl fmt::Display for MigrationPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [libvirt, memory, disks, release] = self.0;
        write!(f, "{libvirt} (libvirt), {memory} (memory), {disks} (disks), {release} (release)")
    }
}

/// File names of the sockets of one migration, beside the launcher's own socket.
#[derive(Clone, Debug)]
pub(super) struct SocketNames(MigrationSocketPaths);

impl SocketNames {
    /// Names by the UID of the VirtualMachineInstanceMigration.
    pub(super) fn new(uid: &str) -> Result<SocketNames> {
        if !is_uid(uid) {
            return Err(Error::refused(format!("the UID of the migration {uid:?} is not a UID")));
        }
        Ok(SocketNames(MigrationSocketPaths::beside("", uid)))
    }

    pub(super) fn of(&self, channel: Channel) -> &str {
        let MigrationSocketPaths { libvirt, memory, disks, release } = &self.0;
        let path = match channel {
            Channel::Libvirt => libvirt,
            Channel::Memory => memory,
            Channel::Disks => disks,
            Channel::Release => release,
        };
        path.trim_start_matches('/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_they_are_written_and_a_missing_one_is_named() {
        let ports = MigrationPorts::new([40001, 40002, 40003, 40004]);
        let status = ports.to_status();
        assert_eq!(
            status,
            [("40001", 0), ("40002", 49152), ("40003", 49153), ("40004", 49154)]
                .map(|(p, n)| (p.to_owned(), n))
                .into()
        );
        assert_eq!(MigrationPorts::from_status(&status).unwrap(), ports);
        for (port, number) in [("40002", None), ("", Some(49152)), ("0", Some(49152)), ("65536", Some(49152))]
        {
            let mut status = status.clone();
            status.remove("40002");
            status.extend(number.map(|number| (port.to_owned(), number)));
            let said = MigrationPorts::from_status(&status).unwrap_err().to_string();
            assert!(said.contains("no valid port for 49152"), "{said}");
        }
    }

    #[test]
    fn sockets_are_named_by_a_uid_and_by_nothing_else() {
        let names = SocketNames::new("5d307ca9-b3ef-428c-8861-06e72d69f223").unwrap();
        assert_eq!(names.of(Channel::Memory), "migration-5d307ca9-b3ef-428c-8861-06e72d69f223-memory");
        for uid in ["", "../x", "a/b", "a\0b", &"a".repeat(65)] {
            assert!(SocketNames::new(uid).unwrap_err().to_string().contains("is not a UID"), "{uid:?}");
        }
    }
}
