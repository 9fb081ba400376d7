//! What `virt-api` reads: its roles are made from this. It writes nothing: a review that it creates is a question.

use crate::cluster::certificates;
use crate::kind::Kind;
use crate::rights::{Grant, Named};

/// What it may do.
pub const RIGHTS: &[Grant] = &[
    (Kind::KubeVirt, None, &["list", "watch"]),
    // Its own certificate.
    (Kind::Secret, None, &["list", "watch"]),
    // Whether any is left, when the installation is to be deleted.
    (Kind::Machine, None, &["list"]),
    (Kind::Instance, None, &["list"]),
    (Kind::ReplicaSet, None, &["list"]),
    // Who may read what it measures.
    (Kind::TokenReview, None, &["create"]),
    (Kind::AccessReview, None, &["create"]),
];

/// Its own certificate, and no other secret of the namespace: the authority's key is among them.
pub const NAMED: &[Named] = &[(Kind::Secret, &[certificates::API.secret])];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;
    use crate::rights::each;
    use crate::serve::admission::hooks::Hook;
    use crate::serve::live::Live;
    use crate::serve::routes::Routes;
    use crate::serve::workloads::tests::deletion;
    use crate::tests::asked::Asked;
    use std::sync::Arc;

    #[tokio::test]
    async fn every_right_is_used_and_no_other() {
        let server = Asked::begin().await;
        let live = Arc::new(Live::new("kubevirt", Arc::default()));
        let task = tokio::spawn(Arc::clone(&live).keep(server.client.clone()));
        let routes = Routes::new(live, Health::default(), server.client.clone());
        assert!(crate::tests::asked::reads_measures(&server.client).await);
        // The one review for which something has to be asked.
        let hook = Hook::at("/kubevirt-validate-delete").unwrap();
        let answer = routes.answer_to(hook, deletion(), false).await;
        assert!(answer.status().is_success(), "{answer:?}");
        server.until(&each(RIGHTS).collect()).await;
        task.abort();
        server.kept_to(NAMED);
        assert_eq!(server.rights(), each(RIGHTS).collect());
    }
}
