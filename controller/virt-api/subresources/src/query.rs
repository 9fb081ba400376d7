//! Query parameters that need no unescaping. Pure.

/// The first value of a parameter.
pub(crate) fn value<'a>(query: Option<&'a str>, word: &str) -> Option<&'a str> {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    pairs.filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == word).map(|(_, value)| value)
}

/// True if a parameter is set to true, as upstream parses it.
pub(crate) fn is(query: Option<&str>, word: &str) -> bool {
    value(query, word) == Some("true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_whole() {
        assert_eq!(value(Some("x=1&mode=read&mode=take"), "mode"), Some("read"));
        assert!(is(Some("moveCursor=true"), "moveCursor"));
        for other in [None, Some(""), Some("moveCursor"), Some("xmoveCursor=true"), Some("moveCursor=false")]
        {
            assert!(!is(other, "moveCursor"), "{other:?}");
        }
    }
}
