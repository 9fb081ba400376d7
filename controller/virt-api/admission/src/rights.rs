//! Test that the requests of virt-api to the API server match its declared rights. The aggregated API's
//! package has its own test of the rights that it declares.

#[cfg(test)]
mod tests {
    use crate::evictions::tests::{eviction, objects, peer};
    use crate::live::Live;
    use crate::routes::Routes;
    use crate::workloads::tests::deletion;
    use cluster_model::objects::Program;
    use cluster_model::objects::rights::each;
    use cluster_model::webhooks::Webhook;
    use kit::Asked;
    use serde_json::json;
    use serve::health::Health;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// The review of a DataVolume that references a DataSource.
    fn clone() -> String {
        let object = json!({"spec": {"sourceRef": {"kind": "DataSource", "name": "os"}}});
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "1", "operation": "CREATE", "namespace": "n", "name": "disk", "kind": {"kind": "DataVolume"},
                "object": object, "userInfo": {"username": "somebody"},
            },
        });
        review.to_string()
    }

    #[tokio::test]
    async fn every_right_is_used_and_no_other() {
        let server = Asked::begin().await;
        let live = Arc::new(Live::new("kubevirt", Arc::default()));
        let task = tokio::spawn(Arc::clone(&live).keep(server.client.clone()));
        let routes = Routes::new(live, Health::default(), server.client.clone(), server.client.clone());
        assert!(
            serve::authentication::Gate::new(server.client.clone())
                .may_read(
                    &kit::monitors_request(),
                    serve::transport::Peer::of(std::net::Ipv4Addr::LOCALHOST.into())
                )
                .await
                .is_ok()
        );
        // Reviews that need requests to the API server.
        objects("External").into_iter().for_each(|(path, object)| server.has(&path, object));
        for (path, review) in [
            ("/kubevirt-validate-delete", deletion()),
            ("/pod-eviction-validate", eviction(false)),
            ("/datavolume-mutate", clone()),
        ] {
            let answer = routes.answer_to(Webhook::at(path).unwrap(), peer(1), review, false).await;
            assert!(answer.status().is_success(), "{path}: {answer:?}");
        }
        let (all, asked) =
            (each(Program::Api).collect::<BTreeSet<_>>(), BTreeSet::from(subresources::RIGHTS));
        server.until(&(&all - &asked)).await;
        task.abort();
        server.kept_to(Program::Api);
        assert_eq!(&server.rights() | &asked, all);
    }
}
