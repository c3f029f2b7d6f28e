//! What an author expects of a trial: a part of what it tells as JSON.

use serde_json::Value;

/// Most mistakes that are told.
const TOLD: usize = 20;

/// In what `found` differs from what is expected of it: an object may hold more
/// than is expected, a list may not.
pub(super) fn unmet(expected: &Value, found: &Value) -> Vec<String> {
    let mut unmet = Vec::new();
    compare("", expected, found, &mut unmet);
    unmet.truncate(TOLD);
    unmet
}

fn compare(place: &str, expected: &Value, found: &Value, unmet: &mut Vec<String>) {
    let here = if place.is_empty() { "the trial" } else { place };
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (key, value) in expected {
                let place = match place {
                    "" => key.clone(),
                    _ => format!("{place}.{key}"),
                };
                match found.get(key) {
                    Some(found) => compare(&place, value, found, unmet),
                    None => unmet.push(format!(
                        "{place}: there is nothing of this name; there are: {}",
                        found.keys().cloned().collect::<Vec<_>>().join(", ")
                    )),
                }
            }
        }
        (Value::Array(expected), Value::Array(found)) => {
            if expected.len() != found.len() {
                unmet.push(format!(
                    "{here}: {} expected, {} found: {}",
                    expected.len(),
                    found.len(),
                    short(&Value::Array(found.clone()))
                ));
            }
            for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare(&format!("{place}[{at}]"), expected, found, unmet);
            }
        }
        // 1 and 1.0 are one number.
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        (expected, found) if expected == found => {}
        (expected, found) => unmet.push(format!(
            "{here}: {} expected, {} found",
            short(expected),
            short(found)
        )),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_is_enough_but_a_list_is_whole() {
        let found = json!({
            "deletes": [{"id": 1, "key": "a"}, {"id": 2, "key": "b"}],
            "ticks": [{"outcome": "done", "gauges": {"keys": 2.0}}],
        });
        for met in [
            json!({}),
            json!({"deletes": [{"id": 1}, {"id": 2}]}),
            json!({"ticks": [{"gauges": {"keys": 2}}]}),
        ] {
            assert_eq!(unmet(&met, &found), [""; 0], "{met}");
        }
        for (expected, text) in [
            (json!({"deletes": []}), "deletes: 0 expected, 2 found: [{"),
            (
                json!({"deletes": [{"id": 1}, {"id": 3}]}),
                "deletes[1].id: 3 expected, 2 found",
            ),
            (
                json!({"ticks": [{"outcome": "more"}]}),
                "ticks[0].outcome: \"more\" expected",
            ),
            (
                json!({"delets": []}),
                "delets: there is nothing of this name; there are: deletes",
            ),
            (json!([]), "the trial: [] expected"),
        ] {
            let told = unmet(&expected, &found).join("\n");
            assert!(told.starts_with(text), "{told}");
        }
    }
}
