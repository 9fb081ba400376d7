//! Values of plain scalars: YAML 1.1, as kubectl's parser reads it.
//!
//! `yes`, `on` and `y` are true, `010` is eight, `1_000` is a thousand. Text must be quoted.

use serde_json::{Number, Value};

/// Value of a plain scalar. An error says why JSON has no such value.
pub fn plain(word: &str) -> Result<Value, String> {
    match word {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(Value::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(Value::Bool(false));
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => return Err(format!("{word} is not a number in JSON; put it in quotes")),
        _ => {}
    }
    let begins_a_number = word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let number = begins_a_number.then(|| number(word)).flatten();
    Ok(number.map_or_else(|| Value::String(word.to_owned()), Value::Number))
}

fn number(word: &str) -> Option<Number> {
    let bare = word.replace('_', "");
    let (minus, digits) = match bare.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, bare.strip_prefix('+').unwrap_or(&bare)),
    };
    if let Some(whole) = integer(digits) {
        return match (minus, i64::try_from(whole)) {
            (false, _) => Some(whole.into()),
            (true, Ok(whole)) => Some((-whole).into()),
            (true, Err(_)) => Number::from_f64(-(whole as f64)),
        };
    }
    if !is_float(digits) {
        return None;
    }
    let value: f64 = bare.parse().ok()?;
    // A whole number is written without a point in JSON, so that it fits an integer field.
    if value.fract() == 0.0 && value.abs() < (1u64 << 53) as f64 {
        return Some((value as i64).into());
    }
    Number::from_f64(value)
}

fn integer(digits: &str) -> Option<u64> {
    let lower = digits.to_ascii_lowercase();
    let (digits, base) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    if digits.starts_with(['+', '-']) { None } else { u64::from_str_radix(digits, base).ok() }
}

/// True for a decimal fraction or an exponent: `.5`, `1.`, `1.5e-3`.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    digits(before) && digits(after) && (!before.is_empty() || !after.is_empty()) && exponent
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_mean_what_they_mean_to_kubectl() {
        for (word, value) in [
            ("yes", json!(true)),
            ("Off", json!(false)),
            ("y", json!(true)),
            ("N", json!(false)),
            ("~", json!(null)),
            ("", json!(null)),
            ("12", json!(12)),
            ("-12", json!(-12)),
            ("+7", json!(7)),
            ("010", json!(8)),
            ("0x1F", json!(31)),
            ("0b11", json!(3)),
            ("1_000", json!(1000)),
            ("1e3", json!(1000)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("18446744073709551615", json!(u64::MAX)),
            // Text, though it begins like a number.
            ("09", json!(9)),
            ("4Gi", json!("4Gi")),
            ("02:00:00:00:00:01", json!("02:00:00:00:00:01")),
            ("1.2.3", json!("1.2.3")),
            ("0x", json!("0x")),
            ("-", json!("-")),
            (".", json!(".")),
            ("2026-01-01", json!("2026-01-01")),
            ("yEs", json!("yEs")),
            ("--1", json!("--1")),
            ("q35", json!("q35")),
        ] {
            assert_eq!(plain(word), Ok(value), "{word}");
        }
        assert!(plain(".inf").unwrap_err().contains("quotes"));
    }
}
