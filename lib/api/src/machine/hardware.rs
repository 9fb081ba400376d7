//! Settings of the KubeVirt object for the hardware of every VMI. virt-handler hands them to the launcher
//! beside the VMI ([`Resolved`](crate::launcher::Resolved)). A laptop uses the defaults.

use super::is_clean;
use crate::architecture::Arch;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// Default of [`Hardware::balloon_stats_period`], in seconds.
const PERIOD: u32 = 10;
/// Longest text of the SMBIOS, in bytes: firmware bounds the size of its tables.
pub const LONGEST: usize = 1024;

/// Hardware that every VMI has, whatever its own spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Hardware {
    pub smbios: Smbios,
    /// Seconds between two reports of a guest about its memory; 0 disables them.
    pub balloon_stats_period: u32,
    /// Guests report freed pages of their memory, which then return to the node.
    pub free_page_reporting: bool,
    /// Folder with the EFI firmware in the launcher's image. Unset: the launcher searches for it.
    pub ovmf_path: Option<PathBuf>,
}

/// System information of the SMBIOS, beside that of each VMI (UUID, serial number and chassis).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Smbios {
    pub manufacturer: String,
    pub product: String,
    pub version: Option<String>,
    pub sku: Option<String>,
    pub family: String,
}

impl Default for Smbios {
    /// The family is what `systemd-detect-virt` and cloud agents look for.
    fn default() -> Self {
        let kubevirt = || "KubeVirt".to_owned();
        Smbios {
            manufacturer: kubevirt(),
            product: "None".into(),
            version: None,
            sku: None,
            family: kubevirt(),
        }
    }
}

impl Default for Hardware {
    fn default() -> Self {
        Hardware {
            smbios: Smbios::default(),
            balloon_stats_period: PERIOD,
            free_page_reporting: true,
            ovmf_path: None,
        }
    }
}

impl Hardware {
    /// Reads the settings of a KubeVirt object. Values that no guest can have are left out; virt-api refuses
    /// them at the writing.
    pub fn of_cluster(object: &Value) -> Hardware {
        let said = &object["spec"]["configuration"];
        let smbios = &said["smbios"];
        let text = |name: &str| {
            let text = smbios[name].as_str().filter(|text| !text.is_empty() && not_in_smbios(text).is_none());
            text.map(str::to_owned)
        };
        let default = Hardware::default();
        let period = said["memBalloonStatsPeriod"].as_u64().and_then(|period| u32::try_from(period).ok());
        Hardware {
            smbios: Smbios {
                manufacturer: text("manufacturer").unwrap_or(default.smbios.manufacturer),
                product: text("product").unwrap_or(default.smbios.product),
                version: text("version"),
                sku: text("sku"),
                family: text("family").unwrap_or(default.smbios.family),
            },
            balloon_stats_period: period.filter(|&period| period <= MOST).unwrap_or(PERIOD),
            free_page_reporting: said["virtualMachineOptions"]["disableFreePageReporting"].is_null(),
            ovmf_path: [
                &said["architectureConfiguration"][Arch::DEFAULT.facts().name]["ovmfPath"],
                &said["ovmfPath"],
            ]
            .into_iter()
            .filter_map(Value::as_str)
            .find(|path| is_folder(path))
            .map(PathBuf::from),
        }
    }
}

/// Longest period that libvirt accepts.
pub const MOST: u32 = i32::MAX as u32;

/// True if the path can be that of a folder with firmware.
pub fn is_folder(path: &str) -> bool {
    path.len() <= LONGEST && is_clean(path)
}

/// Reason why a text cannot stand in the SMBIOS.
pub fn not_in_smbios(text: &str) -> Option<&'static str> {
    if text.len() > LONGEST {
        return Some("must be no more than 1024 bytes");
    }
    super::not_plain(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_cluster_says_of_hardware_is_taken_field_by_field() {
        assert_eq!(Hardware::of_cluster(&json!({})), Hardware::default());
        let said = Hardware::of_cluster(&json!({"spec": {"configuration": {
            "smbios": {"manufacturer": "Acme", "product": "", "version": "1", "sku": "a\u{1}", "family": "x".repeat(1025)},
            "memBalloonStatsPeriod": 0,
            "virtualMachineOptions": {"disableFreePageReporting": {}},
        }}}));
        assert_eq!(
            said.smbios,
            Smbios { manufacturer: "Acme".into(), version: Some("1".into()), ..Smbios::default() }
        );
        assert_eq!((said.balloon_stats_period, said.free_page_reporting), (0, false));
        let path = |said: Value| Hardware::of_cluster(&json!({"spec": {"configuration": said}})).ovmf_path;
        let own = |path: &str| json!({"amd64": {"ovmfPath": path}});
        assert_eq!(
            path(json!({"ovmfPath": "/a", "architectureConfiguration": own("/b")})),
            Some("/b".into())
        );
        assert_eq!(path(json!({"ovmfPath": "/a", "architectureConfiguration": own("")})), Some("/a".into()));
        assert_eq!(path(json!({"ovmfPath": "/a/../b"})), None);
        let far = json!({"spec": {"configuration": {"memBalloonStatsPeriod": 4_294_967_295_u32}}});
        assert_eq!(Hardware::of_cluster(&far).balloon_stats_period, 10, "libvirt would refuse it");
    }

    #[test]
    fn a_virt_handler_that_says_nothing_of_hardware_means_what_holds_anyway() {
        let resolved: crate::launcher::Resolved =
            serde_json::from_value(json!({"accelerator": "kvm"})).unwrap();
        assert_eq!(resolved.hardware, Hardware::default());
    }
}
