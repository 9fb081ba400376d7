//! libvirt's descriptions of its own capabilities. Pure.
//!
//! The texts come from the libvirt inside this process, so they are well formed; an element is found by its tag,
//! and a missing one is empty.

use api::launcher::Accelerator;
use api::node::Cpu;

/// From `virConnectGetCapabilities`: the part about guests of this architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Machine types, without the deprecated ones and without aliases.
    pub machine_types: Vec<String>,
    /// Accelerators that may run it.
    pub accelerators: Vec<Accelerator>,
}

/// The guests of an architecture (`x86_64`) that this host runs.
pub fn guest(xml: &str, arch: &str) -> Guest {
    let opening = format!("<arch name='{arch}'>");
    let Some(part) = xml.split(&opening).nth(1).and_then(|rest| rest.split("</arch>").next()) else {
        return Guest::default();
    };
    // The first lists are QEMU's; a domain of KVM may list its own again.
    let mut machine_types: Vec<String> = elements(part, "machine")
        .filter(|(attributes, _)| attribute(attributes, "deprecated") != Some("yes"))
        .map(|(_, text)| text.to_owned())
        .collect();
    machine_types.sort();
    machine_types.dedup();
    let has = |kind: &str| part.contains(&format!("<domain type='{kind}'"));
    let known = [(Accelerator::Kvm, "kvm"), (Accelerator::Emulation, "qemu")];
    Guest {
        machine_types,
        accelerators: known
            .into_iter()
            .filter(|(_, kind)| has(kind))
            .map(|(accelerator, _)| accelerator)
            .collect(),
    }
}

/// From `virConnectGetDomainCapabilities`: the CPU models of guests.
pub fn cpu(xml: &str) -> Cpu {
    let part = |text: &str, from: &str, to: &str| {
        text.split(from).nth(1).and_then(|rest| rest.split(to).next()).map(str::to_owned)
    };
    let host = part(xml, "<mode name='host-model'", "</mode>").unwrap_or_default();
    let custom = part(xml, "<mode name='custom'", "</mode>").unwrap_or_default();
    let required = |(attributes, _): &(&str, &str)| attribute(attributes, "policy") == Some("require");
    Cpu {
        vendor: elements(&host, "vendor").map(|(_, text)| text.to_owned()).next(),
        host_model: elements(&host, "model").map(|(_, text)| text.to_owned()).next(),
        models: elements(&custom, "model")
            .filter(|(attributes, _)| attribute(attributes, "usable") == Some("yes"))
            .map(|(_, text)| text.to_owned())
            .collect(),
        features: elements(&host, "feature")
            .filter(required)
            .filter_map(|(attributes, _)| attribute(attributes, "name").map(str::to_owned))
            .collect(),
        count: 0,
    }
}

/// All elements of a name: their attributes and their text.
fn elements<'a>(xml: &'a str, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let opening = format!("<{name}");
    let mut rest = xml;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once(&opening)?;
            rest = after;
            let (attributes, text) = after.split_once('>')?;
            // `<machine` must not match `<mach`.
            if attributes.is_empty() || attributes.starts_with([' ', '/']) {
                return Some((attributes, text.split('<').next().unwrap_or_default().trim()));
            }
        }
    })
}

fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = attributes.split_once(&format!(" {name}='"))?;
    rest.split('\'').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deprecated_machine_types_are_left_out() {
        let xml = "<guest><os_type>hvm</os_type><arch name='i686'><machine>no</machine></arch></guest>\
                   <guest><arch name='x86_64'><wordsize>64</wordsize><machine maxCpus='255'>pc-i440fx-7.2</machine>\
                   <machine canonical='pc-q35-7.2' maxCpus='288'>q35</machine>\
                   <machine maxCpus='255' deprecated='yes'>pc-i440fx-1.4</machine>\
                   <domain type='qemu'/><domain type='kvm'/></arch></guest>";
        let guest = guest(xml, "x86_64");
        assert_eq!(guest.machine_types, ["pc-i440fx-7.2", "q35"]);
        assert_eq!(guest.accelerators, [Accelerator::Kvm, Accelerator::Emulation]);
        assert_eq!(super::guest(xml, "aarch64"), Guest::default());
    }

    #[test]
    fn only_usable_cpu_models_are_listed() {
        let xml = "<cpu><mode name='host-passthrough' supported='yes'/><mode name='host-model' supported='yes'>\
                   <model fallback='forbid'>EPYC</model><vendor>AMD</vendor><feature policy='require' name='x2apic'/>\
                   <feature policy='disable' name='vme'/></mode><mode name='custom' supported='yes'>\
                   <model usable='yes' vendor='unknown'>qemu64</model><model usable='no' vendor='Intel'>Haswell</model>\
                   </mode></cpu>";
        let cpu = cpu(xml);
        assert_eq!((cpu.host_model.as_deref(), cpu.vendor.as_deref()), (Some("EPYC"), Some("AMD")));
        assert_eq!((cpu.models, cpu.features), (vec!["qemu64".to_owned()], vec!["x2apic".to_owned()]));
    }
}
