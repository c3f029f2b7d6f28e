//! Values written into the text of a statement, for PostgreSQL's plain messages,
//! which carry no parameters.

/// A value of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Literal<'a> {
    Integer(i64),
    Flag(bool),
    Text(&'a str),
    /// No integer.
    Null,
}

impl Literal<'_> {
    fn write(&self, into: &mut String) {
        match self {
            // The quotes keep the sign of the least integer, which has no
            // positive twin.
            Self::Integer(value) => into.push_str(&format!("'{value}'::bigint")),
            Self::Flag(value) => into.push_str(if *value { "true" } else { "false" }),
            Self::Null => into.push_str("NULL::bigint"),
            // This form means the same whatever `standard_conforming_strings`
            // says. A text with a NUL does not exist in PostgreSQL, nor is there
            // a row with one.
            Self::Text(text) => {
                into.push_str("E'");
                for character in text.chars().filter(|character| *character != '\0') {
                    if matches!(character, '\'' | '\\') {
                        into.push(character);
                    }
                    into.push(character);
                }
                into.push('\'');
            }
        }
    }
}

/// A statement whose parameters `$1` to `$9` are replaced by values.
pub(super) fn filled(statement: &str, values: &[Literal<'_>]) -> String {
    let mut text = String::with_capacity(2 * statement.len());
    let mut parts = statement.split('$');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let mut rest = part.chars();
        let number = rest.next().and_then(|digit| digit.to_digit(10));
        match number.and_then(|number| values.get(usize::try_from(number).ok()?.checked_sub(1)?)) {
            Some(value) => {
                value.write(&mut text);
                text.push_str(rest.as_str());
            }
            // Not a parameter: the server says what it thinks of it.
            None => {
                text.push('$');
                text.push_str(part);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_where_it_ends() {
        let hostile = "a'; DROP TABLE x; --\\' $1 \0é";
        let filled = filled(
            "SELECT $1, $2, $3",
            &[
                Literal::Text(hostile),
                Literal::Integer(i64::MIN),
                Literal::Null,
            ],
        );
        assert_eq!(
            filled,
            "SELECT E'a''; DROP TABLE x; --\\\\'' $1 é', '-9223372036854775808'::bigint, NULL::bigint"
        );
    }

    #[test]
    fn parameters_are_replaced_where_they_stand_and_nothing_else_is() {
        let values = [Literal::Flag(true), Literal::Text("$1")];
        assert_eq!(filled("$2 $1$", &values), "E'$1' true$");
        assert_eq!(filled("$3 $0 $x", &values), "$3 $0 $x");
    }
}
