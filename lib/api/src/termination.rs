//! Termination messages: what a container leaves to its kubelet when it ends, for the status of its pod.

use serde::Serialize;

/// The most bytes of a termination message: the kubelet keeps no more.
pub const LONGEST: usize = 4096;

/// A value as JSON of at most [`LONGEST`] bytes: its sentence is shortened where it is longer. `rest` takes out what else may be
/// long, and says whether there was anything.
pub(crate) fn shortened<T: Serialize + Clone>(
    value: &T,
    sentence: impl Fn(&mut T) -> &mut String,
    rest: impl Fn(&mut T) -> bool,
) -> String {
    let mut value = value.clone();
    loop {
        // The values are made of texts and numbers alone.
        let text = serde_json::to_string(&value).unwrap_or_default();
        let over = text.len().saturating_sub(LONGEST);
        if over == 0 {
            return text;
        }
        let message = sentence(&mut value);
        if message.is_empty() {
            if !rest(&mut value) {
                return text;
            }
            continue;
        }
        // An escaped character takes up to six bytes of JSON: not more is cut than has to be.
        let keep = message.len().saturating_sub((over / 6).max(1));
        let keep = (0..=keep).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
        message.truncate(keep);
    }
}
