//! Request and answer in the API server's format: `AdmissionReview` of `admission.k8s.io/v1`.

use super::AdmissionResponse;
use cluster_model::accounts::NODE_CLAIM;
use serde_json::{Value, json};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// Maximum length of a request's uid, which is a UUID of the API server.
const UID: usize = 128;

/// Request of a review.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// UID of the request, repeated in the answer.
    pub uid: String,
    pub operation: Operation,
    /// Namespace of the object; empty for a cluster-scoped one.
    pub namespace: String,
    /// Name of the object, once it has one.
    pub name: String,
    pub group: String,
    pub kind: String,
    /// The object after the request.
    pub object: Value,
    /// The object before the request.
    pub old: Value,
    /// User of the request.
    pub who: Requester,
    /// True for a dry run: the API server stores nothing.
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    #[default]
    Create,
    Update,
    Delete,
}

/// User of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    pub name: String,
    /// Node of the pod that the user's token is bound to, from Kubernetes 1.30 on.
    pub node: Option<String>,
    /// Name, uid, groups and extra values of the user, as in a SubjectAccessReview.
    pub subject: Value,
}

impl Request {
    /// Reads a review. The error describes the fault.
    pub fn read(body: &[u8]) -> Result<Request, String> {
        let mut review: Value =
            serde_json::from_slice(body).map_err(|e| format!("the review is not JSON: {e}"))?;
        if review["apiVersion"] != API_VERSION || review["kind"] != KIND {
            return Err(format!("the review is not an {KIND} of {API_VERSION}"));
        }
        let request = &mut review["request"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let operation = match request["operation"].as_str() {
            Some("CREATE") => Operation::Create,
            Some("UPDATE") => Operation::Update,
            Some("DELETE") => Operation::Delete,
            other => return Err(format!("request.operation {other:?} is not supported")),
        };
        let (uid, name) = (text(&request["uid"]), text(&request["name"]));
        let (namespace, dry_run) = (text(&request["namespace"]), request["dryRun"] == true);
        let (group, kind) = (text(&request["kind"]["group"]), text(&request["kind"]["kind"]));
        if uid.is_empty() {
            return Err("request.uid is missing".to_owned());
        }
        if uid.len() > UID {
            return Err(format!("request.uid has more than {UID} bytes"));
        }
        let user = &request["userInfo"];
        let who = Requester {
            name: text(&user["username"]),
            node: user["extra"][NODE_CLAIM][0].as_str().map(str::to_owned),
            subject: json!({
                "user": user["username"], "uid": user["uid"], "groups": user["groups"], "extra": user["extra"],
            }),
        };
        let (object, old) = (request["object"].take(), request["oldObject"].take());
        Ok(Request { uid, operation, namespace, name, group, kind, object, old, who, dry_run })
    }

    /// True if the object is being deleted and its spec is unchanged. A change of the spec is validated even
    /// then.
    pub fn is_leaving(&self) -> bool {
        !self.object["metadata"]["deletionTimestamp"].is_null() && self.object["spec"] == self.old["spec"]
    }
}

/// The review with its answer.
pub fn write(request: &Request, answer: &AdmissionResponse) -> Value {
    json!({"apiVersion": API_VERSION, "kind": KIND, "response": answer.write(request)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_is_read_and_what_is_none_is_said_to_be_none() {
        let review = json!({
            "apiVersion": API_VERSION, "kind": KIND, "request": {
                "uid": "1", "operation": "UPDATE", "namespace": "n", "name": "web", "dryRun": true,
                "object": {"a": 1}, "oldObject": {"a": 2},
                "userInfo": {"username": "u", "extra": {"authentication.kubernetes.io/node-name": ["node1"]}},
            },
        });
        let read = |review: &Value| Request::read(review.to_string().as_bytes());
        let request = read(&review).unwrap();
        assert_eq!((request.who.name.as_str(), request.who.node.as_deref()), ("u", Some("node1")));
        assert_eq!(request.who.subject["extra"]["authentication.kubernetes.io/node-name"], json!(["node1"]));
        assert_eq!((request.namespace.as_str(), request.name.as_str()), ("n", "web"));
        let mut kept = review.clone();
        kept["request"]["dryRun"] = json!(null);
        assert!(request.dry_run && !read(&kept).unwrap().dry_run);
        assert_eq!(
            (request.operation, &request.object["a"], &request.old["a"]),
            (Operation::Update, &json!(1), &json!(2))
        );
        for (path, value) in [
            ("/apiVersion", json!("admission.k8s.io/v1beta1")),
            ("/kind", json!("Pod")),
            ("/request", json!(null)),
            ("/request/operation", json!("CONNECT")),
            ("/request/uid", json!(7)),
            ("/request/uid", json!("1".repeat(UID + 1))),
        ] {
            let mut wrong = review.clone();
            *wrong.pointer_mut(path).unwrap() = value;
            assert!(read(&wrong).is_err(), "{path}");
        }
        assert!(Request::read(b"{").is_err() && Request::read(b"[]").is_err());
        assert!(Request::read("[".repeat(100_000).as_bytes()).is_err(), "no stack is deep enough");
    }
}
