//! Virtual functions of the node's network cards that guests have exclusively: the mapping from a pod's
//! devices to its networks.
//!
//! The mapping comes from an annotation of Multus, which any user who may edit the pod can change. So it
//! grants nothing: the launcher can open only devices that the kubelet has given to its container, and
//! refuses other addresses.

use super::names;
use crate::error::{Error, ErrorKind, Result};
use api::launcher::Link;
use api::machine::{Binding, Machine};
use cluster_model::networks::{ATTACHED, device};
use std::collections::BTreeMap;

/// Links of the interfaces that are virtual functions. `said`: annotation of Multus.
pub(crate) fn devices(machine: &Machine, said: Option<&str>) -> Result<BTreeMap<String, Link>> {
    let all = machine.interfaces.iter().filter(|interface| interface.binding == Binding::Sriov);
    let link = |interface: &api::machine::Interface| {
        let name = &interface.name;
        let found = said.and_then(|said| device(said, &names::card(interface)));
        let (address, card) = found.ok_or_else(|| {
            let what = format!(
                "the interface '{name}' has no virtual function yet: the annotation {ATTACHED} of the launcher pod names no device \
                 (device-info) of its network. Multus and a CNI plug-in such as sriov write it"
            );
            Error::new(ErrorKind::NotFound, what)
        })?;
        Ok((name.clone(), Link::Device { address, mac: interface.mac.clone().or(card) }))
    };
    all.map(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_virtual_function_is_that_of_its_network() {
        let vmi = api::wire::read(json!({
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {
                "domain": {
                    "memory": {"guest": "64Mi"},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": {"interfaces": [{"name": "default", "masquerade": {}}, {"name": "blue", "sriov": {}}]}
                },
                "networks": [{"name": "default", "pod": {}}, {"name": "blue", "multus": {"networkName": "vf"}}]
            }
        }))
        .unwrap();
        let machine = Machine::check_again(&vmi).unwrap();
        let said = json!([{"name": "n/vf", "interface": "pod16477688c0e", "mac": "02:00:00:00:00:07",
                           "device-info": {"type": "pci", "pci": {"pci-address": "0000:65:00.2"}}}]);
        let found = devices(&machine, Some(&said.to_string())).unwrap();
        let mac = Some("02:00:00:00:00:07".to_owned());
        assert_eq!(
            found,
            BTreeMap::from([("blue".to_owned(), Link::Device { address: "0000:65:00.2".into(), mac })])
        );
        for said in [None, Some("[]"), Some("{")] {
            let error = devices(&machine, said).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "it may come");
            assert!(error.to_string().contains("'blue'"), "{error}");
        }
    }
}
