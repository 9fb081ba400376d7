//! The beginning of RFB 3.8 (RFC 6143), as a viewer speaks it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use tests::cluster::PATIENCE;

const VERSION: &[u8; 12] = b"RFB 003.008\n";
const NO_PASSWORD: u8 = 1;
const SHARED: u8 = 1;

/// The width and the height of the screen behind this port of this host. All that the server says is read: whoever closes
/// the connection before resets it.
pub(super) fn size_of_screen(port: u16) -> (u16, u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(&read::<12>(&mut stream), VERSION);
    stream.write_all(VERSION).unwrap();
    let [count] = read(&mut stream);
    let mut kinds = vec![0u8; count.into()];
    stream.read_exact(&mut kinds).unwrap();
    assert!(kinds.contains(&NO_PASSWORD), "{kinds:?}");
    stream.write_all(&[NO_PASSWORD]).unwrap();
    assert_eq!(read::<4>(&mut stream), [0; 4], "the server does not let us in");
    stream.write_all(&[SHARED]).unwrap();
    let [a, b, c, d] = read(&mut stream);
    let _format: [u8; 16] = read(&mut stream);
    let mut name = vec![0u8; u32::from_be_bytes(read(&mut stream)) as usize];
    stream.read_exact(&mut name).unwrap();
    (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

fn read<const N: usize>(stream: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}
