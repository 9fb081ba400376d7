//! Broken connections: the other end is closed at once, and a partial body is never taken for a complete one.

use crate::pod::{Manner, ok};
use crate::scene::{Scene, bytes};
use std::time::Instant;
use tokio::io::AsyncWriteExt as _;

const LENGTH: &str = "content-length: 10485760\r\n";
const CHUNKED: &str = "transfer-encoding: chunked\r\n";

/// Half of a body, with `Content-Length` and chunked.
fn half(framing: &str) -> Vec<u8> {
    let piece = bytes(1 << 20);
    match framing == CHUNKED {
        true => [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat(),
        false => piece,
    }
}

#[tokio::test]
async fn a_client_that_breaks_off_leaves_no_pod_waiting_and_no_part_is_whole() {
    let scene = Scene::begin().await;
    let mut broken = 0;
    for framing in [LENGTH, CHUNKED] {
        for orderly in [true, false] {
            let mut connection = scene.client.connect().await;
            connection.says(scene.head("POST", "/v1beta1/upload", framing)).await;
            connection.says(half(framing)).await;
            let before = scene.pod.seen().bytes;
            scene.pod.until(|seen| seen.bytes >= (broken + 1) << 20).await;
            let since = Instant::now();
            if orderly {
                // A clean end of TLS is not the end of the body.
                connection.stream.shutdown().await.unwrap();
            }
            drop(connection);
            broken += 1;
            let seen = scene.pod.until(|seen| seen.broken == broken).await;
            eprintln!("{framing:?} {orderly}, {before} bytes: after {:?}", since.elapsed());
            assert_eq!(seen.whole, 0, "a part was taken for the whole");
        }
    }
    // The place of the upload is free again.
    let text = scene.head("POST", "/v1beta1/upload", "content-length: 5\r\n") + "hello";
    assert_eq!(scene.client.says(text.as_bytes()).await.status, 200);
}

/// A client that has sent everything and leaves before the conversion ends: the connection to the pod is
/// closed.
#[tokio::test]
async fn a_client_that_does_not_wait_for_the_answer_ends_its_request() {
    let scene = Scene::begin().await;
    scene.pod.does(Manner::Thinks);
    let mut connection = scene.client.connect().await;
    connection.says(scene.head("POST", "/v1beta1/upload", "content-length: 5\r\n") + "hello").await;
    scene.pod.until(|seen| seen.whole == 1).await;
    drop(connection);
    scene.pod.until(|seen| seen.broken == 1).await;
}

#[tokio::test]
async fn a_pod_that_breaks_off_is_told_to_the_client() {
    let scene = Scene::begin().await;
    for framing in [LENGTH, CHUNKED] {
        scene.pod.does(Manner::Breaks(100_000));
        let mut connection = scene.client.connect().await;
        connection.says(scene.head("POST", "/v1beta1/upload", framing)).await;
        connection.says(half(framing)).await;
        let answer = connection.answer().await;
        assert_eq!(answer.status, 502, "{answer:?}");
        assert!(
            answer.body.starts_with("error in upload-proxy: the connection to the upload pod broke"),
            "{answer:?}"
        );
    }
    scene.pod.does(Manner::Takes(ok()));
    let text = scene.head("POST", "/v1beta1/upload", "content-length: 5\r\n") + "hello";
    assert_eq!(scene.client.says(text.as_bytes()).await.status, 200);
}

/// A pod that has the complete body and never answers: the client gets an error, and the place is free again.
#[tokio::test]
async fn a_pod_that_never_answers_is_not_waited_for_without_end() {
    let scene = Scene::saying(true, &["--patience", "1"]).await;
    scene.pod.does(Manner::Thinks);
    let chunked = scene.head("POST", "/v1beta1/upload", CHUNKED) + "5\r\nhello\r\n0\r\n\r\n";
    let sized = scene.head("POST", "/v1beta1/upload", "content-length: 5\r\n") + "hello";
    for (count, text) in [chunked, sized].into_iter().enumerate() {
        let answer = scene.client.says(text.as_bytes()).await;
        assert_eq!(answer.status, 504, "{answer:?}");
        let said = "error in upload-proxy: the upload pod of PVC disk did not answer within 1 s after the whole body";
        assert!(answer.body.starts_with(said), "{answer:?}");
        scene.pod.until(|seen| (seen.whole, seen.broken) == (count + 1, count + 1)).await;
    }
}
