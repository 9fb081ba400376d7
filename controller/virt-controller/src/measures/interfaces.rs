//! Interfaces of VMIs and of templates.

use api::vmi::{Interface, Network, Spec};
use cluster_model::metrics::cut;

/// The labels of each interface.
pub(super) fn labels(spec: &Spec) -> impl Iterator<Item = Vec<(&'static str, String)>> {
    spec.domain.devices.interfaces.iter().map(|interface| {
        let (kind, binding) = binding(interface);
        let network = spec.networks.iter().find(|network| network.name == interface.name);
        vec![
            ("vnic_name", cut(&interface.name)),
            ("binding_type", kind.to_owned()),
            ("network", network.map(name).unwrap_or_default()),
            ("binding_name", binding),
            ("model", cut(interface.model.as_deref().unwrap_or("virtio"))),
        ]
    })
}

/// Upstream's words for a network.
fn name(network: &Network) -> String {
    match &network.multus {
        Some(multus) => cut(&multus.network_name),
        None => "pod networking".to_owned(),
    }
}

fn binding(interface: &Interface) -> (&'static str, String) {
    if let Some(plugin) = &interface.binding {
        return ("plugin", cut(&plugin.name));
    }
    let core = [
        ("masquerade", interface.masquerade.is_some()),
        ("sriov", interface.sriov.is_some()),
        ("slirp", interface.slirp.is_some()),
        ("macvtap", interface.macvtap.is_some()),
        ("passt", interface.passt.is_some() || interface.passt_binding.is_some()),
    ];
    let found = core.into_iter().find(|(_, is)| *is);
    ("core", found.map_or("bridge", |(name, _)| name).to_owned())
}
