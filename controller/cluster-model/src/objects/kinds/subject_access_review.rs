//! SubjectAccessReview: asks the API server whether a user may read metrics.

use crate::objects::About;

pub(crate) const ABOUT: About =
    About::review("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews");
