//! Limits of what a guest and its launcher may report. Pure.
//!
//! Both belong to a tenant, and their reports end up in an object of the cluster, in events and on screens.
//! Longer text is cut and marked. Malformed values are left out and counted.
//!
//! | value | limit |
//! |---|---|
//! | interfaces that only the guest reports | [`INTERFACES`], and each that is in the spec |
//! | addresses of an interface | [`ADDRESSES`]; each an IP address, without repetition |
//! | name of an interface | [`NAME`] characters; a MAC is six bytes |
//! | fields about the guest's system | [`SYSTEM`] characters each, known fields only |
//! | commands of the guest agent | known ones, each once |
//! | interfaces with a link | [`LINKS`] |
//! | load | [`LOAD`] processes; only finite numbers |
//! | message, reason, disk name in the guest | [`SENTENCE`], [`WORD`], [`TARGET`] characters |
//! | times of a VMI's phases | left out: they are for the users of a launcher without a cluster |

use crate::agent;
use api::launcher::{GuestCommand, GuestInfo, GuestInterface, GuestLoad, State};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

pub(crate) use launcher_client::sanitize::{SENTENCE, text};

/// Interfaces that only the guest reports.
pub(crate) const INTERFACES: usize = 32;
/// Addresses of an interface.
pub(crate) const ADDRESSES: usize = 16;
/// Characters of an interface's name.
pub(crate) const NAME: usize = 64;
/// Characters of a field about the guest's system.
pub(crate) const SYSTEM: usize = 128;
/// Characters of a reason.
pub(crate) const WORD: usize = 64;
/// Characters of a disk's name in the guest.
pub(crate) const TARGET: usize = 32;
/// Processes that run or wait at once: Linux has no more process IDs.
const LOAD: f64 = 4_194_304.0;
const DISKS: usize = 512;
/// Interfaces with a link: a VMI with bridges has fewer.
const LINKS: usize = 256;
/// Fields about the guest's system that are reported, as the guest agent names them.
const OF_SYSTEM: [&str; 8] =
    ["name", "kernel-release", "version", "pretty-name", "version-id", "kernel-version", "machine", "id"];

/// True for a valid device name, on the host or in a guest.
pub(crate) fn is_device(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= TARGET && name.chars().all(plain)
}

/// The state that a launcher reports, within the limits.
pub(crate) fn state(mut state: State) -> State {
    let word = |said: String| {
        let is_one =
            !said.is_empty() && said.len() <= WORD && said.chars().all(|c| c.is_ascii_alphanumeric());
        is_one.then_some(said)
    };
    state.reason = state.reason.and_then(word);
    state.message = state.message.map(|message| text(&message, SENTENCE));
    if let Some(credentials) = &mut state.credentials {
        credentials.reason = word(std::mem::take(&mut credentials.reason)).unwrap_or_default();
        credentials.message = text(&credentials.message, SENTENCE);
    }
    let is_context = |text: &String| text.len() <= WORD && text.chars().all(|c| c.is_ascii_graphic());
    state.selinux = state.selinux.filter(is_context);
    state.targets.retain(|_, target| is_device(target));
    while state.targets.len() > DISKS {
        state.targets.pop_last();
    }
    while state.sizes.len() > DISKS {
        state.sizes.pop_last();
    }
    while state.links.len() > LINKS {
        state.links.pop_last();
    }
    state.phases = Vec::new();
    state
}

