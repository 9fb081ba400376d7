//! A viewer's side of RFB (RFC 6143, and QEMU's extensions), parsed as it passes: the messages that type, and
//! the end of each message. Pure.
//!
//! ```text
//!  version ─► [security type] ─► share? ─► message, message, …
//!                                  │           ├─ sees   pixel format, encodings, requests for updates, sound    passes
//!                                  │           └─ types  keys, pointer, clipboard, size, power                   passes if it may
//!                                  └ becomes 1: the viewer must not choose whether the screen is shared
//! ```
//!
//! A viewer that may no longer type can still release keys and pointer buttons that it holds down.
//!
//! An unknown message has an unknown end. From then on all bytes of a viewer that may type pass unchecked,
//! and QEMU handles them. A viewer that may not type is refused.

/// Longest head of a message: that of a key in QEMU's extension.
const HEAD: usize = 12;
/// Length of the version, "RFB 003.008\n".
const VERSION: usize = 12;
/// The security type of a screen without a password.
const NO_PASSWORD: u8 = 1;

/// Error of a viewer that sent an unknown message, and may not type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown;

/// Next part of a viewer's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Version,
    Security,
    Share,
    /// Head of a message.
    Head,
    /// Remaining bytes of a message.
    Rest {
        left: u64,
        passes: bool,
    },
    /// Any bytes, since the end of a message was unknown.
    Blind,
}

/// A message, as far as its head has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// The head needs more bytes.
    More,
    /// A message of this length.
    Whole {
        size: u64,
        does: Does,
    },
    Unknown,
}

/// Effect of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    See,
    Type,
    /// A key is released.
    Release,
    /// The pointer moves or its buttons change; these buttons are down.
    Point(u8),
}

/// The bytes of a viewer on their way to QEMU.
#[derive(Debug)]
pub(super) struct Keys {
    next: Next,
    /// Bytes of an incomplete head.
    head: Vec<u8>,
    /// True if the viewer has typed.
    typed: bool,
    /// Pointer buttons that are down, as QEMU has them.
    buttons: u8,
}

impl Keys {
    pub(super) fn new() -> Keys {
        Keys { next: Next::Version, head: Vec::with_capacity(HEAD), typed: false, buttons: 0 }
    }

