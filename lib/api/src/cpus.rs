//! Lists of CPUs, as the kernel and libvirt write them: `0-3,8`.

use std::collections::BTreeSet;

/// Bound of CPU numbers: the highest one, plus one.
const MOST: u32 = 1 << 16;

/// Parses a list of CPU numbers; `None` if the text is not a list. An empty text is an empty list.
pub fn read(text: &str) -> Option<BTreeSet<u32>> {
    let text = text.trim();
    let mut found = BTreeSet::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
            text.parse::<u32>().ok().filter(|number| is_number && *number < MOST)
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return None;
        }
        found.extend(first..=last);
    }
    Some(found)
}

/// Writes a list of CPU numbers, which must be in order. Consecutive numbers become ranges.
pub fn write(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let part = |(first, last): (u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.into_iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_written_back() {
        for list in ["", "0", "0-3,8", "1,3,5-6", "65535"] {
            assert_eq!(write(read(list).unwrap()), list);
        }
        assert_eq!(write(read("0,1,2 \n").unwrap()), "0-2");
        for wrong in ["a", "3-1", "1-", "-1", "65536", "0-4294967296", "1,,2", "+1", "1 2"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
