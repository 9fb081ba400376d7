//! Authorization of the launcher's clients: its own user, and root. The kernel reports the user of the other
//! side.

use tokio::net::UnixStream;

pub(super) fn check(stream: &UnixStream) -> Result<(), String> {
    let peer = stream
        .peer_cred()
        .map_err(|e| format!("a client is refused, because the kernel does not name its user: {e}"))?;
    let own = rustix::process::geteuid().as_raw();
    match may(peer.uid(), own) {
        true => Ok(()),
        false => Err(format!(
            "a client of the user {} is refused: only the user {own} and root may use this socket",
            peer.uid()
        )),
    }
}

fn may(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

#[cfg(test)]
mod tests {
    use super::may;

    #[test]
    fn only_root_and_our_own_user_may_connect() {
        assert!(may(0, 1000) && may(1000, 1000) && may(0, 0));
        assert!(!may(1001, 1000) && !may(1000, 0));
    }
}
