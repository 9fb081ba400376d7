//! The request and the answer as the API server writes them: `AdmissionReview` of `admission.k8s.io/v1`.

use super::AdmissionResponse;
use cluster_model::accounts::NODE_CLAIM;
use serde_json::{Value, json};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// The longest name of a request, which is a UUID of the API server's.
const UID: usize = 128;

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// It is said again in the answer.
    pub uid: String,
    /// What is to be done.
    pub operation: Operation,
    /// The object's namespace; empty where it is in none.
    pub namespace: String,
    /// The object's name, once it has one.
    pub name: String,
    /// The group of its kind.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// As it would be then.
    pub object: Value,
    /// As it is now.
    pub old: Value,
    /// Who wants it.
    pub who: Requester,
    /// Nothing of it is kept.
    pub dry_run: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    #[default]
    Create,
    Update,
    Delete,
}

/// Who wants it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// The user's name.
    pub name: String,
    /// The node of the pod that the user's token is bound to; from Kubernetes 1.30 on.
    pub node: Option<String>,
    /// The whole of it: name, uid, groups and what else is known, as a SubjectAccessReview has them.
    pub subject: Value,
}

impl Request {
    /// Reads a review, or says what is wrong with it.
    pub fn read(body: &[u8]) -> Result<Request, String> {
        let mut review: Value = serde_json::from_slice(body).map_err(|e| format!("this is no JSON: {e}"))?;
        if review["apiVersion"] != API_VERSION || review["kind"] != KIND {
            return Err(format!("this is no {KIND} of {API_VERSION}"));
        }
        let request = &mut review["request"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let operation = match request["operation"].as_str() {
            Some("CREATE") => Operation::Create,
            Some("UPDATE") => Operation::Update,
            Some("DELETE") => Operation::Delete,
            other => return Err(format!("request.operation {other:?} is none that is looked at here")),
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

    /// The object is being deleted, and only waits for those who hold it: whoever changes its spec meanwhile is asked what for.
    pub fn is_leaving(&self) -> bool {
        !self.object["metadata"]["deletionTimestamp"].is_null() && self.object["spec"] == self.old["spec"]
    }
}

/// Writes a review.
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
