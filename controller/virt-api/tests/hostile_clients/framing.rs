//! Framing of requests: if two servers disagree about the end of a request, a second request can be smuggled
//! past the first server.

use crate::client::{ended, head};
use crate::scene::{ANN, SUBRESOURCES, Scene};

/// The user of smuggled requests, who must never appear in a review.
const GHOST: &str = "ghost";

/// A complete request, to be hidden in the body of another.
fn hidden() -> String {
    head("PUT", &format!("{SUBRESOURCES}/virtualmachines/web/stop"), GHOST, "")
}

/// A request with this framing header, and bytes after its head.
fn begins(framing: &str, body: &str) -> String {
    let start = format!("{SUBRESOURCES}/virtualmachines/web/start");
    head("PUT", &start, ANN, framing) + body
}

/// Asserts that no review names the hidden user.
fn nobody_hidden(scene: &Scene, how: &str) {
    let reviews = scene.api.reviews();
    assert!(reviews.iter().all(|review| review["user"] != GHOST), "{how:?}: {reviews:?}");
}

#[tokio::test]
async fn a_request_that_could_end_in_two_places_is_the_last_of_its_connection() {
    let scene = Scene::begin().await;
    let (hidden, size) = (hidden(), hidden().len());
    let chunk = format!("{size:x}\r\n{hidden}\r\n0\r\n\r\n");
    for (framing, body) in [
        (
            format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", size + 5),
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            format!("Transfer-Encoding: chunked\r\nContent-Length: {}\r\n", size + 5),
            format!("0\r\n\r\n{hidden}"),
        ),
        ("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n".to_owned(), chunk),
        (format!("Content-Length: {size}\r\nContent-Length: 0\r\n"), hidden.clone()),
        (format!("Content-Length: 0\r\nContent-Length: {size}\r\n"), hidden.clone()),
        (format!("Content-Length: 0, {size}\r\n"), hidden.clone()),
        (format!("Content-Length: +{size}\r\n"), hidden.clone()),
        (format!("Content-Length: -{size}\r\n"), hidden.clone()),
        (format!("Content-Length: 0x{size:x}\r\n"), hidden.clone()),
        (format!("Content-Length: {size} 0\r\n"), hidden.clone()),
        ("Content-Length: \r\n".to_owned(), hidden.clone()),
        ("Content-Length: 18446744073709551616\r\n".to_owned(), hidden.clone()),
        ("Content-Length: 18446744073709551615\r\n".to_owned(), hidden.clone()),
        ("Transfer-Encoding: chunked, identity\r\n".to_owned(), format!("0\r\n\r\n{hidden}")),
        ("Transfer-Encoding: xchunked\r\n".to_owned(), format!("0\r\n\r\n{hidden}")),
        ("Transfer-Encoding: \u{b}chunked\r\n".to_owned(), format!("0\r\n\r\n{hidden}")),
        ("Transfer-Encoding: identity\r\n".to_owned(), hidden.clone()),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned(),
            format!("0\r\n\r\n{hidden}"),
        ),
        // Folded header lines (obs-fold), and odd line ends.
        ("Transfer-Encoding:\r\n chunked\r\n".to_owned(), format!("0\r\n\r\n{hidden}")),
        ("X: a\r\n\tb\r\n".to_owned(), hidden.clone()),
        ("X: a\rTransfer-Encoding: chunked\r\n".to_owned(), format!("0\r\n\r\n{hidden}")),
        ("Transfer-Encoding : chunked\r\n".to_owned(), format!("0\r\n\r\n{hidden}")),
        // Chunk sizes.
        ("Transfer-Encoding: chunked\r\n".to_owned(), format!("-1\r\n\r\n{hidden}")),
        ("Transfer-Encoding: chunked\r\n".to_owned(), format!("10000000000000000\r\n{hidden}")),
        ("Transfer-Encoding: chunked\r\n".to_owned(), format!("0x0\r\n\r\n{hidden}")),
        ("Transfer-Encoding: chunked\r\n".to_owned(), format!("2\r\n{{}}X\r\n0\r\n\r\n{hidden}")),
        ("Transfer-Encoding: chunked\r\n".to_owned(), format!("1;a\nb\r\n \r\n0\r\n\r\n{hidden}")),
    ] {
        scene.halts();
        let how = begins(&framing, &body).replace(&hidden, "…");
        let (first, mut connection) = scene.sends(begins(&framing, &body).as_bytes()).await;
        // The bytes after it are not read as another request.
        let rest = ended(&mut connection).await;
        assert!(rest.is_empty(), "{how:?}: {}", String::from_utf8_lossy(&rest));
        if let Some(first) = first {
            assert!([202, 400, 431, 503].contains(&first.status), "{how:?}: {first:?}");
        }
        nobody_hidden(&scene, &how);
    }
    scene.start("requests with two ends").await;
}

/// HTTP/1.0 has no chunked bodies: the connection ends with the response.
#[tokio::test]
async fn an_old_client_has_one_request() {
    let scene = Scene::begin().await;
    for framing in ["", "Transfer-Encoding: chunked\r\n"] {
        scene.halts();
        let text = begins(framing, &format!("0\r\n\r\n{}", hidden())).replacen("HTTP/1.1", "HTTP/1.0", 1);
        let (_, mut connection) = scene.sends(text.as_bytes()).await;
        assert!(ended(&mut connection).await.is_empty());
        nobody_hidden(&scene, framing);
    }
}

#[tokio::test]
async fn what_is_no_request_line_is_no_request() {
    let scene = Scene::begin().await;
    let rest = format!("\r\nhost: a\r\nx-remote-user: {ANN}\r\n\r\n");
    let path = format!("{SUBRESOURCES}/virtualmachines/web/start");
    for line in [
        format!("PUT {path} HTTP/1.1 {path}"),
        format!("PUT {path}"),
        format!("PUT  {path} HTTP/1.1"),
        format!("PUT\t{path}\tHTTP/1.1"),
        format!("PUT {path} HTTP/1.2"),
        format!("PUT {path} HTTP/2.0"),
        format!("PUT {path} http/1.1"),
        format!("PUT {path}\0 HTTP/1.1"),
        format!("P\u{fc}T {path} HTTP/1.1"),
        format!("{} {path} HTTP/1.1", "P".repeat(40 << 10)),
        format!("PUT {path}{} HTTP/1.1", "/a".repeat(20 << 10)),
    ] {
        let (answer, mut connection) = scene.sends((line.clone() + &rest).as_bytes()).await;
        let line = &line[..line.len().min(90)];
        if let Some(answer) = answer {
            assert!([400, 414, 431].contains(&answer.status), "{line:?}: {answer:?}");
        }
        assert!(ended(&mut connection).await.is_empty(), "{line:?}");
        assert!(scene.api.reviews().is_empty(), "{line:?}");
    }
    assert!(scene.api.patched().is_empty());
}
