//! A watch: its kind and selectors, and its path at the API server.

use super::Kind;

/// Selection of the objects of one watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchTarget {
    pub kind: Kind,
    /// Namespace; empty for all.
    pub namespace: String,
    pub labels: Option<String>,
    pub fields: Option<String>,
    /// Name of the only object. A right to that object alone is enough for the watch.
    pub name: Option<&'static str>,
}

impl WatchTarget {
    /// All objects of a kind that a label selector matches.
    pub fn all(kind: Kind, labels: Option<&str>) -> WatchTarget {
        WatchTarget {
            kind,
            namespace: String::new(),
            labels: labels.map(str::to_owned),
            fields: None,
            name: None,
        }
    }

    /// The object of this name.
    pub fn for_object(kind: Kind, namespace: &str, name: &'static str) -> WatchTarget {
        // RBAC recognizes a request for one name by this selector.
        let fields = Some(format!("metadata.name={name}"));
        WatchTarget { kind, namespace: namespace.to_owned(), labels: None, fields, name: Some(name) }
    }

    /// Path of a list or a watch with these parameters.
    pub fn path(&self, parameters: &str) -> String {
        let mut path = format!("{}?{parameters}", self.kind.collection(&self.namespace));
        for (name, selector) in [("labelSelector", &self.labels), ("fieldSelector", &self.fields)] {
            if let Some(selector) = selector {
                path.push_str(&format!("&{name}={}", escaped(selector)));
            }
        }
        path
    }
}

/// A text, percent-encoded for a query string.
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_escaped() {
        let mut which = WatchTarget::all(Kind::Pod, Some("kubevirt.io=virt-launcher"));
        which.fields = Some("spec.nodeName=a&b".into());
        assert_eq!(
            which.path("watch=true"),
            "/api/v1/pods?watch=true&labelSelector=kubevirt.io%3Dvirt-launcher&fieldSelector=spec.nodeName%3Da%26b"
        );
    }
}
