//! Answers of webhooks: allowed with a patch and warnings, denied with causes, or deferred.

use super::Request;
use api::fault::{Fault, Reason};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Default group in a denial, unless the object is of another known group.
const GROUP: &str = "kubevirt.io";
/// Maximum number of listed causes.
const CAUSES: usize = 10;
/// Maximum number of warnings: the API server passes on about so many of this length.
const WARNINGS: usize = 15;
/// Maximum length of a warning that the API server passes on whole.
const WARNING: usize = 256;
/// Maximum lengths of a cause's message, a field path and a name in an answer: a user may have written 3 MiB.
const SENTENCE: usize = 1024;
const FIELD: usize = 512;

/// Answer to a review.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AdmissionResponse {
    /// Causes of a denial.
    pub faults: Vec<Fault>,
    /// Reason to retry later, if nothing is wrong with the object.
    pub later: Option<Deferral>,
    /// Changes as a JSON patch.
    pub patch: Vec<Value>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A deferral: the client retries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deferral {
    /// Message for the client.
    pub message: String,
    /// Node that the VMI must leave. It is written to the VMI's status before the answer is sent.
    pub evacuates: Option<String>,
}

impl AdmissionResponse {
    pub fn yes() -> AdmissionResponse {
        AdmissionResponse::default()
    }

    /// Denied for these faults.
    pub fn no(faults: Vec<Fault>) -> AdmissionResponse {
        AdmissionResponse { faults, ..AdmissionResponse::default() }
    }

    pub fn later(later: Deferral) -> AdmissionResponse {
        AdmissionResponse { later: Some(later), ..AdmissionResponse::default() }
    }

    pub fn is_yes(&self) -> bool {
        self.faults.is_empty() && self.later.is_none()
    }

    /// The `response` of a review.
    pub fn write(&self, request: &Request) -> Value {
        let mut response = json!({"uid": request.uid, "allowed": self.is_yes()});
        let mut warnings = self.warnings.clone();
        if !self.faults.is_empty() {
            let told: Vec<Value> = self.faults.iter().take(CAUSES).map(cause).collect();
            let mut message =
                told.iter().filter_map(|cause| cause["message"].as_str()).collect::<Vec<_>>().join(", ");
            if let Some(more) = self.faults.len().checked_sub(CAUSES).filter(|&more| more > 0) {
                let more = format!("and {more} more validation errors");
                message.push_str(&format!(", {more}"));
                // Clients that show the causes do not show the message.
                warnings.insert(0, more);
            }
            let groups = [api::cdi::GROUP, api::instancetype::GROUP];
            let group = groups.into_iter().find(|group| request.group == *group).unwrap_or(GROUP);
            response["status"] = json!({
                "metadata": {},
                "status": "Failure",
                "message": message,
                "reason": "Invalid",
                "details": {"name": short(&request.name, FIELD), "group": group, "kind": request.kind, "causes": told},
                "code": 422,
            });
        } else if let Some(later) = &self.later {
            response["status"] = json!({
                "metadata": {},
                "status": "Failure",
                "message": short(&later.message, SENTENCE),
                "reason": "TooManyRequests",
                "code": 429,
            });
        } else if !self.patch.is_empty() {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(Value::from(self.patch.clone()).to_string()));
        }
        if !warnings.is_empty() {
            let mut told: Vec<String> =
                warnings.iter().take(WARNINGS).map(|text| short(text, WARNING)).collect();
            if let Some(more) = warnings.len().checked_sub(WARNINGS).filter(|&more| more > 0) {
                told.push(format!("and {more} more warnings"));
            }
            response["warnings"] = json!(told);
        }
        response
    }
}

fn cause(fault: &Fault) -> Value {
    json!({"reason": fault.reason, "message": short(&sentence(fault), SENTENCE), "field": short(&fault.field, FIELD)})
}

