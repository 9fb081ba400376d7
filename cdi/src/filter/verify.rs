//! Check of the digest of all bytes at their end. Size and zeros: unchanged.
//!
//! It hashes inside `read`, so it costs nothing extra if that read runs on its own thread: `convert::facts`
//! puts it directly on the source, and [`super::stack`] reads the source on the splitter's thread or on one
//! that runs ahead. The digest is over the source's own bytes, before decompression. It is compared only
//! after the last byte: a reader that stops early has verified nothing.
//!
//! **A resumed run** does not read all bytes of the earlier one. [`Sums`] keeps the state of the hash ("sum")
//! at positions on the way. The journal takes the last one before the boundary where the decoder begins
//! again, and [`Verify::after`] continues from there:
//!
//! ```text
//!  ├──── earlier run ────┤ sum at S ├── summed again, not decoded ──┤ boundary ├── decoded ──┤ sum at T ├── … ──┤ compared
//! ```
//!
//! At T, the first position behind the boundary, the sum must equal that of the earlier run. Otherwise the
//! bytes decoded before the boundary were other ones than those that are hashed now. Before T a resumed run
//! keeps no sum but that at S, so it writes no journal entry in which T would be lost.

use crate::{Detail, Error, Result};
use sha2::Digest as _;
use sha2::digest::common::hazmat::SerializableState;
use sha2::{Sha256, Sha512};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// The expected digest: `sha256:HEX`, `sha512:HEX`, or bare hex, whose length gives the algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Digest {
    Sha256([u8; 32]),
    Sha512([u8; 64]),
}

impl Digest {
    /// The name of the algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Digest::Sha256(_) => "sha256",
            Digest::Sha512(_) => "sha512",
        }
    }

    fn hex(&self) -> String {
        let bytes: &[u8] = match self {
            Digest::Sha256(bytes) => bytes,
            Digest::Sha512(bytes) => bytes,
        };
        hex::encode(bytes)
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (algorithm, hex) = match text.split_once(':') {
            Some((algorithm, hex)) => (Some(algorithm.to_ascii_lowercase()), hex),
            None => (None, text),
        };
        let digest = match (algorithm.as_deref(), hex.len()) {
            (None | Some("sha256"), 64) => bytes(hex).map(Digest::Sha256),
            (None | Some("sha512"), 128) => bytes(hex).map(Digest::Sha512),
            _ => None,
        };
        digest.ok_or_else(|| {
            let what = format!(
                "the checksum {text:?} is neither sha256:HEX with 64 hex digits nor sha512:HEX with 128"
            );
            Error::new(crate::ErrorKind::Usage, what)
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm(), self.hex())
    }
}

fn restored<H: SerializableState>(bytes: &[u8]) -> Option<H> {
    H::deserialize(bytes.try_into().ok()?).ok()
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    hex::decode_to_slice(text, &mut out).ok().map(|()| out)
}

/// Bytes between two sums that are kept.
const APART: u64 = 1 << 20;
/// The most sums that are kept; if there are more, every second one is dropped.
const MOST: usize = 512;

/// The state of the hash after the first bytes of a source.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SumAt {
    /// The number of bytes.
    pub at: u64,
    /// The state, in hex.
    state: String,
}

/// Sums at positions on the way, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct Sums(Arc<Mutex<VecDeque<SumAt>>>);

impl Sums {
    fn note(&self, sum: SumAt) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() >= MOST {
            let mut is_kept = false;
            list.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        list.push_back(sum);
    }

    /// The first sum at this byte or behind it.
    pub fn first_behind(&self, at: u64) -> Option<SumAt> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().find(|sum| sum.at >= at).cloned()
    }

    /// The last sum at this byte or before it; older ones are dropped.
    pub fn last_before(&self, at: u64) -> Option<SumAt> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while list.get(1).is_some_and(|next| next.at <= at) {
            list.pop_front();
        }
        list.front().filter(|first| first.at <= at).cloned()
    }
}

