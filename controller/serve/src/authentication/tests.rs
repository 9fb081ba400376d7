//! Tests of the gate against a small API server that answers reviews.

use super::*;
use crate::health::Health;
use http::Request;
use kit::ApiServer;
use std::net::Ipv4Addr;

fn head(path: &str, token: Option<&str>) -> Parts {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    request.body(()).unwrap().into_parts().0
}

fn peer(last: u8) -> Peer {
    Peer::of(Ipv4Addr::new(10, 0, 0, last).into())
}

/// Status of the answer to a metrics request.
async fn reads(health: &Health, gate: &Gate, token: Option<&str>) -> u16 {
    let answer = health.answer(&head("/metrics", token), peer(1), gate).await.unwrap();
    if answer.status() == StatusCode::UNAUTHORIZED {
        assert_eq!(answer.headers()[header::WWW_AUTHENTICATE], "Bearer");
        assert!(!String::from_utf8_lossy(answer.body()).contains("up 1"));
    }
    answer.status().as_u16()
}

#[tokio::test]
async fn what_is_measured_is_for_whom_the_api_server_lets_read_it() {
    let server = ApiServer::default();
    let (gate, health) = (Gate::new(server.client()), Health::default());
    health.measures_plainly(|| "up 1\n".to_owned());
    for (token, status) in
        [(None, 401), (Some("nobody-1"), 401), (Some("somebody-1"), 403), (Some("monitor-1"), 200)]
    {
        assert_eq!(reads(&health, &gate, token).await, status, "{token:?}");
    }
    // Permission for one path is not permission for another.
    let another = gate.check_access(&head("/another", Some("monitor-1")), peer(1)).await.unwrap_err();
    assert_eq!(another.status(), StatusCode::FORBIDDEN);
    // Only a token counts, and only for reading.
    for (name, value) in [("authorization", "Basic bW9uaXRvcjox"), ("authorization", "Bearer "), ("x", "y")] {
        let request = Request::get("/metrics").header(name, value).body(()).unwrap();
        let refused = gate.check_access(&request.into_parts().0, peer(1)).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{value}");
    }
    let mut post = head("/metrics", Some("monitor-1"));
    post.method = Method::POST;
    assert_eq!(gate.check_access(&post, peer(1)).await.unwrap_err().status(), StatusCode::METHOD_NOT_ALLOWED);
    // The kubelet sends no token.
    for (path, status) in [("/healthz", 200), ("/readyz", 503)] {
        let answer = health.answer(&head(path, None), peer(1), &gate).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{path}");
    }
}

#[tokio::test]
async fn the_api_server_is_asked_once_in_a_while() {
    let server = ApiServer::default();
    let (gate, health) = (Gate::new(server.client()), Health::default());
    health.measures_plainly(String::new);
    for (token, reviews, status) in [("monitor-1", 2, 200), ("somebody-1", 4, 403), ("nobody-1", 5, 401)] {
        for _ in 0..20 {
            assert_eq!(reads(&health, &gate, Some(token)).await, status);
        }
        assert_eq!(server.count(), reviews, "{token}");
    }
}

#[tokio::test]
async fn invented_tokens_of_one_address_do_not_hold_up_another() {
    let server = ApiServer::default();
    let gate = Gate::new(server.client());
    let mut held = Vec::new();
    for _ in 0..OF_ONE {
        held.push(ReviewSlot::take(&gate.asking, peer(1)).unwrap());
    }
    let refused = gate.check_access(&head("/metrics", Some("nobody-2")), peer(1)).await.unwrap_err();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(server.count(), 0);
    assert!(gate.check_access(&head("/metrics", Some("monitor-1")), peer(2)).await.is_ok());
    // A cached answer needs no review, even during a flood.
    assert!(gate.check_access(&head("/metrics", Some("monitor-1")), peer(1)).await.is_ok());
    drop(held);
    assert!(gate.check_access(&head("/metrics", Some("monitor-2")), peer(1)).await.is_ok());
    assert!(gate.asking.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_api_server_that_is_away_lets_nobody_in_and_refuses_nobody_for_long() {
    let server = ApiServer::default();
    let away = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let mut gate = Gate::new(kube::Client::try_from(away).unwrap());
    let refused = gate.check_access(&head("/metrics", Some("monitor-1")), peer(1)).await.unwrap_err();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    gate.client = server.client();
    assert!(gate.check_access(&head("/metrics", Some("monitor-1")), peer(1)).await.is_ok());
}
