//! Uploads that arrive at the pod unchanged.

use crate::client::head;
use crate::pod::{Manner, ok, says};
use crate::scene::{Scene, bytes, token};
use cluster_model::uploads::{CONTENT_TYPE, POD_PHASE, POD_READY};

#[tokio::test]
async fn an_upload_comes_to_the_pod_as_it_was_sent_and_the_token_stays_here() {
    let scene = Scene::begin().await;
    let body = bytes(3 << 20);
    let more = format!(
        "content-type: application/octet-stream\r\ncookie: a=b\r\nx-forwarded-for: 10.0.0.1\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (count, path) in
        ["/v1beta1/upload", "/v1alpha1/upload", "/v1beta1/upload-form", "/v1beta1/upload-form-async"]
            .into_iter()
            .enumerate()
    {
        let answer = scene.client.says(&[scene.head("POST", path, &more).as_bytes(), &body].concat()).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{path}");
        let seen = scene.pod.until(|seen| seen.whole == count + 1).await;
        assert!(seen.last == body, "{path}: the pod has other bytes");
        let head = &seen.heads[count];
        assert!(head.starts_with(&format!("post {path} http/1.1\r\n")), "{head}");
        for line in [
            "host: cdi-upload-disk.n.svc:8443",
            "content-type: application/octet-stream",
            "content-length: 3145728",
        ] {
            assert!(head.lines().any(|other| other == line), "{line}: {head}");
        }
        for name in
            ["authorization", "bearer", "cookie", "x-forwarded-for", "connection", "transfer-encoding"]
        {
            assert!(!head.contains(name), "{name}: {head}");
        }
    }
    assert_eq!(scene.pod.seen().behind, 0);
    assert!(!scene.program.log().contains(&token("disk")[..60]), "a token is in the log");
}

#[tokio::test]
async fn a_body_without_a_length_comes_to_its_end() {
    let scene = Scene::begin().await;
    let text = scene.head("POST", "/v1beta1/upload", "transfer-encoding: chunked\r\n");
    let answer = scene
        .client
        .says(format!("{text}5\r\nhello\r\n6\r\n world\r\n0\r\nx-end: 1\r\n\r\n").as_bytes())
        .await;
    assert_eq!(answer.status, 200);
    let seen = scene.pod.until(|seen| seen.whole == 1).await;
    assert_eq!(String::from_utf8(seen.last).unwrap(), "hello world");
    assert!(
        seen.heads[0].contains("\r\ntransfer-encoding: chunked\r\n")
            && !seen.heads[0].contains("content-length")
    );
}

/// virtctl asks by HEAD whether an early answer is supported: the token is verified, and the pod is asked.
#[tokio::test]
async fn a_probe_is_the_pods_to_answer() {
    let scene = Scene::begin().await;
    let answer = scene.client.says(scene.head("HEAD", "/v1beta1/upload-async", "").as_bytes()).await;
    assert_eq!(answer.status, 200);
    let seen = scene.pod.until(|seen| seen.heads.len() == 1).await;
    assert!(seen.heads[0].starts_with("head /v1beta1/upload-async http/1.1\r\n"), "{seen:?}");
    assert!(!seen.heads[0].contains("expect"), "{seen:?}");
    let answer = scene.client.says(head("HEAD", "/v1beta1/upload-async", "a.b.c", "").as_bytes()).await;
    assert_eq!((answer.status, scene.pod.seen().heads.len()), (401, 1));
}

/// An archive is sent to a path of its own at the pod, which no client names. It has no early answer.
#[tokio::test]
async fn an_archive_goes_where_archives_go() {
    let scene = Scene::begin().await;
    scene.pvc("disk", &[(POD_READY, "true"), (CONTENT_TYPE, "archive")]);
    for (count, (sent, comes)) in [
        ("/v1beta1/upload", "/v1beta1/upload-archive"),
        ("/v1beta1/upload-async", "/v1beta1/upload-archive"),
        ("/v1alpha1/upload", "/v1alpha1/upload-archive"),
    ]
    .into_iter()
    .enumerate()
    {
        let text = scene.head("POST", sent, "content-length: 2\r\n") + "ab";
        assert_eq!(scene.client.says(text.as_bytes()).await.status, 200);
        let seen = scene.pod.until(|seen| seen.whole == count + 1).await;
        assert!(seen.heads[count].starts_with(&format!("post {comes} ")), "{:?}", seen.heads);
    }
    scene.pod.does(Manner::Refuses(says("404 Not Found", "", "")));
    let answer = scene.client.says(scene.head("HEAD", "/v1beta1/upload-async", "").as_bytes()).await;
    assert_eq!(answer.status, 404);
    let before = scene.pod.seen().heads.len();
    let text = scene.head(
        "POST",
        "/v1beta1/upload-tus",
        "tus-resumable: 1.0.0\r\nupload-length: 5\r\ncontent-length: 0\r\n",
    );
    assert_eq!(scene.client.says(text.as_bytes()).await.status, 404, "an archive is not resumed");
    let text = scene.head("POST", "/v1beta1/upload-archive", "content-length: 0\r\n");
    assert_eq!(scene.client.says(text.as_bytes()).await.status, 404);
    assert_eq!(scene.pod.seen().heads.len(), before);
}

#[tokio::test]
async fn a_resumable_upload_goes_both_ways() {
    let scene = Scene::begin().await;
    scene.pod.does(Manner::Takes(says(
        "201 Created",
        "tus-resumable: 1.0.0\r\nlocation: /v1beta1/upload-tus/5.0123456789abcdef\r\nconnection: close, x-hop\r\nx-hop: 1\r\n",
        "",
    )));
    let text = scene.head(
        "POST",
        "/v1beta1/upload-tus",
        "tus-resumable: 1.0.0\r\nupload-length: 5\r\ncontent-length: 0\r\norigin: https://console.example\r\n",
    );
    let answer = scene.client.says(text.as_bytes()).await;
    assert_eq!(answer.status, 201);
    for line in [
        "location: /v1beta1/upload-tus/5.0123456789abcdef",
        "tus-resumable: 1.0.0",
        "access-control-allow-origin: *",
    ] {
        assert!(answer.head.lines().any(|other| other == line), "{line}: {}", answer.head);
    }
    assert!(!answer.head.contains("x-hop"), "{}", answer.head);
    scene.pod.does(Manner::Takes(says("204 No Content", "upload-offset: 5\r\n", "")));
    let more = "tus-resumable: 1.0.0\r\nupload-offset: 0\r\ncontent-type: application/offset+octet-stream\r\n\
                content-length: 5\r\n";
    let text = scene.head("PATCH", "/v1beta1/upload-tus/5.0123456789abcdef", more) + "hello";
    let answer = scene.client.says(text.as_bytes()).await;
    assert_eq!(answer.status, 204);
    assert!(answer.head.contains("\r\nupload-offset: 5\r\n"), "{}", answer.head);
    let seen = scene.pod.until(|seen| seen.whole == 2).await;
    let of_pod = &seen.heads[1];
    assert!(of_pod.starts_with("patch /v1beta1/upload-tus/5.0123456789abcdef http/1.1\r\n"), "{of_pod}");
    assert!(
        of_pod.contains("\r\nupload-offset: 0\r\n") && of_pod.contains("offset+octet-stream"),
        "{of_pod}"
    );
    // A browser sends a preflight first, without a token.
    let asks = "OPTIONS /v1beta1/upload HTTP/1.1\r\nhost: a\r\norigin: https://console.example\r\n\
                access-control-request-method: POST\r\naccess-control-request-headers: authorization\r\n\r\n";
    let answer = scene.client.says(asks.as_bytes()).await;
    assert_eq!(answer.status, 204);
    assert!(answer.head.contains("\r\naccess-control-allow-headers: authorization\r\n"), "{}", answer.head);
}

/// A pod that becomes ready a moment later: the client does not notice.
#[tokio::test]
async fn a_pod_that_becomes_ready_is_waited_for() {
    let scene = Scene::begin().await;
    scene.pvc("disk", &[(POD_READY, "false"), (POD_PHASE, "Pending")]);
    let mut connection = scene.client.connect().await;
    connection.says(scene.head("POST", "/v1beta1/upload", "content-length: 2\r\n") + "ab").await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(scene.pod.seen().heads.len(), 0);
    scene.pvc("disk", &[(POD_READY, "true"), (POD_PHASE, "Running")]);
    assert_eq!(connection.answer().await.status, 200);
}

#[tokio::test]
async fn what_the_pod_says_goes_back_as_it_is() {
    let scene = Scene::begin().await;
    for (status, body) in [
        (
            "400 Bad Request",
            "Saving stream failed: effective image size is larger than the reported available storage: 5 < 7",
        ),
        ("409 Conflict", ""),
        ("500 Internal Server Error", "Saving stream failed: it's <bad>"),
        ("503 Service Unavailable", "another upload runs\n"),
    ] {
        for manner in
            [Manner::Takes(says(status, "retry-after: 1\r\n", body)), Manner::Refuses(says(status, "", body))]
        {
            scene.pod.does(manner);
            let text = scene.head("POST", "/v1beta1/upload", "content-length: 5\r\n") + "hello";
            let answer = scene.client.says(text.as_bytes()).await;
            assert_eq!((answer.status.to_string().as_str(), answer.body.as_str()), (&status[..3], body));
        }
    }
    scene.pod.does(Manner::Takes(ok()));
    // One connection serves several requests in sequence.
    let mut connection = scene.client.connect().await;
    for _ in 0..3 {
        connection.says(scene.head("POST", "/v1beta1/upload-async", "content-length: 5\r\n") + "hello").await;
        assert_eq!(connection.answer().await.status, 200);
    }
}
