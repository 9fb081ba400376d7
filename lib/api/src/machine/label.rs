//! Labels of DNS names.

/// True if the text has the letters of a DNS label, at any length.
pub(super) fn is_label(text: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(word) && text.ends_with(word) && text.chars().all(|c| word(c) || c == '-')
}
