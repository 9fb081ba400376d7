use super::*;
use crate::net::serve::ReportedFaults;
use api::lease::Route;
use std::io::{Read as _, Seek as _};
use std::sync::Mutex;

fn told() -> DhcpSettings {
    DhcpSettings {
        mac: Mac([2, 0, 0, 0, 1, 7]),
        lease: Lease {
            device: "k6t-eth0".into(),
            server: Ipv4Addr::new(10, 0, 2, 1),
            address: Ipv4Addr::new(10, 0, 2, 2),
            prefix: 24,
            router: Some(Ipv4Addr::new(10, 0, 2, 1)),
            routes: Vec::new(),
        },
        mtu: Some(1450),
        dns: vec![Ipv4Addr::new(10, 96, 0, 10)],
        search: vec!["ns.svc.cluster.local".into(), "cluster.local".into()],
        hostname: Some("vm".into()),
        domain: Some("ns.svc.cluster.local".into()),
        boot_file: None,
        tftp_server: None,
        ntp: Vec::new(),
        private: Vec::new(),
    }
}

/// A request, with options as they are on the wire.
fn question(kind: u8, more: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, 1, 6, 0, 0xaa, 0xbb, 0xcc, 0xdd];
    bytes.resize(28, 0);
    bytes.extend([2, 0, 0, 0, 1, 7]);
    bytes.resize(236, 0);
    bytes.extend([99, 130, 83, 99, 53, 1, kind]);
    bytes.extend(more);
    bytes.push(255);
    bytes
}

/// The options of an answer, joined where they are in pieces.
fn options_of(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found: Vec<(u8, Vec<u8>)> = Vec::new();
    for option in options::read(&bytes[240..]) {
        let (kind, value) = option.unwrap();
        match found.last_mut() {
            Some((last, bytes)) if *last == kind => bytes.extend(value),
            _ => found.push((kind, value.to_vec())),
        }
    }
    found
}

fn option(bytes: &[u8], kind: u8) -> Option<Vec<u8>> {
    options_of(bytes).into_iter().find(|(known, _)| *known == kind).map(|(_, value)| value)
}

#[test]
fn a_discover_gets_an_offer_with_all_options() {
    let offer = answer(&told(), &question(1, &[])).unwrap();
    assert_eq!(offer.to, Ipv4Addr::BROADCAST);
    assert_eq!(offer.bytes[..8], [2, 1, 6, 0, 0xaa, 0xbb, 0xcc, 0xdd]);
    assert_eq!(offer.bytes[16..20], [10, 0, 2, 2]);
    assert_eq!(offer.bytes[28..34], [2, 0, 0, 0, 1, 7]);
    assert!(offer.bytes.len() >= 300);
    let mut search = b"\x02ns\x03svc\x07cluster\x05local\0".to_vec();
    search.extend(b"\x07cluster\x05local\0");
    let want: Vec<(u8, Vec<u8>)> = vec![
        (53, vec![2]),
        (54, vec![10, 0, 2, 1]),
        (51, 86_313_600_u32.to_be_bytes().to_vec()),
        (1, vec![255, 255, 255, 0]),
        (3, vec![10, 0, 2, 1]),
        (6, vec![10, 96, 0, 10]),
        (26, vec![5, 0xaa]),
        (12, b"vm".to_vec()),
        (15, b"ns.svc.cluster.local".to_vec()),
        (119, search),
    ];
    assert_eq!(options_of(&offer.bytes), want);
}

#[test]
fn a_request_for_another_address_is_refused() {
    let ack = answer(&told(), &question(3, &[50, 4, 10, 0, 2, 2, 54, 4, 10, 0, 2, 1])).unwrap();
    assert_eq!(option(&ack.bytes, 53), Some(vec![5]));
    let nak = answer(&told(), &question(3, &[50, 4, 10, 0, 2, 3])).unwrap();
    assert_eq!((option(&nak.bytes, 53), nak.to), (Some(vec![6]), Ipv4Addr::BROADCAST));
    assert_eq!(option(&nak.bytes, 1), None);
    assert_eq!(nak.bytes[16..20], [0; 4]);
    // Another server was chosen; no address was wanted.
    assert_eq!(answer(&told(), &question(3, &[50, 4, 10, 0, 2, 2, 54, 4, 9, 9, 9, 9])), None);
    assert_eq!(answer(&told(), &question(3, &[])), None);
}

#[test]
fn a_client_with_the_address_is_answered_at_it() {
    let mut renewal = question(3, &[]);
    renewal[12..16].copy_from_slice(&[10, 0, 2, 2]);
    let ack = answer(&told(), &renewal).unwrap();
    assert_eq!((ack.to, option(&ack.bytes, 53)), (Ipv4Addr::new(10, 0, 2, 2), Some(vec![5])));
    let mut inform = question(8, &[]);
    inform[12..16].copy_from_slice(&[10, 0, 2, 2]);
    let ack = answer(&told(), &inform).unwrap();
    assert_eq!((option(&ack.bytes, 51), ack.bytes[16..20].to_vec()), (None, vec![0; 4]));
}

#[test]
fn other_clients_and_other_packets_are_not_answered() {
    let mut other = question(1, &[]);
    other[33] = 8;
    assert_eq!(answer(&told(), &other), None);
    let mut passed_on = question(1, &[]);
    passed_on[24..28].copy_from_slice(&[10, 0, 0, 1]);
    assert_eq!(answer(&told(), &passed_on), None);
    for kind in [0, 2, 4, 5, 6, 7, 9, 255] {
        assert_eq!(answer(&told(), &question(kind, &[])), None, "{kind}");
    }
}

