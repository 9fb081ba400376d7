//! Hooks: programs of the VM's owner that change its domain, or its texts of cloud-init, before it starts.
//!
//! ```text
//!  Resolved::hooks ─► collect: a sidecar's socket ─Info─► its hook points, or a program of this host   (with time limits)
//!        │
//!        ├─ cloud_init   PreCloudInitIso   while the seeds are written
//!        ├─ domain       OnDefineDomain    between the XML of the domain and libvirt: each gets the output of the one before
//!        └─ farewell     Shutdown          when the launcher ends
//! ```
//!
//! KubeVirt defines the interface as gRPC (`kubevirt.hooks.*`). A script gets its inputs as arguments, like a
//! script of upstream's sidecar-shim. A higher priority comes first, then the name, then the order of the
//! annotation.
//!
//! **Trust:** a hook belongs to the VM's owner. Its output runs with the permissions of the launcher, which
//! are those of the owner's pod or account. A hook must not change the name, uuid or VSOCK device of the domain, since other
//! components identify the VM by them (arguments of QEMU in its output are not read). Its answers and its
//! time are bounded, and every mistake of it is an error with its name.

mod cloud_init;
mod outline;
mod script;
mod sidecar;
mod wire;

#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::hypervisor::embed::write_whole;
use crate::seed::cloud_init::{CloudInitData, Identity, SeedFormat};
use api::launcher::Hook;
use api::machine::hook::NETWORK_INFO;
use outline::Outline;
use serde_json::Value;
use sidecar::Sidecar;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wire::Point;

/// Longest answer, in bytes. A domain with a hundred devices takes less than a tenth of it.
const LONGEST: usize = 1 << 20;
/// Time for all sidecars to start in, after the launcher.
const BEGIN: Duration = Duration::from_secs(60);
/// Time limit of one answer.
const ANSWER: Duration = Duration::from_secs(60);
/// Time for all sidecars to receive the message that the launcher ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// The hooks of one start.
#[derive(Debug, Default)]
pub struct Hooks {
    hooks: Vec<One>,
    /// The VMI, as JSON.
    vmi: String,
}

#[derive(Debug)]
enum One {
    Sidecar(Sidecar),
    Script(PathBuf),
}

impl Hooks {
    /// Waits until each sidecar listens, and reads its hook points.
    pub fn collect(hooks: &[Hook], vmi: &Value) -> Result<Hooks> {
        let until = Instant::now() + BEGIN;
        let one = |hook: &Hook| match hook {
            Hook::Sidecar { container, folder } => Sidecar::find(container, folder, until).map(One::Sidecar),
            Hook::Script { path } => Ok(One::Script(path.clone())),
        };
        let found: Vec<One> = hooks.iter().map(one).collect::<Result<_>>()?;
        let vmi = if found.is_empty() { String::new() } else { vmi.to_string() };
        Ok(Hooks { hooks: found, vmi })
    }

    /// The domain after the changes of the hooks.
    pub fn domain(&self, mut xml: String) -> Result<String> {
        for hook in self.at(Point::OnDefineDomain) {
            let changed = match hook {
                One::Sidecar(sidecar) => sidecar.on_define_domain(&xml, &self.vmi)?,
                One::Script(path) => script::on_define_domain(path, &xml, &self.vmi)?,
            };
            same_domain(hook, &xml, &changed)?;
            tracing::info!("{} changed the domain: {} bytes, now {}", hook.name(), xml.len(), changed.len());
            xml = changed;
        }
        Ok(xml)
    }

    /// The texts of cloud-init of a volume after the changes of the hooks.
    pub fn cloud_init(
        &self,
        volume: &str,
        format: SeedFormat,
        identity: &Identity<'_>,
        mut given: CloudInitData,
    ) -> Result<CloudInitData> {
        for hook in self.at(Point::PreCloudInitIso) {
            let One::Sidecar(sidecar) = hook else { continue };
            let data = cloud_init::data(volume, format, identity, &given, &hook.name())?;
            let answer = sidecar.pre_cloud_init_iso(&data, &self.vmi)?;
            given = cloud_init::changed(&data, &answer, given, &hook.name())?;
        }
        Ok(given)
    }

    /// Hooks with this hook point, in the order of their calls.
    fn at(&self, point: Point) -> Vec<&One> {
        let wanted = |hook: &One| match hook {
            One::Sidecar(sidecar) => {
                sidecar.priority(point).map(|priority| (-i64::from(priority), sidecar.name.clone()))
            }
            One::Script(_) => (point == Point::OnDefineDomain).then(|| (0, String::new())),
        };
        let mut found: Vec<_> = self.hooks.iter().filter_map(|hook| Some((wanted(hook)?, hook))).collect();
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        found.into_iter().map(|(_, hook)| hook).collect()
    }
}

impl One {
    /// Name of the hook in messages.
    fn name(&self) -> String {
        match self {
            One::Sidecar(sidecar) => sidecar.display_name(),
            One::Script(path) => format!("the hook {}", path.display()),
        }
    }
}

/// Writes the networks of the pod to a file in a folder that is mounted in the sidecars that ask for it.
pub fn tell_networks(info: Option<&str>, sockets: &Path) -> Result<()> {
    let Some(info) = info else { return Ok(()) };
    let folder = sockets.join(NETWORK_INFO);
    let path = folder.join(NETWORK_INFO);
    let written = std::fs::create_dir_all(&folder).and_then(|()| write_whole(&path, info.as_bytes()));
    written
        .map_err(|e| Error::io(format!("cannot tell hook sidecars of the networks in {}", path.display()), e))
}

/// Tells the sidecars with this hook point that the launcher ends. Their answers have no effect.
pub fn farewell(hooks: &[Hook]) {
    let until = Instant::now() + FAREWELL;
    for hook in hooks {
        let Hook::Sidecar { container, folder } = hook else { continue };
        if Instant::now() >= until {
            tracing::info!(
                "{container} is not told that the launcher ends: other sidecars have used up the time"
            );
            continue;
        }
        let told = Sidecar::find(container, folder, until.min(Instant::now() + Duration::from_secs(1)));
        let told = told.and_then(|sidecar| match sidecar.priority(Point::Shutdown) {
            Some(_) => sidecar.shutdown(until.saturating_duration_since(Instant::now())),
            None => Ok(()),
        });
        if let Err(e) = told {
            tracing::info!("cannot tell {container} that the launcher ends: {}", e.chain());
        }
    }
}

/// Refuses a domain with another identity: libvirt would keep it beside ours, and no component would find it.
fn same_domain(hook: &One, before: &str, after: &str) -> Result<()> {
    let (before, after) = (outline::read_outline(before), outline::read_outline(after));
    let cids = |outline: &Outline| (!outline.cids.is_empty()).then(|| outline.cids.join(", "));
    for (what, before, after) in [
        ("name", before.name.clone(), after.name.clone()),
        ("uuid", before.uuid.clone(), after.uuid.clone()),
        ("VSOCK context ID", cids(&before), cids(&after)),
    ] {
        if before != after {
            let said =
                |text: Option<String>| text.map_or("none".to_owned(), |text| format!("{:?}", plain(&text)));
            return Err(Error::refused(format!(
                "{} changed the {what} of the domain from {} to {}; a hook must leave it as it is",
                hook.name(),
                said(before),
                said(after)
            )));
        }
    }
    Ok(())
}

/// Text of a hook for a message: without control characters, and shortened.
fn plain(words: &str) -> String {
    let mut plain: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect();
    plain.truncate(plain.trim_end().len());
    plain
}
