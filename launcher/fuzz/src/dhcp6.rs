//! Properties that must hold for any DHCPv6 request of a guest, with any settings.

use api::lease::Lease6;
use launcher::net::dhcp6::{Dhcp6Settings, answer};
use std::net::Ipv6Addr;

const OURS: Ipv6Addr = Ipv6Addr::new(0xfd10, 0, 2, 0, 0, 0, 0, 2);
/// The size limit of an answer: a link's packet without the headers of IP and UDP.
const MOST: usize = 1280 - 48;
/// A client, and the server that the request names, as options.
const CLIENT: [u8; 8] = [0, 1, 0, 4, 0, 3, 0, 1];
const SERVER: [u8; 14] = [0, 2, 0, 10, 0, 3, 0, 1, 2, 0, 0, 0, 0, 0];

/// A byte that chooses the size of the settings, then the request.
pub(crate) fn dhcp6(input: &[u8]) {
    let Some((&much, question)) = input.split_first() else { return };
    let told = told(much);
    check(&told, question);
    // The same as if from a client that is known, and for us, which a fuzzer need not find out.
    let (head, options) = question.split_at(question.len().min(4));
    let mut known = head.to_vec();
    known.resize(4, 0);
    known.extend(CLIENT);
    check(&told, &[&known[..], options].concat());
    known.extend(SERVER);
    check(&told, &[&known[..], options].concat());
}

fn check(told: &Dhcp6Settings, question: &[u8]) {
    let Some(reply) = answer(told, question) else { return };
    let bytes = &reply.bytes;
    assert!(matches!(bytes[0], 2 | 7), "the kind of an answer is {}", bytes[0]);
    assert_eq!(bytes[1..4], question[1..4], "the answer is to another request");
    assert!(bytes.len() <= MOST, "an answer has {} bytes", bytes.len());
    let mut servers = 0;
    for (kind, value) in options(&bytes[4..]) {
        servers += usize::from(kind == 2);
        if kind == 3 {
            for (kind, value) in options(&value[12..]) {
                assert_eq!(kind, 5, "an association has something beside an address");
                assert_eq!(value[..16], OURS.octets(), "another's address");
            }
        }
    }
    assert_eq!(servers, 1, "an answer names its server once");
    assert_eq!(answer(told, question), Some(reply), "the same request gets another answer");
}

/// The options in some bytes, each of which must be whole.
fn options(mut rest: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let [a, b, c, d, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*c, *d]));
        assert!(length <= after.len(), "an option has {length} bytes of {}", after.len());
        all.push((u16::from_be_bytes([*a, *b]), &after[..length]));
        rest = &after[length..];
    }
    assert!(rest.is_empty(), "something stands behind the options");
    all
}

/// Settings of a guest: more of everything, the larger the number.
fn told(much: u8) -> Dhcp6Settings {
    let times = usize::from(much & 0x3f);
    Dhcp6Settings {
        lease: Lease6 { device: "k6t-eth0".into(), address: OURS },
        dns: vec![OURS; times],
        search: vec!["w".repeat(times * 2); times],
    }
}
