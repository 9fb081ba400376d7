//! Clients without a certificate, many of them, which stay.

use super::*;
use std::net::TcpStream;

/// More than there are places of any kind.
const MANY: usize = 40;

#[test]
fn many_idle_strangers_keep_nobody_out() {
    let raw = pattern(2 << 20);
    let mut server = Server::start();
    let at = server.pod.at();
    let other = server.authority.sign("client.other");
    let healthy = |server: &Server, identity: Option<&Identity>| {
        let mut connection = server.authority.connect(&at, identity).expect("a connection");
        assert_eq!(connection.ask("GET /healthz", &[], b"").is(200).body, "OK");
        connection
    };
    // An upload is under way meanwhile.
    let mut upload = server.begin("/v1beta1/upload", raw.len(), &raw[..1 << 20]);
    server.pod.reports(|report| report.stage == Stage::Moving);
    let silent: Vec<TcpStream> =
        (0..MANY).map(|_| TcpStream::connect(&at).expect("it is listened there")).collect();
    let mut idle: Vec<Connection> =
        (0..MANY).map(|number| healthy(&server, (number % 2 == 0).then_some(&other))).collect();
    // The kubelet and another client of the proxy are answered.
    healthy(&server, None);
    server.connect().ask("HEAD /v1beta1/upload-async", &[], b"").is(200);
    server.post("/v1beta1/upload", &raw).is(503).says("another upload");
    // The oldest gave way, the newest is there.
    assert!(idle[0].read_byte().is_err());
    idle[MANY - 1].ask("GET /healthz", &[], b"").is(200);
    upload.send(&raw[1 << 20..]).unwrap();
    upload.answer(true).is(200);
    assert!(server.disk() == raw);
    drop((silent, idle));
    server.done();
}
