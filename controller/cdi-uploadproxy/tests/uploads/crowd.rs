//! Limits per namespace: one namespace at its limit, and another one.

use crate::client::{Connection, head};
use crate::pod::Manner;
use crate::scene::{KEY, Scene, by, token};
use cluster_model::uploads::{POD_PHASE, POD_READY};
use jiff::Timestamp;
use serve::token::Claims;

#[tokio::test]
async fn a_namespace_at_its_limit_keeps_no_other_out() {
    let scene = Scene::begin().await;
    scene.pod.does(Manner::Thinks);
    let ask = |token: &str| head("POST", "/v1beta1/upload", token, "content-length: 5\r\n") + "hello";
    let mut held: Vec<Connection> = Vec::new();
    for number in 0..64 {
        let pvc = format!("disk-{}", number / 4);
        scene.pvc(&pvc, &[(POD_READY, "true"), (POD_PHASE, "Running")]);
        let mut connection = scene.client.connect().await;
        connection.says(ask(&token(&pvc))).await;
        held.push(connection);
    }
    scene.pod.until(|seen| seen.whole == 64).await;
    let answer = scene.client.says(ask(&token("disk")).as_bytes()).await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (503, "namespace n has 64 uploads under way; try again\n")
    );
    // Another namespace is served: the answer is that its PVC does not exist.
    let other = by(KEY, &Claims::upload("other", "disk", Timestamp::now()));
    let answer = scene.client.says(ask(&other).as_bytes()).await;
    assert_eq!(answer.body, "rejecting Upload Request for PVC disk that doesn&#39;t exist");
    scene.pod.lets(65);
    for mut connection in held {
        assert_eq!(connection.answer().await.status, 200);
    }
    assert_eq!(scene.client.says(ask(&token("disk")).as_bytes()).await.status, 200);
}
