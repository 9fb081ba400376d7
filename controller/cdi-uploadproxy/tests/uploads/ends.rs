//! End of the program: running uploads continue, and no new ones begin.

use crate::pod::Manner;
use crate::scene::Scene;

#[tokio::test]
async fn an_upload_under_way_goes_on_when_the_program_is_to_end() {
    let mut scene = Scene::begin().await;
    scene.pod.does(Manner::Waits(5));
    let mut connection = scene.client.connect().await;
    connection.says(scene.head("POST", "/v1beta1/upload", "content-length: 11\r\n") + "hello").await;
    scene.pod.until(|seen| seen.bytes == 5).await;
    scene.program.terminate();
    // The program answers for a few more seconds, until every client knows; then it accepts no connections.
    while scene.client.try_connect().await.is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(!scene.program.has_ended(), "an upload is under way: {}", scene.program.log());
    scene.pod.lets(1);
    connection.says(" world").await;
    let answer = connection.answer().await;
    assert_eq!(answer.status, 200);
    assert_eq!(scene.pod.seen().last, b"hello world");
    assert!(scene.program.ended().await.success(), "{}", scene.program.log());
}

/// Health endpoints are open to all; metrics only to clients that the API server permits.
#[tokio::test]
async fn it_says_that_it_lives_and_tells_nobody_what_it_measures() {
    let scene = Scene::begin().await;
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 401), ("/", 200), ("/x", 404)] {
        let text = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(scene.client.says(text.as_bytes()).await.status, status, "{path}");
    }
}
