//! Answers to reviews of tokens and of access.

use serde_json::{Value, json};

/// Policy of SubjectAccessReviews, by their specs.
pub(super) struct Reviews(Box<dyn Fn(&Value) -> bool + Send>);

impl Default for Reviews {
    /// The user `monitor` may read `/metrics`.
    fn default() -> Reviews {
        Reviews::by(|spec| {
            assert_eq!(spec["groups"], json!(["system:authenticated"]));
            let reads = spec["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"});
            reads && spec["user"] == "monitor"
        })
    }
}

impl Reviews {
    pub(super) fn by(permits: impl Fn(&Value) -> bool + Send + 'static) -> Reviews {
        Reviews(Box::new(permits))
    }

    /// The review with its status; `None` for another object. A token belongs to the user whose name is its prefix.
    pub(super) fn answer(&self, review: &Value) -> Option<Value> {
        let spec = &review["spec"];
        let status = match review["kind"].as_str()? {
            "TokenReview" => {
                let token = spec["token"].as_str().unwrap_or_default();
                let name = token.split('-').next();
                match token.starts_with("nobody") {
                    true => json!({"user": {}}),
                    false => json!({
                        "authenticated": true, "user": {"username": name, "groups": ["system:authenticated"]},
                    }),
                }
            }
            "SubjectAccessReview" => json!({"allowed": self.0(spec)}),
            _ => return None,
        };
        let mut answered = review.clone();
        answered["status"] = status;
        Some(answered)
    }
}
