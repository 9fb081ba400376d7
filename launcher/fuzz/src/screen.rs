//! Properties that must hold between any viewer and any QEMU, and for any screenshot of QEMU.

use crate::tasks::run;
use flate2::read::ZlibDecoder;
use launcher::screen::{Screen, png};
use launcher::seats::Mode;
use std::io::Read as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

/// An even byte and a picture; or an odd one and a conversation, of a viewer that only reads where it is three.
pub(crate) fn screen(input: &[u8]) {
    match input.split_first() {
        Some((first, ppm)) if first & 1 == 0 => picture(ppm),
        Some((3, said)) => run(reader(said.to_vec())),
        Some((_, script)) => run(relay(script.to_vec())),
        None => {}
    }
}

/// The PNG holds the points of the PPM, or there is none.
fn picture(ppm: &[u8]) {
    let Ok(png) = png::from_ppm(ppm) else { return };
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes")) as usize;
    let (width, height) = (number(16), number(20));
    assert_eq!((&png[12..16], &png[37..41]), (&b"IHDR"[..], &b"IDAT"[..]));
    let packed = &png[41..41 + number(33)];
    let (mut rows, row) = (Vec::new(), width * 3);
    ZlibDecoder::new(packed).read_to_end(&mut rows).expect("the rows can be unpacked");
    assert_eq!(rows.len(), height * (row + 1));
    let mut above = vec![0_u8; row];
    let mut points = Vec::new();
    for line in rows.chunks_exact(row + 1) {
        let mut now = line[1..].to_vec();
        for at in 0..row {
            let before = match line[0] {
                0 => 0,
                1 => at.checked_sub(3).map_or(0, |left| now[left]),
                2 => above[at],
                other => panic!("a row is filtered by {other}"),
            };
            now[at] = now[at].wrapping_add(before);
        }
        points.extend_from_slice(&now);
        above = now;
    }
    let all = points.len();
    assert!(ppm.windows(all).any(|window| window == points), "the PNG has other points");
}

/// Bytes of one side reach the other, in order; a viewer that leaves frees its place.
async fn relay(script: Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vnc");
    let listener = UnixListener::bind(&path).expect("a socket");
    let screen = Screen::new(path, 1).expect("a screen");
    let connection = screen.reserve(Mode::Write).await.expect("a place");
    let (qemu, _) = listener.accept().await.expect("a connection");
    assert!(screen.reserve(Mode::Read).await.is_err(), "there is one place only");
    drop(listener.accept().await.expect("the connection of the refused one"));
    let (viewer, theirs) = tokio::io::duplex(256);
    let serving = tokio::spawn(connection.serve(theirs));

    let (mut from_qemu, mut to_qemu) = qemu.into_split();
    let (mut from_viewer, mut to_viewer) = tokio::io::split(viewer);
    // Each side reads all the time.
    let hears_qemu = tokio::spawn(async move {
        let mut heard = Vec::new();
        drop(from_viewer.read_to_end(&mut heard).await);
        (heard, from_viewer)
    });
    let hears_viewer = tokio::spawn(async move {
        let mut heard = Vec::new();
        drop(from_qemu.read_to_end(&mut heard).await);
        (heard, from_qemu)
    });
    let (mut by_viewer, mut by_qemu) = (Vec::new(), Vec::new());
    let mut rest = &script[..];
    while let [what, after @ ..] = rest {
        let (piece, after) = after.split_at(usize::from(what >> 1).min(after.len()));
        let said = match what & 1 {
            0 => to_viewer.write_all(piece).await.map(|()| by_viewer.extend_from_slice(piece)),
            _ => to_qemu.write_all(piece).await.map(|()| by_qemu.extend_from_slice(piece)),
        };
        said.expect("nobody has left");
        rest = after;
    }
    let first_leaves = script.first().is_some_and(|first| first & 0x80 != 0);
    match first_leaves {
        true => to_viewer.shutdown().await.expect("a viewer may leave"),
        false => to_qemu.shutdown().await.expect("QEMU may leave"),
    }
    match first_leaves {
        true => to_qemu.shutdown().await.expect("QEMU may leave"),
        false => to_viewer.shutdown().await.expect("a viewer may leave"),
    }
    let (by_screen, _) = hears_qemu.await.expect("heard");
    let (by_keys, _) = hears_viewer.await.expect("heard");
    assert_eq!(by_screen, by_qemu, "the viewer sees something else");
    assert_eq!(by_keys, shared(by_viewer), "QEMU hears something else");
    serving.await.expect("served");
    screen.reserve(Mode::Read).await.expect("the place is free again");
}

/// What a viewer says, but that it never wants the screen for itself.
fn shared(mut said: Vec<u8>) -> Vec<u8> {
    let at = match said.split_first_chunk::<12>() {
        Some((b"RFB 003.003\n" | b"RFB 003.004\n" | b"RFB 003.005\n", _)) => Some(12),
        Some((b"RFB 003.007\n" | b"RFB 003.008\n", [1, ..])) => Some(13),
        _ => None,
    };
    if let Some(share) = at.and_then(|at| said.get_mut(at)) {
        *share = 1;
    }
    said
}

/// Whatever a viewer says that only reads, QEMU hears no key of it pressed and no more bytes than were said; and the viewer
/// does not stay when its words are not known.
async fn reader(said: Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vnc");
    let listener = UnixListener::bind(&path).expect("a socket");
    let screen = Screen::new(path, 1).expect("a screen");
    let connection = screen.reserve(Mode::Read).await.expect("a place");
    let (mut qemu, _) = listener.accept().await.expect("a connection");
    let (mut viewer, theirs) = tokio::io::duplex(256);
    let serving = tokio::spawn(connection.serve(theirs));
    let hears = tokio::spawn(async move {
        let mut heard = Vec::new();
        drop(qemu.read_to_end(&mut heard).await);
        heard
    });
    // One whose words are not known is closed before it has said them all.
    drop(viewer.write_all(&said).await);
    drop(viewer);
    let heard = hears.await.expect("heard");
    assert!(heard.len() <= said.len(), "QEMU hears more than was said");
    let mut rest = &heard[..];
    if let Some(after) = rest.strip_prefix(b"RFB 003.008\n\x01\x01") {
        rest = after;
        while let [kind, ..] = rest {
            let size = match (kind, rest) {
                (0, _) => 20,
                (2, [_, _, a, b, ..]) => 4 + 4 * usize::from(u16::from_be_bytes([*a, *b])),
                (3, _) => 10,
                (255, [_, 1, 0, 0 | 1, ..]) => 4,
                (255, [_, 1, 0, 2, ..]) => 10,
                (2 | 255, _) => rest.len(),
                _ => panic!("QEMU hears the message {kind}"),
            };
            rest = &rest[size.min(rest.len())..];
        }
    }
    serving.await.expect("served");
    screen.reserve(Mode::Read).await.expect("the place is free again");
}
