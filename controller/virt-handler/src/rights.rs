//! Test that virt-handler uses exactly the API rights that it declares.

#[cfg(test)]
mod tests {
    use crate::blocking::Blocking;
    use crate::labels::Labeller;
    use crate::vmi::apply::Cluster as _;
    use crate::vmi::decide::Event;
    use crate::vmi::watch::FOLLOWED;
    use api::meta::ObjectMeta;
    use cluster_client::Writer;
    use cluster_client::watch::follow;
    use cluster_model::objects::rights::all_rights;
    use cluster_model::objects::{HANDLER_CERTIFICATE, Home, Program};
    use kit::ApiServer;
    use serde_json::json;
    use serve::certificate;

    /// All parts of virt-handler that have a client.
    #[tokio::test]
    async fn every_right_is_used_and_no_other() {
        let server = ApiServer::default();
        server.put("/api/v1/nodes/node1", json!({"metadata": {"name": "node1"}}));
        let path = "/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstances/web";
        server.put(path, json!({"metadata": {"name": "web"}}));
        let findings = tempfile::tempdir().unwrap();
        let writer = Writer::on_node(server.client(), "virt-handler", "node1");
        let node = "node1".to_owned();
        let (findings, blocking) = (findings.path().to_owned(), Blocking::new("the node", 1));
        let kubelet = findings.clone();
        let (_told, settings) = tokio::sync::watch::channel(None);
        let labels = tokio::sync::watch::Sender::default();
        let labeller =
            Labeller { writer: writer.clone(), node, findings, kubelet, blocking, settings, labels };
        labeller.write(true).await.unwrap();
        let meta =
            ObjectMeta { name: Some("web".into()), namespace: Some("n".into()), ..ObjectMeta::default() };
        writer.change(&meta, &json!({"status": {"reason": null}})).await.unwrap();
        writer.record_event(&meta, &Event::normal("Started", "VirtualMachineInstance started.")).await;
        let (to, mut seen) = tokio::sync::mpsc::channel(8);
        let home = Home { node: "node1".into(), namespace: "kubevirt".into() };
        let tasks: Vec<_> = FOLLOWED
            .iter()
            .flat_map(|kind| kind.followed_by(Program::Handler, &home))
            .map(|which| tokio::spawn(follow(server.client(), which, to.clone())))
            .collect();
        let follows =
            certificate::follow(server.client(), "kubevirt", HANDLER_CERTIFICATE, std::sync::Arc::default());
        let authorities = std::sync::Arc::default();
        let believes = certificate::follow_authorities(server.client(), "kubevirt", authorities);
        assert!(
            serve::authentication::Gate::new(server.client())
                .check_access(
                    &kit::monitors_request(),
                    serve::transport::Peer::of(std::net::Ipv4Addr::LOCALHOST.into())
                )
                .await
                .is_ok()
        );
        let all = all_rights(Program::Handler).collect();
        tokio::select! {
            () = follows => {}
            () = believes => {}
            () = server.until_used(&all) => {}
        }
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        seen.close();
        server.kept_to(Program::Handler);
        assert_eq!(server.rights(), all_rights(Program::Handler).collect());
    }
}
