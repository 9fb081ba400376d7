//! The packet of DHCP: 236 bytes as in BOOTP, a magic number, options.

use super::options;
use std::net::Ipv4Addr;

const HEAD: usize = 236;
const MAGIC: [u8; 4] = [99, 130, 83, 99];
/// Size of a packet that every host accepts, with the 28 bytes of its IP and UDP headers.
const LEAST: usize = 576;
const HEADERS: usize = 28;
/// Largest packet that is written, since a larger one may not fit on a link.
const MOST: usize = 1280;
/// Old relays and firmware drop shorter packets.
const SHORTEST: usize = 300;
/// Flag of a guest that wants a broadcast answer.
const TO_EVERYONE: u16 = 0x8000;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Discover,
    Request,
    Inform,
    Other,
}

/// A request of the guest's DHCP client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) question: Question,
    pub(super) mac: [u8; 6],
    /// Current address of the guest.
    pub(super) client: Ipv4Addr,
    /// Relay that passed the request on.
    pub(super) relay: Ipv4Addr,
    /// Address that the guest wants.
    pub(super) wanted: Option<Ipv4Addr>,
    /// Server that the guest has chosen.
    pub(super) server: Option<Ipv4Addr>,
    number: [u8; 4],
    flags: u16,
    takes: usize,
    /// The guest's client identifier, which is repeated in the answer.
    id: Option<Vec<u8>>,
}

/// The fields of an answer before its options.
pub(super) struct Head<'a> {
    pub(super) yours: Ipv4Addr,
    pub(super) next: Ipv4Addr,
    pub(super) file: Option<&'a str>,
}

impl Packet {
    /// Reads a request; `None` for any other packet.
    pub(super) fn read(bytes: &[u8]) -> Option<Packet> {
        // The packet is a request, on Ethernet, with an address of six bytes.
        if bytes.get(..3)? != [1, 1, 6] || bytes.get(HEAD..HEAD + 4)? != MAGIC {
            return None;
        }
        let mut packet = Packet {
            question: Question::Other,
            mac: bytes.get(28..34)?.try_into().ok()?,
            client: ip(bytes.get(12..16)?)?,
            relay: ip(bytes.get(24..28)?)?,
            wanted: None,
            server: None,
            number: bytes.get(4..8)?.try_into().ok()?,
            flags: u16::from_be_bytes(bytes.get(10..12)?.try_into().ok()?),
            takes: LEAST,
            id: None,
        };
        for option in options::read(bytes.get(HEAD + 4..)?) {
            let (kind, value) = option?;
            match kind {
                options::KIND => {
                    packet.question = match value {
                        [1] => Question::Discover,
                        [3] => Question::Request,
                        [8] => Question::Inform,
                        _ => Question::Other,
                    }
                }
                options::WANTED => packet.wanted = ip(value),
                options::SERVER => packet.server = Some(ip(value)?),
                options::TAKES => packet.takes = usize::from(u16::from_be_bytes(value.try_into().ok()?)),
                options::ID => packet.id = Some(value.to_vec()),
                _ => {}
            }
        }
        Some(packet)
    }

    /// Bytes of an answer that are free for options.
    pub(super) fn room(&self) -> usize {
        let id = self.id.as_ref().map_or(0, |id| id.len() + 2);
        (self.takes.clamp(LEAST, MOST) - HEADERS - HEAD - MAGIC.len()).saturating_sub(id + 1)
    }

    /// The bytes of an answer.
    pub(super) fn reply(&self, head: &Head<'_>, options: &[u8]) -> Vec<u8> {
        self.write(head, options, self.client, self.flags)
    }

    /// The bytes of a refusal, which has no address and is broadcast.
    pub(super) fn refusal(&self, head: &Head<'_>, options: &[u8]) -> Vec<u8> {
        self.write(head, options, Ipv4Addr::UNSPECIFIED, self.flags | TO_EVERYONE)
    }

    fn write(&self, head: &Head<'_>, options: &[u8], client: Ipv4Addr, flags: u16) -> Vec<u8> {
        let mut bytes = vec![2, 1, 6, 0];
        bytes.extend(self.number);
        bytes.extend([0, 0]);
        bytes.extend(flags.to_be_bytes());
        for ip in [client, head.yours, head.next, Ipv4Addr::UNSPECIFIED] {
            bytes.extend(ip.octets());
        }
        bytes.extend(self.mac);
        // The rest of the address, and the server's name.
        bytes.resize(108, 0);
        // The field has 128 bytes, of which the last is a zero; a longer name stands only among the options.
        bytes.extend(head.file.filter(|file| file.len() < 128).unwrap_or_default().bytes());
        bytes.resize(HEAD, 0);
        bytes.extend(MAGIC);
        bytes.extend(options);
        if let Some(id) = &self.id {
            bytes.push(options::ID);
            // The identifier came as one option, so it is returned as one.
            bytes.push(u8::try_from(id.len()).unwrap_or(u8::MAX));
            bytes.extend(id);
        }
        bytes.push(options::END);
        bytes.resize(bytes.len().max(SHORTEST), 0);
        bytes
    }
}

fn ip(bytes: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from)
}