#[test]
fn all_routes_are_sent_and_the_default_route_is_last() {
    let mut told = told();
    told.lease.prefix = 32;
    told.lease.routes = vec![
        Route { to: Ipv4Addr::new(169, 254, 1, 1), prefix: 32, via: None },
        Route { to: Ipv4Addr::new(10, 8, 0, 0), prefix: 13, via: Some(Ipv4Addr::new(10, 0, 2, 9)) },
    ];
    let offer = answer(&told, &question(1, &[])).unwrap();
    let want = [32, 169, 254, 1, 1, 0, 0, 0, 0, 13, 10, 8, 10, 0, 2, 9, 0, 10, 0, 2, 1];
    assert_eq!(option(&offer.bytes, 121), Some(want.to_vec()));
    assert_eq!(option(&offer.bytes, 1), Some(vec![255; 4]));
}

#[test]
fn dhcp_options_of_the_manifest_are_sent() {
    let mut told = told();
    told.boot_file = Some("pxelinux.0".into());
    told.tftp_server = Some("192.0.2.7".into());
    told.ntp = vec![Ipv4Addr::new(192, 0, 2, 8)];
    told.private = vec![(240, "own".into())];
    let offer = answer(&told, &question(1, &[])).unwrap();
    assert_eq!(option(&offer.bytes, 66), Some(b"192.0.2.7".to_vec()));
    assert_eq!(option(&offer.bytes, 67), Some(b"pxelinux.0".to_vec()));
    assert_eq!(option(&offer.bytes, 42), Some(vec![192, 0, 2, 8]));
    assert_eq!(option(&offer.bytes, 240), Some(b"own".to_vec()));
    // The field that firmware reads.
    assert_eq!(offer.bytes[20..24], [192, 0, 2, 7]);
    assert!(offer.bytes[108..].starts_with(b"pxelinux.0\0"));
}

#[test]
fn an_answer_has_the_size_that_the_guest_accepts_and_keeps_the_important_options() {
    let mut told = told();
    told.search = (0..32).map(|n| format!("{}{n}.example", "long".repeat(10))).collect();
    let small = answer(&told, &question(1, &[])).unwrap().bytes;
    assert!(small.len() <= 548, "{}", small.len());
    assert_eq!((option(&small, 3), option(&small, 119)), (Some(vec![10, 0, 2, 1]), None));
    // A client that accepts more gets more, in pieces where an option is too long; no answer is longer than a
    // link allows.
    told.search.truncate(16);
    let large = answer(&told, &question(1, &[57, 2, 0xff, 0xff])).unwrap().bytes;
    assert!(option(&large, 119).unwrap().len() > 255);
    assert!(large.len() <= 1252, "{}", large.len());
}

#[test]
fn the_client_identifier_is_repeated() {
    let mut id = vec![61, 255];
    id.extend([7; 255]);
    let offer = answer(&told(), &question(1, &id)).unwrap();
    assert_eq!(option(&offer.bytes, 61), Some(vec![7; 255]));
    assert!(offer.bytes.len() <= 548);
}

/// A long identifier leaves little room for options.
#[test]
fn options_without_room_are_told_in_one_line_however_often_a_guest_asks() {
    let asked = |length: u8| {
        let mut id = vec![61, length];
        id.extend(std::iter::repeat_n(7, usize::from(length)));
        answer(&told(), &question(1, &id)).unwrap().left_out
    };
    assert_eq!((asked(255), asked(1)), (vec![15, 119], vec![]));
    let mut file = tempfile::tempfile().unwrap();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(Mutex::new(file.try_clone().unwrap()));
    tracing::subscriber::with_default(log.finish(), || {
        let mut faults = ReportedFaults::default();
        for length in (0..1000).map(|n| 255 - u8::try_from(n % 128).unwrap()) {
            faults.left_out("DHCP", &asked(length));
        }
    });
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("options [15, 119] of DHCP do not fit into an answer to the guest"), "{text}");
}

#[test]
fn packets_that_are_cut_off_or_have_false_lengths_are_ignored() {
    let whole = question(1, &[50, 4, 10, 0, 2, 2, 61, 3, 1, 2, 3]);
    assert!(answer(&told(), &whole).is_some());
    for length in 0..whole.len() - 1 {
        // The kind comes first; after it a packet that ends between two options is still a request.
        let cut = answer(&told(), &whole[..length]);
        assert!(cut.is_none() || [243, 249, 254].contains(&length), "{length}");
    }
    for lie in [&[50, 3, 1, 2, 3][..], &[54, 1, 1], &[57, 1, 9], &[57, 0], &[61, 200, 1]] {
        let answered = answer(&told(), &question(1, lie));
        assert!(answered.is_none() || lie[0] == 50, "{lie:?}");
    }
}

mod chance {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_packet_breaks_the_server(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
            drop(answer(&told(), &bytes));
        }

        #[test]
        fn no_options_break_the_server_and_answers_stay_small(options in proptest::collection::vec(any::<u8>(), 0..400), kind in 1..9u8) {
            if let Some(answer) = answer(&told(), &question(kind, &options)) {
                prop_assert!(answer.bytes.len() <= 1252);
            }
        }
    }
}
