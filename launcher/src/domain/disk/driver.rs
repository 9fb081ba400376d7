//! The `<driver>` of a disk: cache, I/O, discard, error policy, IOThreads, queues.
//!
//! | cache    | that of the spec; else `none` if the file can be opened with O_DIRECT, else `writethrough`
//! |
//! | io       | that of the spec; else `native` with cache `none` on a device or a fully allocated file
//! |
//! | discard  | passed on, except to a preallocated file, and to CD-ROMs
//! |
//!
//! A CD-ROM has `cache` and `io` from the spec alone, since libvirt cannot change them with the media.
//! Settings that QEMU would refuse at its start are refused here, with the name of the field.

use super::{Domain, field};
use crate::domain::error::DomainError;
use crate::domain::host::{DiskLocation, Medium};
use crate::domain::xml::Element;
use api::launcher::Format;
use api::machine::{Bus, Cache, Disk, ErrorPolicy, Io, Target};

impl Domain<'_> {
    pub(super) fn driver(
        &self,
        position: usize,
        disk: &Disk,
        place: &DiskLocation,
    ) -> Result<Element, DomainError> {
        let cdrom = matches!(disk.target, Target::CdRom { .. });
        let layers = match place {
            DiskLocation::Layers(layers) => Some(layers),
            DiskLocation::Nothing => None,
        };
        let direct = layers.is_some_and(|layers| layers.direct);
        let cache = match disk.cache {
            Some(cache) => Some(cache),
            None if cdrom => (disk.io == Some(Io::Native)).then_some(Cache::None),
            None if direct => Some(Cache::None),
            None => Some(Cache::WriteThrough),
        };
        if disk.io == Some(Io::Native) && cache != Some(Cache::None) {
            return Err(DomainError::refused(field(disk, position, "io"), "`native` needs cache `none`"));
        }
        if cache == Some(Cache::None) && !direct && layers.is_some() {
            let why = "`none` needs a file system that can pass by the host's cache (O_DIRECT) and a raw disk of whole 4 KiB blocks";
            return Err(match disk.cache {
                Some(_) => DomainError::refused(field(disk, position, "cache"), why),
                None => DomainError::refused(
                    field(disk, position, "io"),
                    format!("`native` needs cache `none`, and {why}"),
                ),
            });
        }
        let preallocated = layers.is_some_and(|layers| layers.preallocated);
        let whole = preallocated || layers.is_some_and(|layers| layers.top.medium == Medium::Device);
        let io = disk.io.or((!cdrom && whole && cache == Some(Cache::None)).then_some(Io::Native));
        let multi_queue = self.machine.block_multi_queue && disk.bus == Bus::Virtio;
        Ok(Element::new("driver")
            .at("name", "qemu")
            .maybe_at("type", layers.map(|layers| word_of_format(layers.top.format)))
            .maybe_at("cache", cache.map(word_of_cache))
            .at("error_policy", word_of_policy(disk.error_policy))
            .maybe_at("io", io.map(word_of_io))
            .maybe_at("discard", (!cdrom && !preallocated).then_some("unmap"))
            .maybe_at("iothread", self.threads.of_disk(position))
            .maybe_at("queues", multi_queue.then(|| self.queues()))
            .with(self.threads.all_of_disk(position)))
    }
}

pub(super) fn word_of_format(format: Format) -> &'static str {
    match format {
        Format::Raw => "raw",
        Format::Qcow2 => "qcow2",
    }
}

fn word_of_cache(cache: Cache) -> &'static str {
    match cache {
        Cache::None => "none",
        Cache::WriteThrough => "writethrough",
        Cache::WriteBack => "writeback",
    }
}

fn word_of_io(io: Io) -> &'static str {
    match io {
        Io::Native => "native",
        Io::Threads => "threads",
    }
}

fn word_of_policy(policy: ErrorPolicy) -> &'static str {
    match policy {
        ErrorPolicy::Stop => "stop",
        ErrorPolicy::Ignore => "ignore",
        ErrorPolicy::Report => "report",
        ErrorPolicy::EnoSpace => "enospace",
    }
}
