use super::message::{option, options};
use super::*;

const CLIENT: [u8; 10] = [0, 3, 0, 1, 2, 0, 0, 0, 1, 7];

fn answer(told: &Dhcp6Settings, bytes: &[u8]) -> Option<Vec<u8>> {
    super::answer(told, bytes).map(|reply| reply.bytes)
}

fn told() -> Dhcp6Settings {
    Dhcp6Settings {
        lease: Lease6 { device: "k6t-eth0".into(), address: "fd10:0:2::2".parse().unwrap() },
        dns: vec!["fd00::a".parse().unwrap()],
        search: vec!["ns.svc.cluster.local".into()],
    }
}

/// An association with these addresses.
fn association(addresses: &[&str]) -> Vec<u8> {
    let mut value = vec![1, 2, 3, 4];
    value.extend([0; 8]);
    for address in addresses {
        let mut one = address.parse::<Ipv6Addr>().unwrap().octets().to_vec();
        one.extend([0; 8]);
        option(&mut value, 5, &one);
    }
    value
}

/// A request with the guest's identifier and further options.
fn question(kind: u8, more: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![kind, 0xaa, 0xbb, 0xcc];
    option(&mut bytes, 1, &CLIENT);
    for (kind, value) in more {
        option(&mut bytes, *kind, value);
    }
    bytes
}

