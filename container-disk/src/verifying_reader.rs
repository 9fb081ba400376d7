//! Verification of a blob while it is read, also of a read that continues an earlier run (`reentry.rs`).

use crate::digest::{Digest, Hasher};
use crate::place::Reading;
use crate::reentry::{Notes, SUMS_APART, SumAt};
use crate::{Error, ErrorKind, Result};
use std::io::{self, Read};

/// A reader that fails at the end unless size and digest are the expected ones. It never returns more bytes
/// than the expected size.
pub(crate) struct VerifyingReader<R> {
    inner: R,
    name: String,
    expected: Digest,
    left: u64,
    size: u64,
    hash: Option<Hasher>,
    /// Set if this read continues an earlier run.
    earlier_run: Option<EarlierRun>,
    notes: Option<Notes>,
    /// Position of the last noted hash state.
    noted: u64,
}

/// Facts from the earlier run.
struct EarlierRun {
    /// Hash state of the earlier run at its last position. Taken when this read reaches that position. Until
    /// then no state is noted, so that no mark of this run replaces the earlier run's.
    sum: Option<SumAt>,
}

impl<R: Reading> VerifyingReader<R> {
    /// Wraps `inner`. `name` is for messages: "layer 1 of docker://h/r:t".
    pub(crate) fn new(inner: R, name: impl Into<String>, expected: Digest, size: u64) -> Self {
        let hash = Some(Hasher::like(&expected));
        let name = name.into();
        VerifyingReader {
            inner,
            name,
            expected,
            left: size,
            size,
            hash,
            earlier_run: None,
            notes: None,
            noted: 0,
        }
    }

    /// Continues a read of an earlier run. `inner` starts at the hash state `before`. The bytes up to `after`
    /// must be those that the earlier run has read.
    pub(crate) fn resumed(
        inner: R,
        name: impl Into<String>,
        expected: Digest,
        size: u64,
        (before, after): (&SumAt, &SumAt),
    ) -> Result<Self> {
        let name = name.into();
        let odd = || crate::reentry::odd(&name);
        let left = size.checked_sub(before.at).ok_or_else(odd)?;
        let hash = Hasher::restored(&expected, &before.state).ok_or_else(odd)?;
        let ahead = after.at.checked_sub(before.at).ok_or_else(odd)?;
        if ahead == 0 && before != after || after.at > size {
            return Err(odd());
        }
        let earlier_run = Some(EarlierRun { sum: Some(after.clone()).filter(|_| ahead > 0) });
        Ok(VerifyingReader {
            inner,
            name,
            expected,
            left,
            size,
            hash: Some(hash),
            earlier_run,
            notes: None,
            noted: before.at,
        })
    }

    /// Records hash states in `notes` while reading.
    pub(crate) fn noting(mut self, notes: &Notes) -> Self {
        self.notes = Some(notes.clone());
        self.note();
        self
    }

    fn at(&self) -> u64 {
        self.size - self.left
    }

    fn note(&mut self) {
        if let (Some(notes), Some(hash)) = (&self.notes, &self.hash) {
            let at = self.size - self.left;
            notes.sum(SumAt { at, state: hash.state() });
            self.noted = at;
        }
    }

    /// Compares with the earlier run's hash state once its position is reached.
    fn compare(&mut self) -> Result<()> {
        let at = self.at();
        let Some(earlier_run) = &mut self.earlier_run else { return Ok(()) };
        let Some(sum) = earlier_run.sum.take_if(|sum| sum.at <= at) else { return Ok(()) };
        if self.hash.as_ref().is_some_and(|hash| hash.state() == sum.state) {
            return Ok(());
        }
        Err(self
            .changed(&format!("its bytes before byte {at} differ from those that an earlier run has read")))
    }

    /// The error for bytes that changed between two runs. Either run may have read the wrong ones, so all
    /// work of both is discarded.
    fn changed(&self, why: &str) -> Error {
        let what = format!("{}: {why}; the layer is read again from its start", self.name);
        Error::new(ErrorKind::Changed, what)
    }

    fn end(&mut self) -> io::Result<usize> {
        let Some(hash) = self.hash.take() else { return Ok(0) };
        let mut more = [0];
        if self.inner.read(&mut more)? > 0 {
            let what = format!("{} is longer than the {} bytes its manifest promises", self.name, self.size);
            return Err(Error::refused(what).into());
        }
        let actual = hash.finish();
        if actual != self.expected {
            let error = match self.earlier_run {
                Some(_) => self
                    .changed(&format!("it has the digest {actual}, a part of which an earlier run has read")),
                None => self.inner.digest_mismatch(&actual),
            };
            return Err(error.into());
        }
        Ok(0)
    }
}

