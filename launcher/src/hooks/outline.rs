//! Identity of the domain in an XML text. This is not a parser: libvirt's is authoritative. If this misreads
//! a text, libvirt refuses to start the domain under the name that the launcher knows.

use crate::xml_tags::{XmlTag, XmlTags};

/// Identity of a domain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outline {
    pub(super) name: Option<String>,
    pub(super) uuid: Option<String>,
    /// VSOCK context IDs, with their attributes: the node knows each VM by one.
    pub(super) cids: Vec<String>,
}

/// The context ID of a device without one in the XML.
const CHOSEN: &str = "chosen by libvirt";

/// The texts of the elements `name` and `uuid` that are children of the root, and `cid` of each `vsock` of
/// the devices.
pub(super) fn read_outline(xml: &str) -> Outline {
    let mut found = Outline::default();
    let mut tags = XmlTags::of(xml);
    while let Some(tag) = tags.next_tag() {
        let text = || tag.text.map(str::to_owned);
        match (tags.path(), tag.name) {
            ([_], "name") if found.name.is_none() => found.name = text(),
            ([_], "uuid") if found.uuid.is_none() => found.uuid = text(),
            ([_, "devices"], "vsock") => found.cids.push(CHOSEN.to_owned()),
            ([_, "devices", "vsock"], "cid") => {
                match found.cids.last_mut().filter(|cid| cid.as_str() == CHOSEN) {
                    Some(cid) => *cid = in_order(&tag),
                    None => found.cids.push(in_order(&tag)),
                }
            }
            _ => {}
        }
    }
    found
}

/// Attributes as `name=value`, sorted by name: a hook may write them in another order, and with other quotes.
fn in_order(tag: &XmlTag<'_>) -> String {
    let mut all: Vec<String> = tag.attributes().map(|(name, value)| format!("{name}={value}")).collect();
    all.sort();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_breaks_it(xml in r#"([<>!?/"'a ]|<name>|</|<!--|-->|ü|\PC){0,60}"#) {
            let _ = read_outline(&xml);
        }
    }

    #[test]
    fn a_domain_is_known_by_the_children_of_its_root() {
        let said = |xml: &str| {
            let Outline { name, uuid, .. } = read_outline(xml);
            (name.unwrap_or_default(), uuid.unwrap_or_default())
        };
        let pair = |name: &str, uuid: &str| (name.to_owned(), uuid.to_owned());
        let plain = "<?xml version='1.0'?>\n<domain type='kvm'><name>a</name><uuid>1</uuid><os/></domain>";
        assert_eq!(said(plain), pair("a", "1"));
        let inner =
            "<domain><!-- <name>no</name> --><disk a='>'><name>no</name></disk><x/><name> a </name></domain>";
        assert_eq!(said(inner), pair("a", ""));
        assert_eq!(
            said("<domain><m><![CDATA[<name>no</name>]]></m><name>b</name><name>c</name></domain>"),
            pair("b", "")
        );
        for nonsense in ["", "<", "<!--", "<domain", "</a></a><name>x</name>", "<a b='", "ä<ö>ü"] {
            assert_eq!(said(nonsense), pair("", ""), "{nonsense}");
        }
    }

    #[test]
    fn a_context_id_is_that_of_a_vsock_of_the_devices() {
        let cids = |xml: &str| read_outline(xml).cids;
        let ours =
            "<domain><devices><vsock model='virtio'><cid auto='no' address='5'/></vsock></devices></domain>";
        assert_eq!(cids(ours), ["address=5 auto=no"]);
        let written =
            "<domain><devices><vsock><cid  address = \"5\"\n auto=\"no\" ></cid></vsock></devices></domain>";
        assert_eq!(cids(written), cids(ours), "another hand");
        assert!(cids("<domain><cid address='6'/><vsock><cid address='7'/></vsock></domain>").is_empty());
        let two = "<domain><devices><vsock><cid address='5'/><cid address='6'/></vsock></devices></domain>";
        assert_eq!(cids(two), ["address=5", "address=6"]);
        let none = "<domain><devices><vsock model='virtio'/></devices></domain>";
        assert_eq!(cids(none), ["chosen by libvirt"], "a device whose context ID nobody assigned");
    }
}
