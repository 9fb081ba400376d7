//! Termination messages of containers, which the kubelet copies to the status of the pod.

use serde::Serialize;

/// Most bytes of a termination message that the kubelet keeps.
pub const LONGEST: usize = 4096;

/// A value as JSON of at most [`LONGEST`] bytes; its message is shortened if necessary. `rest` removes other
/// long fields, and returns true if there were any.
pub(crate) fn shortened<T: Serialize + Clone>(
    value: &T,
    sentence: impl Fn(&mut T) -> &mut String,
    rest: impl Fn(&mut T) -> bool,
) -> String {
    let mut value = value.clone();
    loop {
        // Values have only texts and numbers, so this cannot fail.
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
        // An escaped character takes up to six bytes of JSON, so this never cuts too much.
        let keep = message.len().saturating_sub((over / 6).max(1));
        let keep = (0..=keep).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
        message.truncate(keep);
    }
}
