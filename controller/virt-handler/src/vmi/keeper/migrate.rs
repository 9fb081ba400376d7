//! Connections of a migration, opened and closed for a keeper.

use super::effects::{Effects, LiveEvent, LiveState};
use super::event::KeeperEvent;
use super::facts::Facts;
use super::migration::{MigrationEnd, Order, Stage};
use crate::error::{Error, Result};
use crate::measures;
use crate::migration::{Certificate, Findings, MigrationPorts, SourceSockets, TargetPorts};
use crate::pod::PodFolder;
use crate::vmi::apply::Cluster;
use api::launcher::{Answer, Migrate, MigrationSockets, Request};
use cluster_model::launcher::{MigrationSocketPaths, SOURCE_CONNECTS};
use std::sync::Arc;
use tokio::sync::watch;

/// Connections of one end of a migration. They are closed with the value.
#[derive(Debug)]
pub(super) enum MigrationConnections {
    /// The source's certificate, before the target is known.
    Announced { uid: String, certificate: Certificate },
    /// The source's way to the target.
    Source { _sockets: SourceSockets, findings: watch::Receiver<Findings> },
    /// The target's listeners, and the fingerprint of their certificate.
    Target { uid: String, certificate: String, listeners: TargetPorts, findings: watch::Receiver<Findings> },
}

impl MigrationConnections {
    /// Findings about the connections so far.
    pub(super) fn findings(&self) -> Findings {
        match self {
            MigrationConnections::Announced { .. } => Findings::default(),
            MigrationConnections::Source { findings, .. } | MigrationConnections::Target { findings, .. } => {
                findings.borrow().clone()
            }
        }
    }

    /// Waits for new findings. Dropping the future loses nothing.
    pub(super) async fn changed(&mut self) {
        let changed = match self {
            MigrationConnections::Announced { .. } => Err(()),
            MigrationConnections::Source { findings, .. } | MigrationConnections::Target { findings, .. } => {
                findings.changed().await.map_err(drop)
            }
        };
        if changed.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl<C: Cluster> Effects<C> {
    /// Makes the source's certificate for a migration.
    pub(super) fn announce(&mut self, uid: String) -> LiveEvent {
        match Certificate::generate() {
            Ok(certificate) => {
                let fingerprint = certificate.fingerprint();
                self.migration = Some(MigrationConnections::Announced { uid: uid.clone(), certificate });
                KeeperEvent::Announced { uid, certificate: fingerprint }
            }
            Err(e) => {
                tracing::warn!("{}", e.chain());
                KeeperEvent::NotOpened
            }
        }
    }

    /// Opens the way to the target, and tells the launcher to migrate.
    pub(super) async fn order(&mut self, state: &LiveState, facts: &Facts, order: Order) -> LiveEvent {
        let uid = order.uid.clone();
        let refused = self.try_order(state, facts, order).await.err().map(|e| e.chain());
        match &refused {
            Some(why) => tracing::warn!("{}: {why}", facts.name()),
            None => tracing::info!("told the launcher of {} to migrate ({uid})", facts.name()),
        }
        if refused.is_some() {
            self.migration = None;
        }
        KeeperEvent::Ordered { uid, refused }
    }

    async fn try_order(&mut self, state: &LiveState, facts: &Facts, order: Order) -> Result<()> {
        let place = facts.place.as_ref().map_err(|failure| Error::failed(failure.message.clone()))?;
        let certificate = match self.migration.take() {
            Some(MigrationConnections::Announced { uid, certificate }) if uid == order.uid => certificate,
            _ => return Err(Error::failed("the certificate of the migration is gone")),
        };
        let sockets = sockets(place, &order.uid)?;
        let address = order.address.parse().map_err(|_| {
            Error::refused(format!("the migration's target has no address, but '{}'", order.address))
        })?;
        let ports = MigrationPorts::from_status(&order.ports)?;
        let opened =
            SourceSockets::open(place.clone(), &order.uid, address, ports, &certificate, &order.peer).await?;
        measures::observe_streams(&facts.vmi.metadata, opened.bytes());
        let findings = opened.findings();
        self.migration = Some(MigrationConnections::Source { _sockets: opened, findings });
        let connection = state.connection().ok_or_else(|| Error::failed("the launcher does not answer"))?;
        let migrate = Migrate {
            id: order.uid,
            sockets,
            copied_disks: order.copied_disks,
            whole_disks: order.whole_disks,
            limits: order.limits,
        };
        match connection.client.request(&Request::Migrate(Box::new(migrate))).await? {
            Answer::Queued | Answer::Ignored { .. } => Ok(()),
            Answer::Denied(denial) => {
                Err(Error::failed(format!("the launcher refused to migrate its VM: {denial}")))
            }
        }
    }

    /// Lets the source of a migration connect, which has this certificate.
    pub(super) async fn open(&mut self, facts: &Facts, uid: String, source: String) -> LiveEvent {
        match self.try_open(facts, uid, source).await {
            Ok(end) => KeeperEvent::Opened(Box::new(end)),
            Err(e) => {
                tracing::warn!("{}: {}", facts.name(), e.chain());
                KeeperEvent::NotOpened
            }
        }
    }

    async fn try_open(&mut self, facts: &Facts, uid: String, source: String) -> Result<MigrationEnd> {
        let place = facts.place.as_ref().map_err(|failure| Error::failed(failure.message.clone()))?;
        let address = self.node.address.ok_or_else(|| {
            Error::failed(
                "virt-handler does not know the address of its pod (--pod-ip-address), so no migration can come here",
            )
        })?;
        let known = match &self.migration {
            Some(MigrationConnections::Target { uid: known, .. }) => *known == uid,
            _ => false,
        };
        if !known {
            let own = Certificate::generate()?;
            let listeners = TargetPorts::open(address, &own, place.clone(), &uid, SOURCE_CONNECTS).await?;
            let certificate = own.fingerprint();
            measures::observe_streams(&facts.vmi.metadata, listeners.bytes());
            let findings = listeners.findings();
            let target = MigrationConnections::Target { uid: uid.clone(), certificate, listeners, findings };
            self.migration = Some(target);
        }
        let Some(MigrationConnections::Target { certificate, listeners, .. }) = &self.migration else {
            return Err(Error::failed("the listeners of the migration are gone"));
        };
        listeners.expect(&source)?;
        let ports = listeners.ports().to_status();
        let stage = Stage::Open { address: address.to_string(), ports, expects: source };
        Ok(MigrationEnd::new(&uid, certificate.clone(), stage))
    }
}

/// Sockets of the source's launcher that lead to the target.
fn sockets(place: &Arc<PodFolder>, uid: &str) -> Result<MigrationSockets> {
    let layout = place.layout();
    let mount = layout.mounts.get(&layout.socket.volume);
    let mount = mount.ok_or_else(|| Error::failed("the launcher's socket is in no volume of its pod"))?;
    let paths = MigrationSocketPaths::beside(&format!("{mount}/{}", layout.socket.path), uid);
    Ok(MigrationSockets {
        libvirt: paths.libvirt.into(),
        memory: paths.memory.into(),
        disks: paths.disks.into(),
        release: paths.release.into(),
    })
}
