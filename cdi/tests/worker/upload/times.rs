//! Deadlines and certificates.

use super::*;

#[test]
fn a_deadline_that_finds_nothing_in_flight_ends_the_pod_for_another() {
    let server = Server::start_with(None, &[], &[("DEADLINE", "2020-01-02T03:04:05Z")]);
    let ended = server.pod.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.log);
    let report = ended.report.expect("a termination message");
    assert!(report.deadline_passed && report.reason == "DeadlinePassed", "{report:?}");
    let future = Server::start_with(None, &[], &[("DEADLINE", "2999-01-02T03:04:05Z")]);
    let Server { mut pod, .. } = future;
    assert!(!pod.reports(|_| true).deadline_passed);
}

#[test]
fn certificates_are_renewed_under_an_open_upload() {
    let raw = pattern(2 << 20);
    let mut server = Server::start();
    let mut open = server.begin("/v1beta1/upload", raw.len(), &raw[..1 << 20]);
    let renewed = server.authority.sign("renewed");
    server.authority.mount(&renewed, server.secret.path());
    let until = Instant::now() + PATIENCE;
    while !renewed.is_of(server.connect().server()) {
        assert!(Instant::now() < until, "the old certificate is still shown");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Invalid files change nothing.
    std::fs::write(server.secret.path().join("tls.key"), "no key").unwrap();
    open.send(&raw[1 << 20..]).unwrap();
    open.answer(true).is(200);
    assert!(server.disk() == raw);
    server.done();
}

#[test]
fn a_pod_without_its_settings_says_which_is_missing() {
    let ended = Server::start_with(None, &[], &[("CLIENT_NAME", "")]).pod.wait();
    assert!(ended.failed("Failed").message.contains("CLIENT_NAME"));
    let ended = Server::start_with(None, &[], &[("DEADLINE", "soon")]).pod.wait();
    assert!(ended.failed("Failed").message.contains("DEADLINE is \"soon\""));
}
