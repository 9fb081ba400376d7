//! VMs from a disk, an image or an ISO image and flags, without a manifest. Pure.
//!
//! ```text
//!  coracle run X --cpus … --disk … ──► a VirtualMachineInstance and, for long texts, a Secret ──► as any manifest
//! ```
//!
//! `--dry-run` prints these objects, as a start for users who need more than the flags.

use container_disk::locate::Boot;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Maximum length of inline user data for cloud-init; longer texts go into a Secret.
const INLINE_MAX: usize = 2048;

/// A VM as flags describe it.
#[derive(Debug, Clone, Default)]
pub struct VmFlags {
    pub name: String,
    pub cpus: u32,
    /// Guest memory in bytes.
    pub memory: u64,
    /// Drives in boot order.
    pub drives: Vec<Drive>,
    /// Image with a kernel, and the labels that describe its boot.
    pub kernel: Option<(String, Boot)>,
    /// User data of cloud-init.
    pub user_data: Option<String>,
    pub boot: Loader,
    pub tpm: bool,
    /// True for a VM without any network.
    pub offline: bool,
}

/// Firmware that boots the VM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Loader {
    #[default]
    Bios,
    Efi,
    /// EFI that starts signed boot loaders alone.
    SecureBoot,
}

/// A drive of the VM, and the volume behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drive {
    /// Disk of a container image; guest writes are lost when the VM ends.
    Image(String),
    /// File or block device that the guest writes to. A missing file is created with this size.
    File(PathBuf, Option<u64>),
    /// Read-only ISO image in a CD-ROM.
    Cdrom(PathBuf),
    /// Empty disk of this size, lost when the VM ends.
    Empty(u64),
    /// Disk image at a URL, imported into the pool under the VM's name.
    Web(String),
}

/// Login that cloud-init sets up in the guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// User name. Default: the default user of the image.
    pub user: Option<String>,
    /// Password in plain text.
    pub password: Option<String>,
    /// Public SSH keys, one line each.
    pub keys: Vec<String>,
}

impl Account {
    /// True if cloud-init has nothing to set up.
    pub fn is_empty(&self) -> bool {
        *self == Account::default()
    }

    /// User data for cloud-init. JSON is YAML, and needs no thought about quotes.
    pub fn user_data(&self) -> String {
        let mut config = Map::new();
        let mut user = Map::new();
        if let Some(name) = &self.user {
            user.insert("name".into(), json!(name));
            user.insert("sudo".into(), json!("ALL=(ALL) NOPASSWD:ALL"));
            user.insert("shell".into(), json!("/bin/bash"));
            if name == "root" {
                config.insert("disable_root".into(), json!(false));
            }
        }
        if let Some(password) = &self.password {
            config.insert("ssh_pwauth".into(), json!(true));
            match self.user.is_some() {
                true => {
                    user.insert("lock_passwd".into(), json!(false));
                    user.insert("plain_text_passwd".into(), json!(password));
                }
                false => {
                    config.insert("password".into(), json!(password));
                    config.insert("chpasswd".into(), json!({"expire": false}));
                }
            }
        }
        if !self.keys.is_empty() {
            let into = if self.user.is_some() { &mut user } else { &mut config };
            into.insert("ssh_authorized_keys".into(), json!(self.keys));
        }
        if !user.is_empty() {
            config.insert("users".into(), json!(["default", user]));
        }
        format!("#cloud-config\n{}\n", Value::Object(config))
    }
}