/// The report of a guest agent within the limits, and a message about omitted parts. Interfaces with a MAC in
/// `ours` come before those that only the guest reports.
pub(crate) fn guest(said: GuestInfo, ours: &BTreeSet<String>) -> (GuestInfo, Option<String>) {
    let is_ours = |interface: &GuestInterface| {
        interface.mac.as_ref().is_some_and(|mac| ours.contains(&mac.to_ascii_lowercase()))
    };
    let all = said.interfaces.len();
    let (mut first, others): (Vec<_>, Vec<_>) = said.interfaces.into_iter().partition(is_ours);
    // One for each MAC: if a guest reports one MAC for a thousand cards, only the first counts.
    let mut seen = BTreeSet::new();
    first.retain(|interface| seen.insert(interface.mac.as_ref().map(|mac| mac.to_ascii_lowercase())));
    let lost = &mut 0;
    let interfaces: Vec<GuestInterface> = first
        .into_iter()
        .chain(others.into_iter().take(INTERFACES))
        .map(|one| interface(one, lost))
        .collect();
    let mut left_out = Vec::new();
    if interfaces.len() < all {
        left_out.push(format!("{} of {all} interfaces", all - interfaces.len()));
    }
    if *lost > 0 {
        left_out.push(format!("{lost} addresses"));
    }
    let system = said.os.into_iter().filter(|(key, _)| OF_SYSTEM.contains(&key.as_str()));
    let short = |said: Option<String>| said.map(|said| text(&said, SYSTEM));
    let info = GuestInfo {
        agent_version: short(said.agent_version),
        hostname: short(said.hostname),
        os: system.map(|(key, said)| (key, text(&said, SYSTEM))).collect::<BTreeMap<_, _>>(),
        timezone: short(said.timezone),
        interfaces,
        commands: supported_commands(said.commands),
        // The status has no field for it.
        load: None,
    };
    let note = format!("the output of the guest agent was truncated; omitted: {}", left_out.join(", "));
    (info, (!left_out.is_empty()).then_some(note))
}

/// The load of a guest, without impossible values.
pub(crate) fn load(said: GuestLoad) -> Option<GuestLoad> {
    let one = |load: Option<f64>| load.filter(|load| (0.0..=LOAD).contains(load));
    let load = GuestLoad { load1m: one(said.load1m), load5m: one(said.load5m), load15m: one(said.load15m) };
    (load != GuestLoad::default()).then_some(load)
}

/// Commands that are checked for support ([`agent::JUDGED`]), each once.
fn supported_commands(commands: Vec<GuestCommand>) -> Vec<GuestCommand> {
    let mut seen = BTreeSet::new();
    let is_one =
        |one: &GuestCommand| agent::JUDGED.contains(&one.name.as_str()) && seen.insert(one.name.clone());
    commands.into_iter().filter(is_one).collect()
}

/// An interface within the limits; adds the number of omitted addresses to `lost`.
fn interface(said: GuestInterface, lost: &mut usize) -> GuestInterface {
    let all = said.ips.len();
    let mut seen = BTreeSet::new();
    let is_new = |ip: &String| ip.parse::<IpAddr>().is_ok_and(|ip| seen.insert(ip));
    let ips: Vec<String> = said.ips.into_iter().filter(is_new).take(ADDRESSES).collect();
    *lost += all - ips.len();
    GuestInterface { name: text(&said.name, NAME), mac: said.mac.filter(|mac| is_mac(mac)), ips }
}

