//! Changes under open consoles: new certificates, and the exit of virt-api.

use crate::authority::Authority;
use crate::client::{Client, LONG, answer, head, say};
use crate::console::{Console, all, raw};
use crate::scene::{AGGREGATOR, ANN, SUBRESOURCES, Scene, believes, bundle, shows};
use crate::virt_handler::HANDLER;
use cluster_model::objects::BUNDLE;
use futures_util::future::join_all;
use rcgen::ExtendedKeyUsagePurpose::ServerAuth;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// Time that virt-api keeps serving after the signal to end.
const LINGER: Duration = Duration::from_secs(5);

/// Waits until virt-api opens a console for this client.
async fn opens(client: &Client, vmi: &str) -> Console {
    let since = Instant::now();
    loop {
        let opened = async {
            let mut connection = client.try_connect().await?;
            say(&mut connection, crate::console::upgrade(vmi).as_bytes()).await?;
            answer(&mut connection).await
        };
        match opened.await {
            Ok(answer) if answer.status == 101 => return Console::open(client, vmi).await,
            other => assert!(since.elapsed() < LONG, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn certificates_change_and_no_console_ends() {
    let scene = Scene::begin().await;
    scene.runs("echo");
    let to = scene.program.address;
    let old = scene.aggregator();
    let mut first = Console::open(&old, "echo").await;
    first.says("login: ").await;
    // New aggregation CA and new own CA: both old and new ones are trusted, and the new ones sign.
    let (next, front) = (Authority::new(), Authority::new());
    let both = format!("{}{}", next.pem, scene.ours.pem);
    scene.handler.authorities.take(&both).unwrap();
    scene.api.put(&bundle(), json!({"data": {BUNDLE: both}}));
    shows(&scene.api, &next);
    believes(&scene.api, &front);
    let new = Client::new(to, next.roots(), Some(&front.client(AGGREGATOR)));
    let mut second = opens(&new, "echo").await;
    second.says("login: ").await;
    first.repeats("still here\n").await;
    // Clients with a certificate of the removed CA are rejected, and clients that do not trust the new server
    // certificate disconnect.
    let gone = Client::new(to, next.roots(), Some(&scene.front.client(AGGREGATOR)));
    let said = async {
        let mut connection = gone.try_connect().await?;
        say(&mut connection, b"GET /apis HTTP/1.1\r\nhost: a\r\n\r\n").await?;
        answer(&mut connection).await
    };
    assert!(said.await.is_err(), "the old aggregator is still let in");
    assert!(old.try_connect().await.is_err(), "the old certificate is still shown");
    // virt-handler follows, and the old CA is removed.
    scene.handler.shown.take(&next.signs(HANDLER, &[ServerAuth]).secret()).unwrap();
    scene.handler.authorities.take(&next.pem).unwrap();
    scene.api.put(&bundle(), json!({"data": {BUNDLE: next.pem}}));
    let mut third = opens(&new, "echo").await;
    third.says("login: ").await;
    for console in [&mut first, &mut second, &mut third] {
        console.repeats("and here\n").await;
    }
}

#[tokio::test]
async fn a_program_that_ends_lets_its_consoles_go_and_waits_for_nobody_for_ever() {
    let mut scene = Scene::begin().await;
    for name in ["echo", "loud", "quiet"] {
        scene.runs(name);
    }
    let aggregator = scene.aggregator();
    let mut consoles = all(20, async || Console::open(&aggregator, "echo").await).await;
    // Connections that read nothing, answer nothing, or have incomplete requests.
    let stuck = join_all((0..5).map(|_| raw(&aggregator, "loud"))).await;
    let silent = join_all((0..5).map(|_| raw(&aggregator, "quiet"))).await;
    let mut half = aggregator.connect().await;
    say(&mut half, b"GET /apis HTTP/1.1\r\n").await.unwrap();
    let mut probe = scene.stranger().connect().await;
    scene.handler.has_open(30).await;
    let since = Instant::now();
    scene.program.terminate();
    // The server announces that it accepts no new work, and still finishes received requests.
    loop {
        let asked = say(&mut probe, b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").await;
        match (asked, answer(&mut probe).await) {
            (Ok(()), Ok(answer)) if answer.status == 503 => break,
            (Ok(()), Ok(answer)) => assert_eq!(answer.status, 200),
            // On a busy host the time may already have passed.
            _ => break assert!(since.elapsed() >= LINGER, "it answers no more"),
        }
    }
    scene.halts();
    let start = head("PUT", &format!("{SUBRESOURCES}/virtualmachines/web/start"), ANN, "");
    let late = async {
        let mut connection = aggregator.try_connect().await?;
        say(&mut connection, start.as_bytes()).await?;
        answer(&mut connection).await
    };
    match late.await {
        Ok(answer) => assert_eq!(answer.status, 202),
        Err(error) => assert!(since.elapsed() >= LINGER, "{error}"),
    }
    for console in &mut consoles {
        let last = console.ends().await.expect("a word at the end");
        assert_eq!(
            (last.code, last.reason.as_str()),
            (CloseCode::Away, "virt-api is shutting down; connect again")
        );
    }
    let status = scene.program.ended().await;
    eprintln!(
        "among 10 clients that take or answer nothing: it ended after {:.1} s",
        since.elapsed().as_secs_f64()
    );
    assert!(status.success(), "{status}");
    scene.handler.has_open(0).await;
    drop((stuck, silent, half));
}
