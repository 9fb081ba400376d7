//! TokenReview: asks the API server whose token somebody shows.

use crate::objects::{About, Scope, Use};

pub(crate) const ABOUT: About = About {
    scope: Scope::Cluster,
    controller: Use::ASKS,
    api: Use::ASKS,
    handler: Use::ASKS,
    ..About::named("authentication.k8s.io/v1", "TokenReview", "tokenreviews")
};