fn is_mac(text: &str) -> bool {
    let mut bytes = 0;
    let all = text.split([':', '-']).all(|byte| {
        bytes += 1;
        byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit())
    });
    all && bytes == 6
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(name: &str, mac: &str, ips: Vec<String>) -> GuestInterface {
        GuestInterface { name: name.into(), mac: Some(mac.into()), ips }
    }

    #[test]
    fn a_load_that_no_guest_can_have_is_none() {
        let of = |one: f64| load(GuestLoad { load1m: Some(one), load5m: Some(3.0), load15m: None }).unwrap();
        for strange in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5, 1e300, LOAD + 1.0] {
            assert_eq!(of(strange), GuestLoad { load5m: Some(3.0), ..GuestLoad::default() }, "{strange}");
        }
        assert_eq!((of(0.0).load1m, of(LOAD).load1m), (Some(0.0), Some(LOAD)));
        let none = GuestLoad { load1m: Some(-1.0), ..GuestLoad::default() };
        assert_eq!((load(none), load(GuestLoad::default())), (None, None));
    }

    #[test]
    fn ten_thousand_addresses_are_sixteen_and_a_sentence() {
        let many: Vec<String> = (0..10_000u32).map(|n| std::net::Ipv4Addr::from(n).to_string()).collect();
        let mut interfaces: Vec<GuestInterface> = (0..1000u32)
            .map(|n| seen("veth", &format!("02:00:00:00:{:02x}:{:02x}", n / 256, n % 256), vec![]))
            .collect();
        interfaces.push(seen("eth0", "02:AA:00:00:00:01", many));
        let ours = BTreeSet::from(["02:aa:00:00:00:01".to_owned()]);
        let (info, note) = guest(GuestInfo { interfaces, ..GuestInfo::default() }, &ours);
        assert_eq!((info.interfaces.len(), info.interfaces[0].name.as_str()), (INTERFACES + 1, "eth0"));
        assert_eq!(info.interfaces[0].ips.len(), ADDRESSES);
        let note = note.unwrap();
        assert!(note.contains("968 of 1001 interfaces") && note.contains("9984 addresses"), "{note}");
    }

    #[test]
    fn what_has_not_its_form_is_left_out_and_what_is_long_is_cut() {
        let long = "x".repeat(1 << 20);
        let ips =
            ["10.0.0.1", "10.0.0.1", "fe80::1", "<script>", "10.0.0.1/8", ""].map(str::to_owned).to_vec();
        let said = GuestInfo {
            os: [
                ("name".to_owned(), long.clone()),
                ("machine".to_owned(), "x86\u{1b}[2J".into()),
                (long.clone(), "y".into()),
            ]
            .into(),
            interfaces: vec![seen(&long, "not a mac", ips)],
            ..GuestInfo::default()
        };
        let (info, note) = guest(said, &BTreeSet::new());
        let one = &info.interfaces[0];
        assert_eq!(
            (one.ips.as_slice(), &one.mac),
            (&["10.0.0.1".to_owned(), "fe80::1".to_owned()][..], &None)
        );
        assert_eq!(one.name.chars().count(), NAME);
        assert!(info.os["name"].ends_with("(truncated)") && info.os["name"].chars().count() == SYSTEM);
        assert_eq!((info.os.len(), info.os["machine"].as_str()), (2, "x86 [2J"));
        assert!(note.unwrap().contains("4 addresses"));
        let plain = GuestInfo {
            interfaces: vec![seen("eth0", "02:00:00:00:00:01", vec!["::1".into()])],
            ..GuestInfo::default()
        };
        assert_eq!(guest(plain.clone(), &BTreeSet::new()), (plain, None), "what is as it should be stays");
    }

    #[test]
    fn of_ten_thousand_commands_those_remain_that_are_known() {
        let one = |name: &str, enabled| GuestCommand { name: name.into(), enabled };
        let mut commands: Vec<GuestCommand> = (0..10_000).map(|n| one(&format!("guest-{n}"), true)).collect();
        commands.extend([one("guest-ping", true), one("guest-ping", false), one("guest-exec", false)]);
        let (info, _) = guest(GuestInfo { commands, ..GuestInfo::default() }, &BTreeSet::new());
        assert_eq!(info.commands, [one("guest-ping", true), one("guest-exec", false)]);
    }

    #[test]
    fn nothing_turns_a_text_around_or_ends_its_line() {
        for c in
            "\n\r\u{1b}\u{85}\u{61c}\u{200b}\u{200f}\u{202a}\u{202e}\u{2028}\u{2029}\u{2066}\u{2069}\u{feff}"
                .chars()
        {
            assert_eq!(text(&format!("a{c}b"), 9), "a b", "{c:?}");
        }
        assert_eq!(text("Größe, 大きさ, גודל", 99), "Größe, 大きさ, גודל");
    }

    #[test]
    fn a_launchers_words_are_words() {
        let links: BTreeMap<String, bool> = (0..5000).map(|number| (number.to_string(), true)).collect();
        let said: State = serde_json::from_value(json!({
            "links": links, "number": 1, "generation": 1, "life": "Paused", "since": "x", "agent": false,
            "reason": "a <b>", "message": "y".repeat(5000),
            "targets": {"root": "vda", "data": "../../etc", "other": "z".repeat(64)},
            "phases": vec![("Paused", "y".repeat(5000)); 5000],
            "credentials": {"synchronized": false, "reason": "<b>", "message": "z".repeat(5000)},
        }))
        .unwrap();
        let told = state(said);
        let targets = (0..5000).map(|number| (format!("d{number}"), "vda".to_owned())).collect();
        assert_eq!(state(State { targets, ..told.clone() }).targets.len(), DISKS);
        let credentials = told.credentials.clone().unwrap();
        assert_eq!((credentials.reason.as_str(), credentials.message.chars().count()), ("", SENTENCE));
        assert_eq!((told.reason, told.message.unwrap().chars().count()), (None, SENTENCE));
        assert_eq!(told.targets, [("root".to_owned(), "vda".to_owned())].into());
        assert_eq!((told.links.len(), told.phases.len()), (LINKS, 0));
    }
}
