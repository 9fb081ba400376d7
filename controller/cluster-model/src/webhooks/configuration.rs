//! The webhook configurations that register virt-api with the API server.

use super::{CDI, POLICIES, POOLS, Question, SIZES, SkipCondition, WEBHOOKS, Webhook};
use crate::accounts::{Accounts, NODE_CLAIM};
use crate::objects::{Program, names};
use crate::servers::SERVICE;
use api::cdi::annotations::{APPLY_PROFILE, EXPORT};
use serde_json::{Value, json};

/// Time-out of a webhook in the API server, in seconds.
const PATIENCE: u32 = 10;

/// Service, CA bundle and path of the webhooks of an installation.
#[derive(Clone, Copy, Debug)]
pub struct WebhookTarget<'a> {
    /// The namespace of the installation.
    pub namespace: &'a str,
    /// CA bundle of virt-api's certificate.
    pub bundle: &'a str,
    /// First segment of each path; `None` in an installation that has none yet.
    pub segment: Option<&'a str>,
}

/// The webhooks of one configuration. With `of_cdi`: those for the kinds of CDI, which another CDI operator
/// of the cluster may have too. Otherwise all others.
pub fn configuration(mutates: bool, of_cdi: bool, target: &WebhookTarget<'_>) -> Value {
    let is_of_cdi = |webhook: &Webhook| webhook.group == CDI || webhook.question == Question::FillClaim;
    let webhooks =
        WEBHOOKS.iter().filter(|webhook| webhook.mutates == mutates && is_of_cdi(webhook) == of_cdi);
    webhooks.map(|webhook| webhook.configuration(target)).collect()
}

/// True if a webhook configuration of the cluster has the webhook for this question, unrestricted.
pub fn has_webhook(configuration: &Value, question: Question, namespace: &str) -> bool {
    let target = WebhookTarget { namespace, bundle: "", segment: None };
    let wanted = WEBHOOKS.iter().filter(|webhook| webhook.question == question);
    let wanted: Vec<Value> = wanted.map(|webhook| webhook.configuration(&target)).collect();
    let is_one = |found: &Value, wanted: &Value| {
        let service = |of: &Value| {
            ["name", "namespace", "port"].map(|field| of["clientConfig"]["service"][field].clone())
        };
        let fields = wanted.as_object().into_iter().flatten();
        service(found) == service(wanted)
            && fields
                .filter(|(field, _)| *field != "clientConfig")
                .all(|(field, value)| found[field] == *value)
    };
    let found = || configuration["webhooks"].as_array().into_iter().flatten();
    !wanted.is_empty() && wanted.iter().all(|wanted| found().any(|found| is_one(found, wanted)))
}

impl Webhook {
    /// Label selector for the objects.
    fn selector(&self) -> Value {
        match self.question {
            Question::FillClaim => json!({"matchLabels": {APPLY_PROFILE: "true"}}),
            _ => json!({}),
        }
    }

    /// Version in which the API server sends the resources.
    fn version(&self) -> &'static str {
        match self.group {
            CDI => api::cdi::VERSION,
            SIZES => api::instancetype::VERSION,
            POOLS => api::pool::VERSION,
            POLICIES => api::migration_policy::VERSION,
            _ => "v1",
        }
    }

    /// The webhook's entry in a webhook configuration. Defaults are written out, so that the API server
    /// stores the entry unchanged.
    fn configuration(&self, target: &WebhookTarget<'_>) -> Value {
        let WebhookTarget { namespace, bundle, segment } = *target;
        let accounts = Accounts::new(namespace);
        let path = match segment {
            Some(segment) => format!("/{segment}{}", self.path),
            None => self.path.to_owned(),
        };
        let mut webhook = json!({
            "name": self.name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "caBundle": bundle,
                "service": {"namespace": namespace, "name": SERVICE.0, "port": SERVICE.1, "path": path},
            },
            "rules": [{
                "apiGroups": [self.group], "apiVersions": [self.version()], "resources": self.resources,
                "operations": self.operations, "scope": "*",
            }],
            "failurePolicy": if self.strict { "Fail" } else { "Ignore" },
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": self.selector(),
            "sideEffects": if self.writes { "NoneOnDryRun" } else { "None" },
            "timeoutSeconds": PATIENCE,
        });
        if self.mutates {
            // Another webhook may have added a volume, which needs a disk.
            webhook["reinvocationPolicy"] = json!("IfNeeded");
        }
        if !self.unless.is_empty() {
            webhook["matchConditions"] =
                self.unless.iter().map(|unless| unless.condition(&accounts)).collect();
        }
        webhook
    }
}

impl SkipCondition {
    /// The condition as a CEL expression. The webhook is called if it is true.
    fn condition(self, accounts: &Accounts) -> Value {
        let is = |program| format!("request.userInfo.username == '{}'", accounts.user(program));
        let (name, unless) = match self {
            SkipCondition::Controller => (
                "not-virt-controller",
                format!("request.operation != 'CREATE' && {}", is(Program::Controller)),
            ),
            SkipCondition::ControllerAlways => ("not-virt-controller", is(Program::Controller)),
            SkipCondition::Handler => ("not-virt-handler", is(Program::Handler)),
            SkipCondition::HandlerAtHome => {
                let claim = format!("request.userInfo.extra['{NODE_CLAIM}']");
                let on = |object: &str| {
                    format!(
                        "has({object}.status) && has({object}.status.nodeName) && {object}.status.nodeName in {claim}"
                    )
                };
                let says = format!("has(request.userInfo.extra) && '{NODE_CLAIM}' in request.userInfo.extra");
                let at_home =
                    format!("{} && {says} && {} && {}", is(Program::Handler), on("oldObject"), on("object"));
                ("not-virt-handler-at-home", at_home)
            }
            SkipCondition::Api => ("not-virt-api", is(Program::Api)),
            SkipCondition::Leaving => (
                "not-being-deleted",
                "request.operation != 'CREATE' && has(object.metadata.deletionTimestamp) && (has(object.spec) ? \
                 has(oldObject.spec) && object.spec == oldObject.spec : !has(oldObject.spec))"
                    .to_owned(),
            ),
            SkipCondition::NoExport => {
                let is_asked = format!(
                    "has(object.metadata.annotations) && object.metadata.annotations.exists(name, name.startsWith('{EXPORT}'))"
                );
                return json!({"name": "asks-for-an-export", "expression": is_asked});
            }
            // The object of the request is the eviction, which has only the name of the pod.
            SkipCondition::OtherPod => {
                let is_launcher = format!("request.?name.orValue('').startsWith('{}')", names::LAUNCHER);
                return json!({"name": "launcher-pods", "expression": is_launcher});
            }
        };
        json!({"name": name, "expression": format!("!({unless})")})
    }
}
