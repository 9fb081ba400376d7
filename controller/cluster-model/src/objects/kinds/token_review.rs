//! TokenReview: asks the API server whose token somebody shows.

use crate::objects::About;

pub(crate) const ABOUT: About = About::question("authentication.k8s.io/v1", "TokenReview", "tokenreviews");
