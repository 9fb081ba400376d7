//! TokenReview: asks the API server for the user of a token.

use crate::objects::About;

pub(crate) const ABOUT: About = About::review("authentication.k8s.io/v1", "TokenReview", "tokenreviews");
