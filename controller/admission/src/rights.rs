//! virt-api asks the API server for what it declares, and nothing else. It writes nothing: a review that it creates is a
//! question.

#[cfg(test)]
mod tests {
    use crate::live::Live;
    use crate::routes::Routes;
    use crate::workloads::tests::deletion;
    use kit::Asked;
    use kubernetes::objects::Program;
    use kubernetes::objects::rights::each;
    use kubernetes::webhooks::Webhook;
    use serve::health::Health;
    use std::sync::Arc;

    #[tokio::test]
    async fn every_right_is_used_and_no_other() {
        let server = Asked::begin().await;
        let live = Arc::new(Live::new("kubevirt", Arc::default()));
        let task = tokio::spawn(Arc::clone(&live).keep(server.client.clone()));
        let routes = Routes::new(live, Health::default(), server.client.clone());
        assert!(
            serve::authentication::Gate::new(server.client.clone())
                .may_read(
                    &kit::monitors_request(),
                    serve::transport::Peer::of(std::net::Ipv4Addr::LOCALHOST.into())
                )
                .await
                .is_ok()
        );
        // The one review for which something has to be asked.
        let hook = Webhook::at("/kubevirt-validate-delete").unwrap();
        let answer = routes.answer_to(hook, deletion(), false).await;
        assert!(answer.status().is_success(), "{answer:?}");
        server.until(&each(Program::Api).collect()).await;
        task.abort();
        server.kept_to(Program::Api);
        assert_eq!(server.rights(), each(Program::Api).collect());
    }
}