impl VmFlags {
    /// Objects of the VM: DataVolumes and Secrets first, the VirtualMachineInstance last.
    pub fn objects(&self) -> Vec<Value> {
        let (mut objects, mut disks, mut volumes) = (vec![], vec![], vec![]);
        let mut order = 0;
        for (i, drive) in self.drives.iter().enumerate() {
            let name = match (i, drive) {
                (_, Drive::Cdrom(_)) => {
                    format!("cdrom{}", if i == 0 { String::new() } else { i.to_string() })
                }
                (0, _) => "disk".to_owned(),
                (i, _) => format!("disk{i}"),
            };
            order += 1;
            let target = match drive {
                Drive::Cdrom(_) => json!({"name": name, "bootOrder": order, "cdrom": {"bus": "sata"}}),
                _ => json!({"name": name, "bootOrder": order, "disk": {"bus": "virtio"}}),
            };
            disks.push(target);
            let volume = match drive {
                Drive::Image(image) => json!({"name": name, "containerDisk": {"image": image}}),
                Drive::File(path, None) | Drive::Cdrom(path) => {
                    json!({"name": name, "hostDisk": {"path": path, "type": "Disk"}})
                }
                Drive::File(path, Some(size)) => {
                    let disk = json!({"path": path, "type": "DiskOrCreate", "capacity": size.to_string()});
                    json!({"name": name, "hostDisk": disk})
                }
                Drive::Empty(size) => json!({"name": name, "emptyDisk": {"capacity": size.to_string()}}),
                Drive::Web(url) => {
                    let pvc = if i == 0 { self.name.clone() } else { format!("{}-{name}", self.name) };
                    objects.push(json!({
                        "apiVersion": "cdi.kubevirt.io/v1beta1",
                        "kind": "DataVolume",
                        "metadata": {"name": pvc},
                        "spec": {"storage": {}, "source": {"http": {"url": url}}},
                    }));
                    json!({"name": name, "dataVolume": {"name": pvc}})
                }
            };
            volumes.push(volume);
        }
        if let Some(text) = &self.user_data {
            disks.push(json!({"name": "cloudinit", "disk": {"bus": "virtio"}}));
            let mut seed = json!({"userData": text});
            if text.len() > INLINE_MAX {
                let name = format!("{}-cloudinit", self.name);
                seed = json!({"secretRef": {"name": name}});
                objects.push(json!({
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": name},
                    "stringData": {"userdata": text},
                }));
            }
            volumes.push(json!({"name": "cloudinit", "cloudInitNoCloud": seed}));
        }
        objects.push(self.vmi(&disks, &volumes));
        objects
    }

    fn vmi(&self, disks: &[Value], volumes: &[Value]) -> Value {
        let mut domain = json!({
            "cpu": {"cores": self.cpus},
            "memory": {"guest": quantity(self.memory)},
            "devices": {"disks": disks, "rng": {}},
        });
        let mut spec = json!({"volumes": volumes});
        let mut firmware = Map::new();
        if let Some((image, boot)) = &self.kernel {
            let mut container =
                json!({"image": image, "kernelPath": format!("/{}", boot.kernel.trim_start_matches('/'))});
            if let Some(initrd) = &boot.initrd {
                container["initrdPath"] = json!(format!("/{}", initrd.trim_start_matches('/')));
            }
            firmware.insert("kernelBoot".into(), json!({"container": container, "kernelArgs": boot.cmdline}));
        }
        // A disk that outlives the VM needs its EFI variables and TPM state again.
        let keeps = self.drives.iter().any(|drive| matches!(drive, Drive::File(..) | Drive::Web(_)));
        if self.boot != Loader::Bios {
            let secure = self.boot == Loader::SecureBoot;
            let efi = json!({"secureBoot": secure, "persistent": keeps});
            firmware.insert("bootloader".into(), json!({"efi": efi}));
            if secure {
                domain["features"] = json!({"smm": {"enabled": true}});
            }
        }
        if self.tpm {
            domain["devices"]["tpm"] = json!({"persistent": keeps});
        }
        if !firmware.is_empty() {
            domain["firmware"] = Value::Object(firmware);
        }
        if self.offline {
            domain["devices"]["autoattachPodInterface"] = json!(false);
        } else {
            domain["devices"]["interfaces"] = json!([{"name": "default", "masquerade": {}}]);
            spec["networks"] = json!([{"name": "default", "pod": {}}]);
        }
        spec["domain"] = domain;
        json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"name": self.name},
            "spec": spec,
        })
    }
}

/// A size as a Kubernetes quantity in the largest unit that divides it: `2Gi`.
fn quantity(bytes: u64) -> String {
    [(30, "Gi"), (20, "Mi"), (10, "Ki")]
        .iter()
        .find(|(power, _)| bytes > 0 && bytes.is_multiple_of(1 << power))
        .map_or_else(|| bytes.to_string(), |(power, unit)| format!("{}{unit}", bytes >> power))
}