    /// Adds the bytes that may pass to `out`.
    pub(super) fn pass(
        &mut self,
        mut bytes: &[u8],
        may_type: impl Fn() -> bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Unknown> {
        while let Some((first, after)) = bytes.split_first() {
            match self.next {
                Next::Blind if may_type() => {
                    out.extend_from_slice(bytes);
                    return Ok(());
                }
                Next::Blind => return Err(Unknown),
                Next::Rest { left, passes } => {
                    let size = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    let (part, rest) = bytes.split_at(size);
                    if passes {
                        out.extend_from_slice(part);
                    }
                    self.rest(left.saturating_sub(size as u64), passes);
                    bytes = rest;
                }
                Next::Version => {
                    self.head.push(*first);
                    out.push(*first);
                    bytes = after;
                    if self.head.len() == VERSION {
                        self.next = after_version(&self.head);
                        self.head.clear();
                    }
                }
                Next::Security => {
                    out.push(*first);
                    bytes = after;
                    self.next = if *first == NO_PASSWORD { Next::Share } else { Next::Blind };
                }
                Next::Share => {
                    out.push(1);
                    bytes = after;
                    self.next = Next::Head;
                }
                Next::Head => {
                    self.head.push(*first);
                    bytes = after;
                    match message(&self.head) {
                        Message::More => {}
                        Message::Whole { size, does } => self.begin(size, does, may_type(), out),
                        Message::Unknown if may_type() => {
                            out.append(&mut self.head);
                            self.next = Next::Blind;
                        }
                        Message::Unknown => return Err(Unknown),
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles a complete head.
    fn begin(&mut self, size: u64, does: Does, may_type: bool, out: &mut Vec<u8>) {
        let passes = match does {
            Does::See => true,
            Does::Type => may_type,
            Does::Release => may_type || self.typed,
            Does::Point(buttons) => may_type || (buttons == 0 && self.buttons != 0),
        };
        if let Does::Point(buttons) = does
            && passes
        {
            self.buttons = buttons;
        }
        self.typed |= passes && does != Does::See;
        let left = size.saturating_sub(self.head.len() as u64);
        if passes {
            out.append(&mut self.head);
        }
        self.head.clear();
        self.rest(left, passes);
    }

    fn rest(&mut self, left: u64, passes: bool) {
        self.next = if left == 0 { Next::Head } else { Next::Rest { left, passes } };
    }
}

/// In version 3.3, and in versions that QEMU treats like it, the server alone chooses the security type.
fn after_version(version: &[u8]) -> Next {
    match version {
        b"RFB 003.003\n" | b"RFB 003.004\n" | b"RFB 003.005\n" => Next::Share,
        b"RFB 003.007\n" | b"RFB 003.008\n" => Next::Security,
        // QEMU refuses the version.
        _ => Next::Blind,
    }
}

fn message(head: &[u8]) -> Message {
    let whole = |size: u64, does: Does| Message::Whole { size, does };
    let short = |at: usize| Some(u64::from(u16::from_be_bytes([*head.get(at)?, *head.get(at + 1)?])));
    let long = |at: usize| {
        let bytes = head.get(at..at.checked_add(4)?)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let key = |size: u64, at: usize| {
        head.get(at).map(|down| whole(size, if *down == 0 { Does::Release } else { Does::Type }))
    };
    let found = match head {
        // SetPixelFormat, FramebufferUpdateRequest.
        [0, ..] => Some(whole(20, Does::See)),
        [3, ..] => Some(whole(10, Does::See)),
        // SetEncodings: four bytes each.
        [2, ..] => short(2).map(|count| whole(4 + 4 * count, Does::See)),
        // KeyEvent, PointerEvent.
        [4, ..] => key(8, 1),
        [5, ..] => head.get(1).map(|buttons| whole(6, Does::Point(*buttons))),
        // ClientCutText: a text, or formats of an extended clipboard if the length is negative.
        [6, ..] => long(4).map(|length| {
            let length = length.cast_signed().unsigned_abs();
            whole(8 + u64::from(length), Does::Type)
        }),
        // xvp: the power of the VM.
        [250, ..] => Some(whole(4, Does::Type)),
        // SetDesktopSize: 16 bytes for each screen.
        [251, _, _, _, _, _, screens, ..] => Some(whole(8 + 16 * u64::from(*screens), Does::Type)),
        [251, ..] => None,
        // QEMU's extensions: a key with its scan code; sound.
        [255, 0, ..] => key(12, 3),
        [255, 1, ..] => short(2).map(|what| match what {
            0 | 1 => whole(4, Does::See),
            2 => whole(10, Does::See),
            _ => Message::Unknown,
        }),
        [255] => None,
        _ => Some(Message::Unknown),
    };
    found.unwrap_or(Message::More)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = b"RFB 003.008\n\x01\x00";
    const PRESS: [u8; 8] = [4, 1, 0, 0, 0, 0, 0, b'a'];
    const RELEASE: [u8; 8] = [4, 0, 0, 0, 0, 0, 0, b'a'];
    const DRAG: [u8; 6] = [5, 1, 0, 9, 0, 9];
    const DROP: [u8; 6] = [5, 0, 0, 9, 0, 9];
    const MOVE: [u8; 6] = [5, 0, 0, 7, 0, 7];
    const UPDATE: [u8; 10] = [3, 1, 0, 0, 0, 0, 4, 0, 3, 0];

    /// All messages that QEMU knows, and whether they type.
    fn all() -> Vec<(Vec<u8>, bool)> {
        let cut =
            |length: i32, size: usize| [&[6, 0, 0, 0][..], &length.to_be_bytes(), &vec![b'x'; size]].concat();
        vec![
            ([&[0][..], &[7; 19]].concat(), false),
            ([&[2, 0, 0, 2][..], &[9; 8]].concat(), false),
            (vec![2, 0, 0, 0], false),
            (UPDATE.to_vec(), false),
            (PRESS.to_vec(), true),
            (DRAG.to_vec(), true),
            (cut(5, 5), true),
            (cut(-4, 4), true),
            (cut(0, 0), true),
            (vec![250, 0, 1, 2], true),
            ([&[251, 0, 4, 0, 3, 0, 1, 0][..], &[3; 16]].concat(), true),
            (vec![255, 0, 0, 1, 0, 0, 0, b'a', 0, 0, 0, 30], true),
            (vec![255, 1, 0, 0], false),
            (vec![255, 1, 0, 2, 1, 2, 0, 0, 172, 68], false),
        ]
    }

    /// What passes of these bytes, which come in pieces of this size.
    fn passes(keys: &mut Keys, bytes: &[u8], piece: usize, may_type: bool) -> Result<Vec<u8>, Unknown> {
        let mut out = Vec::new();
        for piece in bytes.chunks(piece) {
            keys.pass(piece, || may_type, &mut out)?;
        }
        Ok(out)
    }

    #[test]
    fn a_reader_sees_and_types_nothing_in_pieces_of_any_size() {
        let bytes = all().iter().fold(HELLO.to_vec(), |all, (message, _)| [&all, &message[..]].concat());
        let hello = b"RFB 003.008\n\x01\x01".to_vec();
        let wanted = |may_type: bool| {
            all()
                .iter()
                .filter(|(_, types)| may_type || !types)
                .fold(hello.clone(), |all, (message, _)| [&all, &message[..]].concat())
        };
        for piece in [1, 2, 3, 7, 1000] {
            for may_type in [false, true] {
                let mut keys = Keys::new();
                assert_eq!(passes(&mut keys, &bytes, piece, may_type), Ok(wanted(may_type)), "{piece}");
                assert_eq!(keys.next, Next::Head);
            }
        }
    }

    #[test]
    fn a_viewer_that_lost_the_keyboard_lets_go_and_does_no_more() {
        let mut keys = Keys::new();
        passes(&mut keys, HELLO, 99, false).unwrap();
        // It never typed: nothing of it is down.
        assert_eq!(passes(&mut keys, &[&RELEASE[..], &MOVE].concat(), 99, false), Ok(vec![]));
        let typed = [&PRESS[..], &DRAG].concat();
        assert_eq!(passes(&mut keys, &typed, 99, true).unwrap(), typed);
        let after = [&PRESS[..], &DRAG, &RELEASE, &DROP, &MOVE].concat();
        assert_eq!(passes(&mut keys, &after, 99, false).unwrap(), [&RELEASE[..], &DROP].concat());
    }

    #[test]
    fn an_old_viewer_chooses_no_security() {
        let mut keys = Keys::new();
        let bytes = [b"RFB 003.003\n\x00".as_slice(), &PRESS, &UPDATE].concat();
        let wanted = [b"RFB 003.003\n\x01".as_slice(), &UPDATE].concat();
        assert_eq!(passes(&mut keys, &bytes, 1, false), Ok(wanted));
    }

    #[test]
    fn what_is_not_known_passes_of_a_typist_and_ends_a_reader() {
        for unknown in [
            [HELLO, &[99, 1, 2]].concat(),
            [HELLO, &[255, 7, 2]].concat(),
            [HELLO, &[255, 1, 0, 9]].concat(),
            b"RFB 003.008\n\x02abc".to_vec(),
            b"GET / HTTP/1.0\r\n".to_vec(),
        ] {
            let mut keys = Keys::new();
            let passed = passes(&mut keys, &unknown, 1, true).unwrap();
            assert_eq!(passed.len(), unknown.len(), "{unknown:?}");
            assert_eq!(passes(&mut keys, b"more", 9, true).unwrap(), b"more");
            assert_eq!(passes(&mut keys, b"more", 9, false), Err(Unknown));
            assert_eq!(passes(&mut Keys::new(), &unknown, 1, false), Err(Unknown), "{unknown:?}");
        }
    }

    #[test]
    fn a_huge_text_is_not_kept() {
        let mut keys = Keys::new();
        passes(&mut keys, &[HELLO, &[6, 0, 0, 0, 0x80, 0, 0, 0]].concat(), 99, false).unwrap();
        assert_eq!(passes(&mut keys, &vec![b'x'; 1 << 20], 4096, false), Ok(vec![]));
        assert_eq!(keys.next, Next::Rest { left: (1 << 31) - (1 << 20), passes: false });
    }
}
