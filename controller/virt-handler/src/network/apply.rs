//! Applies the steps of a plan, in the network namespace of this thread. Each step first checks whether it is
//! done already.
#![expect(
    clippy::disallowed_methods,
    reason = "the kernel's own settings, in work of virt_handler::blocking"
)]

use super::facts::{Card, Mac};
use super::look::{is_stand_in, note};
use super::netlink::{Socket, link, rules};
use super::plan::Step;
use super::{names, tap};
use crate::error::{Error, Result};
use std::fs;
use std::io;

/// Applies the steps in order, and stops at the first error.
pub(super) fn apply(steps: &[Step]) -> Result<()> {
    let open = |e| Error::io("cannot open a netlink socket for the pod's network", e);
    let mut hand =
        NetworkWriter { route: Socket::route().map_err(open)?, filter: Socket::netfilter().map_err(open)? };
    for step in steps {
        hand.step(step).map_err(|e| Error::io(format!("cannot set up the pod's network ({step})"), e))?;
    }
    Ok(())
}

struct NetworkWriter {
    route: Socket,
    filter: Socket,
}

impl NetworkWriter {
    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::PutAside { card, mac } => self.put_aside(card, *mac),
            Step::Bridge { name, mac, mtu } => self.find_or_create("bridge", name, *mac, *mtu).map(|_| ()),
            Step::Tap { name, mtu, queues } => self.tap(name, *mtu, *queues),
            Step::Address(name, address) => {
                let index = self.find(name)?.index;
                forgive(
                    self.route.change(link::add_address(index, address, false)),
                    io::ErrorKind::AlreadyExists,
                )
            }
            Step::Join(name, bridge) => {
                let (it, bridge) = (self.find(name)?, self.find(bridge)?.index);
                if it.master == bridge { Ok(()) } else { self.route.change(link::join(it.index, bridge)) }
            }
            Step::LearnNothing(name) => {
                let index = self.find(name)?.index;
                self.route.change(link::learn_nothing(index))
            }
            Step::Up(name) => {
                let index = self.find(name)?.index;
                self.route.change(link::switch(index, true))
            }
            Step::Set(key, value) => set(key, *value),
            Step::Lower(key, value) => match get(key)? {
                now if now <= *value => Ok(()),
                _ => set(key, *value),
            },
            Step::PingGroup(group) => set_range("ipv4/ping_group_range", *group, *group),
            Step::Rules(table) => rules::replace_chains(&mut self.filter, table),
        }
    }

    /// All settings of the card are copied to the dummy before they are removed from the card; then both
    /// change names.
    fn put_aside(&mut self, card: &Card, mac: Mac) -> io::Result<()> {
        let (aside, early) = (names::renamed_card(&card.name), names::stand_in(&card.name));
        if self.find_link(&aside)?.is_none() {
            if !self.find_link(&early)?.is_some_and(|link| is_stand_in(&link)) {
                if let Some(half) = self.find_link(&early)? {
                    self.route.change(link::remove(half.index))?;
                }
                let dummy = self.create_dummy(&early, card)?.index;
                for address in &card.addresses {
                    self.route.change(link::add_address(dummy, address, true))?;
                }
                self.route.change(link::alias(dummy, &note(&card.routes)))?;
            }
            let real = self.find(&card.name)?.index;
            self.route.change(link::switch(real, false))?;
            self.route.change(link::rename(real, &aside))?;
        }
        let real = self.find(&aside)?.index;
        for address in link::addresses(&mut self.route, real)? {
            self.route.change(link::remove_address(real, &address))?;
        }
        self.route.change(link::set_mac(real, mac))?;
        if let Some(dummy) = self.find_link(&early)? {
            self.route.change(link::rename(dummy.index, &card.name))?;
        }
        Ok(())
    }

    /// Makes a dummy link. If the kernel has no dummies, a bridge without ports serves as well.
    fn create_dummy(&mut self, name: &str, card: &Card) -> io::Result<link::Link> {
        match self.find_or_create("dummy", name, card.mac, card.mtu) {
            Err(e) if e.kind() == io::ErrorKind::Unsupported => {
                self.find_or_create("bridge", name, card.mac, card.mtu)
            }
            other => other,
        }
    }

    fn tap(&mut self, name: &str, mtu: u32, queues: bool) -> io::Result<()> {
        // An existing tap may be in use, and must not be opened again.
        if self.find_link(name)?.is_none() {
            tap::make(name, queues)?;
        }
        let it = self.find(name)?;
        if it.mtu == mtu { Ok(()) } else { self.route.change(link::set_mtu(it.index, mtu)) }
    }

    fn find_or_create(&mut self, kind: &str, name: &str, mac: Mac, mtu: u32) -> io::Result<link::Link> {
        match self.find_link(name)? {
            Some(found) if found.kind == kind => Ok(found),
            Some(found) => Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("link {name} exists already with type {:?} instead of {kind}", found.kind),
            )),
            None => {
                self.route.change(link::make(kind, name, mac, mtu))?;
                self.find(name)
            }
        }
    }

    fn find(&mut self, name: &str) -> io::Result<link::Link> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, format!("link {name} does not exist"));
        self.find_link(name)?.ok_or_else(gone)
    }

    fn find_link(&mut self, name: &str) -> io::Result<Option<link::Link>> {
        Ok(link::links(&mut self.route)?.into_iter().find(|link| link.name == name))
    }
}

fn get(key: &str) -> io::Result<u32> {
    let text = fs::read_to_string(path(key))?;
    text.trim()
        .parse()
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("{key} is {text:?}: {e}")))
}

fn set(key: &str, value: u32) -> io::Result<()> {
    // An unchanged value is not written: the folder may be read-only.
    if get(key).is_ok_and(|now| now == value) {
        return Ok(());
    }
    fs::write(path(key), value.to_string())
}

fn set_range(key: &str, first: u32, last: u32) -> io::Result<()> {
    let wanted = [first.to_string(), last.to_string()];
    let now = fs::read_to_string(path(key))?;
    if contains_range(&now, first, last) {
        return Ok(());
    }
    fs::write(path(key), wanted.join(" "))
}

/// True if the current range contains the wanted one: other programs in the pod may need a wider one.
fn contains_range(now: &str, first: u32, last: u32) -> bool {
    let numbers: Vec<u32> = now.split_whitespace().map_while(|number| number.parse().ok()).collect();
    matches!(numbers[..], [least, most] if least <= first && last <= most)
}

/// Path of a kernel setting. These files show the network of the thread that opens them.
fn path(key: &str) -> String {
    format!("/proc/sys/net/{key}")
}

fn forgive(result: io::Result<()>, kind: io::ErrorKind) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == kind => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_range_of_groups_that_may_ping_stays() {
        assert!(contains_range("0\t2147483647\n", 107, 107) && contains_range("107\t107\n", 107, 107));
        assert!(
            !contains_range("1\t0\n", 107, 107)
                && !contains_range("200\t300\n", 107, 107)
                && !contains_range("", 107, 107)
        );
    }
}
