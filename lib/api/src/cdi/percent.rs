//! A share between 0 and 1, as filesystem overhead is written: `0.06`.
//!
//! Shares have at most three digits after the point, so they are stored in whole thousandths and computed
//! without rounding.

use crate::fault::Fault;
use crate::wire::{Path, Schema, Unknown, Wire, expected};
use serde_json::{Value, json};

/// Pattern of the texts that [`Percent::parse`] accepts, for schemas.
const PATTERN: &str = r"^(0(?:\.\d{1,3})?|1)$";

/// A share between 0 and 1, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Percent {
    text: String,
    thousandths: u32,
}

impl Percent {
    /// Parses a share; `None` if the text is not a share from 0 to 1.
    pub fn parse(text: &str) -> Option<Percent> {
        Some(Percent { text: text.to_owned(), thousandths: parse(text)? })
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The share in thousandths, from 0 to 1000.
    pub fn thousandths(&self) -> u32 {
        self.thousandths
    }
}

impl Default for Percent {
    fn default() -> Self {
        Percent { text: "0".to_owned(), thousandths: 0 }
    }
}

impl Wire for Percent {
    fn read(value: Value, at: &Path, faults: &mut Vec<Fault>) -> Option<Self> {
        let percent = value.as_str().and_then(Percent::parse);
        if percent.is_none() {
            faults.push(expected("a text like \"0.06\", from 0 to 1", &value, at));
        }
        percent
    }

    fn write(&self) -> Value {
        Value::from(self.text.as_str())
    }

    fn unknown(&self, _: &Path, _: &mut Vec<Unknown>) {}

    fn schema() -> Schema {
        Schema::scalar(json!({"type": "string", "pattern": PATTERN}))
    }
}

fn parse(text: &str) -> Option<u32> {
    match text {
        "0" => return Some(0),
        "1" => return Some(1000),
        _ => {}
    }
    let digits = text.strip_prefix("0.")?;
    let is_share = (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_share.then_some(())?;
    format!("{digits:0<3}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_known_in_thousandths_and_anything_else_is_none() {
        for (text, thousandths) in
            [("0", 0), ("1", 1000), ("0.0", 0), ("0.06", 60), ("0.055", 55), ("0.5", 500), ("0.999", 999)]
        {
            let percent = Percent::parse(text).unwrap();
            assert_eq!((percent.thousandths(), percent.as_str()), (thousandths, text));
        }
        for text in ["", "0.", "1.0", "00", ".5", "0.0555", "-0", "0.5 ", "2", "0,5", "0.+5", "0.١"] {
            assert_eq!(Percent::parse(text), None, "{text}");
        }
    }
}