impl<R: Reading> Read for VerifyingReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            return self.end();
        }
        let sum = self.earlier_run.as_ref().and_then(|earlier_run| earlier_run.sum.as_ref());
        let until = sum.map_or(self.left, |sum| sum.at.saturating_sub(self.at()).min(self.left));
        let most = usize::try_from(until).unwrap_or(usize::MAX).min(out.len());
        let n = self.inner.read(&mut out[..most])?;
        if n == 0 {
            let (got, size) = (self.size - self.left, self.size);
            let what = format!("{} ends after {got} of the {size} bytes its manifest promises", self.name);
            return Err(Error::refused(what).into());
        }
        self.left -= n as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(&out[..n]);
        }
        self.compare()?;
        // An earlier run has read these bytes too, and they may have differed. No position is noted before
        // that is ruled out.
        let is_known = self.earlier_run.as_ref().is_none_or(|earlier_run| earlier_run.sum.is_none());
        let is_far = self.left == 0 || self.at() - self.noted >= SUMS_APART;
        if self.notes.is_some() && is_known && is_far {
            self.note();
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::NamedReader;
    use crate::reentry::Reentry;
    use std::sync::{Arc, Mutex};

    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn check(bytes: &[u8], digest: &str, size: u64) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let expected = digest.parse()?;
        let named_reader = NamedReader { inner: bytes, name: "the blob".into(), expected };
        let mut checked = VerifyingReader::new(named_reader, "the blob", expected, size);
        checked.read_to_end(&mut out).map_err(|e| Error::io("reading", e))?;
        Ok(out)
    }

    #[test]
    fn only_the_promised_bytes_pass_to_the_end() {
        assert_eq!(check(b"abc", ABC, 3).unwrap(), b"abc");
        for (bytes, size, why) in [
            (&b"abd"[..], 3, "has the digest"),
            (b"ab", 3, "ends after 2 of the 3"),
            (b"abcd", 3, "longer than the 3"),
        ] {
            let e = check(bytes, ABC, size).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Refused);
            assert!(e.to_string().contains(why), "{e}");
        }
    }

    fn rest(bytes: &[u8], sums: (&SumAt, &SumAt), of: &[u8]) -> Result<Vec<u8>> {
        let (expected, size) = (Digest::of(of), of.len() as u64);
        let named_reader = NamedReader { inner: bytes, name: "the blob".into(), expected };
        let mut out = Vec::new();
        let mut checked = VerifyingReader::resumed(named_reader, "the blob", expected, size, sums)?;
        checked.read_to_end(&mut out).map_err(|e| Error::io("reading", e))?;
        Ok(out)
    }

    #[test]
    fn a_later_reading_is_checked_together_with_the_one_before() {
        let of = b"abcdefgh";
        let sum = |bytes: &[u8]| {
            let mut hash = Hasher::new();
            hash.update(bytes);
            SumAt { at: bytes.len() as u64, state: hash.state() }
        };
        let (before, after) = (sum(b"abc"), sum(b"abcde"));
        assert_eq!(rest(b"defgh", (&before, &after), of).unwrap(), b"defgh");
        assert_eq!(rest(b"defgh", (&before, &before), of).unwrap(), b"defgh");
        let why = |e: Error, words: &str| {
            assert_eq!(e.kind(), ErrorKind::Changed, "nobody is to blame, and all is read anew: {e}");
            assert!(e.to_string().contains(words), "{e}");
        };
        // The earlier run wrote data decoded from other bytes. The digest alone would not reveal that.
        let other = sum(b"abcdX");
        why(rest(b"defgh", (&before, &other), of).unwrap_err(), "before byte 5");
        why(rest(b"defgX", (&before, &after), of).unwrap_err(), "has the digest");
        why(rest(b"defgh", (&sum(b"Xbc"), &sum(b"Xbcde")), of).unwrap_err(), "has the digest");
        let odd = SumAt { at: 3, state: "00".into() };
        for sums in
            [(&odd, &after), (&after, &before), (&before, &sum(b"abcdefghi")), (&before, &sum(b"Xbc"))]
        {
            let e = rest(b"defgh", sums, of).unwrap_err();
            assert!(e.to_string().contains("invalid position"), "{e}");
        }
    }

    /// The first run read other bytes up to `after`. A second run that is killed before that position must
    /// leave no mark. With the second run's hash states in the journal a third run would not notice the
    /// difference.
    #[test]
    fn a_later_reading_tells_no_place_before_it_has_met_the_sum_of_the_earlier_one() {
        const MIB: usize = 1 << 20;
        let of: Vec<u8> = (0..5 * MIB).map(|i| (i % 251) as u8).collect();
        let lied = [&of[..MIB], &vec![0xee; 3 * MIB], &of[4 * MIB..]].concat();
        let sum = |bytes: &[u8]| {
            let mut hash = Hasher::new();
            hash.update(bytes);
            SumAt { at: bytes.len() as u64, state: hash.state() }
        };
        let (before, met) = (sum(&of[..MIB / 4]), 3 * MIB + 77);
        for (first, is_same) in [(&of, true), (&lied, false)] {
            let (expected, size) = (Digest::of(&of), of.len() as u64);
            let named_reader = NamedReader { inner: &of[MIB / 4..], name: "the blob".into(), expected };
            let sums = (&before, &sum(&first[..met]));
            let (notes, told) = (Notes::default(), Arc::new(Mutex::new(vec![])));
            let to = Arc::clone(&told);
            notes.tell(0..u64::MAX, Arc::new(move |place: Reentry| to.lock().unwrap().push(place)));
            let mut earlier_run = VerifyingReader::resumed(named_reader, "the blob", expected, size, sums)
                .unwrap()
                .noting(&notes);
            // Two positions with hash states of this run around them, if it had noted any.
            let ahead = (met - 1 - MIB / 4) as u64;
            io::copy(&mut earlier_run.by_ref().take(ahead), &mut io::sink()).unwrap();
            notes.unit(MIB as u64 + 100, MIB as u64 + 100);
            notes.unit(2 * MIB as u64 + 200, 2 * MIB as u64 + 200);
            assert!(told.lock().unwrap().is_empty(), "killed here, it leaves the mark of the first run");
            let rest = earlier_run.read_to_end(&mut vec![]);
            assert_eq!(rest.is_ok(), is_same, "{rest:?}");
            let around =
                told.lock().unwrap().iter().map(|one| (one.before.at, one.after.at)).collect::<Vec<_>>();
            let want = vec![(before.at, met as u64); 2];
            assert_eq!(around, if is_same { want } else { vec![] });
        }
    }
}
