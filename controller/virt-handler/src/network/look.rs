//! Observation of the pod's network: the card of an interface, as the cluster's network plugin made it.
//!
//! A card that was put aside for a bridge has lost its addresses. The dummy that stands in for it has them,
//! and its routes are in the dummy's alias (the note). So everything is found again after virt-handler was
//! killed in between.

use super::facts::{Card, Route};
use super::names;
use super::netlink::Socket;
use super::netlink::link::{Link, addresses, links, routes};
use crate::error::{Error, ErrorKind, Result};

/// Prefix of a dummy's note.
const NOTE: &str = "coracle ";
/// Longest alias that the kernel keeps.
const LONGEST: usize = 255;
/// Note for routes that do not fit.
const TOO_MANY: &str = "coracle !";

/// The card of this name, as it was before any change.
pub(super) fn card(socket: &mut Socket, name: &str) -> Result<Card> {
    let cannot = |e| Error::io(format!("cannot read the card {name} of the pod's network"), e);
    let all = links(socket).map_err(cannot)?;
    let find = |name: &str| all.iter().find(|link| link.name == name);
    let kept = [names::stand_in(name), name.to_owned()]
        .into_iter()
        .find_map(|name| find(&name).filter(|link| is_stand_in(link)));
    let Some(link) = kept.or_else(|| find(name)) else {
        let what = format!("the pod has no card {name}: its network did not make one");
        return Err(Error::new(ErrorKind::NotFound, what));
    };
    let mac =
        link.mac.ok_or_else(|| Error::refused(format!("the pod's card {name} is not an Ethernet card")))?;
    let routes = match is_stand_in(link) {
        true => read_note(&link.alias)?,
        false => routes(socket, link.index).map_err(cannot)?,
    };
    let addresses = addresses(socket, link.index).map_err(cannot)?;
    Ok(Card { name: name.to_owned(), mac, mtu: link.mtu, addresses, routes })
}

/// Existing tap of a card: a link beside it, or the card itself (a macvtap, for example).
pub(super) fn tap(socket: &mut Socket, card: &Card) -> Result<Option<String>> {
    let cannot = |e| Error::io(format!("cannot read the taps of the pod's card {}", card.name), e);
    let all = links(socket).map_err(cannot)?;
    let is_tap = |link: &&Link| matches!(link.kind.as_str(), "tun" | "macvtap" | "ipvtap");
    let mut names = [names::tap(&card.name), card.name.clone()].into_iter();
    Ok(names.find(|name| all.iter().filter(is_tap).any(|link| link.name == *name)))
}

/// True for a dummy of ours that has all settings of the card that it stands in for: the note is written
/// last. (A bridge if the kernel has no dummies.)
pub(super) fn is_stand_in(link: &Link) -> bool {
    matches!(link.kind.as_str(), "dummy" | "bridge") && link.alias.starts_with(NOTE)
}

/// Routes of a card as a dummy's note.
pub(super) fn note(routes: &[Route]) -> String {
    let all: Vec<String> = routes.iter().map(ToString::to_string).collect();
    let note = format!("{NOTE}{}", all.join(","));
    if note.len() > LONGEST { TOO_MANY.to_owned() } else { note }
}

fn read_note(note: &str) -> Result<Vec<Route>> {
    let wrong = || {
        Error::refused(format!(
            "the pod's routes were lost when its card was renamed, and the alias of its stand-in ({note:?}) does not list them; delete the pod"
        ))
    };
    let text = note.strip_prefix(NOTE).ok_or_else(wrong)?;
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(|part| part.parse::<Route>().map_err(|()| wrong())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_read_from_the_note_again() {
        let ways: Vec<Route> =
            ["0.0.0.0/0>10.244.0.1", "169.254.1.1/32"].iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(note(&ways), "coracle 0.0.0.0/0>10.244.0.1,169.254.1.1/32");
        assert_eq!(read_note(&note(&ways)).unwrap(), ways);
        assert!(read_note(&note(&[])).unwrap().is_empty());
    }

    #[test]
    fn more_ways_than_a_note_holds_are_said_to_be_lost() {
        let many = vec!["10.100.100.100/32>10.244.0.1".parse::<Route>().unwrap(); 20];
        let error = read_note(&note(&many)).unwrap_err().to_string();
        assert!(error.contains("delete the pod"), "{error}");
    }
}
