//! SubjectAccessReview: asks the API server whether somebody may read metrics.

use crate::objects::{About, Scope, Use};

pub(crate) const ABOUT: About = About {
    scope: Scope::Cluster,
    controller: Use::ASKS,
    api: Use::ASKS,
    handler: Use::ASKS,
    ..About::named("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews")
};
