//! Refused uploads: no token, another PVC's token, or a PVC that accepts no upload.

use crate::authority::Authority;
use crate::client::head;
use crate::pod::{Manner, PODS, Pod, says};
use crate::scene::{Authorities, KEY, OTHER_KEY, OTHER_PUBLIC, PUBLIC, Scene, ago, by, token};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cluster_model::uploads::{CONTENT_TYPE, POD_PHASE, POD_READY, PUBLIC_KEY};
use jiff::Timestamp;
use rcgen::ExtendedKeyUsagePurpose::ServerAuth;
use serde_json::json;
use serve::token::Claims;

/// Each refusal comes before the body is asked for: a client that waits for `100 Continue` sends nothing.
#[tokio::test]
async fn without_a_good_token_no_byte_of_the_body_is_read() {
    let scene = Scene::begin().await;
    let good = token("disk");
    let parts: Vec<&str> = good.split('.').collect();
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let none = format!("{}.{}.", encode(r#"{"alg":"none"}"#), parts[1]);
    let confused = {
        let signed = format!("{}.{}", encode(r#"{"alg":"HS256"}"#), parts[1]);
        format!("{signed}.{}", parts[2])
    };
    let mut clone = Claims::upload("n", "disk", Timestamp::now());
    clone.operation = "Clone".into();
    let other = Claims::upload("n", "other", Timestamp::now());
    let body_of_other = encode(&serde_json::to_string(&other).unwrap());
    for (what, token, status) in [
        ("another key", by(OTHER_KEY, &Claims::upload("n", "disk", Timestamp::now())), 401),
        ("expired", by(KEY, &Claims::upload("n", "disk", ago(311))), 401),
        ("not yet valid", by(KEY, &Claims::upload("n", "disk", ago(-60))), 401),
        ("alg none", none, 401),
        ("alg HS256", confused, 401),
        ("the claims of another", format!("{}.{body_of_other}.{}", parts[0], parts[2]), 401),
        ("for a clone", by(KEY, &clone), 400),
        ("no token at all", String::new(), 400),
        ("very long", "a".repeat(9000), 401),
    ] {
        let mut connection = scene.client.connect().await;
        let more = "content-length: 1048576\r\nexpect: 100-continue\r\n";
        connection.says(head("POST", "/v1beta1/upload", &token, more)).await;
        let answer = connection.answer().await;
        assert_eq!((answer.status, answer.body.as_str()), (status, ""), "{what}: it was not 100");
        assert!(answer.head.contains("\r\nwww-authenticate: bearer error="), "{what}: {}", answer.head);
    }
    for text in
        ["authorization: Basic YTpi\r\n", "", "authorization: Bearer a\r\nauthorization: Bearer b\r\n"]
    {
        let text = format!("POST /v1beta1/upload HTTP/1.1\r\nhost: a\r\n{text}content-length: 0\r\n\r\n");
        assert_eq!(scene.client.says(text.as_bytes()).await.status, 400, "{text}");
    }
    assert_eq!(scene.pod.seen().heads.len(), 0);
}

/// A client that does not wait is answered at once, and can read the answer although it goes on sending.
#[tokio::test]
async fn a_client_that_sends_without_waiting_reads_its_refusal() {
    let scene = Scene::begin().await;
    let mut connection = scene.client.connect().await;
    let size = 8 << 20;
    connection.says(head("POST", "/v1beta1/upload", "a.b.c", &format!("content-length: {size}\r\n"))).await;
    // Sent completely: if the connection were closed at once, a write would fail or the answer be lost.
    for _ in 0..size >> 16 {
        connection.says(vec![0; 64 << 10]).await;
    }
    assert_eq!(connection.answer().await.status, 401);
    assert_eq!(scene.pod.seen().heads.len(), 0);
}

#[tokio::test]
async fn a_pvc_that_takes_no_upload_is_named() {
    let scene = Scene::begin().await;
    scene.pvc("whole", &[(POD_READY, "false"), (POD_PHASE, "Succeeded")]);
    scene.pvc("odd", &[(POD_READY, "true"), (CONTENT_TYPE, "<b>")]);
    for (pvc, said) in [
        ("gone", "rejecting Upload Request for PVC gone that doesn&#39;t exist"),
        ("whole", "rejecting Upload Request for PVC whole that already finished uploading"),
        ("odd", "rejecting upload request for PVC odd - upload content-type &lt;b&gt; is invalid"),
    ] {
        let more = "content-length: 1048576\r\nexpect: 100-continue\r\n";
        let answer = scene.client.says(head("POST", "/v1beta1/upload", &token(pvc), more).as_bytes()).await;
        assert_eq!((answer.status, answer.body.as_str()), (503, said));
    }
    assert_eq!(scene.pod.seen().heads.len(), 0);
    // A PVC that never becomes ready: the answer gives the waiting time and the reason.
    scene.has("plain", &json!({}));
    scene.pvc("waits", &[(POD_READY, "false"), (POD_PHASE, "Pending")]);
    let asks = |pvc: &'static str| {
        let text = head("HEAD", "/v1beta1/upload-async", &token(pvc), "");
        let client = scene.client.clone();
        async move { client.says(text.as_bytes()).await.status }
    };
    assert_eq!(tokio::join!(asks("plain"), asks("waits")), (503, 503));
    let log = scene.program.log();
    let said = "timed out waiting for the condition: within 10 s the upload pod of PVC waits was not ready (phase Pending)";
    assert!(log.contains(&said.replace('\'', "&#39;")), "{log}");
}

/// A pod that refuses at once: the client does not send the body.
#[tokio::test]
async fn a_pod_that_has_no_use_for_the_body_is_heard_first() {
    let scene = Scene::begin().await;
    scene.pod.does(Manner::Refuses(says("409 Conflict", "", "the disk is whole\n")));
    let mut connection = scene.client.connect().await;
    let more = "content-length: 1048576\r\nexpect: 100-continue\r\n";
    connection.says(scene.head("POST", "/v1beta1/upload", more)).await;
    let answer = connection.answer().await;
    assert_eq!((answer.status, answer.body.as_str()), (409, "the disk is whole\n"));
    // A pod that wants the body sends `100 Continue` first.
    scene.pod.does(Manner::Takes(crate::pod::ok()));
    let mut connection = scene.client.connect().await;
    connection
        .says(scene.head("POST", "/v1beta1/upload", "content-length: 5\r\nexpect: 100-continue\r\n"))
        .await;
    assert_eq!(connection.answer().await.status, 100);
    connection.says("hello").await;
    assert_eq!(connection.answer().await.status, 200);
}

/// A pod with another name or authority in its certificate gets no byte, even at the right address.
#[tokio::test]
async fn nobody_is_taken_for_the_pod_who_cannot_prove_it() {
    for of_another_name in [true, false] {
        let all = Authorities::new();
        let shows = match of_another_name {
            true => all.pods.signs("*.other.svc", &[ServerAuth]),
            false => Authority::new().signs(PODS, &[ServerAuth]),
        };
        let scene = Scene::with(&all, Pod::begin(&shows, &all.clients, true).await).await;
        let text = scene.head("POST", "/v1beta1/upload", "content-length: 5\r\nexpect: 100-continue\r\n");
        let answer = scene.client.says(text.as_bytes()).await;
        assert_eq!(answer.status, 502, "{answer:?}");
        // Reason and address go to the log only.
        assert_eq!(
            answer.body,
            "error in upload-proxy: the upload pod of PVC disk cannot be reached; try again"
        );
        let said = "the upload pod of PVC n/disk cannot be reached: TLS with cdi-upload-disk.n.svc:8443: ";
        assert!(scene.program.log().contains(said), "{}", scene.program.log());
        assert_eq!(scene.pod.seen().heads.len(), 0);
    }
}

/// Renewed keys need no restart: both keys are accepted for a time, then the new one alone.
#[tokio::test]
async fn a_new_key_is_believed_and_one_that_has_gone_is_not() {
    let scene = Scene::begin().await;
    let status = async |token: &str| {
        let text = head("HEAD", "/v1beta1/upload-async", token, "");
        scene.client.says(text.as_bytes()).await.status
    };
    let (old, new) = (token("disk"), by(OTHER_KEY, &Claims::upload("n", "disk", Timestamp::now())));
    assert_eq!((status(&old).await, status(&new).await), (200, 401));
    scene.program.mounts("keys", PUBLIC_KEY, &[OTHER_PUBLIC, PUBLIC].concat());
    while status(&new).await != 200 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(status(&old).await, 200);
    scene.program.mounts("keys", PUBLIC_KEY, OTHER_PUBLIC);
    while status(&old).await != 401 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // A file without a key changes nothing.
    scene.program.mounts("keys", PUBLIC_KEY, b"nothing");
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!((status(&old).await, status(&new).await), (401, 200));
}
