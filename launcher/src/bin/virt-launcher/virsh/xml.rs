//! Devices in the XML of a domain. Reads what libvirt writes, and skips what it does not know.

/// Attributes in their order.
type Attributes = Vec<(String, String)>;

/// A device: its attributes, and its children with theirs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Device {
    attributes: Attributes,
    children: Vec<(String, Attributes)>,
}

impl Device {
    /// An attribute of the device itself.
    pub(super) fn own(&self, name: &str) -> Option<&str> {
        first(&self.attributes, &[name])
    }

    /// The first of these attributes of a child.
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
    let mut found = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut rest = xml;
    while let Some((_, after)) = rest.split_once('<') {
        if let Some(comment) = after.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some((tag, after)) = tag(after) else { break };
        rest = after;
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if tag.starts_with('/') {
            path.pop();
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = parsed(tag);
        match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["domain", "devices"] if name == kind => {
                found.push(Device { attributes, children: Vec::new() });
            }
            ["domain", "devices", within] if *within == kind => {
                if let Some(device) = found.last_mut() {
                    device.children.push((name.clone(), attributes));
                }
            }
            _ => {}
        }
        if !is_empty {
            path.push(name);
        }
    }
    found
}

/// A tag up to its `>`, which may stand in a quoted value, too.
fn tag(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (None, '>') => return Some((text.get(..at)?, text.get(at + 1..)?)),
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    None
}

fn parsed(tag: &str) -> (String, Attributes) {
    let (name, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
    let mut attributes = Vec::new();
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let Some(quote) = after.chars().next().filter(|letter| ['\'', '"'].contains(letter)) else { break };
        let Some((value, after)) = after.get(1..).and_then(|after| after.split_once(quote)) else { break };
        attributes.push((key.trim().to_owned(), plain(value)));
        rest = after;
    }
    (name.to_owned(), attributes)
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
