//! Parser of libvirt's descriptions of its own capabilities. Pure.
//!
//! The texts come from the libvirt inside this process, so they are well formed; an element is found by its
//! tag, and a missing one is empty.

use api::launcher::Accelerator;
use api::node::{Cpu, Tsc};

/// The part about guests of this architecture, from `virConnectGetCapabilities`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Machine types without aliases, with the deprecated ones: VMs that began with one keep it.
    pub machine_types: Vec<String>,
    /// Machine types that QEMU will drop.
    pub deprecated_machine_types: Vec<String>,
    /// Accelerators that may run the guest.
    pub accelerators: Vec<Accelerator>,
}

/// The guests of an architecture (`x86_64`) that this host runs.
pub fn guest(xml: &str, arch: &str) -> Guest {
    let opening = format!("<arch name='{arch}'>");
    let Some(part) = xml.split(&opening).nth(1).and_then(|rest| rest.split("</arch>").next()) else {
        return Guest::default();
    };
    // The first lists are QEMU's; a domain of KVM may list its own again.
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names.dedup();
        names
    };
    let is_deprecated = |attributes: &str| attribute(attributes, "deprecated") == Some("yes");
    let all = elements(part, "machine");
    let machine_types = sorted(all.map(|(_, text)| text.to_owned()).collect());
    let deprecated = elements(part, "machine").filter(|(attributes, _)| is_deprecated(attributes));
    let deprecated_machine_types = sorted(deprecated.map(|(_, text)| text.to_owned()).collect());
    let has = |kind: &str| part.contains(&format!("<domain type='{kind}'"));
    let known = [(Accelerator::Kvm, "kvm"), (Accelerator::Emulation, "qemu")];
    Guest {
        machine_types,
        deprecated_machine_types,
        accelerators: known
            .into_iter()
            .filter(|(_, kind)| has(kind))
            .map(|(accelerator, _)| accelerator)
            .collect(),
    }
}

/// The CPU models of guests, from `virConnectGetDomainCapabilities`.
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
        hyperv: hyperv(xml),
        tsc: None,
    }
}

/// Hyper-V enlightenments of guests, by the names of the API, from `virConnectGetDomainCapabilities`.
fn hyperv(xml: &str) -> Vec<String> {
    let part = xml.split("<hyperv supported='yes'>").nth(1).and_then(|rest| rest.split("</hyperv>").next());
    let named = |(_, text): (&str, &str)| match text {
        "stimer" => "synictimer".to_owned(),
        "vendor_id" => "vendorid".to_owned(),
        text => text.to_owned(),
    };
    elements(part.unwrap_or_default(), "value").map(named).collect()
}

/// The time stamp counter of the host, from `virConnectGetCapabilities`.
pub fn tsc(xml: &str) -> Option<Tsc> {
    let (counter, _) =
        elements(xml, "counter").find(|(attributes, _)| attribute(attributes, "name") == Some("tsc"))?;
    let frequency = attribute(counter, "frequency")?.parse().ok()?;
    Some(Tsc { frequency, scalable: attribute(counter, "scaling") == Some("yes") })
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
    fn machine_types_are_those_of_the_architecture_and_deprecated_ones_too() {
        let xml = "<guest><os_type>hvm</os_type><arch name='i686'><machine>no</machine></arch></guest>\
                   <guest><arch name='x86_64'><wordsize>64</wordsize><machine maxCpus='255'>pc-i440fx-7.2</machine>\
                   <machine canonical='pc-q35-7.2' maxCpus='288'>q35</machine>\
                   <machine maxCpus='255' deprecated='yes'>pc-i440fx-1.4</machine>\
                   <domain type='qemu'/><domain type='kvm'/></arch></guest>";
        let guest = guest(xml, "x86_64");
        assert_eq!(guest.machine_types, ["pc-i440fx-1.4", "pc-i440fx-7.2", "q35"]);
        assert_eq!(guest.deprecated_machine_types, ["pc-i440fx-1.4"]);
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
        assert_eq!(cpu.hyperv, [""; 0]);
    }

    #[test]
    fn enlightenments_have_the_names_of_the_api() {
        let xml = "<features><sev supported='no'/><hyperv supported='yes'><enum name='features'><value>relaxed</value>\
                   <value>stimer</value><value>vendor_id</value></enum></hyperv></features><enum><value>no</value></enum>";
        assert_eq!(cpu(xml).hyperv, ["relaxed", "synictimer", "vendorid"]);
        assert_eq!(cpu("<hyperv supported='no'/><value>no</value>").hyperv, [""; 0]);
    }

    #[test]
    fn the_counter_of_the_host_is_read() {
        let xml = |scaling: &str| {
            format!(
                "<host><cpu><counter name='tsc' frequency='2600000000' scaling='{scaling}'/></cpu></host>"
            )
        };
        assert_eq!(tsc(&xml("no")), Some(Tsc { frequency: 2_600_000_000, scalable: false }));
        assert!(tsc(&xml("yes")).is_some_and(|tsc| tsc.scalable));
        assert_eq!(tsc("<host><cpu/></host>"), None);
    }
}
