//! Authorization of users: a SubjectAccessReview at the API server for each request.
//!
//! A user without the right gets 401 with a message, as upstream. The number of concurrent reviews is
//! limited. A request that cannot be reviewed in time gets 503, and nothing is done.

use crate::refusal::{Refusal, Result};
use crate::requester::Requester;
use crate::route::Route;
use cluster_model::objects::Kind;
use cluster_model::subresources::GROUP;
use http::Method;
use serde_json::{Value, json};
use serve::pace::on_behalf_of;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Maximum number of concurrent reviews.
const AT_ONCE: usize = 64;
/// Maximum wait for a turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// Authorizes users by SubjectAccessReviews.
pub(crate) struct Access {
    client: kube::Client,
    reviews: Semaphore,
}

impl Access {
    pub(crate) fn new(client: kube::Client) -> Access {
        Access { client, reviews: Semaphore::new(AT_ONCE) }
    }

    /// Checks that the user may make the request.
    pub(crate) async fn permits(
        &self,
        requester: &Requester,
        method: &Method,
        route: &Route<'_>,
    ) -> Result<()> {
        let verb = verb(method, route.name)?;
        let attributes = json!({
            "group": GROUP,
            "version": route.version,
            "verb": verb,
            "namespace": route.namespace,
            "resource": route.of_resource(),
            "subresource": route.of_subresource(),
            "name": route.name,
        });
        self.reviewed(requester, &route.resource(), attributes).await
    }

    /// Checks that the user has the right with these attributes of a SubjectAccessReview, on a resource named
    /// so in messages.
    pub(crate) async fn reviewed(
        &self,
        requester: &Requester,
        resource: &str,
        attributes: Value,
    ) -> Result<()> {
        let text = |name: &str| attributes[name].as_str().unwrap_or_default().to_owned();
        let (verb, group, namespace) = (text("verb"), text("group"), text("namespace"));
        let turn = tokio::time::timeout(PATIENCE, self.reviews.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(Refusal::unavailable(format!(
                "cannot ask the API server whether user {:?} may {verb} {resource}: {AT_ONCE} other access reviews had no answer \
                 within 5 s; try again",
                requester.user,
            )));
        };
        let mut spec = requester.spec();
        spec["resourceAttributes"] = attributes;
        let asks = cluster_client::review(&self.client, Kind::SubjectAccessReview, &spec);
        let is = on_behalf_of(&requester.user, asks).await.map_err(|error| {
            tracing::warn!("SubjectAccessReview for user {:?} failed: {}", requester.user, error.chain());
            Refusal::unavailable("the API server did not answer the access review of the user; try again")
        })?;
        if is["allowed"] == true && is["denied"] != true {
            return Ok(());
        }
        let mut said = format!(
            "User {:?} cannot {verb} resource {resource:?} in API group {group:?} in the namespace {namespace:?}",
            requester.user,
        );
        if let Some(reason) = is["reason"].as_str().filter(|reason| !reason.is_empty()) {
            said = format!("{said}: {reason}");
        }
        Err(Refusal::unauthorized(said))
    }
}

/// The verb of a request in RBAC.
pub(crate) fn verb(method: &Method, name: &str) -> Result<&'static str> {
    Ok(match *method {
        Method::GET if name.is_empty() => "list",
        Method::GET => "get",
        Method::PUT => "update",
        Method::POST => "create",
        Method::PATCH => "patch",
        Method::DELETE if name.is_empty() => "deletecollection",
        Method::DELETE => "delete",
        _ => return Err(Refusal::method("GET and PUT")),
    })
}