/// A reader that ends with an error if its bytes were not the expected ones.
pub struct Verify<R> {
    inner: R,
    expected: Digest,
    state: State,
    at: u64,
    /// The sum that an earlier run had at a later position.
    known: Option<SumAt>,
    sums: Sums,
    noted: u64,
}

enum State {
    Sha256(Sha256),
    Sha512(Box<Sha512>),
    Right,
    Wrong(Digest),
}

impl<R: Read> Verify<R> {
    /// Expects the bytes of `inner` to have this digest.
    pub fn new(inner: R, expected: Digest) -> Self {
        let state = match expected {
            Digest::Sha256(_) => State::Sha256(Sha256::new()),
            Digest::Sha512(_) => State::Sha512(Box::default()),
        };
        Verify { inner, expected, state, at: 0, known: None, sums: Sums::default(), noted: 0 }
    }

    /// As [`Self::new`], for a source whose first bytes had this sum. `inner` is behind them.
    pub fn after(inner: R, expected: Digest, sum: &SumAt) -> Result<Self> {
        let odd = || Error::failed("the journal has no sum of this kind");
        let bytes = hex::decode(&sum.state).map_err(|_| odd())?;
        let state = match expected {
            Digest::Sha256(_) => restored(&bytes).map(State::Sha256),
            Digest::Sha512(_) => restored(&bytes).map(|hash| State::Sha512(Box::new(hash))),
        };
        let state = state.ok_or_else(odd)?;
        Ok(Verify { inner, expected, state, at: sum.at, known: None, sums: Sums::default(), noted: sum.at })
    }

    /// Also expects this sum of the earlier run, if that is behind the present position.
    #[must_use]
    pub fn knowing(self, sum: Option<&SumAt>) -> Self {
        let known = sum.filter(|sum| sum.at > self.at).cloned();
        Verify { known, ..self }
    }

    /// Records sums on the way in `sums`.
    #[must_use]
    pub fn noting(mut self, sums: &Sums) -> Self {
        self.sums = sums.clone();
        self.note();
        self
    }

    fn sum(&self) -> Option<SumAt> {
        let state = match &self.state {
            State::Sha256(hash) => hex::encode(hash.serialize()),
            State::Sha512(hash) => hex::encode(hash.serialize()),
            State::Right | State::Wrong(_) => return None,
        };
        Some(SumAt { at: self.at, state })
    }

    fn note(&mut self) {
        if let Some(sum) = self.sum() {
            self.noted = self.at;
            self.sums.note(sum);
        }
    }

    /// At the position of the earlier run's sum: fails if that run has read other bytes.
    fn compare_with_known(&mut self) -> io::Result<()> {
        if self.known.as_ref().is_none_or(|known| known.at > self.at) {
            return Ok(());
        }
        if self.known.take() == self.sum() {
            return Ok(());
        }
        Err(self.differs())
    }

    fn differs(&self) -> io::Error {
        let what = format!("the bytes before byte {} are not those that an earlier run has read", self.at);
        Error::of_bytes(what).with_detail(Detail::Checksum).into()
    }

    fn compare(&mut self) -> io::Result<usize> {
        let actual = match &mut self.state {
            State::Sha256(hash) => Digest::Sha256(hash.finalize_reset().into()),
            State::Sha512(hash) => Digest::Sha512(hash.finalize_reset().into()),
            State::Right => self.expected,
            State::Wrong(actual) => *actual,
        };
        if actual == self.expected {
            self.state = State::Right;
            return Ok(0);
        }
        self.state = State::Wrong(actual);
        let (name, actual, expected) = (actual.algorithm(), actual.hex(), self.expected.hex());
        let what = format!("checksum mismatch: {name} is {actual}, expected {expected}");
        Err(Error::of_bytes(what).with_detail(Detail::Checksum).into())
    }
}

