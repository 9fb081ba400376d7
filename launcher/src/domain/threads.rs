//! The IOThreads of each virtio disk.
//!
//! | policy | a disk has |
//! |---|---|
//! | `shared`, `auto` | one of the pool, assigned in turn; with `dedicatedIOThread` its own one after the
//! pool |
//! | `supplementalPool` | all of the pool, which share its queues; `dedicatedIOThread` adds none, as upstream
//! |
//! | the same, if a disk can have only one (`Host::iothread_mapping`) | as with `auto` |

use super::host::Host;
use super::xml::Element;
use api::machine::{Bus, IoThreads, Machine};

/// The IOThreads of a VM, numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Threads {
    total: u32,
    of_disk: Vec<Share>,
}

/// IOThreads of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    None,
    One(u32),
    All,
}

impl Threads {
    pub(super) fn of(machine: &Machine, host: &Host) -> Threads {
        if let IoThreads::Pool(total) = machine.io_threads
            && host.iothread_mapping
        {
            let share = |bus| if bus == Bus::Virtio { Share::All } else { Share::None };
            return Threads { total, of_disk: machine.disks.iter().map(|disk| share(disk.bus)).collect() };
        }
        let virtio = || machine.disks.iter().filter(|disk| disk.bus == Bus::Virtio);
        let dedicated = virtio().filter(|disk| disk.dedicated_io_thread).count() as u32;
        let others = virtio().count() as u32 - dedicated;
        let pool = match machine.io_threads {
            IoThreads::Default => 0,
            IoThreads::Shared => others.min(1),
            IoThreads::Auto => {
                others.min(machine.cpu.count().saturating_mul(2).saturating_sub(dedicated).max(1))
            }
            IoThreads::Pool(size) => size,
        };
        let (mut turn, mut own) = (0, pool);
        let of_disk = machine.disks.iter().map(|disk| {
            if disk.bus != Bus::Virtio {
                Share::None
            } else if disk.dedicated_io_thread {
                own += 1;
                Share::One(own)
            } else if pool > 0 {
                turn = turn % pool + 1;
                Share::One(turn)
            } else {
                Share::None
            }
        });
        Threads { of_disk: of_disk.collect(), total: pool + dedicated }
    }

    /// The only IOThread of a disk, by its position in the VM.
    pub(super) fn of_disk(&self, position: usize) -> Option<u32> {
        match self.of_disk.get(position) {
            Some(Share::One(thread)) => Some(*thread),
            _ => None,
        }
    }

    /// The IOThreads of a disk with several.
    pub(super) fn all_of_disk(&self, position: usize) -> Option<Element> {
        let has_all = self.of_disk.get(position) == Some(&Share::All);
        let thread = |id| Element::new("iothread").at("id", id);
        has_all.then(|| Element::new("iothreads").with((1..=self.total).map(thread)))
    }

    /// Number of IOThreads of the VM.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    pub(super) fn element(&self) -> Option<Element> {
        (self.total > 0).then(|| Element::of("iothreads", self.total))
    }
}
