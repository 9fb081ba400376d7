//! The three connections of a migration: ports of the target node, and sockets in the two pods.

use crate::error::{Error, Result};
use crate::pod::layout::is_uid;
use cluster_model::launcher::MigrationSocketPaths;
use std::collections::BTreeMap;

/// Use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Libvirt,
    Memory,
    Disks,
}

impl Channel {
    pub(super) const ALL: [Channel; 3] = [Channel::Libvirt, Channel::Memory, Channel::Disks];

    /// Number by which `targetDirectMigrationNodePorts` names it: upstream's port of libvirt or QEMU, and 0 for
    /// libvirt's own connection.
    fn number(self) -> i64 {
        match self {
            Channel::Libvirt => 0,
            Channel::Memory => 49152,
            Channel::Disks => 49153,
        }
    }
}

/// Ports of the target node, one for each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationPorts([u16; 3]);

impl MigrationPorts {
    pub(super) fn new(libvirt: u16, memory: u16, disks: u16) -> MigrationPorts {
        MigrationPorts([libvirt, memory, disks])
    }

    pub(super) fn of(&self, channel: Channel) -> u16 {
        let MigrationPorts([libvirt, memory, disks]) = *self;
        match channel {
            Channel::Libvirt => libvirt,
            Channel::Memory => memory,
            Channel::Disks => disks,
        }
    }

    /// Value of `targetDirectMigrationNodePorts`.
    pub fn to_status(&self) -> BTreeMap<String, i64> {
        Channel::ALL.map(|channel| (self.of(channel).to_string(), channel.number())).into()
    }

    /// Reads `targetDirectMigrationNodePorts`. The three uses must be there; others are ignored.
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
        let [libvirt, memory, disks] = Channel::ALL.map(port);
        Ok(MigrationPorts([libvirt?, memory?, disks?]))
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
        let MigrationSocketPaths { libvirt, memory, disks } = &self.0;
        let path = match channel {
            Channel::Libvirt => libvirt,
            Channel::Memory => memory,
            Channel::Disks => disks,
        };
        path.trim_start_matches('/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_they_are_written_and_a_missing_one_is_named() {
        let ports = MigrationPorts::new(40001, 40002, 40003);
        let status = ports.to_status();
        assert_eq!(
            status,
            [("40001", 0), ("40002", 49152), ("40003", 49153)].map(|(p, n)| (p.to_owned(), n)).into()
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
