//! `permittedHostDevices`, read strictly, for webhooks, virt-controller and virt-handler.
//!
//! ```text
//!  configuration.permittedHostDevices ─► Permitted ─┬─► resources: what a VMI may ask for (virt-api, virt-controller)
//!                                          │        └─► rules: what a node offers, unless another device plugin does (virt-handler)
//!                                          └─► faults: entries without effect: a warning at write, and a condition
//! ```
//!
//! An invalid entry permits no device. Its resource must not be one of Kubernetes' own: a VMI would request
//! memory by the name of a device.

use super::host_device::{PCI, variable};
use super::label::is_label;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Entries of each list that are read.
const ENTRIES: usize = 128;
/// USB devices of one entry.
const SELECTORS: usize = 8;
/// The longest name of a mediated device type.
pub(super) const TYPE: usize = 128;

/// Host devices that VMIs may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permitted {
    /// Rules in the order of the object: a device belongs to the first rule that selects it.
    pub rules: Vec<Rule>,
    /// Resources of other device plugins.
    pub external: BTreeSet<String>,
}

/// An entry of `permittedHostDevices`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Name of the extended resource.
    pub resource: String,
    pub selector: Selector,
}

/// Devices that an entry selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// PCI devices of this vendor and product.
    Pci(Ids),
    /// Mediated devices of the type with this name, in which `_` stands for each blank.
    Mediated(String),
    /// USB devices that are assigned together, one of each.
    Usb(Vec<Ids>),
}

/// Vendor and product of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ids {
    pub vendor: u16,
    pub product: u16,
}

/// An entry without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IneffectiveEntry {
    pub field: String,
    pub why: String,
}

impl Permitted {
    /// Reads the permitted devices of a KubeVirt object.
    pub fn of_cluster(object: &Value) -> Permitted {
        read(object).0
    }

    /// Entries without effect in the permitted devices of a KubeVirt object, each with its reason.
    pub fn ineffective_entries(object: &Value) -> Vec<IneffectiveEntry> {
        read(object).1
    }

    /// Resources that a VMI may request.
    pub fn resources(&self) -> BTreeSet<String> {
        self.rules.iter().map(|rule| rule.resource.clone()).collect()
    }

    /// Rules for the devices that virt-handler offers.
    pub fn offered(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| !self.external.contains(&rule.resource))
    }
}

impl Ids {
    /// Parses hexadecimal digits: `10de`, `1EB8`.
    pub fn read(vendor: &str, product: &str) -> Option<Ids> {
        let number = |text: &str| {
            let digits = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
            digits.then(|| u16::from_str_radix(text, 16).ok())?
        };
        Some(Ids { vendor: number(vendor)?, product: number(product)? })
    }
}

/// True if the text can be the name of an extended resource: `DOMAIN/NAME`, not one of Kubernetes' own or of
/// this installation's.
pub fn is_resource(name: &str) -> bool {
    let Some((domain, own)) = name.split_once('/') else { return false };
    let word = |c: char| c.is_ascii_alphanumeric();
    let is_own = (1..=63).contains(&own.len())
        && own.starts_with(word)
        && own.ends_with(word)
        && own.chars().all(|c| word(c) || matches!(c, '-' | '_' | '.'));
    // Kubernetes puts `requests.` before the name in a quota.
    let is_domain = domain.len() <= 253 - "requests.".len()
        && domain.split('.').all(is_label)
        && !domain.starts_with("requests.");
    let is_kubernetes = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    is_own && is_domain && !is_kubernetes && domain != "devices.kubevirt.io"
}

