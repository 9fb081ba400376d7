//! Consoles: many at once, clients that do not read or are half closed, and proxies with an idle time-out.

use crate::client::{Client, LONG, ended, say};
use crate::console::{Console, all, raw, upgrade};
use crate::scene::Scene;
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// Limit on virt-api's memory, in KiB.
const MEMORY: u64 = 100 << 10;

#[tokio::test]
async fn two_hundred_consoles_at_once_cost_less_than_100_mib() {
    const CONSOLES: usize = 200;
    let scene = Scene::begin().await;
    let (aggregator, files) = (scene.aggregator(), scene.program.files());
    let mut consoles = Vec::new();
    for at in 0..CONSOLES / 20 {
        let name = format!("echo-{at}");
        scene.runs(&name);
        consoles.extend(all(20, async || Console::open(&aggregator, &name).await).await);
    }
    scene.handler.has_open(CONSOLES).await;
    let typed = consoles.iter_mut().enumerate().map(async |(at, console)| {
        console.says("login: ").await;
        console.repeats(&format!("root-{at}\n")).await;
        // More than all buffers on the way can hold.
        console.repeats(&"0123456789".repeat(5000)).await;
    });
    join_all(typed).await;
    scene.start("200 consoles").await;
    let memory = scene.program.most_memory();
    eprintln!("{CONSOLES} consoles: virt-api had at most {} MiB", memory >> 10);
    assert!(memory < MEMORY, "{memory} KiB");
    drop(consoles);
    scene.handler.has_open(0).await;
    // The memory of closed consoles is released.
    let since = Instant::now();
    while scene.program.files() > files + CONSOLES / 4 {
        assert!(since.elapsed() < LONG, "{} files are open, {files} at first", scene.program.files());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A tenant's launchers may never open a stream, and request heads may be as large as permitted. A waiting
/// request keeps no head, and the number of waiting requests is limited per VMI and in total.
#[tokio::test]
async fn consoles_that_never_open_hold_a_few_places_each_and_no_memory() {
    let scene = Scene::begin().await;
    scene.runs("echo");
    let aggregator = scene.aggregator();
    let fat = format!("x-remote-group: {}\r\n", "g".repeat(1000)).repeat(25);
    let mut waiting = Vec::new();
    for at in 0..7 {
        let name = format!("shut-{at}");
        scene.runs(&name);
        let text = upgrade(&name).replacen("\r\n", &format!("\r\n{fat}"), 1);
        for _ in 0..16 {
            let mut connection = aggregator.connect().await;
            say(&mut connection, text.as_bytes()).await.unwrap();
            waiting.push(connection);
        }
        scene.handler.has_open(16 * (at + 1)).await;
        let (said, _) = aggregator.says(&text).await;
        assert_eq!(said.status, 429, "{said:?}");
        assert!(said.body.contains(&format!("16 streams of VMI n/{name} are being opened")), "{said:?}");
        assert!(said.head.contains("retry-after: 1"), "{said:?}");
    }
    let mut other = Console::open(&aggregator, "echo").await;
    other.says("login: ").await;
    scene.start("consoles that never open").await;
    drop(waiting);
}

/// A client that does not read affects neither the guest, nor another reader, nor virt-api's memory.
#[tokio::test]
async fn a_client_that_never_reads_holds_up_nobody() {
    let scene = Scene::begin().await;
    scene.runs("loud");
    scene.runs("echo");
    let aggregator = scene.aggregator();
    let mut stuck = all(20, async || raw(&aggregator, "loud").await).await;
    let (mut reader, mut other) =
        (Console::open(&aggregator, "loud").await, Console::open(&aggregator, "echo").await);
    other.says("login: ").await;
    let mut size = 0;
    while size < 64 << 20 {
        size += reader.bytes().await.len();
    }
    other.repeats("still here\n").await;
    scene.start("20 clients that never read").await;
    // Their input is still accepted, until it exceeds the buffers because they do not read.
    for connection in &mut stuck {
        say(connection, &masked(0x82, b"ls\n")).await.unwrap();
    }
    scene.handler.has_open(22).await;
    let memory = scene.program.most_memory();
    eprintln!("20 clients that never read: virt-api had at most {} MiB", memory >> 10);
    assert!(memory < MEMORY, "{memory} KiB");
    drop((stuck, reader, other));
    scene.handler.has_open(0).await;
}

/// A client's frame: its first byte, and its content.
pub(crate) fn masked(first: u8, content: &[u8]) -> Vec<u8> {
    let size = u8::try_from(content.len()).unwrap();
    [&[first, 0x80 | size, 0, 0, 0, 0], content].concat()
}

/// A frame that announces more bytes than it has.
fn announced(first: u8, size: u64) -> Vec<u8> {
    [&[first, 0x80 | 127][..], &size.to_be_bytes(), &[0; 4], b"a"].concat()
}

#[tokio::test]
async fn websockets_that_are_half_there_end_or_wait_by_themselves() {
    let scene = Scene::begin().await;
    scene.runs("quiet");
    scene.runs("waits");
    let aggregator = scene.aggregator();
    // Clients that half-close the connection or disappear.
    let mut half = all(20, async || raw(&aggregator, "quiet").await).await;
    scene.handler.has_open(20).await;
    for connection in &mut half {
        connection.shutdown().await.unwrap();
    }
    scene.handler.has_open(0).await;
    let gone = all(20, async || raw(&aggregator, "quiet").await).await;
    scene.handler.has_open(20).await;
    drop(gone);
    scene.handler.has_open(0).await;
    // Clients that disappear before the response.
    for _ in 0..20 {
        let mut connection = aggregator.connect().await;
        say(&mut connection, upgrade("quiet").as_bytes()).await.unwrap();
    }
    // Clients that stop in the middle of a frame. Only the received bytes are kept.
    let mut waiting = all(60, async || raw(&aggregator, "waits").await).await;
    for connection in &mut waiting {
        say(connection, &announced(0x82, 64 << 10)).await.unwrap();
    }
    scene.handler.has_open(60).await;
    scene.start("websockets that are half there").await;
    let memory = scene.program.most_memory();
    assert!(memory < MEMORY, "{memory} KiB");
    drop(waiting);
    scene.handler.has_open(0).await;
}

#[tokio::test]
async fn websockets_that_break_the_rules_are_told_so() {
    let scene = Scene::begin().await;
    scene.runs("quiet");
    let aggregator = scene.aggregator();
    let piece = |first| masked(first, &[b'a'; 125]);
    for (how, sent, code) in [
        ("one that is too long", announced(0x82, (64 << 10) + 1), CloseCode::Size),
        ("one without end", announced(0x82, u64::MAX >> 1), CloseCode::Size),
        ("one in pieces without end", [piece(0x02), piece(0x00).repeat(600)].concat(), CloseCode::Size),
        ("one that is not masked", vec![0x82, 1, b'a'], CloseCode::Protocol),
        ("a rest without a beginning", piece(0x80), CloseCode::Protocol),
        ("a ping in pieces", piece(0x09), CloseCode::Protocol),
        ("bits that mean nothing", piece(0xf2), CloseCode::Protocol),
        ("a kind that there is not", piece(0x83), CloseCode::Protocol),
    ] {
        let mut connection = raw(&aggregator, "quiet").await;
        scene.handler.has_open(1).await;
        say(&mut connection, &sent).await.unwrap();
        let mut console = Console(WebSocketStream::from_raw_socket(connection, Role::Client, None).await);
        let last = console.ends().await.unwrap_or_else(|| panic!("{how}: it ends without a word"));
        assert_eq!(last.code, code, "{how}: {last:?}");
        drop(console);
        scene.handler.has_open(0).await;
    }
    // Pings whose answers are not read.
    let mut connection = raw(&aggregator, "quiet").await;
    let pings = piece(0x89).repeat(1000);
    let floods = async {
        for _ in 0..500 {
            say(&mut connection, &pings).await?;
        }
        Ok::<_, std::io::Error>(())
    };
    tokio::select! {
        // The connection is closed, or all is accepted, or nothing more is read.
        _ = floods => {}
        () = scene.start("pings whose answers nobody reads") => {}
    }
    let memory = scene.program.most_memory();
    assert!(memory < MEMORY, "{memory} KiB");
    drop(connection);
    scene.handler.has_open(0).await;
}

/// A proxy that cuts a connection that is silent for this time.
async fn proxy(to: std::net::SocketAddr, silence: Duration) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect(to).await.unwrap();
                let (mut of_client, mut of_server) = ([0; 4096], [0; 4096]);
                loop {
                    use tokio::io::AsyncReadExt as _;
                    let passed = tokio::select! {
                        read = client.read(&mut of_client) => match read {
                            Ok(size) if size > 0 => server.write_all(&of_client[..size]).await,
                            _ => return,
                        },
                        read = server.read(&mut of_server) => match read {
                            Ok(size) if size > 0 => client.write_all(&of_server[..size]).await,
                            _ => return,
                        },
                        () = tokio::time::sleep(silence) => return,
                    };
                    if passed.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// The shipped interval. Package `subresources` tests a short one.
#[tokio::test]
#[ignore = "takes ten minutes: it is run by hand"]
async fn an_idle_console_stays_for_ten_minutes_behind_a_proxy_that_cuts_after_20_seconds() {
    let scene = Scene::begin().await;
    scene.runs("quiet");
    scene.runs("echo");
    let through = proxy(scene.program.address, Duration::from_secs(20)).await;
    let identity = scene.front.client(crate::scene::AGGREGATOR);
    let client = Client::new(through, scene.ours.roots(), Some(&identity));
    // The proxy would cut long before virt-api does.
    let (_, mut idle) = client.says("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let since = Instant::now();
    ended(&mut idle).await;
    eprintln!("an idle connection without pings was cut after {:.1} s", since.elapsed().as_secs_f64());
    let (mut quiet, mut echo) = (Console::open(&client, "quiet").await, Console::open(&client, "echo").await);
    echo.says("login: ").await;
    let since = Instant::now();
    let minutes = async {
        tokio::join!(async { panic!("the guest said {:?}", quiet.bytes().await) }, async {
            panic!("the guest said {:?}", echo.bytes().await)
        },)
    };
    assert!(tokio::time::timeout(Duration::from_secs(600), minutes).await.is_err(), "it was cut");
    echo.repeats("still here\n").await;
    eprintln!("idle consoles were open for {:.0} s", since.elapsed().as_secs_f64());
    scene.handler.has_open(2).await;
}
