//! Detects another CDI operator in this cluster (upstream's). Two operators that fill the same DataVolumes
//! would fight.
//!
//! | sign | set by |
//! |---|---|
//! | the APIService of upload tokens leads to a service `cdi-api` | every version of upstream's makes it, and puts it back |
//! | a CDI object has the finalizer `operator.cdi.kubevirt.io` | upstream's operator adds it to an object that it manages |
//!
//! **Caveats.** An operator that went without its CDI object leaves the finalizer behind: the message says which object.

use cluster_model::objects::{UPLOADS, World};

/// The service of upstream's API server.
const SERVICE: &str = "cdi-api";
/// The finalizer of upstream's operator.
const FINALIZER: &str = "operator.cdi.kubevirt.io";

/// The sign of another CDI operator in the cluster, if any, as the beginning of a message.
pub(crate) fn other_operator(world: &World) -> Option<String> {
    let service = world.api_services.get("", UPLOADS).map(|object| &object.object["spec"]["service"]);
    if let Some(service) = service.filter(|service| service["name"] == SERVICE) {
        let namespace = service["namespace"].as_str().unwrap_or_default();
        return Some(format!(
            "another CDI operator works in this cluster: the APIService {UPLOADS} points to its service \
             {namespace}/{SERVICE}"
        ));
    }
    let held = world.cdis.all().find(|object| object.meta.finalizers.iter().any(|name| name == FINALIZER))?;
    let name = held.meta.name.as_deref().unwrap_or_default();
    Some(format!("another CDI operator works in this cluster: CDI {name} has its finalizer {FINALIZER}"))
}