/// The message of a cause. Messages of upstream, and those that name their field, stay as they are. One that
/// begins with "must be" gets the field before it.
fn sentence(fault: &Fault) -> String {
    let mut text = match fault.message.as_str() {
        message if message.starts_with("must be ") => format!("{} {message}", fault.field),
        "not supported yet" if fault.reason == Reason::NotSupported => {
            format!("{} is not supported yet", fault.field)
        }
        message => message.to_owned(),
    };
    if let Some(hint) = &fault.hint {
        text.push_str(&format!(" ({hint})"));
    }
    text
}

fn short(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most - '…'.len_utf8();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request { uid: "u".into(), name: "web".into(), kind: "VirtualMachine".into(), ..Request::default() }
    }

    fn fault(number: usize) -> Fault {
        Fault::new(format!("spec.a[{number}]"), Reason::Invalid, format!("fault {number}"))
    }

    #[test]
    fn ten_causes_are_listed_and_the_others_counted() {
        let answer = |count| AdmissionResponse::no((0..count).map(fault).collect()).write(&request());
        let ten = answer(10);
        assert_eq!(ten["status"]["details"]["causes"].as_array().unwrap().len(), 10);
        assert!(!ten["status"]["message"].as_str().unwrap().contains("more"));
        let twelve = answer(12);
        assert_eq!(twelve["status"]["details"]["causes"].as_array().unwrap().len(), 10);
        assert_eq!(twelve["status"]["details"]["name"], "web");
        assert_eq!(twelve["warnings"], json!(["and 2 more validation errors"]));
        let message = twelve["status"]["message"].as_str().unwrap();
        assert!(message.starts_with("fault 0, fault 1, "), "{message}");
        assert!(message.ends_with("fault 9, and 2 more validation errors"), "{message}");
        assert_eq!((&twelve["allowed"], &twelve["status"]["code"]), (&json!(false), &json!(422)));
        assert_eq!(
            twelve["status"]["details"]["causes"][0],
            json!({
                "reason": "FieldValueInvalid", "message": "fault 0", "field": "spec.a[0]",
            })
        );
    }

    #[test]
    fn what_somebody_wrote_at_length_is_not_said_again_at_length() {
        let long = "é".repeat(1 << 20);
        let faults =
            (0..20).map(|_| Fault::new(format!("spec.{long}"), Reason::Invalid, format!("{long} is wrong")));
        let request = Request { name: long.clone(), ..request() };
        let written = AdmissionResponse::no(faults.collect()).write(&request);
        assert!(written.to_string().len() < 32 << 10, "{} bytes", written.to_string().len());
        let cause = &written["status"]["details"]["causes"][9];
        let ends = |text: &Value| text.as_str().unwrap().ends_with('…');
        assert!(ends(&cause["message"]) && ends(&cause["field"]), "{cause}");
    }

    #[test]
    fn a_sentence_says_what_it_is_about() {
        assert_eq!(sentence(&Fault::not_yet("spec.a")), "spec.a is not supported yet");
        let form = Fault::new("spec.a", Reason::Invalid, "must be a list, not 3").hint("see b");
        assert_eq!(sentence(&form), "spec.a must be a list, not 3 (see b)");
        assert_eq!(sentence(&fault(1)), "fault 1");
    }

    #[test]
    fn a_yes_has_its_patch_in_base64_and_warnings_that_fit() {
        let patch = vec![json!({"op": "add", "path": "/a", "value": 1})];
        let answer = AdmissionResponse {
            patch: patch.clone(),
            warnings: vec!["é".repeat(200)],
            ..AdmissionResponse::yes()
        };
        let written = answer.write(&request());
        let bytes = STANDARD.decode(written["patch"].as_str().unwrap()).unwrap();
        assert_eq!(serde_json::from_slice::<Vec<Value>>(&bytes).unwrap(), patch);
        assert_eq!((&written["allowed"], &written["uid"]), (&json!(true), &json!("u")));
        assert!(written["warnings"][0].as_str().unwrap().len() <= 256);
    }
}
