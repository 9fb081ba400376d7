//! Devices in the XML of a domain. Unknown elements are skipped.

use launcher::xml_tags::{XmlTag, XmlTags};

/// Attributes in their order.
type Attributes = Vec<(String, String)>;

/// A device: its attributes, and its children with theirs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Device {
    attributes: Attributes,
    children: Vec<(String, Attributes)>,
}

impl Device {
    /// The value of an attribute of the device itself.
    pub(super) fn own(&self, name: &str) -> Option<&str> {
        first(&self.attributes, &[name])
    }

    /// The value of the first of these attributes of a child element.
    pub(super) fn of(&self, child: &str, names: &[&str]) -> Option<&str> {
        let mut children = self.children.iter().filter(|(name, _)| name == child);
        children.find_map(|(_, attributes)| first(attributes, names))
    }
}

fn first<'a>(attributes: &'a Attributes, names: &[&str]) -> Option<&'a str> {
    attributes.iter().find(|(name, _)| names.contains(&name.as_str())).map(|(_, value)| value.as_str())
}

/// The devices of a kind (`disk`, `interface`).
pub(super) fn devices(xml: &str, kind: &str) -> Vec<Device> {
    let mut found: Vec<Device> = Vec::new();
    let mut tags = XmlTags::of(xml);
    while let Some(tag) = tags.next_tag() {
        match tags.path() {
            ["domain", "devices"] if tag.name == kind => {
                found.push(Device { attributes: attributes(&tag), children: Vec::new() });
            }
            ["domain", "devices", within] if *within == kind => {
                if let Some(device) = found.last_mut() {
                    device.children.push((tag.name.to_owned(), attributes(&tag)));
                }
            }
            _ => {}
        }
    }
    found
}

fn attributes(tag: &XmlTag<'_>) -> Attributes {
    tag.attributes().map(|(name, value)| (name.to_owned(), plain(value))).collect()
}

/// A value without the escapes that libvirt writes.
fn plain(value: &str) -> String {
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    named.iter().fold(value.to_owned(), |value, (escape, letter)| value.replace(escape, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_children_of_a_device_count() {
        let xml = "<?xml version='1.0'?><!-- <disk/> --><domain type='kvm'>
            <metadata><disk type='no'/></metadata>
            <devices><disk type='file' device='disk'><source file='/a&amp;b>c' index='1'/>
              <backingStore type='file'><source file='/base'/><target dev='no'/></backingStore>
              <target dev='vda' bus=\"virtio\"/></disk>
            <disk type='block'><target dev='vdb'/></disk><interface type='user'/></devices></domain>";
        let disks = devices(xml, "disk");
        assert_eq!(disks.len(), 2);
        assert_eq!((disks[0].own("type"), disks[0].own("device")), (Some("file"), Some("disk")));
        assert_eq!(disks[0].of("source", &["dev", "file"]), Some("/a&b>c"));
        assert_eq!(disks[0].of("target", &["dev"]), Some("vda"));
        assert_eq!((disks[1].of("source", &["file"]), disks[1].of("target", &["dev"])), (None, Some("vdb")));
        assert_eq!(
            devices(xml, "interface"),
            [Device { attributes: vec![("type".to_owned(), "user".to_owned())], children: vec![] }]
        );
        for broken in ["", "<domain", "<domain><devices><disk a='", "</></></disk>", "<domain a=b><!--"] {
            assert!(devices(broken, "disk").is_empty(), "{broken}");
        }
    }
}
