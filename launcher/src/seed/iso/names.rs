//! The names of files in each of the two trees. They are unique within a folder.

use std::collections::HashSet;

/// Longest name: Joliet's standard allows 64 characters, but programs accept as many as fit into a record.
const LONGEST_JOLIET: usize = 103;
/// Longest name of the primary tree: 30 characters and a dot, as its second level allows.
const LONGEST_PRIMARY: usize = 30;

/// The names of one folder.
#[derive(Default)]
pub(super) struct Names {
    taken: HashSet<Vec<u8>>,
}

impl Names {
    /// A name of capitals, digits and `_`, with a version if it is a file: `META_DATA.JSO;1`.
    pub(super) fn primary(&mut self, name: &str, is_folder: bool) -> Vec<u8> {
        let (stem, ending) = match name.rsplit_once('.') {
            Some((stem, ending)) if !is_folder && !stem.is_empty() => (plain(stem), plain(ending)),
            _ => (plain(name), String::new()),
        };
        let ending: String = ending.chars().take(3).collect();
        let room = LONGEST_PRIMARY - ending.len();
        self.unique(|number| {
            let number = number.map(|number| format!("_{number}")).unwrap_or_default();
            let stem: String = stem.chars().take(room - number.len()).collect();
            let name = if is_folder { stem + &number } else { format!("{stem}{number}.{ending};1") };
            name.into_bytes()
        })
    }

    /// A name in UCS-2, most byte first.
    pub(super) fn joliet(&mut self, name: &str) -> Vec<u8> {
        let barred =
            |c: char| c.is_control() || c.len_utf16() > 1 || matches!(c, '*' | '/' | ':' | ';' | '?' | '\\');
        let name: String = name.chars().map(|c| if barred(c) { '_' } else { c }).collect();
        // A cut name keeps a short extension, by which Windows recognises its type.
        let (stem, ending) = match name.rsplit_once('.') {
            Some((stem, ending)) if ending.len() <= 8 && !stem.is_empty() => (stem, format!(".{ending}")),
            _ => (name.as_str(), String::new()),
        };
        let fits = name.chars().count() <= LONGEST_JOLIET;
        self.unique(|number| {
            let name = match number {
                None if fits => name.clone(),
                number => {
                    let number = format!("~{}", number.unwrap_or(0));
                    let room = LONGEST_JOLIET - number.len() - ending.chars().count();
                    stem.chars().take(room).collect::<String>() + &number + &ending
                }
            };
            name.encode_utf16().flat_map(u16::to_be_bytes).collect()
        })
    }

    fn unique(&mut self, make: impl Fn(Option<usize>) -> Vec<u8>) -> Vec<u8> {
        // Numbers begin where no earlier name can have one, so that a folder full of equal names costs no
        // search.
        let first = self.taken.len();
        let mut id = make(None);
        let mut number = first;
        while !self.taken.insert(id.clone()) {
            id = make(Some(number));
            number += 1;
        }
        id
    }
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn primary(names: &[&str]) -> Vec<String> {
        let mut all = Names::default();
        names.iter().map(|name| String::from_utf8(all.primary(name, false)).unwrap()).collect()
    }

    fn joliet(names: &[&str]) -> Vec<String> {
        let mut all = Names::default();
        let text = |id: Vec<u8>| {
            let units: Vec<u16> = id.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16(&units).unwrap()
        };
        names.iter().map(|name| text(all.joliet(name))).collect()
    }

    #[test]
    fn the_primary_tree_has_plain_names() {
        assert_eq!(
            primary(&["user-data", "meta_data.json", ".profile", "ä", "a.b.c", "user_data"]),
            ["USER_DATA.;1", "META_DATA.JSO;1", "_PROFILE.;1", "_.;1", "A_B.C;1", "USER_DATA_5.;1"]
        );
        let long = "x".repeat(255);
        let all = primary(&[&long, &long, &format!("{long}.y")]);
        assert!(all.iter().all(|id| id.len() <= 33), "{all:?}");
        assert_eq!(Names::default().primary("a.b", true), b"A_B");
    }

    #[test]
    fn joliet_replaces_characters_that_it_cannot_have() {
        assert_eq!(joliet(&["Größe 🦀.txt", "a:b", "a*b"]), ["Größe _.txt", "a_b", "a_b~2"]);
        let long = "x".repeat(200);
        let all = joliet(&[&format!("{long}1.ps1"), &format!("{long}2.ps1"), &"🦀".repeat(60)]);
        assert!(all.iter().all(|name| name.chars().count() <= LONGEST_JOLIET), "{all:?}");
        assert!(all[0].ends_with("~0.ps1") && all[1].ends_with("~1.ps1"), "{all:?}");
    }

    #[test]
    fn thousands_of_equal_names_become_unique_quickly() {
        let mut names = Names::default();
        let mut seen = HashSet::new();
        for i in 0..10_000 {
            assert!(seen.insert(names.primary(&format!("{}{i}", "same".repeat(20)), false)));
        }
    }
}
