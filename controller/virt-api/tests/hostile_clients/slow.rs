//! Heads and bodies that never end, and slow clients.

use crate::client::{answer, ended, head, say};
use crate::scene::{ANN, SUBRESOURCES, Scene};
use futures_util::future::join_all;
use std::time::Duration;

/// Limit on virt-api's memory, in KiB.
const MEMORY: u64 = 100 << 10;

#[tokio::test]
async fn heads_and_bodies_without_end_are_cut_off_and_cost_nothing() {
    let scene = Scene::begin().await;
    let start = format!("{SUBRESOURCES}/virtualmachines/web/start");
    let chunked = head("PUT", &start, ANN, "transfer-encoding: chunked\r\n");
    let half = format!("PUT {start} HTTP/1.1\r\nhost: a\r\nx-remote-user: {ANN}\r\n");
    // The start of the request, the repeated part, and the permitted statuses of a response.
    let cases: [(&str, String, String, &[u16]); 6] = [
        ("a line of a head", format!("{half}x: "), "a".repeat(1 << 10), &[431]),
        ("lines of a head", half.clone(), "x: a\r\n".repeat(200), &[431]),
        ("a path", "PUT /".to_owned(), "a".repeat(1 << 10), &[400, 414, 431]),
        ("a body", chunked.clone(), format!("400\r\n{}\r\n", " ".repeat(0x400)), &[400]),
        ("words about a chunk", format!("{chunked}1;"), "a".repeat(1 << 10), &[400, 503]),
        ("lines behind a body", format!("{chunked}0\r\n"), "x: a\r\n".repeat(200), &[202, 400, 503]),
    ];
    for (what, begins, again, statuses) in cases {
        scene.halts();
        let mut connection = scene.aggregator().connect().await;
        say(&mut connection, begins.as_bytes()).await.unwrap();
        // Up to the server's limit; 64 MiB are over every limit.
        let mut taken = 0_usize;
        while taken < 64 << 20 && say(&mut connection, again.as_bytes()).await.is_ok() {
            taken += again.len();
        }
        assert!(taken < 64 << 20, "{what} without end is taken");
        // A client that keeps sending may miss the refusal, because TCP drops it.
        if let Ok(said) = answer(&mut connection).await {
            assert!(statuses.contains(&said.status), "{what}: {said:?}");
        }
    }
    for size in [(64 << 10) + 1, usize::MAX >> 1] {
        let text = head("PUT", &start, ANN, &format!("content-length: {size}\r\n"));
        let refused = scene.says(&text).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body.contains("a body has at most 64 KiB"), "{refused:?}");
    }
    let memory = scene.program.most_memory();
    assert!(memory < MEMORY, "{memory} KiB");
    scene.start("requests without end").await;
}

/// virt-api ends them after its own time-out, with a response if the client can receive one.
#[tokio::test]
async fn clients_that_take_their_time_hold_up_nobody() {
    let scene = Scene::begin().await;
    let (aggregator, stranger) = (scene.aggregator(), scene.stranger());
    let start = format!("{SUBRESOURCES}/virtualmachines/web/start");
    let connect = |client: crate::client::Client, text: String| async move {
        let mut connection = client.connect().await;
        say(&mut connection, text.as_bytes()).await.unwrap();
        connection
    };
    let (mut heads, mut bodies) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let half = format!("PUT {start} HTTP/1.1\r\nhost: a\r\nx-remote-user: {ANN}\r\nx: ");
        heads.extend(join_all((0..10).map(|_| connect(stranger.clone(), half.clone()))).await);
        let announced = head("PUT", &start, ANN, "content-length: 100\r\n") + "{";
        bodies.extend(join_all((0..5).map(|_| connect(aggregator.clone(), announced.clone()))).await);
    }
    // This client sends the size of a chunk, as long as the limit permits.
    let mut zeros = connect(aggregator, head("PUT", &start, ANN, "transfer-encoding: chunked\r\n")).await;
    scene.start("200 half heads and 100 bodies that do not come").await;
    while say(&mut zeros, &[b'0'; 100]).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for connection in &mut bodies {
        let said = answer(connection).await.unwrap();
        assert_eq!(said.status, 503, "{said:?}");
        assert!(said.body.contains("the body did not come within 10s"), "{said:?}");
    }
    for connection in &mut heads {
        ended(connection).await;
    }
    let memory = scene.program.most_memory();
    assert!(memory < MEMORY, "{memory} KiB");
}
