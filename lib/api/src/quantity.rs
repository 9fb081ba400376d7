//! Quantities in Kubernetes' notation: `512Mi`, `2G`, `0.5`, `100m`, `1e3`.
//!
//! ```text
//! [+-] digits [. digits]  n u m (none) k M G T P E      powers of ten
//!                         Ki Mi Gi Ti Pi Ei             powers of two
//!                         e3 E-3                        an exponent
//! ```
//!
//! A quantity keeps its text and has an exact value, down to a billionth. Smaller parts are rounded away from
//! zero, as Kubernetes does.

use crate::fault::Fault;
use crate::wire::{Path, Schema, Unknown, Wire, expected};
use serde_json::{Value, json};
use std::fmt;

/// Billionths in one unit.
const NANO: i128 = 1_000_000_000;

/// Pattern of the texts that [`Quantity::parse`] accepts, for schemas.
const PATTERN: &str = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$";

/// A quantity, with its text. Two are equal if their texts are; [`Quantity::nanos`] compares their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    text: String,
    nanos: i128,
}

/// A text that is not a quantity, or one beyond 10²⁹.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAQuantity;

impl Quantity {
    /// Parses a quantity in Kubernetes' notation.
    pub fn parse(text: &str) -> Result<Quantity, NotAQuantity> {
        let nanos = parse(text).ok_or(NotAQuantity)?;
        Ok(Quantity { text: text.to_owned(), nanos })
    }

    /// The quantity of this many bytes.
    pub fn of_bytes(bytes: u64) -> Quantity {
        Quantity { text: bytes.to_string(), nanos: i128::from(bytes) * NANO }
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The amount in billionths.
    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    /// The amount in bytes, rounded up; `None` below zero or beyond 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        self.ceil()
    }

    /// The amount as an integer, rounded up; `None` below zero or beyond 64 bits.
    pub fn ceil(&self) -> Option<u64> {
        if self.nanos < 0 {
            return None;
        }
        let up = i128::from(self.nanos % NANO != 0);
        u64::try_from(self.nanos / NANO + up).ok()
    }

    /// True if the amount is 0.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Quantity { text: "0".to_owned(), nanos: 0 }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for NotAQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a quantity like 512Mi, 2G or 0.5")
    }
}

impl std::error::Error for NotAQuantity {}

impl std::str::FromStr for Quantity {
    type Err = NotAQuantity;

    fn from_str(text: &str) -> Result<Self, NotAQuantity> {
        Quantity::parse(text)
    }
}

impl Wire for Quantity {
    fn read(value: Value, at: &Path, faults: &mut Vec<Fault>) -> Option<Self> {
        let quantity = match &value {
            Value::String(text) => Quantity::parse(text).ok(),
            Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
            _ => None,
        };
        if quantity.is_none() {
            faults.push(expected("a quantity like 512Mi, 2G or 0.5", &value, at));
        }
        quantity
    }

    fn write(&self) -> Value {
        Value::from(self.text.as_str())
    }

    fn unknown(&self, _: &Path, _: &mut Vec<Unknown>) {}

    fn schema() -> Schema {
        Schema::scalar(json!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": PATTERN,
            "x-kubernetes-int-or-string": true,
        }))
    }
}

crate::always!(Quantity);
crate::serde_by_value!(Quantity);

/// Factor of a unit.
enum Unit {
    Ten(i32),
    Two(u32),
}

fn parse(text: &str) -> Option<i128> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (whole, rest) = rest.split_at(end);
    let (fraction, unit) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let nanos = match read_unit(unit)? {
        Unit::Ten(power) => shifted(whole, fraction, power.checked_add(9)?)?,
        Unit::Two(power) => doubled(whole, fraction, (1_i128 << power) * NANO)?,
    };
    Some(if negative { -nanos } else { nanos })
}

