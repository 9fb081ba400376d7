//! Guests of the fake cluster: a serial console that echoes, and a screen (RFB 3.8) of one colour.

use std::net::TcpStream;
use tokio_tungstenite::tungstenite::{Message, WebSocket};

pub(crate) type Stream = WebSocket<TcpStream>;

/// Red, green, blue of the screen.
pub(crate) const COLOUR: [u8; 3] = [12, 130, 200];
/// Text that the guest copies as soon as its screen is opened.
pub(crate) const COPIED: &str = "copied in the guest";
const SIZE: (u16, u16) = (160, 100);

/// The next bytes; `None` when the client has closed the stream.
fn hears(stream: &mut Stream) -> Option<Vec<u8>> {
    loop {
        match stream.read() {
            Ok(Message::Binary(bytes)) => return Some(bytes.to_vec()),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

fn says(stream: &mut Stream, bytes: &[u8]) -> Option<()> {
    stream.send(Message::Binary(bytes.to_vec().into())).ok()
}

/// Sends a coloured greeting, and echoes all input; `flood` writes 8 MB.
pub(crate) fn console(mut stream: Stream) {
    let greeting = b"\x1b[38;2;10;200;90mvm\x1b[0m login: ";
    if says(&mut stream, greeting).is_none() {
        return;
    }
    let mut line = Vec::new();
    while let Some(bytes) = hears(&mut stream) {
        let text: Vec<u8> = bytes
            .iter()
            .flat_map(|byte| if *byte == b'\r' { vec![b'\r', b'\n'] } else { vec![*byte] })
            .collect();
        line.extend_from_slice(&bytes);
        if says(&mut stream, &text).is_none() {
            return;
        }
        if line.ends_with(b"flood\r") {
            let block = "0123456789 abcdefghijklmnopqrstuvwxyz\r\n".repeat(800);
            for _ in 0..256 {
                if says(&mut stream, block.as_bytes()).is_none() {
                    return;
                }
            }
            let _ = says(&mut stream, b"\r\nthe end\r\n");
            line.clear();
        }
    }
}

/// A screen that records its keys.
pub(crate) fn screen(stream: Stream, note: impl Fn(u32)) {
    let _ = Rfb { stream, held: Vec::new() }.serve(note);
}

struct Rfb {
    stream: Stream,
    held: Vec<u8>,
}

impl Rfb {
    /// The next bytes of this number; `None` when the client has closed the stream.
    fn take(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.held.len() < count {
            let more = hears(&mut self.stream)?;
            self.held.extend(more);
        }
        Some(self.held.drain(..count).collect())
    }

    fn says(&mut self, bytes: &[u8]) -> Option<()> {
        says(&mut self.stream, bytes)
    }

    fn serve(&mut self, note: impl Fn(u32)) -> Option<()> {
        self.says(b"RFB 003.008\n")?;
        assert_eq!(self.take(12)?, b"RFB 003.008\n");
        // One security type: None; and its result.
        self.says(&[1, 1])?;
        assert_eq!(self.take(1)?, [1]);
        self.says(&[0; 4])?;
        assert_eq!(self.take(1)?, [1], "the screen is shared");
        let (width, height) = (SIZE.0.to_be_bytes(), SIZE.1.to_be_bytes());
        let format = [32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0];
        let name = b"guest";
        self.says(&[&width[..], &height, &format, &5u32.to_be_bytes(), name].concat())?;
        let mut is_painted = false;
        let mut shifts = [16, 8, 0];
        loop {
            match self.take(1)?[0] {
                0 => {
                    let format = self.take(19)?;
                    assert_eq!(format[3], 32, "bits of a pixel");
                    shifts = [format[13], format[14], format[15]];
                }
                2 => {
                    let head = self.take(3)?;
                    let count = u16::from_be_bytes([head[1], head[2]]);
                    self.take(usize::from(count) * 4)?;
                }
                3 => {
                    self.take(9)?;
                    if !is_painted {
                        is_painted = true;
                        self.paint(shifts)?;
                        let length = (COPIED.len() as u32).to_be_bytes();
                        self.says(&[&[3, 0, 0, 0][..], &length, COPIED.as_bytes()].concat())?;
                    }
                }
                4 => {
                    let key = self.take(7)?;
                    if key[0] == 1 {
                        note(u32::from_be_bytes([key[3], key[4], key[5], key[6]]));
                    }
                }
                5 => drop(self.take(5)?),
                6 => {
                    let head = self.take(7)?;
                    let length = i32::from_be_bytes([head[3], head[4], head[5], head[6]]);
                    self.take(length.unsigned_abs() as usize)?;
                }
                other => panic!("message {other} of a viewer is not known here"),
            }
        }
    }

    /// Sends the whole screen, raw.
    fn paint(&mut self, shifts: [u8; 3]) -> Option<()> {
        let [width, height] = [SIZE.0, SIZE.1].map(u16::to_be_bytes);
        let head = [&[0, 0, 0, 1, 0, 0, 0, 0][..], &width, &height, &[0; 4]].concat();
        let pixel =
            COLOUR.iter().zip(shifts).fold(0u32, |pixel, (part, shift)| pixel | u32::from(*part) << shift);
        let pixels = pixel.to_le_bytes().repeat(usize::from(SIZE.0) * usize::from(SIZE.1));
        self.says(&[head, pixels].concat())
    }
}
