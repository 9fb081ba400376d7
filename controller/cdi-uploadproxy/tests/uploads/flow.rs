//! Flow control: a pod that reads nothing slows down its client, and many uploads take little memory.

use crate::client::head;
use crate::pod::Manner;
use crate::scene::{Scene, token};
use cluster_model::uploads::POD_READY;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const PIECE: usize = 64 << 10;

/// Unread bytes stay with the client: the proxy and the kernel's buffers hold some MiB.
#[tokio::test]
async fn a_pod_that_takes_nothing_holds_its_client_back() {
    let scene = Scene::keeping(false).await;
    scene.pod.does(Manner::Waits(1 << 20));
    let size = 256 << 20;
    let mut connection = scene.client.connect().await;
    connection.says(scene.head("POST", "/v1beta1/upload", &format!("content-length: {size}\r\n"))).await;
    let sent = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&sent);
    let sends = tokio::spawn(async move {
        for _ in 0..size / PIECE {
            connection.says(vec![7; PIECE]).await;
            count.fetch_add(PIECE, Ordering::Relaxed);
        }
        connection.answer().await
    });
    scene.pod.until(|seen| seen.bytes >= 1 << 20).await;
    // Sends until no more is accepted.
    let mut before = 0;
    while sent.load(Ordering::Relaxed) != before {
        before = sent.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(before < 64 << 20, "{} MiB were taken of the client, and the pod has one", before >> 20);
    let memory = scene.program.most_memory();
    eprintln!("{} MiB on their way; memory {} MiB", before >> 20, memory >> 10);
    assert!(memory < 48 << 10, "{memory} KiB");
    scene.pod.lets(1);
    assert_eq!(sends.await.unwrap().status, 200);
    assert_eq!(scene.pod.seen().bytes, size);
}

#[tokio::test]
async fn fifty_uploads_take_as_much_memory_as_their_buffers() {
    const MANY: usize = 50;
    const SIZE: usize = 8 << 20;
    let scene = Scene::keeping(false).await;
    // All uploads are running before any ends.
    scene.pod.does(Manner::Waits(1 << 20));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..MANY {
        let name = format!("disk-{number}");
        scene.pvc(&name, &[(POD_READY, "true")]);
        let text = head("POST", "/v1beta1/upload", &token(&name), &format!("content-length: {SIZE}\r\n"));
        let client = scene.client.clone();
        tasks.spawn(async move {
            let mut connection = client.connect().await;
            connection.says(text).await;
            for _ in 0..SIZE / PIECE {
                connection.says(vec![7; PIECE]).await;
            }
            connection.answer().await.status
        });
    }
    scene.pod.until(|seen| seen.bytes >= MANY << 20).await;
    scene.pod.lets(MANY);
    assert!(tasks.join_all().await.into_iter().all(|status| status == 200));
    assert_eq!(scene.pod.seen().bytes, MANY * SIZE);
    let memory = scene.program.most_memory();
    eprintln!("{MANY} uploads at once: {} MiB", memory >> 10);
    assert!(memory < 80 << 10, "{memory} KiB");
}

/// The pod of one PVC accepts one upload at a time: more than a few concurrent requests are refused.
#[tokio::test]
async fn one_pvc_takes_no_places_of_the_others() {
    let scene = Scene::begin().await;
    scene.pod.does(Manner::Waits(1));
    let mut held = Vec::new();
    for count in 1..=4 {
        let mut connection = scene.client.connect().await;
        connection.says(scene.head("POST", "/v1beta1/upload", "content-length: 5\r\n") + "h").await;
        scene.pod.until(|seen| seen.bytes == count).await;
        held.push(connection);
    }
    let answer = scene.client.says(scene.head("HEAD", "/v1beta1/upload-async", "").as_bytes()).await;
    assert_eq!(answer.status, 503);
    assert!(answer.head.contains("\r\nretry-after: 1\r\n"), "{}", answer.head);
    scene.pvc("other", &[(POD_READY, "true")]);
    let text = head("HEAD", "/v1beta1/upload-async", &token("other"), "");
    assert_eq!(scene.client.says(text.as_bytes()).await.status, 200);
    scene.pod.lets(4);
    for mut connection in held {
        connection.says("ello").await;
        assert_eq!(connection.answer().await.status, 200);
    }
    assert_eq!(
        scene.client.says(scene.head("HEAD", "/v1beta1/upload-async", "").as_bytes()).await.status,
        200
    );
}
