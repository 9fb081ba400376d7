//! Authentication: the aggregator's headers with its certificate, and look-alike headers.

use crate::client::{Client, answer, head, say};
use crate::scene::{AGGREGATOR, ANN, SUBRESOURCES, Scene};
use rcgen::ExtendedKeyUsagePurpose::ServerAuth;
use serde_json::{Value, json};

fn start() -> String {
    format!("{SUBRESOURCES}/virtualmachines/web/start")
}

/// Asserts that there was no review and no change.
fn nothing(scene: &Scene) {
    assert_eq!(scene.api.reviews(), [] as [Value; 0]);
    assert_eq!(scene.api.patched(), [] as [String; 0]);
}

#[tokio::test]
async fn a_user_is_believed_beside_the_aggregators_certificate_alone() {
    let scene = Scene::begin().await;
    scene.halts();
    let text = head("PUT", &start(), ANN, "x-remote-group: system:masters\r\n");
    let (to, roots) = (scene.program.address, scene.ours.roots());
    // A client without a certificate gets discovery, and no user.
    let (refused, _) = scene.stranger().says(&text).await;
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(
        refused.body.contains("only the API server may make requests here, with its client certificate"),
        "{refused:?}"
    );
    // A client of the aggregation CA that is not the aggregator.
    for name in ["kubelet", "front-proxy-client.example", "FRONT-PROXY-CLIENT", ""] {
        let other = Client::new(to, scene.ours.roots(), Some(&scene.front.client(name)));
        let (refused, _) = other.says(&text).await;
        assert_eq!(refused.status, 401, "{name:?}: {refused:?}");
        assert!(refused.body.contains("is not among requestheader-allowed-names"), "{name:?}: {refused:?}");
    }
    // The right name with another CA: our own (a stolen virt-handler key), a self-made one, or a certificate
    // not for clients.
    let anybodys = crate::authority::Authority::new();
    let identities = [
        scene.ours.client(AGGREGATOR),
        anybodys.client(AGGREGATOR),
        scene.front.signs(AGGREGATOR, &[ServerAuth]),
        scene.ours.signs(crate::virt_handler::HANDLER, &[ServerAuth]),
    ];
    for identity in identities {
        let client = Client::new(to, roots.clone(), Some(&identity));
        // With TLS 1.3 the client sees the rejection after its own handshake.
        let said = async {
            let mut connection = client.try_connect().await?;
            say(&mut connection, text.as_bytes()).await?;
            answer(&mut connection).await
        };
        assert!(said.await.is_err(), "it was let in");
    }
    nothing(&scene);
    scene.start("certificates of others").await;
}

#[tokio::test]
async fn a_user_who_is_named_twice_is_nobody() {
    let scene = Scene::begin().await;
    scene.halts();
    for more in [
        "x-remote-user: root\r\n",
        "X-Remote-User: ann\r\n",
        "X-REMOTE-USER: \r\n",
        "x-remote-uid: 1\r\nX-Remote-Uid: 2\r\n",
    ] {
        let refused = scene.says(&head("PUT", &start(), ANN, more)).await;
        assert_eq!(refused.status, 401, "{more:?}: {refused:?}");
        assert!(refused.body.contains("more than once"), "{more:?}: {refused:?}");
        // An empty header does not permit another one.
        let refused = scene.says(&head("PUT", &start(), "", more)).await;
        assert_eq!(refused.status, 401, "{more:?}: {refused:?}");
    }
    nothing(&scene);
    scene.start("users with two names").await;
}

#[tokio::test]
async fn headers_that_look_like_the_aggregators_name_nobody() {
    let scene = Scene::begin().await;
    scene.halts();
    let group = "x-remote-group: system:authenticated\r\n";
    let lookalikes = "X_Remote_User: root\r\nX-Remote_User: root\r\nX-Remote-User-: root\r\nX-Remote-Users: root\r\n\
        XX-Remote-User: root\r\nX-Remote-User.: root\r\nRemote-User: root\r\nImpersonate-User: root\r\n\
        X-Forwarded-User: root\r\nX_Remote_Group: system:masters\r\nX-Remote-Groups: system:masters\r\n\
        Impersonate-Group: system:masters\r\nX-Remote-Extra: a\r\nX-Remote-Extra-: a\r\nX_Remote_Extra_a: b\r\n\
        X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\nAuthorization: Bearer root\r\n\
        Authorization: Basic cm9vdDpyb290\r\n";
    // virt-api does not apply `Connection` options of a client: the aggregator has sent the header itself.
    for more in
        [lookalikes, "Connection: X-Remote-User, X-Remote-Group\r\n", "Connection: keep-alive, te\r\n"]
    {
        let answer = scene.says(&head("PUT", &start(), ANN, &format!("{group}{more}"))).await;
        assert_eq!(answer.status, 202, "{more:?}: {answer:?}");
        let reviews = scene.api.reviews();
        assert_eq!(reviews.len(), 1);
        let who = json!({"user": ANN, "uid": null, "groups": ["system:authenticated"], "extra": {}});
        for field in ["user", "uid", "groups", "extra"] {
            assert_eq!(reviews[0][field], who[field], "{more:?}: {}", reviews[0]);
        }
        scene.halts();
        scene.api.patched();
    }
    // Alone they name no user. Invalid headers make the request invalid.
    let alone = format!("PUT {} HTTP/1.1\r\nhost: a\r\n{lookalikes}\r\n", start());
    assert_eq!(scene.says(&alone).await.status, 401);
    for wrong in [
        "x-remote-user : root",
        "x-remote-user\t: root",
        " x-remote-user: root",
        "x-remote-user",
        "x-remote-us\u{e9}r: root",
        "x-remote-user: ro\0ot",
    ] {
        let answer = scene.says(&head("PUT", &start(), ANN, &format!("{wrong}\r\n"))).await;
        assert_eq!(answer.status, 400, "{wrong:?}: {answer:?}");
    }
    // Bytes that are not text, in the user header.
    let text = head("PUT", &start(), "an\u{e9}", "");
    assert_eq!(scene.says(&text).await.status, 401);
    nothing(&scene);
}

/// A user in hundreds of directory groups: the aggregator sends a header for each, over HTTP/1.1 for a
/// websocket.
#[tokio::test]
async fn a_user_may_have_many_groups_and_not_without_end() {
    let scene = Scene::begin().await;
    scene.halts();
    let groups =
        |count: usize| -> String { (0..count).map(|at| format!("X-Remote-Group: g{at}\r\n")).collect() };
    assert_eq!(scene.says(&head("PUT", &start(), ANN, &groups(1000))).await.status, 202);
    assert_eq!(scene.api.reviews()[0]["groups"].as_array().unwrap().len(), 1000);
    scene.api.patched();
    let refused = scene.says(&head("PUT", &start(), ANN, &groups(1025))).await;
    assert_eq!((refused.status, refused.body.as_str()), (401, "the request names too many groups\n"));
    assert_eq!(scene.says(&head("PUT", &start(), ANN, &groups(3000))).await.status, 431);
    nothing(&scene);
}
