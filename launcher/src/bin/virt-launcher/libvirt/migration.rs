//! Migration of a domain: libvirt's flags and parameters, and its statistics of the job.
#![allow(unsafe_code)] // The bindings have no call that aborts a job or starts post-copy.

use super::from_libvirt;
use api::launcher::{Migrate, MigrationProgress};
use launcher::hypervisor::{Result, embed};
use std::path::Path;
use virt::domain::{Domain, JobStats, MigrateParameters};
use virt::sys;

/// Migrates a running domain. Returns at the end.
pub(super) fn migrate(domain: &Domain, order: &Migrate, disks: &[String], doing: &str) -> Result<()> {
    let destination = format!("qemu+unix:///session?socket={}", embed::escaped(&order.sockets.libvirt));
    domain
        .migrate_to_uri3(Some(&destination), parameters(order, disks), flags(order, disks))
        .map_err(|e| from_libvirt::error(doing, &e))
}

fn parameters(order: &Migrate, disks: &[String]) -> MigrateParameters {
    let limits = &order.limits;
    let uri = |socket: &Path| Some(format!("unix://{}", socket.display()));
    MigrateParameters {
        // libvirt counts in MiB, and takes zero for its own limit.
        bandwidth: (limits.bandwidth > 0).then(|| limits.bandwidth.div_ceil(1 << 20)),
        compression: limits.compress.then(|| "zstd".to_owned()),
        parallel_connections: connections(order).and_then(|count| i32::try_from(count).ok()),
        uri: uri(&order.sockets.memory),
        disks_uri: (!disks.is_empty()).then(|| uri(&order.sockets.disks)).flatten(),
        migrate_disks: disks.to_vec(),
        ..MigrateParameters::default()
    }
}

/// Number of parallel connections, where there is more than one.
fn connections(order: &Migrate) -> Option<u32> {
    Some(order.limits.connections).filter(|count| *count > 1)
}

fn flags(order: &Migrate, disks: &[String]) -> u32 {
    let limits = &order.limits;
    let optional = [
        (!disks.is_empty(), sys::VIR_MIGRATE_NON_SHARED_INC),
        (limits.auto_converge, sys::VIR_MIGRATE_AUTO_CONVERGE),
        (limits.post_copy, sys::VIR_MIGRATE_POSTCOPY),
        (limits.compress, sys::VIR_MIGRATE_COMPRESSED),
        // zstd is a method of parallel connections.
        (limits.compress || connections(order).is_some(), sys::VIR_MIGRATE_PARALLEL),
    ];
    let always = sys::VIR_MIGRATE_LIVE
        | sys::VIR_MIGRATE_PEER2PEER
        | sys::VIR_MIGRATE_PERSIST_DEST
        | sys::VIR_MIGRATE_UNDEFINE_SOURCE;
    optional.into_iter().filter(|(is_set, _)| *is_set).fold(always, |flags, (_, flag)| flags | flag)
}

/// Progress of the job; `None` while there is none, or no number of it.
pub(super) fn progress(domain: &Domain, doing: &str) -> Result<Option<MigrationProgress>> {
    let stats = domain.get_job_stats(0).map_err(|e| from_libvirt::error(doing, &e))?;
    Ok(progress_of(&stats))
}

fn progress_of(stats: &JobStats) -> Option<MigrationProgress> {
    let total = stats.data_total?;
    Some(MigrationProgress {
        total,
        processed: stats.data_processed.unwrap_or_default(),
        remaining: stats.data_remaining.unwrap_or_default(),
        bytes_per_second: stats.mem_bps.unwrap_or_default(),
        // libvirt tells pages.
        dirty_bytes_per_second: stats
            .mem_dirty_rate
            .unwrap_or_default()
            .saturating_mul(stats.mem_page_size.unwrap_or_default()),
        iteration: stats.mem_iteration.unwrap_or_default(),
        downtime_ms: stats.downtime.unwrap_or_default(),
    })
}

/// Aborts the job of the domain.
pub(super) fn abort(domain: &Domain, doing: &str) -> Result<()> {
    // SAFETY: the domain is a live object of the bindings.
    done(unsafe { sys::virDomainAbortJob(domain.as_ptr()) }, doing)
}

/// Lets the guest go on at the target.
pub(super) fn start_post_copy(domain: &Domain, doing: &str) -> Result<()> {
    // SAFETY: the domain is a live object of the bindings.
    done(unsafe { sys::virDomainMigrateStartPostCopy(domain.as_ptr(), 0) }, doing)
}

fn done(code: i32, doing: &str) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(from_libvirt::error(doing, &virt::error::Error::last_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::{MigrationLimits, MigrationSockets};

    fn order(limits: MigrationLimits) -> Migrate {
        let sockets =
            MigrationSockets { libvirt: "/r/l".into(), memory: "/r/m".into(), disks: "/r/d".into() };
        Migrate { id: "m".into(), sockets, copied_disks: Vec::new(), limits }
    }

    #[test]
    fn an_order_becomes_flags_and_parameters() {
        let plain = order(MigrationLimits::default());
        let always = flags(&plain, &[]);
        assert_eq!(always & sys::VIR_MIGRATE_PEER2PEER, sys::VIR_MIGRATE_PEER2PEER);
        assert_eq!(
            always & (sys::VIR_MIGRATE_TUNNELLED | sys::VIR_MIGRATE_UNSAFE | sys::VIR_MIGRATE_PAUSED),
            0
        );
        let set = parameters(&plain, &[]);
        assert_eq!((set.uri.as_deref(), set.disks_uri, set.bandwidth), (Some("unix:///r/m"), None, None));

        let disks = ["vda".to_owned()];
        let limits = MigrationLimits {
            bandwidth: (64 << 20) + 1,
            compress: true,
            connections: 4,
            ..Default::default()
        };
        let hurried = order(limits);
        let added = flags(&hurried, &disks) & !always;
        let wanted =
            sys::VIR_MIGRATE_NON_SHARED_INC | sys::VIR_MIGRATE_COMPRESSED | sys::VIR_MIGRATE_PARALLEL;
        assert_eq!(added, wanted);
        let set = parameters(&hurried, &disks);
        assert_eq!((set.bandwidth, set.parallel_connections), (Some(65), Some(4)));
        assert_eq!((set.disks_uri.as_deref(), &set.migrate_disks[..]), (Some("unix:///r/d"), &disks[..]));
    }
}