fn read(object: &Value) -> (Permitted, Vec<IneffectiveEntry>) {
    let mut reading = Reading::default();
    let said = &object["spec"]["configuration"]["permittedHostDevices"];
    reading.each(said, "pciHostDevices", |entry| {
        let text = entry["pciVendorSelector"].as_str().unwrap_or_default();
        let ids = text.split_once(':').and_then(|(vendor, product)| Ids::read(vendor, product));
        let why = "pciVendorSelector must be VENDOR:PRODUCT in hexadecimal digits, for example 10de:1eb8";
        ids.map(Selector::Pci).ok_or(why)
    });
    reading.each(said, "mediatedDevices", |entry| {
        let text = entry["mdevNameSelector"].as_str().unwrap_or_default();
        let is_name = (1..=TYPE).contains(&text.len()) && !text.chars().any(char::is_control);
        let why = "mdevNameSelector must be the name of a mediated device type, for example GRID T4-1Q";
        is_name.then(|| Selector::Mediated(text.replace(' ', "_"))).ok_or(why)
    });
    reading.each(said, "usb", |entry| {
        let why = "selectors must have 1 to 8 entries of vendor and product in hexadecimal digits, for example 046d and c077";
        let selectors = entry["selectors"].as_array().filter(|all| (1..=SELECTORS).contains(&all.len())).ok_or(why)?;
        let text = |selector: &Value, field: &str| selector[field].as_str().unwrap_or_default().to_owned();
        let ids = |one: &Value| Ids::read(&text(one, "vendor"), &text(one, "product"));
        selectors.iter().map(ids).collect::<Option<Vec<_>>>().map(Selector::Usb).ok_or(why)
    });
    (reading.permitted, reading.odd)
}

#[derive(Default)]
struct Reading {
    permitted: Permitted,
    odd: Vec<IneffectiveEntry>,
    /// Resources by the names of their environment variables in launchers.
    variables: BTreeMap<String, String>,
}

