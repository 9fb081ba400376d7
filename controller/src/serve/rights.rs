//! virt-api asks the API server for what it declares, and nothing else. It writes nothing: a review that it creates is a
//! question.

#[cfg(test)]
mod tests {
    use crate::health::Health;
    use crate::objects::Program;
    use crate::objects::rights::each;
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
        server.until(&each(Program::Api).collect()).await;
        task.abort();
        server.kept_to(Program::Api);
        assert_eq!(server.rights(), each(Program::Api).collect());
    }
}
