//! Properties that must hold for any DHCP request of a guest, with any settings.

use api::lease::{Lease, Route};
use launcher::net::dhcp::{DhcpSettings, Mac, Reply, answer};
use std::net::Ipv4Addr;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HEAD: usize = 236;
/// The size limit of an answer: a link's packet without the headers of IP and UDP.
const MOST: usize = 1280 - 28;

/// A byte that chooses the size of the settings, then the request.
pub(crate) fn dhcp(input: &[u8]) {
    let Some((&much, question)) = input.split_first() else { return };
    let told = told(much);
    check(&told, question);
    // The same request as if from our own guest, which a fuzzer need not find out: on Ethernet, with our address and the
    // magic number.
    let mut ours = question.to_vec();
    ours.resize(ours.len().max(HEAD + 4), 0);
    ours[..3].copy_from_slice(&[1, 1, 6]);
    ours[24..28].fill(0);
    ours[28..34].copy_from_slice(&MAC);
    ours[HEAD..HEAD + 4].copy_from_slice(&[99, 130, 83, 99]);
    check(&told, &ours);
}

fn check(told: &DhcpSettings, question: &[u8]) {
    let Some(reply) = answer(told, question) else { return };
    let Reply { to, bytes, .. } = &reply;
    assert!(question.len() >= HEAD + 4, "a packet that is not a request is answered");
    assert_eq!(question[28..34], told.mac.0, "a request of another client is answered");
    assert!((300..=MOST).contains(&bytes.len()), "an answer has {} bytes", bytes.len());
    assert_eq!(bytes[..3], [2, 1, 6]);
    assert_eq!(bytes[4..8], question[4..8], "the answer is to another request");
    assert_eq!(bytes[28..34], told.mac.0);
    let yours = Ipv4Addr::new(bytes[16], bytes[17], bytes[18], bytes[19]);
    assert!(yours == told.lease.address || yours == Ipv4Addr::UNSPECIFIED, "another's address: {yours}");
    let client = Ipv4Addr::new(question[12], question[13], question[14], question[15]);
    assert!([Ipv4Addr::BROADCAST, client].contains(to), "sent to {to}");
    // Every option is whole, and the end stands behind them.
    let mut rest = &bytes[HEAD + 4..];
    let mut kinds = 0;
    while let [kind, length, after @ ..] = rest {
        if *kind == 255 {
            break;
        }
        let length = usize::from(*length);
        assert!(length <= after.len(), "option {kind} has {length} bytes of {}", after.len());
        kinds += usize::from(*kind == 53);
        rest = &after[length..];
    }
    assert_eq!(rest.first(), Some(&255), "the options have no end");
    assert!(rest[1..].iter().all(|byte| *byte == 0), "something stands behind the end");
    assert_eq!(kinds, 1, "an answer has its message type once");
    assert_eq!(answer(told, question), Some(reply), "the same request gets another answer");
}

/// Settings of a guest: more of everything, the larger the number.
fn told(much: u8) -> DhcpSettings {
    let server = Ipv4Addr::new(10, 0, 2, 1);
    let times = usize::from(much & 0x3f);
    let word = |length: usize| "w".repeat(length);
    let lease = Lease {
        device: "k6t-eth0".into(),
        server,
        address: Ipv4Addr::new(10, 0, 2, 2),
        prefix: much % 33,
        router: (much & 0x80 != 0).then_some(server),
        routes: (0..times)
            .map(|i| Route {
                to: Ipv4Addr::new(10, 9, 0, 0),
                prefix: (i % 33) as u8,
                via: (i & 1 == 0).then_some(server),
            })
            .collect(),
    };
    DhcpSettings {
        mac: Mac(MAC),
        lease,
        mtu: (much & 0x40 != 0).then_some(1400),
        dns: vec![server; times],
        search: vec![word(times * 2); times],
        hostname: (times > 0).then(|| word(times)),
        domain: Some(word(times * 5)),
        boot_file: Some(word(times * 4)),
        tftp_server: (much & 0x80 != 0).then(|| "10.0.2.9".to_owned()),
        ntp: vec![server; times / 8],
        private: (224..=254).take(times / 4).map(|kind| (kind, word(times * 6))).collect(),
    }
}
