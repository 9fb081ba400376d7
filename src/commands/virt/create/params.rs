//! Flags with several parameters: `--volume-pvc=src:web,bootorder:1`.

use super::usage;
use crate::error::{Error, Result};
use api::quantity::Quantity;
use std::collections::BTreeMap;

/// Parsed parameters of a flag.
#[derive(Debug)]
pub(super) struct Params {
    flag: &'static str,
    said: BTreeMap<String, String>,
}

/// An error about a flag's value.
pub(super) fn fault(flag: &str, what: &str) -> Error {
    usage(format!("failed to parse \"--{flag}\" flag: {what}"))
}

impl Params {
    /// Parses a flag, which may have these parameters.
    pub(super) fn parse(flag: &'static str, text: &str, known: &[&str]) -> Result<Params> {
        let params = Params::parse_any(flag, text)?;
        params.only(known)?;
        Ok(params)
    }

    /// Parses a flag whose permitted parameters depend on one of them.
    pub(super) fn parse_any(flag: &'static str, text: &str) -> Result<Params> {
        if text.is_empty() {
            return Err(fault(flag, "params may not be empty"));
        }
        let mut said = BTreeMap::new();
        for param in text.split(',') {
            let Some((name, value)) = param.split_once(':') else {
                return Err(fault(flag, &format!("params need to have at least one colon: {param}")));
            };
            said.insert(name.to_owned(), value.to_owned());
        }
        Ok(Params { flag, said })
    }

    /// Refuses all other parameters.
    pub(super) fn only(&self, known: &[&str]) -> Result<()> {
        let unknown = self.said.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        let unknown: Vec<String> = unknown.map(|(name, value)| format!("{name}:{value}")).collect();
        match unknown.is_empty() {
            true => Ok(()),
            false => Err(self.fault(&format!(
                "unknown param(s): {}; known are {}",
                unknown.join(","),
                known.join(", ")
            ))),
        }
    }

    /// An error about this flag's value.
    pub(super) fn fault(&self, what: &str) -> Error {
        fault(self.flag, what)
    }

    /// Name of the flag.
    pub(super) fn flag(&self) -> &'static str {
        self.flag
    }

    /// Value of a parameter. An empty one counts as missing.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.said.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Value of a required parameter.
    pub(super) fn must(&self, name: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| self.fault(&format!("{name} must be specified")))
    }

    /// Value as a list, separated by semicolons.
    pub(super) fn list(&self, name: &str) -> Option<Vec<&str>> {
        Some(self.get(name)?.split(';').collect())
    }

    /// Value of `bootorder`, from 1.
    pub(super) fn boot_order(&self) -> Result<Option<u32>> {
        let Some(text) = self.said.get("bootorder") else { return Ok(None) };
        match text.parse() {
            Ok(0) => Err(self.fault("bootorder must be greater than 0")),
            Ok(order) => Ok(Some(order)),
            Err(e) => Err(self.fault(&format!("failed to parse param \"bootorder\": {text}: {e}"))),
        }
    }

    /// Value as a Kubernetes quantity.
    pub(super) fn quantity(&self, name: &str) -> Result<Option<&str>> {
        let Some(text) = self.said.get(name) else { return Ok(None) };
        match Quantity::parse(text) {
            Ok(_) => Ok(Some(text)),
            Err(_) => Err(self.fault(&format!("failed to parse param \"{name}\": {text} is not a quantity"))),
        }
    }

    /// Value of `src` in the form `[NAMESPACE/]NAME`.
    pub(super) fn source(&self) -> Result<(Option<&str>, &str)> {
        prefixed(self.must("src")?).map_err(|why| self.fault(&format!("src invalid: {why}")))
    }

    /// Value of `src` as the name of an object in the VM's own namespace.
    pub(super) fn local_source(&self, kind: &str) -> Result<&str> {
        match self.source()? {
            (None, name) => Ok(name),
            (Some(_), name) => {
                Err(self.fault(&format!("not allowed to specify namespace of {kind} \"{name}\"")))
            }
        }
    }
}

/// Parses the form `[PREFIX/]NAME`.
pub(super) fn prefixed(text: &str) -> Result<(Option<&str>, &str), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let (prefix, name) = match parts.as_slice() {
        [name] => (None, *name),
        [prefix, name] => (Some(*prefix).filter(|prefix| !prefix.is_empty()), *name),
        _ => {
            return Err(format!("invalid count {} of slashes in prefix/name", parts.len().saturating_sub(1)));
        }
    };
    match name.is_empty() {
        true => Err("name cannot be empty".to_owned()),
        false => Ok((prefix, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Result<Params> {
        Params::parse("x", text, &["src", "bootorder", "size", "heads"])
    }

    #[test]
    fn a_flag_says_several_things() {
        let params = said("src:a/b:c,bootorder:2,size:1Gi,heads:a: b;c").unwrap();
        assert_eq!((params.get("src"), params.boot_order().unwrap()), (Some("a/b:c"), Some(2)));
        assert_eq!(params.quantity("size").unwrap(), Some("1Gi"));
        assert_eq!(params.list("heads"), Some(vec!["a: b", "c"]));
        assert_eq!(params.source().unwrap(), (Some("a"), "b:c"));
        assert_eq!(said("src:a").unwrap().local_source("pvc").unwrap(), "a");
    }

    #[test]
    fn what_makes_no_sense_is_told_in_the_words_of_virtctl() {
        for (text, wanted) in [
            ("", "params may not be empty"),
            ("src", "params need to have at least one colon: src"),
            ("name:a,b:c", "unknown param(s): b:c,name:a"),
        ] {
            let e = said(text).unwrap_err().to_string();
            assert!(e.contains(&format!("failed to parse \"--x\" flag: {wanted}")), "{e}");
        }
        let fails = |text: &str| said(text).unwrap();
        assert!(fails("src:").must("src").unwrap_err().to_string().contains("src must be specified"));
        assert!(fails("bootorder:0").boot_order().unwrap_err().to_string().contains("greater than 0"));
        assert!(fails("bootorder:-1").boot_order().is_err());
        assert!(fails("size:big").quantity("size").is_err());
        assert!(fails("src:a/b/c").source().unwrap_err().to_string().contains("invalid count 2 of slashes"));
        assert!(fails("src:a/").source().unwrap_err().to_string().contains("name cannot be empty"));
        assert!(
            fails("src:a/b").local_source("pvc").unwrap_err().to_string().contains("namespace of pvc \"b\"")
        );
    }
}