impl Reading {
    fn each(
        &mut self,
        said: &Value,
        list: &str,
        selector: impl Fn(&Value) -> Result<Selector, &'static str>,
    ) {
        let at = |n: usize| format!("configuration.permittedHostDevices.{list}[{n}]");
        for (n, entry) in said[list].as_array().into_iter().flatten().enumerate() {
            if n == ENTRIES {
                self.odd.push(IneffectiveEntry {
                    field: at(n),
                    why: format!("only the first {ENTRIES} entries are read"),
                });
                return;
            }
            let resource = entry["resourceName"].as_str().unwrap_or_default();
            let read = match selector(entry) {
                _ if !is_resource(resource) => Err(
                    "resourceName must be the name of an extended resource, DOMAIN/NAME, not of kubernetes.io or \
                     devices.kubevirt.io",
                ),
                _ if self.variables.get(&variable(PCI, resource)).is_some_and(|known| known != resource) => {
                    Err(
                        "resourceName must differ from that of every other entry by more than '.', '_', '/' and capital letters: a launcher is \
                     told of both by one variable",
                    )
                }
                read => read,
            };
            match read {
                Ok(selector) => {
                    self.variables.insert(variable(PCI, resource), resource.to_owned());
                    if entry["externalResourceProvider"] == true {
                        self.permitted.external.insert(resource.to_owned());
                    }
                    self.permitted.rules.push(Rule { resource: resource.to_owned(), selector });
                }
                Err(why) => self.odd.push(IneffectiveEntry { field: at(n), why: why.to_owned() }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(said: &Value) -> Value {
        json!({"spec": {"configuration": {"permittedHostDevices": said}}})
    }

    #[test]
    fn entries_are_read_in_their_order() {
        let said = object(&json!({
            "pciHostDevices": [
                {"pciVendorSelector": "10DE:1EB8", "resourceName": "nvidia.com/TU104GL"},
                {"pciVendorSelector": "8086:10ca", "resourceName": "intel.com/nic", "externalResourceProvider": true},
            ],
            "mediatedDevices": [{"mdevNameSelector": "GRID T4-1Q", "resourceName": "nvidia.com/GRID_T4-1Q"}],
            "usb": [{"resourceName": "kubevirt.io/keys", "selectors": [
                {"vendor": "46d", "product": "c077"}, {"vendor": "045e", "product": "07a5"},
            ]}],
        }));
        let permitted = Permitted::of_cluster(&said);
        let ids = |vendor, product| Ids { vendor, product };
        let selectors: Vec<_> = permitted.rules.iter().map(|rule| rule.selector.clone()).collect();
        assert_eq!(
            selectors,
            [
                Selector::Pci(ids(0x10de, 0x1eb8)),
                Selector::Pci(ids(0x8086, 0x10ca)),
                Selector::Mediated("GRID_T4-1Q".into()),
                Selector::Usb(vec![ids(0x46d, 0xc077), ids(0x45e, 0x7a5)]),
            ]
        );
        assert_eq!(permitted.resources().len(), 4);
        assert_eq!(permitted.offered().count(), 3, "another device plugin offers the NIC");
        assert_eq!(Permitted::ineffective_entries(&said), []);
        assert_eq!(Permitted::of_cluster(&json!({})), Permitted::default());
    }

    #[test]
    fn an_entry_that_is_wrong_permits_nothing_and_is_named() {
        let many: Vec<Value> = (0..=ENTRIES)
            .map(|n| json!({"pciVendorSelector": format!("1:{n:x}"), "resourceName": format!("a.b/c{n}")}))
            .collect();
        for (list, entry) in [
            ("pciHostDevices", json!({"pciVendorSelector": "10de", "resourceName": "a.b/c"})),
            ("pciHostDevices", json!({"pciVendorSelector": "10de:1eb8:1", "resourceName": "a.b/c"})),
            ("pciHostDevices", json!({"pciVendorSelector": "+0de:1eb8", "resourceName": "a.b/c"})),
            ("pciHostDevices", json!({"pciVendorSelector": "10de:1eb8", "resourceName": "memory"})),
            ("pciHostDevices", json!({"resourceName": 7})),
            ("mediatedDevices", json!({"mdevNameSelector": "", "resourceName": "a.b/c"})),
            ("mediatedDevices", json!({"mdevNameSelector": "a\nb", "resourceName": "a.b/c"})),
            ("usb", json!({"resourceName": "a.b/c"})),
            (
                "usb",
                json!({"resourceName": "a.b/c", "selectors": vec![json!({"vendor": "1", "product": "2"}); 9]}),
            ),
            ("usb", json!({"resourceName": "a.b/c", "selectors": [{"vendor": "1"}]})),
        ] {
            let said = object(&json!({list: [entry]}));
            assert_eq!(Permitted::of_cluster(&said), Permitted::default(), "{said}");
            let odd = Permitted::ineffective_entries(&said);
            assert_eq!(odd[0].field, format!("configuration.permittedHostDevices.{list}[0]"));
        }
        let entry = |resource: &str| json!({"pciVendorSelector": "10de:1eb8", "resourceName": resource});
        let said = object(&json!({"pciHostDevices": [entry("a.b/c.d"), entry("a.b/c.d"), entry("a.b/C_D")]}));
        assert_eq!(Permitted::of_cluster(&said).rules.len(), 2);
        assert!(
            Permitted::ineffective_entries(&said)[0].field.ends_with("[2]")
                && Permitted::ineffective_entries(&said)[0].why.contains("one variable")
        );
        let said = object(&json!({"pciHostDevices": many}));
        assert_eq!(Permitted::of_cluster(&said).rules.len(), ENTRIES);
        assert!(Permitted::ineffective_entries(&said)[0].why.contains("only the first"));
    }

    #[test]
    fn a_resource_is_an_extended_one() {
        for name in ["nvidia.com/GPU", "a/b", "kubevirt.io/usb-1", "example.com/GRID_T4-1Q"] {
            assert!(is_resource(name), "{name}");
        }
        for odd in [
            "",
            "/",
            "a/",
            "/a",
            "memory",
            "cpu",
            "hugepages-2Mi",
            "kubernetes.io/batch",
            "x.kubernetes.io/a",
            "devices.kubevirt.io/kvm",
            "requests.a/b",
            "a/b/c",
            "A.b/c",
            "a.b/c d",
            "a.b/c\n",
            "a..b/c",
            "a.b/-c",
        ] {
            assert!(!is_resource(odd), "{odd}");
        }
        assert!(!is_resource(&format!("a/{}", "b".repeat(64))));
    }
}
