//! Messages of launchers in the words of the user of this computer.
//!
//! | a launcher says | the user reads |
//! |---|---|
//! | `default_web`, libvirt's name of a VM | `web` |
//! | `the disk 'disk1' (/home/me/data.img)`, with a name that `coracle run` has made | `the disk /home/me/data.img` |
//!
//! A name of libvirt is changed only where this computer has a VM of that name, and the name of a disk only where flags of
//! `coracle run` make such names: other ones stand in a manifest, where the user wrote them.

use crate::place::Home;
use serde_json::Value;
use std::fs;

/// Names in messages, with the user's names for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UserWords {
    /// Names of the VMs of this computer.
    vms: Vec<String>,
    disks: Vec<DiskWords>,
}

/// A disk as the spec of its VM names it, and as the user does.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DiskWords {
    volume: String,
    shown: String,
}

impl UserWords {
    /// The words for messages about this VM. A record that cannot be read changes no message.
    pub(crate) fn find(home: &Home, vm: &str) -> UserWords {
        let mut vms = home.names().unwrap_or_default();
        vms.push(vm.to_owned());
        let record: Value = fs::read(home.vm_record(vm))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let volumes = record["sync"]["vmi"]["spec"]["volumes"].as_array();
        UserWords { vms, disks: volumes.into_iter().flatten().filter_map(DiskWords::of).collect() }
    }

    /// The message with the user's names.
    pub(crate) fn translate(&self, message: &str) -> String {
        self.disks.iter().fold(self.without_namespaces(message), |message, disk| disk.translate(&message))
    }

    /// Leaves out `NAMESPACE_` in front of the names of VMs. No other name of Kubernetes has an underscore.
    fn without_namespaces(&self, message: &str) -> String {
        let mut text = String::with_capacity(message.len());
        let mut rest = message;
        while !rest.is_empty() {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            // The end of a sentence is not part of a name.
            let name = word.trim_end_matches('.');
            let is_domain = |(namespace, vm): &(&str, &str)| {
                !namespace.is_empty()
                    && namespace.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
                    && self.vms.iter().any(|known| known == vm)
            };
            match name.split_once('_').filter(is_domain) {
                Some((namespace, _)) => text.push_str(&word[namespace.len() + 1..]),
                None => text.push_str(word),
            }
            let separators = behind.find(is_part).unwrap_or(behind.len());
            text.push_str(&behind[..separators]);
            rest = &behind[separators..];
        }
        text
    }
}

impl DiskWords {
    /// The words for a volume whose name flags have made (`from_image.rs`).
    fn of(volume: &Value) -> Option<DiskWords> {
        let name = volume["name"].as_str()?;
        let number = name.strip_prefix("disk").or_else(|| name.strip_prefix("cdrom"))?;
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let empty = |size: &str| size.parse().map_or(size.to_owned(), cdi::size::human);
        let shown = [
            volume["hostDisk"]["path"].as_str().map(str::to_owned),
            volume["containerDisk"]["image"].as_str().map(str::to_owned),
            volume["dataVolume"]["name"].as_str().map(|name| format!("{name} of the pool")),
            volume["emptyDisk"]["capacity"]
                .as_str()
                .map(|size| format!("of {} that --disk asks for", empty(size))),
        ];
        let shown = shown.into_iter().flatten().next()?;
        Some(DiskWords { volume: name.to_owned(), shown })
    }

    fn translate(&self, message: &str) -> String {
        let DiskWords { volume, shown } = self;
        let named = format!("disk '{volume}'");
        // The sentence names the file already.
        let message = message.replace(&format!("{shown} of the {named}"), &format!("the disk {shown}"));
        let mut text = String::with_capacity(message.len());
        let mut rest = message.as_str();
        while let Some(at) = rest.find(&named) {
            text.push_str(&rest[..at]);
            text.push_str(&format!("disk {shown}"));
            rest = &rest[at + named.len()..];
            rest = rest.strip_prefix(&format!(" ({shown})")).unwrap_or(rest);
            // Another path is that of a file that the VM has in place of it.
            if let Some((_, behind)) = rest.strip_prefix(" (/").and_then(|inner| inner.split_once(')')) {
                rest = behind;
            }
        }
        text + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(volumes: &[Value]) -> UserWords {
        UserWords {
            vms: vec!["web".into(), "db.1".into()],
            disks: volumes.iter().filter_map(DiskWords::of).collect(),
        }
    }

    #[test]
    fn a_vm_has_the_name_that_its_user_gave_it() {
        let words = words(&[]);
        for (said, read) in [
            ("cannot start default_web: no memory", "cannot start web: no memory"),
            ("the VM default_db.1 (process 7) has it", "the VM db.1 (process 7) has it"),
            ("it was 'blue_web'.", "it was 'web'."),
            ("end default_web.", "end web."),
            ("default_web", "web"),
            // Not VMs of this computer, and parts of other words.
            ("default_other", "default_other"),
            ("/home/default_web: é default_web.img", "/home/default_web: é default_web.img"),
            ("my_default_web no_space _web", "my_default_web no_space _web"),
            ("", ""),
        ] {
            assert_eq!(words.translate(said), read);
        }
    }

    #[test]
    fn a_disk_has_the_name_by_which_its_user_gave_it() {
        let words = words(&[
            json!({"name": "disk", "containerDisk": {"image": "os:12"}}),
            json!({"name": "disk1", "hostDisk": {"path": "/me/data (1).img"}}),
            json!({"name": "disk2", "emptyDisk": {"capacity": "1073741824"}}),
            json!({"name": "disk3", "dataVolume": {"name": "web-disk3"}}),
            json!({"name": "cdrom", "hostDisk": {"path": "/me/cd.iso"}}),
            json!({"name": "diskette", "hostDisk": {"path": "/me/a"}}),
        ]);
        for (said, read) in [
            ("the disk 'disk' (/d/0a/disk) is used by x", "the disk os:12 is used by x"),
            ("the disk 'disk1' (/me/data (1).img) is in use", "the disk /me/data (1).img is in use"),
            ("cannot use /me/data (1).img of the disk 'disk1'", "cannot use the disk /me/data (1).img"),
            ("disk 'disk2' (/r/disk2) is full", "disk of 1 GiB that --disk asks for is full"),
            ("the disk 'disk3' is", "the disk web-disk3 of the pool is"),
            ("the disk 'cdrom' (/me/cd.iso) is", "the disk /me/cd.iso is"),
            ("the disk 'diskette' (/me/a) is", "the disk 'diskette' (/me/a) is"),
            ("the disk 'root' (/me/a) is", "the disk 'root' (/me/a) is"),
        ] {
            assert_eq!(words.translate(said), read);
        }
    }
}
