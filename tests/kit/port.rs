//! Ports of servers that are programs of their own.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A port that is free just now. Another program may take it first.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a loopback port");
    listener.local_addr().expect("its address").port()
}

/// Waits until the process takes connections at this address and port; false when it ends before, or takes too long.
pub(crate) fn listens(process: &mut Child, at: Ipv4Addr, port: u16) -> bool {
    let until = Instant::now() + Duration::from_secs(120);
    while Instant::now() < until {
        if !matches!(process.try_wait(), Ok(None)) {
            return false;
        }
        if TcpStream::connect((at, port)).is_ok() {
            return true;
        }
        sleep(Duration::from_millis(5));
    }
    false
}
