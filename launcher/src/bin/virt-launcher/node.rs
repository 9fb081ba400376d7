//! `virt-launcher node-info`: the capabilities of this host as JSON. libvirt's findings go into the cache.

use crate::libvirt::Libvirt;
use crate::run::default_cache;
use crate::{args, probe, surroundings};
use api::architecture::{Arch, ArchFacts};
use api::launcher::Accelerator;
use api::node::{Missing, Node, Verdict};
use launcher::error::{Error, Result};
use launcher::hypervisor::{Hypervisor, embed};
use launcher::node;
use launcher::root::Root;
use std::io::Write;
use std::path::{Path, PathBuf};

const HOST: &ArchFacts = Arch::of_host().facts();

pub(crate) fn run(args: &args::NodeInfo) -> Result<()> {
    let cache = args.cache.clone().or_else(default_cache);
    let mut found = Node {
        kvm: probe::judge(),
        arch: HOST.name.into(),
        libvirt: None,
        qemu: None,
        accelerators: Vec::new(),
        machine_types: Vec::new(),
        deprecated_machine_types: Vec::new(),
        cpu: api::node::Cpu::default(),
        devices: node::devices(),
        hugepages: node::hugepages(),
        firmware: node::firmwares(),
        missing: node::missing(),
    };
    let place = TemporaryFolder::new()?;
    if let Err(e) = ask_libvirt(&mut found, &place.0, cache.as_deref()) {
        let mend =
            if found.missing.is_empty() { "see the reason" } else { "install the missing parts above first" };
        found.missing.push(Missing {
            what: format!("libvirt: {}", e.chain()),
            effect: "no VM starts".into(),
            mend: mend.into(),
        });
    }
    found.cpu.count =
        std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    let text =
        serde_json::to_string_pretty(&found).map_err(|e| Error::refused("cannot write JSON").because(e))?;
    match &args.output {
        None => writeln!(std::io::stdout(), "{text}").map_err(|e| Error::io("cannot print", e)),
        Some(path) => embed::write_whole(path, text.as_bytes())
            .map_err(|e| Error::io(format!("cannot write {}", path.display()), e)),
    }
}

fn ask_libvirt(found: &mut Node, folder: &Path, cache: Option<&Path>) -> Result<()> {
    let failed = |e: launcher::hypervisor::Error| Error::refused("it cannot be used").because(e);
    let theirs = |e: virt::error::Error| Error::refused("it does not answer").because(e);
    let root = Root::open(folder, folder).map_err(|e| Error::refused("it has no folder").because(e))?;
    surroundings(&root)?;
    if let Some(cache) = cache {
        let _ = embed::seed(&root, cache).inspect_err(|e| tracing::warn!("the cache is not used: {e}"));
    }
    let libvirt = Libvirt::open(&embed::uri(&root), None).map_err(failed)?;
    found.libvirt = Some(libvirt.about().map_err(failed)?.version);
    let connection = libvirt.connection().map_err(failed)?;
    let capabilities = connection.get_capabilities().map_err(theirs)?;
    let guest = node::capabilities::guest(&capabilities, HOST.kernel_name);
    (found.machine_types, found.accelerators) = (guest.machine_types, guest.accelerators);
    found.deprecated_machine_types = guest.deprecated_machine_types;
    if found.accelerators.is_empty() {
        return Ok(());
    }
    found.qemu = connection.get_hyp_version().ok().map(Libvirt::version);
    // The CPU models of a VM without settings of its own.
    let kind = match found.kvm.verdict == Verdict::Full && found.accelerators.contains(&Accelerator::Kvm) {
        true => "kvm",
        false => "qemu",
    };
    let asked = connection.get_domain_capabilities(
        None,
        Some(HOST.kernel_name),
        Some(HOST.machine_type),
        Some(kind),
        0,
    );
    found.cpu = node::capabilities::cpu(&asked.map_err(theirs)?);
    found.cpu.tsc = node::capabilities::tsc(&capabilities);
    if let Some(cache) = cache {
        let _ = embed::save(&root, cache).inspect_err(|e| tracing::warn!("the cache is not filled: {e}"));
    }
    Ok(())
}

/// A folder that is removed with this value.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Result<TemporaryFolder> {
        let folder = std::env::temp_dir().join(format!("coracle-node-{}", std::process::id()));
        std::fs::create_dir(&folder)
            .map_err(|e| Error::io(format!("cannot make {}", folder.display()), e))?;
        Ok(TemporaryFolder(folder))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A file that cannot be removed stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
