//! Indented JSON with its order kept, as libvirt's program prints it.

/// The same text, indented by two spaces.
pub(super) fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut letters = text.chars().peekable();
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        // The depth is bounded by the length of the text, and the indent is bounded here.
        out.push_str(&"  ".repeat(depth.min(64)));
    };
    while let Some(letter) = letters.next() {
        if in_text {
            out.push(letter);
            match letter {
                '\\' => out.extend(letters.next()),
                '"' => in_text = false,
                _ => {}
            }
            continue;
        }
        match letter {
            '"' => {
                in_text = true;
                out.push(letter);
            }
            '{' | '[' => {
                while letters.peek().is_some_and(|next| next.is_whitespace()) {
                    letters.next();
                }
                out.push(letter);
                depth += 1;
                newline(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                newline(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                newline(&mut out, depth);
            }
            ':' => out.push_str(": "),
            letter if letter.is_whitespace() => {}
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_texts_are_kept() {
        let text = r#"{"return": {"b":[1,2],"a":"x{,:\"}\\","e":{}}, "id":"libvirt-1"}"#;
        let wanted = "{\n  \"return\": {\n    \"b\": [\n      1,\n      2\n    ],\n    \"a\": \"x{,:\\\"}\\\\\",\n    \
                      \"e\": {\n      \n    }\n  },\n  \"id\": \"libvirt-1\"\n}";
        assert_eq!(indented(text), wanted);
        assert_eq!(indented("}}]"), "\n}\n}\n]");
        assert_eq!(indented("\"open \\"), "\"open \\");
    }
}
