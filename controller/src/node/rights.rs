//! The fields that the agent of a node writes; and that it asks the API server for what it declares, and nothing else.

/// The fields of an instance's status that it tells; the others are virt-controller's.
pub const STATUS: [&str; 9] = [
    "conditions",
    "guestOSInfo",
    "interfaces",
    "machine",
    "memory",
    "phase",
    "phaseTransitionTimestamps",
    "reason",
    "volumeStatus",
];

#[cfg(test)]
mod tests {
    use crate::api_server::Writer;
    use crate::api_server::watch::follow;
    use crate::node::blocking::Blocking;
    use crate::node::labels::Labeller;
    use crate::node::vmi::apply::Cluster as _;
    use crate::node::vmi::decide::Event;
    use crate::node::vmi::watch::which;
    use crate::objects::rights::each;
    use crate::objects::{HANDLER_CERTIFICATE, Home, Program};
    use crate::serve::certificate;
    use crate::tests::asked::Asked;
    use api::meta::ObjectMeta;
    use serde_json::json;

    /// All of virt-handler that has a client.
    #[tokio::test]
    async fn every_right_is_used_and_no_other() {
        let server = Asked::begin().await;
        server.has("/api/v1/nodes/node1", json!({"metadata": {"name": "node1"}}));
        let path = "/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstances/web";
        server.has(path, json!({"metadata": {"name": "web"}}));
        let findings = tempfile::tempdir().unwrap();
        let writer = Writer::on_node(server.client.clone(), "virt-handler", "node1");
        let node = "node1".to_owned();
        let (findings, blocking) = (findings.path().to_owned(), Blocking::new("the node", 1));
        Labeller { writer: writer.clone(), node, findings, blocking }.write(true).await.unwrap();
        let meta =
            ObjectMeta { name: Some("web".into()), namespace: Some("n".into()), ..ObjectMeta::default() };
        writer.change(&meta, &json!({"status": {"reason": null}})).await.unwrap();
        writer.tell(&meta, &Event::normal("Started", "VirtualMachineInstance started.")).await;
        let (to, mut seen) = tokio::sync::mpsc::channel(3);
        let tasks: Vec<_> = which(&Home { node: "node1".into(), namespace: "kubevirt".into() })
            .into_iter()
            .map(|which| tokio::spawn(follow(server.client.clone(), which, to.clone())))
            .collect();
        let follows = certificate::follow(
            server.client.clone(),
            "kubevirt",
            HANDLER_CERTIFICATE,
            std::sync::Arc::default(),
        );
        assert!(crate::tests::asked::reads_measures(&server.client).await);
        let all = each(Program::Handler).collect();
        tokio::select! {
            () = follows => {}
            () = server.until(&all) => {}
        }
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        seen.close();
        server.kept_to(Program::Handler);
        assert_eq!(server.rights(), each(Program::Handler).collect());
    }
}