impl<R: Read> Read for Verify<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let until = self.known.as_ref().map_or(u64::MAX, |known| known.at.saturating_sub(self.at));
        let most = usize::try_from(until).unwrap_or(usize::MAX).min(out.len());
        let n = match self.state {
            State::Right | State::Wrong(_) => 0,
            _ => self.inner.read(&mut out[..most])?,
        };
        if n == 0 && self.known.is_some() {
            // The earlier run has read more bytes than there are, so another file.
            return Err(self.differs());
        }
        match &mut self.state {
            _ if n == 0 => return self.compare(),
            State::Sha256(hash) => hash.update(&out[..n]),
            State::Sha512(hash) => hash.update(&out[..n]),
            State::Right | State::Wrong(_) => {}
        }
        self.at = self.at.saturating_add(n as u64);
        self.compare_with_known()?;
        // A journal entry with sums of this run must not replace the earlier one before the two were
        // compared.
        if self.known.is_none() && self.at - self.noted >= APART {
            self.note();
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const ABC_256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const ABC_512: &str = "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";

    fn check(bytes: &[u8], digest: &str) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        Verify::new(bytes, digest.parse()?).read_to_end(&mut out).map_err(|e| Error::io("reading", e))?;
        Ok(out)
    }

    #[test]
    fn the_right_bytes_pass_under_every_spelling() {
        let spellings = [
            ABC_256.to_owned(),
            format!("sha256:{ABC_256}"),
            format!("SHA256:{}", ABC_256.to_uppercase()),
            ABC_512.to_owned(),
            format!("sha512:{ABC_512}"),
        ];
        for spelling in spellings {
            assert_eq!(check(b"abc", &spelling).unwrap(), b"abc", "{spelling}");
        }
        let digest: Digest = ABC_256.parse().unwrap();
        assert_eq!(digest.to_string(), format!("sha256:{ABC_256}"));
    }

    #[test]
    fn other_bytes_are_refused_again_and_again() {
        for bytes in [&b"abd"[..], b"ab", b"abc\0", b""] {
            let mut reader = Verify::new(bytes, ABC_256.parse().unwrap());
            for _ in 0..3 {
                let e = Error::io("reading", reader.read_to_end(&mut Vec::new()).unwrap_err());
                assert_eq!(e.kind(), ErrorKind::Refused);
                let sentence = e.to_string();
                assert!(sentence.starts_with("checksum mismatch: sha256 is "), "{sentence}");
                assert!(sentence.ends_with(&format!(", expected {ABC_256}")), "{sentence}");
            }
        }
    }

    #[test]
    fn a_sum_goes_on_where_an_earlier_one_stood() {
        let bytes: Vec<u8> = (0..5 * APART + 77).map(|i| (i % 251) as u8).collect();
        let whole = [hex::encode(Sha256::digest(&bytes)), hex::encode(Sha512::digest(&bytes))];
        for digest in whole {
            let expected: Digest = digest.parse().unwrap();
            let sums = Sums::default();
            Verify::new(&bytes[..], expected).noting(&sums).read_to_end(&mut vec![]).unwrap();
            for at in [0, 1, APART, 3 * APART + 5, bytes.len() as u64] {
                let again = Sums::default();
                Verify::new(&bytes[..], expected).noting(&again).read_to_end(&mut vec![]).unwrap();
                let sum = again.last_before(at).unwrap();
                assert!(sum.at <= at && at - sum.at < 2 * APART, "{} for {at}", sum.at);
                let text = serde_json::to_string(&sum).unwrap();
                let sum: SumAt = serde_json::from_str(&text).unwrap();
                let rest = &bytes[sum.at as usize..];
                Verify::after(rest, expected, &sum).unwrap().read_to_end(&mut vec![]).unwrap();
                if let Some(behind) = again.first_behind(at) {
                    let after = || Verify::after(rest, expected, &sum).unwrap();
                    after().knowing(Some(&behind)).read_to_end(&mut vec![]).unwrap();
                    // The earlier run has decoded other bytes.
                    let other = SumAt { state: sum.state.replace('0', "1"), ..behind.clone() };
                    let read = after().knowing(Some(&other)).read_to_end(&mut vec![]);
                    assert!(read.is_err() || behind.at <= sum.at, "{at}");
                }
                let mut other = rest.to_vec();
                if let Some(first) = other.first_mut() {
                    *first ^= 1;
                    assert!(
                        Verify::after(&other[..], expected, &sum).unwrap().read_to_end(&mut vec![]).is_err()
                    );
                }
            }
            let odd = SumAt { at: 3, state: "00".to_owned() };
            assert!(Verify::after(&b""[..], expected, &odd).is_err());
        }
    }

    /// A run that is killed before it has come to the earlier one's sum must leave no mark with sums of its own.
    #[test]
    fn a_run_that_goes_on_keeps_no_sum_before_it_has_met_that_of_the_earlier_one() {
        let bytes: Vec<u8> = (0..5 * APART).map(|i| (i % 251) as u8).collect();
        let expected: Digest = hex::encode(Sha256::digest(&bytes)).parse().unwrap();
        let met = 3 * APART + 77;
        let sum_of = |len: u64| {
            let mut verify = Verify::new(&bytes[..], expected);
            io::copy(&mut verify.by_ref().take(len), &mut io::sink()).unwrap();
            verify.sum().unwrap()
        };
        let (before, known, sums) = (sum_of(1000), sum_of(met), Sums::default());
        let verify = Verify::after(&bytes[1000..], expected, &before).unwrap();
        let mut verify = verify.knowing(Some(&known)).noting(&sums);
        io::copy(&mut verify.by_ref().take(met - 1001), &mut io::sink()).unwrap();
        assert_eq!(sums.first_behind(1001), None, "killed here, it leaves the mark of the first run");
        verify.read_to_end(&mut vec![]).unwrap();
        assert_eq!(sums.first_behind(1001), Some(known));
        assert_eq!(sums.last_before(met - 1), Some(before));
    }

    /// Else what the earlier run has decoded behind the first sum would be compared with nothing.
    #[test]
    fn a_sum_of_an_earlier_run_that_is_never_met_is_an_error() {
        let bytes = vec![7; 5000];
        let expected: Digest = hex::encode(Sha256::digest(&bytes)).parse().unwrap();
        let longer = [&bytes[..4000], &[8; 3000]].concat();
        let sum_of = |len: u64| {
            let mut verify = Verify::new(&longer[..], expected);
            io::copy(&mut verify.by_ref().take(len), &mut io::sink()).unwrap();
            verify.sum().unwrap()
        };
        let after = || Verify::after(&bytes[3000..], expected, &sum_of(3000)).unwrap();
        after().knowing(Some(&sum_of(4000))).read_to_end(&mut vec![]).unwrap();
        let mut verify = after().knowing(Some(&sum_of(6000)));
        for _ in 0..2 {
            let e = Error::io("reading", verify.read_to_end(&mut vec![]).unwrap_err());
            assert!(e.to_string().contains("that an earlier run has read"), "{e}");
            assert_eq!(e.detail(), Some(&Detail::Checksum));
        }
    }

    #[test]
    fn sums_that_nobody_asks_for_stay_few() {
        let sums = Sums::default();
        (0..5000).for_each(|at| sums.note(SumAt { at, state: String::new() }));
        assert!(sums.0.lock().unwrap().len() <= MOST);
        assert!(sums.last_before(4999).unwrap().at == 4999 && sums.last_before(2).is_none());
    }

    #[test]
    fn what_is_no_digest_is_a_usage_error() {
        let bad =
            ["", "abc", "sha256:", "md5:900150983cd24fb0d6963f7d28e17f72", &format!("sha512:{ABC_256}")];
        for text in bad.into_iter().chain([&*ABC_256.replace('b', "g"), &*format!("+{}", &ABC_256[1..])]) {
            assert_eq!(text.parse::<Digest>().unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
    }
}
