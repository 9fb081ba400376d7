//! Choice between KVM and emulation of the guest's CPUs by QEMU.
//!
//! The launcher probes KVM by running a small program in it, which takes a moment. The result is cached until
//! the computer boots again or the launcher changes.

use crate::Notify;
use crate::error::{Error, ErrorKind, Result};
use crate::place::Home;
use crate::whole_file::write_whole;
use api::launcher::Accelerator;
use api::node::{Device, Node, Verdict};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Device file of KVM.
const DEVICE: &str = "/dev/kvm";

/// Accelerator that the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// KVM if it boots kernels, else emulation.
    Auto,
    /// KVM, without a probe.
    Kvm,
    /// Emulation by QEMU (TCG).
    Emulation,
}

#[derive(Serialize, Deserialize)]
struct CachedNode {
    boot: String,
    launcher: String,
    node: Node,
}

/// Fails early if the requested accelerator is not available.
pub fn check(wish: Choice) -> Result<()> {
    let Choice::Kvm = wish else { return Ok(()) };
    let Err(e) = opened() else { return Ok(()) };
    let hint = match e.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "it is for the group kvm, as root: usermod --append --groups kvm NAME; or use --accel emulation"
        }
        _ => "this computer does not offer it; use --accel emulation",
    };
    Err(Error::io(format!("--accel kvm: cannot open {DEVICE}"), e).with_hint(hint))
}

/// The KVM device, as usable for the current user.
pub fn kvm() -> Device {
    let reason = opened().err().map(|e| e.to_string());
    Device { name: "kvm".into(), path: DEVICE.into(), usable: reason.is_none(), reason }
}

fn opened() -> std::io::Result<File> {
    File::options().read(true).write(true).open(DEVICE)
}

/// Accelerator for a new VM.
pub fn choose(wish: Choice, launcher: &Path, home: &Home, notify: Notify) -> Result<Accelerator> {
    match wish {
        Choice::Emulation => return Ok(Accelerator::Emulation),
        Choice::Kvm => return forced(launcher, home, notify),
        Choice::Auto => {}
    }
    // Without access to the device there is nothing to probe.
    if opened().is_err() {
        return Ok(Accelerator::Emulation);
    }
    let node = match node(launcher, home, false) {
        Ok(node) => node,
        Err(e) => {
            tracing::warn!("the guest is emulated: {e}");
            return Ok(Accelerator::Emulation);
        }
    };
    Ok(match node.kvm.verdict {
        Verdict::Full => Accelerator::Kvm,
        Verdict::Limited | Verdict::None => {
            let reason = node.kvm.reason.unwrap_or_default();
            tracing::info!("the guest is emulated: {reason}");
            Accelerator::Emulation
        }
    })
}

/// KVM at the user's request. If the probe says that it is limited, a warning tells why the VM may not come
/// up.
fn forced(launcher: &Path, home: &Home, notify: Notify) -> Result<Accelerator> {
    let kvm = node(launcher, home, false)?.kvm;
    if kvm.verdict != Verdict::Full {
        let reason = kvm.reason.unwrap_or_else(|| "the probe does not say why".to_owned());
        notify(&format!("coracle: warning: --accel kvm: the guest may not come up: {reason}"));
    }
    Ok(Accelerator::Kvm)
}

/// Capabilities of this computer as the launcher probed them, from the cache unless `anew` is set.
pub fn node(launcher: &Path, home: &Home, anew: bool) -> Result<Node> {
    let path = home.launcher_cache().join("node.json");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let facts = std::fs::metadata(launcher)
        .map_err(|e| Error::io(format!("cannot use {}", launcher.display()), e))?;
    let program = format!("{} {} {}", launcher.display(), facts.size(), facts.mtime());
    if !anew
        && let Ok(bytes) = std::fs::read(&path)
        && let Ok(kept) = serde_json::from_slice::<CachedNode>(&bytes)
        && (&kept.boot, &kept.launcher) == (&boot, &program)
    {
        return Ok(kept.node);
    }
    home.make(&home.launcher_cache())?;
    let kept = CachedNode { boot, launcher: program, node: asked(launcher, Some(&home.launcher_cache()))? };
    let text = serde_json::to_vec(&kept).map_err(|e| Error::failed("cannot write JSON").because(e))?;
    write_whole(&path, &text)?;
    Ok(kept.node)
}

/// Capabilities as the launcher reports them now. Without a cache folder, libvirt probes QEMU each time.
pub fn asked(launcher: &Path, cache: Option<&Path>) -> Result<Node> {
    let mut command = Command::new(launcher);
    command.arg("node-info");
    if let Some(cache) = cache {
        command.arg("--cache").arg(cache);
    }
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| Error::io(format!("cannot start {}", launcher.display()), e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let what =
            format!("virt-launcher cannot say what this computer can do: {}", printable::line(said.trim()));
        return Err(Error::failed(what).with_hint(format!("see what {} node-info needs", launcher.display())));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| {
        Error::new(
            ErrorKind::Failed,
            "the answer of 'virt-launcher node-info' is not understood; it may be of another version",
        )
        .because(e)
    })
}