/// A VM name derived from the name of a file or an image: `registry.example/group/Debian_12.qcow2:1` becomes
/// `debian-12`.
pub fn name_from(text: &str) -> String {
    let last = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let last = last.split(['@', '?', '#']).next().unwrap_or_default();
    let last =
        last.rsplit_once(':').map_or(last, |(before, tag)| if before.is_empty() { tag } else { before });
    let last = last.rsplit(':').next().unwrap_or_default();
    let mut stem = last;
    while let Some((before, ending)) = stem.rsplit_once('.') {
        let known = ["qcow2", "img", "raw", "iso", "xz", "gz", "zst", "bz2", "tar"];
        if before.is_empty() || !known.contains(&ending.to_ascii_lowercase().as_str()) {
            break;
        }
        stem = before;
    }
    let lower = stem.to_ascii_lowercase();
    let plain: String = lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    let name: String = parts.join("-").chars().take(50).collect();
    match name.trim_matches('-') {
        "" => "vm".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_from_what_is_run() {
        for (text, name) in [
            ("docker://registry.example:5000/group/Debian_12:1", "debian-12"),
            ("/tmp/My Disk.qcow2.xz", "my-disk"),
            ("tiny:1", "tiny"),
            ("oci:layout:2", "layout"),
            ("http://server/a/disk.img?x=y", "disk"),
            ("h/os@sha256:00", "os"),
            ("memtest86+.iso", "memtest86"),
            ("...", "vm"),
        ] {
            assert_eq!(name_from(text), name, "{text}");
            crate::place::check_name(name).unwrap();
        }
    }

    #[test]
    fn flags_become_objects() {
        let flags = VmFlags {
            name: "m".into(),
            cpus: 2,
            memory: 1536 << 20,
            drives: vec![
                Drive::Cdrom("/i.iso".into()),
                Drive::File("/d.img".into(), Some(1 << 30)),
                Drive::Empty(512),
            ],
            boot: Loader::Efi,
            ..VmFlags::default()
        };
        let objects = flags.objects();
        let spec = &objects[0]["spec"];
        assert_eq!(spec["domain"]["memory"]["guest"], "1536Mi");
        assert_eq!(spec["domain"]["devices"]["disks"][0]["cdrom"]["bus"], "sata");
        assert_eq!(spec["volumes"][1]["hostDisk"]["capacity"], "1073741824");
        assert_eq!(spec["volumes"][2]["emptyDisk"]["capacity"], "512");
        let efi = json!({"secureBoot": false, "persistent": true});
        assert_eq!(spec["domain"]["firmware"]["bootloader"]["efi"], efi);
        assert_eq!(spec["domain"]["devices"].get("tpm"), None);
        assert_eq!(spec["networks"][0]["pod"], json!({}));
    }

    #[test]
    fn what_a_system_keeps_outside_of_its_disk_stays_where_the_disk_does() {
        for (drive, keeps) in [
            (Drive::File("/d.img".into(), None), true),
            (Drive::Web("http://example.com/d.img".into()), true),
            (Drive::Image("os:1".into()), false),
            (Drive::Empty(512), false),
        ] {
            let flags = VmFlags {
                name: "m".into(),
                drives: vec![Drive::Cdrom("/i.iso".into()), drive],
                boot: Loader::SecureBoot,
                tpm: true,
                ..VmFlags::default()
            };
            let objects = flags.objects();
            let domain = &objects.last().unwrap()["spec"]["domain"];
            let efi = json!({"secureBoot": true, "persistent": keeps});
            assert_eq!(domain["firmware"]["bootloader"]["efi"], efi, "{:?}", flags.drives);
            assert_eq!(domain["devices"]["tpm"], json!({"persistent": keeps}));
            assert_eq!(domain["features"]["smm"]["enabled"], true);
        }
    }

    #[test]
    fn a_kernel_of_an_image_is_written_out() {
        let boot = Boot {
            kernel: "boot/vmlinux".into(),
            initrd: Some("boot/initrd".into()),
            cmdline: "quiet".into(),
        };
        let flags = VmFlags { name: "t".into(), kernel: Some(("tiny:1".into(), boot)), ..VmFlags::default() };
        let kernel = &flags.objects()[0]["spec"]["domain"]["firmware"]["kernelBoot"];
        let container =
            json!({"image": "tiny:1", "kernelPath": "/boot/vmlinux", "initrdPath": "/boot/initrd"});
        assert_eq!(*kernel, json!({"container": container, "kernelArgs": "quiet"}));
    }

    #[test]
    fn a_long_text_goes_into_a_secret() {
        let flags =
            VmFlags { name: "m".into(), user_data: Some("x".repeat(INLINE_MAX + 1)), ..VmFlags::default() };
        let objects = flags.objects();
        assert_eq!(objects[0]["kind"], "Secret");
        assert_eq!(objects[1]["spec"]["volumes"][0]["cloudInitNoCloud"]["secretRef"]["name"], "m-cloudinit");
    }

    #[test]
    fn an_account_is_told_to_cloud_init() {
        let account =
            Account { user: Some("a".into()), password: Some("p\"'".into()), keys: vec!["k".into()] };
        let text = account.user_data();
        let config: Value = serde_json::from_str(text.strip_prefix("#cloud-config\n").unwrap()).unwrap();
        assert_eq!(config["users"][1]["plain_text_passwd"], "p\"'");
        assert_eq!(config["users"][1]["ssh_authorized_keys"], json!(["k"]));
        let keys = Account { keys: vec!["k".into()], ..Account::default() };
        assert!(keys.user_data().contains("ssh_authorized_keys") && !keys.user_data().contains("users"));
    }
}
