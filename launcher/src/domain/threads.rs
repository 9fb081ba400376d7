//! The IOThread of each disk.
//!
//! Dedicated threads come after the pool. libvirt 9.0 ties a disk to one IOThread, so a pool is dealt out in turn;
//! spreading one disk over all of a pool needs libvirt 10 and QEMU 9.

use super::xml::Element;
use api::machine::{Bus, IoThreads, Machine};

/// The IOThreads of a VM, numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Threads {
    total: u32,
    of_disk: Vec<Option<u32>>,
}

impl Threads {
    pub(super) fn of(machine: &Machine) -> Threads {
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
                None
            } else if disk.dedicated_io_thread {
                own += 1;
                Some(own)
            } else if pool > 0 {
                turn = turn % pool + 1;
                Some(turn)
            } else {
                None
            }
        });
        Threads { of_disk: of_disk.collect(), total: pool + dedicated }
    }

    /// The IOThread of a disk, by its position in the VM.
    pub(super) fn of_disk(&self, position: usize) -> Option<u32> {
        self.of_disk.get(position).copied().flatten()
    }

    /// How many there are.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    pub(super) fn element(&self) -> Option<Element> {
        (self.total > 0).then(|| Element::of("iothreads", self.total))
    }
}
