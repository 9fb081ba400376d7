//! Public SSH keys in the format of `authorized_keys`.

/// The keys in a file.
pub(super) fn keys(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(key_of)
}

/// Key type and base64 text of a line in `authorized_keys`. Options and comment do not belong to the key.
pub(super) fn key_of(line: &str) -> Option<(&str, &str)> {
    let is_type = |word: &str| ["ssh-", "ecdsa-", "sk-"].iter().any(|start| word.starts_with(start));
    let line = line.trim_start();
    let mut words = line.split_whitespace();
    let first = words.next().filter(|word| !word.starts_with('#'))?;
    if is_type(first) {
        return Some((first, words.next()?));
    }
    // Options end at a blank outside of quotes.
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = line.find(|c: char| {
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        c.is_whitespace() && !is_quoted
    })?;
    let mut words = line.get(end..)?.split_whitespace();
    Some((words.next().filter(|word| is_type(word))?, words.next()?))
}
