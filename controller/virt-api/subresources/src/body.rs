//! The body of a request, in JSON or YAML, as upstream reads both.
//!
//! A body that begins with a brace is JSON. Everything else is one document of YAML, whose depth, values and
//! aliases are bounded ([`api::yaml`]). Unknown keys are ignored.

use crate::refusal::{Refusal, Result};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serve::transport::IncomingRequest;

/// Maximum size of YAML: parsing it takes longer than JSON, and other requests wait meanwhile.
const YAML: usize = 256 << 10;

/// The options of a request; without a body, none are set.
pub(crate) async fn read<T: DeserializeOwned + Default>(asked: IncomingRequest, most: usize) -> Result<T> {
    let whole = asked.body.whole(most).await.map_err(|answer| {
        let text = String::from_utf8_lossy(answer.body()).trim().to_owned();
        match answer.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Refusal::bad_request(text),
            _ => Refusal::unavailable(text),
        }
    })?;
    parse(whole.as_ref())
}

fn parse<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<T> {
    let wrong =
        |why: &str| Refusal::bad_request(format!("Can not unmarshal Request body to struct, error: {why}"));
    let bytes = bytes.trim_ascii();
    if bytes.starts_with(b"{") {
        return serde_json::from_slice(bytes).map_err(|error| wrong(&error.to_string()));
    }
    if bytes.len() > YAML {
        return Err(wrong(&format!("YAML may have {YAML} bytes, and JSON more")));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| wrong(&error.to_string()))?;
    let value: Value =
        api::yaml::value(text).map_err(|fault| wrong(&format!("line {}: {}", fault.line, fault.what)))?;
    let options: Option<T> = serde_json::from_value(value).map_err(|error| wrong(&error.to_string()))?;
    Ok(options.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Options {
        grace_period: Option<i64>,
        dry_run: Vec<String>,
    }

    #[test]
    fn options_are_read_from_json_and_from_yaml() {
        let all = Options { grace_period: Some(5), dry_run: vec!["All".into()] };
        for text in [
            r#"{"gracePeriod": 5, "dryRun": ["All"]}"#,
            "\n{\n\t\"gracePeriod\": 5,\n\t\"dryRun\": [\"All\"], \"other\": {}}\n",
            "gracePeriod: 5\ndryRun: [All]\n",
            "---\n# all of it\ndryRun:\n- All\ngracePeriod: 5\nother: {a: yes}\n...\n",
        ] {
            assert_eq!(parse::<Options>(text.as_bytes()).as_ref(), Ok(&all), "{text}");
        }
        for nothing in ["", " \n", "null", "{}", "---\n", "# nothing"] {
            assert_eq!(parse::<Options>(nothing.as_bytes()), Ok(Options::default()), "{nothing:?}");
        }
        assert_eq!(parse::<Value>(b"kind: VirtualMachine"), Ok(json!({"kind": "VirtualMachine"})));
    }

    #[test]
    fn what_is_neither_is_refused_in_upstreams_words() {
        let large = format!("dryRun: [{}]", "x".repeat(YAML));
        for (text, why) in [
            (&b"{\"gracePeriod\": 5"[..], "EOF"),
            (b"{\"gracePeriod\": \"long\"}", "invalid type"),
            (b"{gracePeriod: 5}", "key must be a string"),
            (b"gracePeriod: long", "invalid type"),
            (b"gracePeriod: 5\ngracePeriod: 6", "line 2: \"gracePeriod\" stands here a second time"),
            (b"a: [1\nb: 2", "line 2: this is not valid YAML"),
            (b"a: 1\n---\na: 2", "more than one document"),
            (b"\xff", "utf-8"),
            (b"5", "invalid type"),
            (b"a: &a [*a]", "line 1: this alias"),
            (large.as_bytes(), "YAML may have 262144 bytes"),
        ] {
            let refused = parse::<Options>(text).unwrap_err();
            let begin = "Can not unmarshal Request body to struct, error: ";
            assert_eq!(refused.status, StatusCode::BAD_REQUEST);
            assert!(
                refused.message.starts_with(begin) && refused.message.contains(why),
                "{}",
                refused.message
            );
        }
    }
}
