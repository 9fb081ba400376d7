//! Netlink messages: encoding and decoding without sockets. A message is a header, a fixed part, and
//! attributes, each padded to four bytes; an attribute may hold attributes.

/// Flag of a request; every message of ours is one.
pub(crate) const REQUEST: u16 = 1;
/// Flag: confirm when it is done.
pub(crate) const ACK: u16 = 4;
/// Flag: create the object.
pub(crate) const CREATE: u16 = 0x400;
/// Flag: fail if the object exists.
pub(crate) const EXCL: u16 = 0x200;
/// Flags: list all objects.
pub(crate) const DUMP: u16 = 0x300;

/// Flag of an attribute that holds attributes.
const NESTED: u16 = 0x8000;
const HEADER: usize = 16;

/// A message that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A message of this kind, with its fixed part.
    pub(crate) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Message {
        let mut message = Message { bytes: Vec::with_capacity(256) };
        message.bytes.extend(0u32.to_ne_bytes());
        message.bytes.extend(kind.to_ne_bytes());
        message.bytes.extend((flags | REQUEST).to_ne_bytes());
        message.bytes.extend([0; 8]);
        message.bytes.extend(fixed);
        message.pad();
        message
    }

    /// Appends an attribute, with its header and padding.
    pub(crate) fn put(mut self, kind: u16, value: &[u8]) -> Message {
        let at = self.open(kind);
        self.bytes.extend(value);
        self.close(at);
        self
    }

    /// Adds a text, which ends with a zero byte.
    pub(crate) fn text(self, kind: u16, value: &str) -> Message {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.put(kind, &bytes)
    }

    /// Adds a number in the byte order of the host.
    pub(crate) fn number(self, kind: u16, value: u32) -> Message {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Adds a number in network byte order.
    pub(crate) fn big(self, kind: u16, value: u32) -> Message {
        self.put(kind, &value.to_be_bytes())
    }

    /// Adds an attribute that holds attributes.
    pub(crate) fn nest(mut self, kind: u16, inside: impl FnOnce(Message) -> Message) -> Message {
        let at = self.open(kind | NESTED);
        let mut filled = inside(self);
        filled.close(at);
        filled
    }

    /// Asks for a confirmation. An error is answered in any case.
    pub(crate) fn with_ack(mut self) -> Message {
        if let Some(flags) = self.bytes.get(6..8).and_then(|bytes| bytes.try_into().ok()) {
            self.write(6, &(u16::from_ne_bytes(flags) | ACK).to_ne_bytes());
        }
        self
    }

    /// The complete message, with a sequence number that the answer repeats.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        // Our messages have some hundred bytes.
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.write(0, &length.to_ne_bytes());
        self.write(8, &sequence.to_ne_bytes());
        self.bytes
    }

    fn open(&mut self, kind: u16) -> usize {
        let at = self.bytes.len();
        self.bytes.extend(0u16.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        at
    }

    fn close(&mut self, at: usize) {
        // An attribute that is too long gets a length that the kernel refuses.
        let length = u16::try_from(self.bytes.len() - at).unwrap_or(u16::MAX);
        self.write(at, &length.to_ne_bytes());
        self.pad();
    }

    fn write(&mut self, at: usize, value: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// A message from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    pub(crate) kind: u16,
    pub(crate) sequence: u32,
    pub(crate) payload: &'a [u8],
}

/// Messages in the bytes of one read; ends at the first truncated one.
pub(crate) fn replies(mut bytes: &[u8]) -> impl Iterator<Item = Reply<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(number(bytes.get(..4)?)?).ok()?;
        let payload = bytes.get(HEADER..length)?;
        let reply = Reply { kind: short(bytes.get(4..6)?)?, sequence: number(bytes.get(8..12)?)?, payload };
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(reply)
    })
}

/// Attributes in some bytes; ends at the first truncated one.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(short(bytes.get(..2)?)?);
        let kind = short(bytes.get(2..4)?)? & 0x3fff;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Number of four bytes, in the byte order of the host.
pub(crate) fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

/// Text that ends with a zero byte.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

fn short(bytes: &[u8]) -> Option<u16> {
    bytes.try_into().ok().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let message =
            Message::new(16, CREATE, &[7; 3]).text(3, "eth0").nest(18, |m| m.text(1, "bridge").number(2, 5));
        let bytes = message.finish(9);
        assert_eq!(bytes.len() % 4, 0);
        let all: Vec<Reply<'_>> = replies(&bytes).collect();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].kind, all[0].sequence), (16, 9));
        let found: Vec<(u16, &[u8])> = attributes(&all[0].payload[4..]).collect();
        assert_eq!(found[0], (3, &b"eth0\0"[..]));
        assert_eq!(found[1].0, 18);
        let inner: Vec<(u16, &[u8])> = attributes(found[1].1).collect();
        assert_eq!((text(inner[0].1), number(inner[1].1)), ("bridge".to_owned(), Some(5)));
    }

    #[test]
    fn what_is_cut_off_or_lies_about_its_length_ends_the_reading() {
        let whole = Message::new(16, 0, &[]).text(3, "eth0").finish(1);
        for length in 0..whole.len() {
            assert_eq!(replies(&whole[..length]).count(), 0, "{length}");
        }
        for lie in [0u32, 1, 15, 1 << 20, u32::MAX] {
            let mut bytes = whole.clone();
            bytes[..4].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(replies(&bytes).count(), 0, "{lie}");
        }
        for lie in [0u16, 3, 200, u16::MAX] {
            let mut bytes = [4, 0, 1, 0].to_vec();
            bytes[..2].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(attributes(&bytes).count(), 0, "{lie}");
        }
    }
}
