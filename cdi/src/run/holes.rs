//! A raw disk whose holes are known beforehand: they are not read.

use disk_format::{Data, Extent, Format, Image, Window};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The ranges that may hold data, in order; a new map is made if a window does not begin at the end of the
/// last one.
pub(crate) type DataMap = Box<dyn Iterator<Item = Range<u64>> + Send>;

/// The most ranges of data in one window.
const RANGES: usize = 16 << 10;

/// A raw disk with its data map.
pub(crate) struct Sparse {
    format: Format,
    size: u64,
    map: Box<dyn Fn() -> DataMap + Send + Sync>,
    /// The end of the last window, and the rest of the map from there.
    rest: Mutex<Option<(u64, DataMap)>>,
}

impl Sparse {
    pub(crate) fn new(format: Format, size: u64, map: impl Fn() -> DataMap + Send + Sync + 'static) -> Self {
        Sparse { format, size, map: Box::new(map), rest: Mutex::new(None) }
    }
}

impl Image for Sparse {
    fn format(&self) -> Format {
        self.format
    }

    fn virtual_size(&self) -> u64 {
        self.size
    }

    fn window(&self, from: u64) -> disk_format::Result<Window> {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut map = match rest.take() {
            Some((at, map)) if at == from => map,
            _ => {
                let mut map = (self.map)().peekable();
                while map.next_if(|range| range.end <= from).is_some() {}
                Box::new(map)
            }
        };
        let (mut extents, mut at) = (Vec::new(), from);
        for range in map.by_ref().take(RANGES) {
            let (start, end) = (range.start.max(at), range.end.min(self.size));
            if start >= end {
                continue;
            }
            if start > at {
                extents.push(Extent { guest: at, len: start - at, data: Data::Zero });
            }
            extents.push(Extent { guest: start, len: end - start, data: Data::Raw { at: start } });
            at = end;
        }
        if extents.len() >= RANGES {
            *rest = Some((at, map));
            return Ok(Window { extents, next: Some(at).filter(|&at| at < self.size) });
        }
        if at < self.size {
            extents.push(Extent { guest: at, len: self.size - at, data: Data::Zero });
        }
        Ok(Window { extents, next: None })
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(image: &dyn Image) -> Vec<Extent> {
        let (mut all, mut at) = (vec![], Some(0));
        while let Some(from) = at {
            let window = image.window(from).unwrap();
            all.extend(window.extents);
            at = window.next;
        }
        all
    }

    #[test]
    fn a_window_in_the_middle_is_the_same_when_it_is_asked_for_alone() {
        let image = || {
            let ranges = (0..3 * RANGES as u64).map(|i| i * 200 + 100..i * 200 + 200);
            Sparse::new(Format::Raw, 600 * RANGES as u64, move || Box::new(ranges.clone()))
        };
        let (whole, mut at) = (image(), Some(0));
        while let Some(from) = at {
            let window = whole.window(from).unwrap();
            let alone = image().window(from).unwrap();
            assert_eq!(alone.extents, window.extents);
            assert_eq!(alone.next, window.next);
            at = window.next;
        }
    }

    #[test]
    fn every_byte_is_told_once_and_holes_are_zeros() {
        for count in [0, 1, 5, RANGES as u64, 2 * RANGES as u64 + 3] {
            let size = count * 200 + 50;
            let image = Sparse::new(Format::Raw, size, move || {
                Box::new((0..count).map(|i| i * 200 + 100..i * 200 + 200))
            });
            let mut at = 0;
            for e in all(&image) {
                assert_eq!(e.guest, at);
                assert_eq!(e.data == Data::Zero, at % 200 < 100);
                at = e.end();
            }
            assert_eq!(at, size);
        }
    }

    #[test]
    fn a_map_that_reaches_past_the_disk_or_begins_again_gives_no_empty_extent() {
        // Empty ranges, one range twice, and one that ends behind the disk.
        let ranges = [0..0, 100..200, 100..200, 150..180, 300..300, 400..900];
        let image = Sparse::new(Format::Raw, 500, move || Box::new(ranges.clone().into_iter()));
        let zero = |guest, len| Extent { guest, len, data: Data::Zero };
        let raw = |guest, len| Extent { guest, len, data: Data::Raw { at: guest } };
        assert_eq!(all(&image), [zero(0, 100), raw(100, 100), zero(200, 200), raw(400, 100)]);
        // The first window once more, though the second one is next.
        assert_eq!(all(&image), all(&image));
        let whole = Sparse::new(Format::Raw, 200 * RANGES as u64, || {
            Box::new((0..RANGES as u64).map(|i| i * 200 + 100..i * 200 + 200))
        });
        let first = whole.window(0).unwrap();
        assert_eq!(whole.window(0).unwrap(), first, "the rest of the map is that of another window");
        // The disk ends where a window is full.
        let full = Sparse::new(Format::Raw, 100 * RANGES as u64, || {
            Box::new((0..RANGES as u64 / 2).map(|i| i * 200 + 100..i * 200 + 200))
        });
        let window = full.window(0).unwrap();
        assert_eq!((window.extents.len(), window.next), (RANGES, None));
    }
}
