//! Properties of the answer to any review, whoever created its object.

use admission::rules::{Request, RequestContext, judge, review};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_model::objects::Plain;
use cluster_model::webhooks::Webhook;
use serde_json::{Value, json};

/// Maximum size of an answer without its patch, which is shown to users and passed on by the API server.
const LONGEST: usize = 64 << 10;

/// Context of a request in a cluster with this KubeVirt object.
pub(crate) fn context(kubevirt: Value) -> RequestContext {
    let random = ("11111111-1111-4111-8111-111111111111".to_owned(), "serial".to_owned());
    let plain = Plain { object: kubevirt, ..Plain::default() };
    RequestContext { random, ..RequestContext::new("kubevirt", Some(&plain)) }
}

/// Checks that the body is refused or answered with a few short causes, and a patch that applies and is
/// complete: a second review adds nothing.
pub(crate) fn judged(body: &[u8], hook: &Webhook, context: &RequestContext) {
    let Ok(mut request) = Request::read(body) else { return };
    let written = answer(&request, hook, context);
    let Some(patch) = written["response"]["patch"].as_str() else { return };
    assert!(hook.mutates, "{} judges and changes nothing", hook.path);
    let patch = STANDARD.decode(patch).expect("a patch is base64");
    let steps: Vec<Value> = serde_json::from_slice(&patch).expect("a patch is JSON");
    steps.iter().for_each(|step| apply(&mut request.object, step));
    let again = answer(&request, hook, context);
    assert!(
        again["response"]["patch"].is_null(),
        "{} changes its own result: {} in {}",
        hook.path,
        String::from_utf8_lossy(
            &STANDARD.decode(again["response"]["patch"].as_str().unwrap_or_default()).unwrap_or_default()
        ),
        request.object
    );
}

fn answer(request: &Request, hook: &Webhook, context: &RequestContext) -> Value {
    let answer = judge(hook, request, context);
    let mut written = review::write(request, &answer);
    let response = &mut written["response"];
    assert_eq!(response["allowed"], answer.is_yes());
    assert_eq!(response["uid"], request.uid.as_str());
    let length = |value: &Value| value.as_array().map_or(0, Vec::len);
    let causes = &response["status"]["details"]["causes"];
    assert_eq!(length(causes), answer.faults.len().min(10));
    for cause in causes.as_array().into_iter().flatten() {
        assert!(
            cause["message"].as_str().is_some_and(|text| !text.is_empty()),
            "a cause says something: {cause}"
        );
    }
    assert!(length(&response["warnings"]) <= 16, "too many warnings");
    let patch = response["patch"].take();
    // The API server sets name and uid.
    let own = request.uid.len() + request.name.len() + request.kind.len();
    let size = response.to_string().len();
    assert!(size <= LONGEST + 6 * own, "{} answers with {size} bytes", hook.path);
    response["patch"] = patch;
    written
}

/// Applies one step of a JSON patch (RFC 6902). The server refuses steps that do not apply.
fn apply(object: &mut Value, step: &Value) {
    let path = step["path"].as_str().expect("a step has a path");
    let Some((parent, last)) = path.rsplit_once('/') else {
        *object = step["value"].clone();
        return;
    };
    let last = last.replace("~1", "/").replace("~0", "~");
    let parent = object.pointer_mut(parent).unwrap_or_else(|| panic!("{path} is in nothing"));
    match (step["op"].as_str(), parent) {
        (Some("add"), Value::Object(fields)) => drop(fields.insert(last, step["value"].clone())),
        (Some("replace"), Value::Object(fields)) => {
            assert!(fields.insert(last, step["value"].clone()).is_some(), "{path} replaces nothing");
        }
        (Some("remove"), Value::Object(fields)) => {
            assert!(fields.remove(&last).is_some(), "{path} removes nothing");
        }
        (Some("add"), Value::Array(list)) if last == "-" => list.push(step["value"].clone()),
        (Some("replace"), Value::Array(list)) => {
            let index: usize = last.parse().expect("an index");
            list[index] = step["value"].clone();
        }
        (op, parent) => panic!("{op:?} at {path} in {parent}"),
    }
}

/// The review of this request.
#[allow(dead_code, reason = "each target uses its part")]
pub(crate) fn reviewed(request: &Value) -> Vec<u8> {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        .to_string()
        .into_bytes()
}