/// What an answer says: its kind, then each option, and the address with its lifetimes.
fn said(answer: Option<Vec<u8>>) -> String {
    let Some(bytes) = answer else { return "nothing".into() };
    assert_eq!(bytes[1..4], [0xaa, 0xbb, 0xcc]);
    let mut words = vec![bytes[0].to_string()];
    for found in options(&bytes[4..]) {
        let (kind, value) = found.unwrap();
        words.push(match kind {
            1 => format!("client={}", value == CLIENT),
            2 => format!("server={}", value == SERVER),
            3 => {
                assert_eq!(value[..12], [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
                let (_, inner) = options(&value[12..]).next().unwrap().unwrap();
                assert_eq!(
                    (&inner[16..20], &inner[20..]),
                    (&LEASE.to_be_bytes()[..], &LEASE.to_be_bytes()[..])
                );
                Ipv6Addr::from(<[u8; 16]>::try_from(&inner[..16]).unwrap()).to_string()
            }
            13 => format!("status={}", value[1]),
            23 => format!("dns={}", Ipv6Addr::from(<[u8; 16]>::try_from(value).unwrap())),
            24 => String::from_utf8_lossy(value).escape_default().to_string(),
            other => format!("{other}={value:?}"),
        });
    }
    words.join(" ")
}

#[test]
fn a_solicit_is_offered_the_address_and_a_request_gets_it() {
    let (want, settings) = (association(&[]), r"dns=fd00::a \u{2}ns\u{3}svc\u{7}cluster\u{5}local\u{0}");
    let lease = format!("client=true server=true fd10:0:2::2 {settings}");
    assert_eq!(said(answer(&told(), &question(1, &[(3, &want)]))), format!("2 {lease}"));
    // Without asking twice, where the guest wants that.
    let quick = answer(&told(), &question(1, &[(14, &[]), (3, &want)]));
    assert_eq!(said(quick), format!("7 {lease} 14=[]"));
    for kind in [3, 5] {
        let ours = answer(&told(), &question(kind, &[(2, &SERVER), (3, &want)]));
        assert_eq!(said(ours), format!("7 {lease}"), "{kind}");
        // Another server was chosen, or none.
        assert_eq!(answer(&told(), &question(kind, &[(2, &CLIENT), (3, &want)])), None, "{kind}");
        assert_eq!(answer(&told(), &question(kind, &[(3, &want)])), None, "{kind}");
    }
    assert_eq!(said(answer(&told(), &question(6, &[(3, &want)]))), format!("7 {lease}"));
    // A guest that wants no address is told the rest.
    assert_eq!(said(answer(&told(), &question(1, &[]))), format!("2 client=true server=true {settings}"));
    let bare = Dhcp6Settings { dns: vec![], search: vec![], ..told() };
    assert_eq!(said(answer(&bare, &question(1, &[(3, &want)]))), "2 client=true server=true fd10:0:2::2");
}

#[test]
fn the_guest_has_one_address_whatever_it_wishes() {
    let wish = association(&["fd10:0:2::1", "2001:db8::1"]);
    let offered = said(answer(&told(), &question(1, &[(3, &wish)])));
    assert!(offered.starts_with("2 client=true server=true fd10:0:2::2 dns="), "{offered}");
    // Of many associations the first has it.
    let mut other = wish.clone();
    other[0] = 9;
    let offered = said(answer(&told(), &question(1, &[(3, &wish), (3, &other), (3, &other)])));
    assert_eq!(offered.matches("fd10:0:2::2").count(), 1, "{offered}");
}

#[test]
fn an_address_is_confirmed_or_is_not() {
    let ask = |addresses: &[&str]| said(answer(&told(), &question(4, &[(3, &association(addresses))])));
    assert_eq!(ask(&["fd10:0:2::2"]), "7 client=true server=true status=0");
    assert_eq!(ask(&["fd10:0:2::2", "fd10:0:2::3"]), "7 client=true server=true status=4");
    assert_eq!(ask(&[]), "nothing");
    assert_eq!(answer(&told(), &question(4, &[])), None);
    for kind in [8, 9] {
        let ended = answer(&told(), &question(kind, &[(2, &SERVER), (3, &association(&["fd10:0:2::2"]))]));
        assert_eq!(said(ended), "7 client=true server=true status=0");
    }
}

#[test]
fn a_guest_with_an_address_of_its_own_is_told_the_rest() {
    let bytes = [11, 0xaa, 0xbb, 0xcc];
    assert!(said(answer(&told(), &bytes)).starts_with("7 server=true dns=fd00::a"));
    assert_eq!(answer(&told(), &question(11, &[(3, &association(&[]))])), None);
}

#[test]
fn what_is_no_request_to_us_is_not_answered() {
    for kind in [0, 2, 7, 10, 12, 13, 255] {
        assert_eq!(answer(&told(), &question(kind, &[])), None, "{kind}");
    }
    // Without an identifier, or with one that is none, or for another server.
    assert_eq!(answer(&told(), &[1, 0xaa, 0xbb, 0xcc]), None);
    let mut empty = vec![1, 0xaa, 0xbb, 0xcc];
    option(&mut empty, 1, &[]);
    assert_eq!(answer(&told(), &empty), None);
    let mut long = vec![1, 0xaa, 0xbb, 0xcc];
    option(&mut long, 1, &[7; 131]);
    assert_eq!(answer(&told(), &long), None);
    assert_eq!(answer(&told(), &question(1, &[(2, &SERVER)])), None);
}

#[test]
fn packets_that_are_cut_off_or_have_false_lengths_are_ignored() {
    let whole = question(1, &[(3, &association(&["fd10:0:2::2"])), (14, &[])]);
    assert!(answer(&told(), &whole).is_some());
    // The identifier ends at 18, the association at 62: what ends between two options is still a request.
    for length in 0..whole.len() {
        let cut = answer(&told(), &whole[..length]);
        assert!(cut.is_none() || [18, 62].contains(&length), "{length}");
    }
    for lie in [&[0, 3, 0, 4, 1, 2, 3, 4][..], &[0, 3, 0xff, 0xff], &[0, 2, 0, 0], &[0]] {
        let mut bytes = question(1, &[]);
        bytes.extend(lie);
        assert_eq!(answer(&told(), &bytes), None, "{lie:?}");
    }
    let mut inner = association(&[]);
    option(&mut inner, 5, &[0; 23]);
    assert_eq!(answer(&told(), &question(1, &[(3, &inner)])), None);
}

#[test]
fn an_answer_fits_on_every_link_and_keeps_the_address() {
    let mut told = told();
    told.dns = vec!["fd00::a".parse().unwrap(); 32];
    told.search = (0..32).map(|n| format!("{}{n}.example", "long".repeat(10))).collect();
    let mut bytes = vec![1, 0xaa, 0xbb, 0xcc];
    option(&mut bytes, 1, &[7; 130]);
    option(&mut bytes, 3, &association(&[]));
    let Reply { bytes: large, left_out } = super::answer(&told, &bytes).unwrap();
    assert_eq!(left_out, [24], "the search domains");
    assert!(large.len() <= 1232, "{}", large.len());
    assert!(large.windows(16).any(|window| window == told.lease.address.octets()));
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
        fn no_options_break_the_server_and_answers_stay_small(
            more in proptest::collection::vec(any::<u8>(), 0..600), kind in 1..12u8, ours in any::<bool>()
        ) {
            let server: &[(u16, &[u8])] = if ours { &[(2, &SERVER)] } else { &[] };
            let mut bytes = question(kind, server);
            bytes.extend(more);
            if let Some(answer) = answer(&told(), &bytes) {
                prop_assert!(answer.len() <= 1232);
                prop_assert!(matches!(answer[0], 2 | 7));
                prop_assert!(options(&answer[4..]).all(|option| option.is_some()));
            }
        }
    }
}
