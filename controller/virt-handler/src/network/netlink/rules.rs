//! Encoding of nftables rules for the kernel: each match is a few small instructions (load into register 1,
//! compare).

use super::message::CREATE;
use super::{Message, Socket};
use crate::network::rules::{Chain, Match, Rule, Table, Verdict};
use std::io;
use std::net::IpAddr;

/// Subsystem of nftables, in the upper byte of a message's type.
const NF_TABLES: u16 = 10 << 8;
const NEW_TABLE: u16 = NF_TABLES;
const NEW_CHAIN: u16 = NF_TABLES | 3;
const NEW_RULE: u16 = NF_TABLES | 6;
const DELETE_RULE: u16 = NF_TABLES | 8;
/// Flag: append the rule to its chain.
const APPEND: u16 = 0x800;

const REGISTER: u32 = 1;
/// Register of the verdict, and the verdicts.
const VERDICT: u32 = 0;
const DROP: i32 = 0;
const JUMP: i32 = -3;
const RETURN: i32 = -5;
/// Headers of a packet that an instruction reads.
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;
/// First byte of loopback addresses.
const LOOPBACK: u8 = 127;
/// Operators of a comparison.
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const NOT_MORE: u32 = 3;
const NOT_LESS: u32 = 5;

/// Replaces the chains of a table by those of the same names, atomically.
pub(crate) fn replace_chains(socket: &mut Socket, table: &Table) -> io::Result<()> {
    socket.batch(messages(table))
}

fn messages(table: &Table) -> Vec<Message> {
    let head = [if table.v6 { 10 } else { 2 }, 0, 0, 0];
    let new = |kind, flags| Message::new(kind, flags, &head);
    let name = table.name;
    let mut all = vec![new(NEW_TABLE, CREATE).text(1, name)];
    // All chains come first: a rule may jump to a later one.
    all.extend(table.chains.iter().map(|chain| chain_message(new(NEW_CHAIN, CREATE).text(1, name), chain)));
    all.extend(table.chains.iter().map(|chain| new(DELETE_RULE, 0).text(1, name).text(2, chain.name)));
    for chain in &table.chains {
        for rule in &chain.rules {
            let message = new(NEW_RULE, CREATE | APPEND).text(1, name).text(2, chain.name);
            all.push(message.nest(4, |list| instructions(list, rule)));
        }
    }
    all
}

fn chain_message(message: Message, chain: &Chain) -> Message {
    let message = message.text(3, chain.name);
    let Some(hook) = chain.hook else { return message };
    let (number, priority) = hook.number_and_priority();
    message.nest(4, |place| place.big(1, number).put(2, &priority.to_be_bytes())).text(7, hook.kind())
}

fn instructions(list: Message, rule: &Rule) -> Message {
    let list = rule.matches.iter().fold(list, |list, wanted| match wanted {
        Match::From(link) => equal(meta(list, 6), &padded(link)),
        Match::NotFrom(link) => compared(meta(list, 6), NOT_EQUAL, &padded(link)),
        Match::To(link) => equal(meta(list, 7), &padded(link)),
        Match::Source(ip) => equal(source(list, *ip), &octets(*ip)),
        Match::NotSource(ip) => compared(source(list, *ip), NOT_EQUAL, &octets(*ip)),
        Match::Destination(ip) => equal(destination(list, *ip), &octets(*ip)),
        Match::NotDestination(ip) => compared(destination(list, *ip), NOT_EQUAL, &octets(*ip)),
        // For a network of eight bits, the first byte is enough.
        Match::FromLoopback => equal(payload(list, NETWORK, 12, 1), &[LOOPBACK]),
        Match::ToLoopback => equal(payload(list, NETWORK, 16, 1), &[LOOPBACK]),
        Match::Ports(protocol, first, last) => {
            let list = equal(meta(list, 16), &[*protocol]);
            let list = payload(list, TRANSPORT, 2, 2);
            match first == last {
                true => equal(list, &first.to_be_bytes()),
                false => {
                    let list = compared(list, NOT_LESS, &first.to_be_bytes());
                    compared(list, NOT_MORE, &last.to_be_bytes())
                }
            }
        }
    });
    let list = instruction(list, "counter", |data| data.put(1, &[0; 8]).put(2, &[0; 8]));
    match &rule.verdict {
        Verdict::Masquerade => instruction(list, "masq", |data| data),
        Verdict::Jump(chain) => instruction(list, "immediate", |data| {
            data.big(1, VERDICT)
                .nest(2, |value| value.nest(2, |verdict| verdict.put(1, &JUMP.to_be_bytes()).text(2, chain)))
        }),
        Verdict::Return => verdict(list, RETURN),
        Verdict::Drop => verdict(list, DROP),
        Verdict::Snat(ip) => translated(list, 0, *ip),
        Verdict::Dnat(ip) => translated(list, 1, *ip),
    }
}

fn verdict(list: Message, how: i32) -> Message {
    instruction(list, "immediate", |data| {
        data.big(1, VERDICT).nest(2, |value| value.nest(2, |verdict| verdict.put(1, &how.to_be_bytes())))
    })
}

fn translated(list: Message, direction: u32, ip: IpAddr) -> Message {
    let family = if ip.is_ipv4() { 2 } else { 10 };
    let list = instruction(list, "immediate", |data| {
        data.big(1, REGISTER).nest(2, |value| value.put(1, &octets(ip)))
    });
    instruction(list, "nat", |data| data.big(1, direction).big(2, family).big(3, REGISTER).big(4, REGISTER))
}

/// Loads metadata of a packet.
fn meta(list: Message, key: u32) -> Message {
    instruction(list, "meta", |data| data.big(2, key).big(1, REGISTER))
}

/// Loads bytes of a packet.
fn payload(list: Message, base: u32, offset: u32, length: u32) -> Message {
    instruction(list, "payload", |data| data.big(1, REGISTER).big(2, base).big(3, offset).big(4, length))
}

/// Loads the source address, from the header of the address's family.
fn source(list: Message, ip: IpAddr) -> Message {
    payload(list, NETWORK, if ip.is_ipv4() { 12 } else { 8 }, size(ip))
}

/// Loads the destination address, from the header of the address's family.
fn destination(list: Message, ip: IpAddr) -> Message {
    payload(list, NETWORK, if ip.is_ipv4() { 16 } else { 24 }, size(ip))
}

fn equal(list: Message, value: &[u8]) -> Message {
    compared(list, EQUAL, value)
}

fn compared(list: Message, how: u32, value: &[u8]) -> Message {
    instruction(list, "cmp", |data| data.big(1, REGISTER).big(2, how).nest(3, |inside| inside.put(1, value)))
}

fn instruction(list: Message, name: &str, data: impl FnOnce(Message) -> Message) -> Message {
    list.nest(1, |element| element.text(1, name).nest(2, data))
}

/// Name of a link, padded to 16 bytes.
fn padded(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (place, byte) in bytes.iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    bytes
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn size(ip: IpAddr) -> u32 {
    if ip.is_ipv4() { 4 } else { 16 }
}