fn read_unit(unit: &str) -> Option<Unit> {
    Some(match unit {
        "n" => Unit::Ten(-9),
        "u" => Unit::Ten(-6),
        "m" => Unit::Ten(-3),
        "" => Unit::Ten(0),
        "k" => Unit::Ten(3),
        "M" => Unit::Ten(6),
        "G" => Unit::Ten(9),
        "T" => Unit::Ten(12),
        "P" => Unit::Ten(15),
        "E" => Unit::Ten(18),
        "Ki" => Unit::Two(10),
        "Mi" => Unit::Two(20),
        "Gi" => Unit::Two(30),
        "Ti" => Unit::Two(40),
        "Pi" => Unit::Two(50),
        "Ei" => Unit::Two(60),
        exponent => Unit::Ten(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// `whole.fraction` times ten to the `power`, rounded up.
fn shifted(whole: &str, fraction: &str, power: i32) -> Option<i128> {
    let digits = || whole.bytes().chain(fraction.bytes());
    let leading = digits().take_while(|&digit| digit == b'0').count();
    let digits = || digits().skip(leading).map(|digit| i128::from(digit - b'0'));
    // Number of digits before the point after the shift.
    let kept = i64::try_from(whole.len()).ok()? + i64::from(power) - i64::try_from(leading).ok()?;
    let count = digits().count();
    if count == 0 {
        return Some(0);
    }
    if kept > 39 {
        return None;
    }
    let kept = usize::try_from(kept).unwrap_or(0);
    let number = digits().chain(std::iter::repeat(0)).take(kept).try_fold(0_i128, push)?;
    let left_over = digits().skip(kept).any(|digit| digit != 0);
    number.checked_add(i128::from(left_over))
}

/// `whole.fraction` times `factor`, rounded up.
fn doubled(whole: &str, fraction: &str, factor: i128) -> Option<i128> {
    let digit = |digit: u8| i128::from(digit - b'0');
    let number = whole.bytes().try_fold(0_i128, |number, next| push(number, digit(next)))?;
    let mut part = 0;
    let mut left_over = false;
    for next in fraction.bytes().rev() {
        let sum = digit(next) * factor + part;
        left_over |= sum % 10 != 0;
        part = sum / 10;
    }
    number.checked_mul(factor)?.checked_add(part)?.checked_add(i128::from(left_over))
}

fn push(number: i128, digit: i128) -> Option<i128> {
    number.checked_mul(10)?.checked_add(digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> Option<i128> {
        Quantity::parse(text).ok().map(|quantity| quantity.nanos())
    }

    #[test]
    fn every_unit_counts() {
        let units: [(&str, i128); 18] = [
            ("n", 1),
            ("u", 1_000),
            ("m", 1_000_000),
            ("", NANO),
            ("k", 1_000 * NANO),
            ("M", 1_000_000 * NANO),
            ("G", NANO * NANO),
            ("T", 1_000 * NANO * NANO),
            ("P", 1_000_000 * NANO * NANO),
            ("E", NANO * NANO * NANO),
            ("Ki", NANO << 10),
            ("Mi", NANO << 20),
            ("Gi", NANO << 30),
            ("Ti", NANO << 40),
            ("Pi", NANO << 50),
            ("Ei", NANO << 60),
            ("e3", 1_000 * NANO),
            ("E-3", NANO / 1_000),
        ];
        for (unit, factor) in units {
            assert_eq!(nanos(&format!("1{unit}")), Some(factor), "{unit}");
            assert_eq!(nanos(&format!("-1{unit}")), Some(-factor), "{unit}");
            assert_eq!(nanos(&format!("0{unit}")), Some(0), "{unit}");
        }
    }

    #[test]
    fn fractions_are_exact_and_what_is_too_small_is_rounded_up() {
        assert_eq!(nanos("1.5Gi"), Some((NANO << 30) + (NANO << 29)));
        assert_eq!(nanos("0.1Ki"), Some(102_400_000_000));
        assert_eq!(nanos(".5"), Some(NANO / 2));
        assert_eq!(nanos("12."), Some(12 * NANO));
        assert_eq!(nanos("0.1n"), Some(1));
        assert_eq!(nanos("-0.1n"), Some(-1));
        assert_eq!(nanos("0.00000000000000000000000000000000000000000000001"), Some(1));
        assert_eq!(nanos("0.00000000000000000000000000000000000000000000001Ei"), Some(1));
        assert_eq!(nanos("1e-30"), Some(1));
        assert_eq!(nanos("0e99999"), Some(0));
        assert_eq!(Quantity::parse("0.5").unwrap().bytes(), Some(1));
        assert_eq!(Quantity::parse("-1").unwrap().bytes(), None);
        assert_eq!(Quantity::parse("16Ei").unwrap().bytes(), None);
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "",
            ".",
            "+",
            "-",
            "Mi",
            "1 Mi",
            " 1",
            "1mi",
            "1K",
            "1e",
            "1e+",
            "1ee3",
            "1Mi5",
            "0x10",
            "1_000",
            "١",
            "--1",
            "1e99999999999",
            "1e39",
            "999999999999999999999999999999Ei",
        ] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }

    #[test]
    fn it_is_written_as_it_was_read() {
        let read = |json: &str| serde_json::from_str::<Quantity>(json).unwrap();
        assert_eq!(serde_json::to_string(&read(r#""1024Mi""#)).unwrap(), r#""1024Mi""#);
        assert_eq!(serde_json::to_string(&read("1024")).unwrap(), r#""1024""#);
        assert_eq!(read("0.5").nanos(), NANO / 2);
        let error = serde_json::from_str::<Quantity>(r#""much""#).unwrap_err();
        assert_eq!(error.to_string(), r#"must be a quantity like 512Mi, 2G or 0.5, not the text "much""#);
    }
}
