//! Request smuggling: requests that two programs could parse differently. The pod receives one request per
//! connection, written anew.

use crate::scene::Scene;

#[tokio::test]
async fn no_second_request_comes_to_the_pod_inside_of_another() {
    let scene = Scene::begin().await;
    let inner =
        "POST /v1beta1/upload-archive HTTP/1.1\r\nhost: cdi-upload-disk.n.svc\r\ncontent-length: 0\r\n\r\n";
    let length = inner.len();
    for (more, body) in [
        // With both lengths, the chunks count, or the request is refused.
        (format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n"), format!("0\r\n\r\n{inner}")),
        (format!("transfer-encoding: chunked\r\ncontent-length: {length}\r\n"), format!("0\r\n\r\n{inner}")),
        ("content-length: 0\r\ncontent-length: 7\r\n".to_owned(), inner.to_owned()),
        ("content-length: +0\r\n".to_owned(), inner.to_owned()),
        ("content-length: 0, 0\r\n".to_owned(), inner.to_owned()),
        ("transfer-encoding: chunked, identity\r\n".to_owned(), format!("0\r\n\r\n{inner}")),
        ("transfer-encoding: xchunked\r\n".to_owned(), format!("0\r\n\r\n{inner}")),
        ("transfer-encoding:\x0bchunked\r\n".to_owned(), format!("0\r\n\r\n{inner}")),
        ("transfer-encoding: chunked\r\n".to_owned(), format!("0;x={}\r\n\r\n{inner}", "\n0\r\n\r\n")),
        ("content-length : 0\r\n".to_owned(), inner.to_owned()),
        ("x: y\r\n content-length: 0\r\n".to_owned(), inner.to_owned()),
        // Pipelining is allowed; the second request has no token of its own and is refused.
        ("content-length: 0\r\n".to_owned(), inner.to_owned()),
        ("connection: content-length, host\r\ncontent-length: 0\r\n".to_owned(), inner.to_owned()),
        (
            "upgrade: h2c\r\nconnection: upgrade, http2-settings\r\ncontent-length: 0\r\n".to_owned(),
            inner.to_owned(),
        ),
    ] {
        let mut connection = scene.client.connect().await;
        connection.says(scene.head("POST", "/v1beta1/upload", &more) + &body).await;
        // After a malformed body the connection may end without an answer.
        if let Ok(first) = connection.try_answer().await {
            assert!([200, 400, 502].contains(&first.status), "{more:?}: {first:?}");
        }
    }
    let seen = scene.pod.seen();
    for head in &seen.heads {
        assert!(head.starts_with("post /v1beta1/upload http/1.1\r\n"), "{head}");
        assert_eq!(head.matches("http/1.1").count(), 1, "{head}");
        let framings = ["content-length", "transfer-encoding"].map(|name| head.matches(name).count());
        assert!(framings.iter().sum::<usize>() <= 1, "{head}");
        assert!(!head.contains("upgrade") && !head.contains("connection"), "{head}");
    }
    assert_eq!(seen.behind, 0, "something came behind a request");
}

#[tokio::test]
async fn a_path_names_no_other_place_of_the_pod() {
    let scene = Scene::begin().await;
    for path in [
        "/v1beta1/upload/../upload-archive",
        "/v1beta1/upload%2f..%2fupload-archive",
        "/v1beta1/upload-archive",
        "/v1/report",
        "//v1beta1/upload",
        "/v1beta1/upload-tus/../../metrics",
        "/v1beta1/upload-tus/a%0d%0ax:y",
        "http://elsewhere/v1/report",
    ] {
        let answer = scene.client.says(scene.head("POST", path, "content-length: 0\r\n").as_bytes()).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    // Query and host are not passed on.
    let text = scene.head("POST", "http://elsewhere:1/v1beta1/upload?a=b", "content-length: 0\r\n");
    assert_eq!(scene.client.says(text.as_bytes()).await.status, 200);
    let seen = scene.pod.until(|seen| seen.whole == 1).await;
    assert!(seen.heads[0].starts_with("post /v1beta1/upload http/1.1\r\n"), "{:?}", seen.heads);
    assert!(seen.heads[0].contains("\r\nhost: cdi-upload-disk.n.svc:8443\r\n"), "{:?}", seen.heads);
}
