//! Cache of recent answers of the API server about tokens.

use super::{HOLDS, Verdict};
use std::collections::HashMap;
use std::time::Instant;

/// Most answers kept of each kind.
const MOST: usize = 128;

/// SHA-256 digest of a path and a token.
pub(super) type Token = [u8; 32];

/// Answers with their end of validity. Refusals are kept apart, so that a client that invents tokens pushes
/// out no permitted one.
#[derive(Debug, Default)]
pub(super) struct Cache {
    allowed: HashMap<Token, (Verdict, Instant)>,
    refused: HashMap<Token, (Verdict, Instant)>,
}

impl Cache {
    pub(super) fn get(&self, token: &Token, now: Instant) -> Option<Verdict> {
        let (verdict, until) = self.allowed.get(token).or_else(|| self.refused.get(token))?;
        (now < *until).then(|| verdict.clone())
    }

    pub(super) fn put(&mut self, token: Token, verdict: Verdict, now: Instant) {
        self.allowed.remove(&token);
        self.refused.remove(&token);
        let kept = if verdict == Verdict::Allowed { &mut self.allowed } else { &mut self.refused };
        kept.retain(|_, (_, until)| now < *until);
        if kept.len() >= MOST {
            let oldest = kept.iter().min_by_key(|(_, (_, until))| *until).map(|(token, _)| *token);
            oldest.map(|oldest| kept.remove(&oldest));
        }
        kept.insert(token, (verdict, now + HOLDS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn answers_hold_for_a_short_time() {
        let (now, mut cache) = (Instant::now(), Cache::default());
        cache.put([1; 32], Verdict::Allowed, now);
        assert_eq!(cache.get(&[1; 32], now + HOLDS / 2), Some(Verdict::Allowed));
        assert_eq!((cache.get(&[1; 32], now + HOLDS), cache.get(&[2; 32], now)), (None, None));
        // The last answer counts.
        cache.put([1; 32], Verdict::Unknown, now);
        assert_eq!(cache.get(&[1; 32], now), Some(Verdict::Unknown));
    }

    #[test]
    fn invented_tokens_push_out_nobody_who_may() {
        let (now, mut cache) = (Instant::now(), Cache::default());
        cache.put([255; 32], Verdict::Allowed, now);
        for number in 0..10_000_u32 {
            let mut token = [0; 32];
            token[..4].copy_from_slice(&number.to_be_bytes());
            cache.put(token, Verdict::Unknown, now + Duration::from_micros(number.into()));
        }
        assert_eq!(cache.get(&[255; 32], now), Some(Verdict::Allowed));
        assert_eq!((cache.allowed.len(), cache.refused.len()), (1, MOST));
    }
}
