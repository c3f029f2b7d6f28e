//! Text from a plugin, made fit for logs and screens.

use std::fmt::Write as _;

/// Longest line, in bytes.
pub(crate) const LINE_BYTES: usize = 4 << 10;

/// One line of at most [`LINE_BYTES`].
pub(crate) fn line(text: &str) -> String {
    line_of(text, LINE_BYTES)
}

/// One line of at most `most` bytes, an ellipsis included if it was cut.
/// Control characters are escaped, and so are those that reorder or break
/// lines on a screen: a plugin forges neither lines nor terminal commands.
pub(crate) fn line_of(text: &str, most: usize) -> String {
    const ELLIPSIS: char = '…';
    let mut out = String::with_capacity(text.len().min(most));
    let mut room = 0;
    for character in text.chars() {
        let before = out.len();
        if out.len() + ELLIPSIS.len_utf8() <= most {
            room = out.len();
        }
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if unsafe_on_screen(character) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
            }
            _ => out.push(character),
        }
        if out.len() > most {
            out.truncate(room.min(before));
            if out.len() + ELLIPSIS.len_utf8() <= most {
                out.push(ELLIPSIS);
            }
            break;
        }
    }
    out
}

fn unsafe_on_screen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_cannot_be_forged() {
        assert_eq!(
            line("a\nERROR b\r\x1b[2J\0\u{85}\u{2028}\u{202e}\\n"),
            "a\\nERROR b\\r\\u{1b}[2J\\u{0}\\u{85}\\u{2028}\\u{202e}\\\\n"
        );
        assert_eq!(line("straße ✓"), "straße ✓");
    }

    #[test]
    fn a_line_is_cut_between_characters_and_never_grows_past_its_bound() {
        for most in 0..20 {
            for text in [
                "aaaaaaaaaaaaaaaaaaaaaaaa",
                "ßßßßßßßßßßßßß",
                "\x1b\x1b\x1b\x1b",
                "✓✓✓✓✓✓✓✓",
            ] {
                let cut = line_of(text, most);
                assert!(cut.len() <= most, "{most}: {cut}");
            }
        }
        assert_eq!(line_of("abcdef", 6), "abcdef");
        assert_eq!(line_of("abcdefg", 6), "abc…");
        assert_eq!(line_of("abc\n", 5), "abc\\n");
        assert_eq!(line_of("abc\nd", 5), "ab…");
    }
}
