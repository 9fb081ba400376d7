//! An empty disk: a hole of a chosen size.

use super::{Identity, Source, SourceFacts};
use crate::Result;
use disk_format::ReadAt;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Blank(SourceFacts);

impl Blank {
    pub(super) fn new(size: u64) -> Blank {
        Blank(SourceFacts {
            name: "nothing".to_owned(),
            size: Some(size),
            seekable: true,
            remote: false,
            plain: false,
            reentry: false,
            identity: Some(Identity::of_content(format!("zeros:{size}"), Some(size))),
        })
    }

    fn size(&self) -> u64 {
        self.0.size.unwrap_or(0)
    }
}

impl Source for Blank {
    fn facts(&self) -> &SourceFacts {
        &self.0
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        Some(Arc::new(Zeros(self.size())))
    }

    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(io::repeat(0).take(self.size().saturating_sub(from))))
    }

    fn data_map(&self) -> Option<Box<dyn Iterator<Item = Range<u64>> + Send>> {
        Some(Box::new(std::iter::empty()))
    }
}

/// Zeros of a fixed length.
struct Zeros(u64);

impl ReadAt for Zeros {
    fn size(&self) -> u64 {
        self.0
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|&end| end <= self.0);
        end.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        buf.fill(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_zeros_and_ends() {
        let blank = Blank::new(10);
        let (bytes, mut all) = (blank.read_at().unwrap(), vec![1; 4]);
        bytes.read_exact_at(&mut all, 6).unwrap();
        assert_eq!(all, [0; 4]);
        assert!(
            bytes.read_exact_at(&mut all, 7).is_err() && bytes.read_exact_at(&mut all, u64::MAX).is_err()
        );
        all.clear();
        blank.stream(3).unwrap().read_to_end(&mut all).unwrap();
        assert_eq!(all, [0; 7]);
        assert_eq!(blank.data_map().unwrap().count(), 0);
        assert!(blank.facts().identity.as_ref().unwrap().is_proof());
    }
}
