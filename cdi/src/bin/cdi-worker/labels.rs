//! Labels for the PVC that an image defines: environment variables in its configuration, such as
//! `INSTANCETYPE_KUBEVIRT_IO_DEFAULT_INSTANCETYPE=u1.medium`.

use api::job::Registry;
use cdi::Result;
use cdi::source::image::architecture;
use container_disk::Name;
use container_disk::image::{Config, choose};
use container_disk::manifest::Content;
use container_disk::open::Places;
use std::collections::BTreeMap;

/// The middle part of such a name.
const MIDDLE: &str = "KUBEVIRT_IO_";
/// The most labels of one image, and the most characters of a name and of a value.
const MOST: usize = 32;
const LONGEST: usize = 63;

/// The labels of an image.
pub(crate) fn of(registry: &Registry, places: &Places) -> Result<BTreeMap<String, String>> {
    let Some(name) = Name::with_scheme(&registry.url).transpose()? else { return Ok(BTreeMap::new()) };
    let found = places.find(&name)?;
    let architecture = registry.architecture.as_deref().unwrap_or_else(|| architecture());
    let document = choose::manifest(&*found.place, &found.reference, architecture)?;
    let Content::Manifest(manifest) = &document.content else { return Ok(BTreeMap::new()) };
    let environment = Config::read(&*found.place, manifest)?.config.and_then(|config| config.env);
    Ok(of_environment(&environment.unwrap_or_default()))
}

fn of_environment(variables: &[String]) -> BTreeMap<String, String> {
    variables.iter().filter_map(|variable| label(variable)).take(MOST).collect()
}

fn label(variable: &str) -> Option<(String, String)> {
    let (name, value) = variable.split_once('=')?;
    let (domain, rest) = name.split_once(MIDDLE)?;
    let part = |text: &str, to: &str| text.to_ascii_lowercase().replace('_', to);
    let (domain, rest) = (part(domain, "."), part(rest, "-"));
    let is_plain = |text: &str| {
        let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let is_inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        text.len() <= LONGEST
            && is_end(text.chars().next())
            && is_end(text.chars().next_back())
            && text.chars().all(is_inside)
    };
    let is_known = is_plain(&rest)
        && (domain.is_empty() || domain.strip_suffix('.').is_some_and(is_plain))
        && (value.is_empty() || is_plain(value));
    is_known.then(|| (format!("{domain}kubevirt.io/{rest}"), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_kubevirt_are_labels_and_others_are_not() {
        let labels = |variables: &[&str]| {
            of_environment(&variables.iter().map(|variable| (*variable).to_owned()).collect::<Vec<_>>())
        };
        let found = labels(&[
            "PATH=/bin",
            "INSTANCETYPE_KUBEVIRT_IO_DEFAULT_INSTANCETYPE=u1.medium",
            "KUBEVIRT_IO_A_B=",
            "KUBEVIRT_IO_BAD=no label",
            "X\n_KUBEVIRT_IO_C=1",
            "KUBEVIRT_IO_=1",
        ]);
        let expected =
            [("instancetype.kubevirt.io/default-instancetype", "u1.medium"), ("kubevirt.io/a-b", "")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let many: Vec<String> = (0..100).map(|n| format!("KUBEVIRT_IO_N{n}=1")).collect();
        assert_eq!(of_environment(&many).len(), MOST);
    }
}
