//! Test that the requests of virt-api to the API server match its declared rights. The aggregated API's
//! package has its own test of the rights that it declares.

#[cfg(test)]
mod tests {
    use crate::evictions::tests::{eviction, objects, peer};
    use crate::live::Live;
    use crate::routes::Routes;
    use crate::workloads::tests::deletion;
    use cluster_model::objects::Program;
    use cluster_model::objects::rights::all_rights;
    use cluster_model::webhooks::Webhook;
    use kit::ApiServer;
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

    /// The review of a migration of the VMI whose pod is evicted.
    fn migration() -> String {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "1", "operation": "CREATE", "namespace": "n", "kind": {"kind": "VirtualMachineInstanceMigration"},
                "object": {"spec": {"vmiName": "web"}}, "userInfo": {"username": "somebody"},
            },
        });
        review.to_string()
    }

    #[tokio::test]
    async fn every_right_is_used_and_no_other() {
        let server = ApiServer::default();
        let live = Arc::new(Live::new("kubevirt", Arc::default()));
        let task = tokio::spawn(Arc::clone(&live).keep(server.client()));
        let routes = Routes::new(live, Health::default(), server.client(), server.client());
        assert!(
            serve::authentication::Gate::new(server.client())
                .check_access(
                    &kit::monitors_request(),
                    serve::transport::Peer::of(std::net::Ipv4Addr::LOCALHOST.into())
                )
                .await
                .is_ok()
        );
        // Reviews that need requests to the API server. The first one finds no workload, and asks about all kinds.
        let review = async |path: &str, review: String| {
            let answer = routes.answer_to(Webhook::find_by_path(path).unwrap(), peer(1), review, false).await;
            assert!(answer.status().is_success(), "{path}: {answer:?}");
        };
        review("/kubevirt-validate-delete", deletion()).await;
        objects("External").into_iter().for_each(|(path, object)| server.put(&path, object));
        review("/pod-eviction-validate", eviction(false)).await;
        review("/datavolume-mutate", clone()).await;
        review("/migration-validate-create", migration()).await;
        let (all, asked) =
            (all_rights(Program::Api).collect::<BTreeSet<_>>(), BTreeSet::from(subresources::RIGHTS));
        server.until_used(&(&all - &asked)).await;
        task.abort();
        server.kept_to(Program::Api);
        assert_eq!(&server.rights() | &asked, all);
    }
}
