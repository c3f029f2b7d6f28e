//! Sequences of log rows with the answer to each command.

use aedile_state::codec::{decode_batch, encode_batch};
use aedile_state::{Outcome, State};
use serde_json::{Map, Value};

use crate::report::Report;
use crate::words;

/// The state of one sequence, and what is checked at every row of it.
#[derive(Debug, Default)]
struct Sequence {
    state: State,
}

impl Sequence {
    /// Applies a row and compares its answers.
    fn row(&mut self, what: &str, payload: &Value, answers: &Value, report: &mut Report) {
        let Some(outcomes) = apply_row(what, &mut self.state, payload, report) else {
            return;
        };
        report.commands += outcomes.len();
        words::same_answers(what, &outcomes, answers, report);
    }

    /// Compares the snapshot with what a line states of it: any of length,
    /// digest and bytes.
    fn snapshot(
        &mut self,
        what: &str,
        line: &Map<String, Value>,
        prefix: &str,
        report: &mut Report,
    ) {
        let stated = |field: &str| line.get(&format!("{prefix}_{field}"));
        let (length, digest, bytes) = (stated("len"), stated("sha256"), stated("hex"));
        if length.is_none() && digest.is_none() && bytes.is_none() {
            return;
        }
        report.snapshots += 1;
        let ours = self.state.encode_snapshot();
        if let Some(stated) = length {
            report.same(
                format!("{what}: snapshot length"),
                &Value::from(ours.len()),
                stated,
            );
        }
        if let Some(stated) = digest {
            report.same(
                format!("{what}: snapshot digest"),
                &Value::from(words::sha256(&ours)),
                stated,
            );
        }
        if let Some(stated) = bytes {
            report.same(
                format!("{what}: snapshot bytes"),
                &Value::from(hex::encode(&ours)),
                stated,
            );
        }
        match State::decode_snapshot(&ours) {
            Ok(restored) => {
                if restored.encode_snapshot() != ours {
                    report.fail(format!(
                        "{what}: the snapshot is another one after a decode"
                    ));
                }
                if let Some(stated) = line.get("roundtrip_equal") {
                    let equal = Value::from(restored == self.state);
                    report.same(format!("{what}: equal after a decode"), &equal, stated);
                }
            }
            Err(error) => report.fail(format!("{what}: the snapshot does not decode: {error}")),
        }
    }
}

/// Decodes a row, compares its encoding, applies it.
pub(crate) fn apply_row(
    what: &str,
    state: &mut State,
    payload: &Value,
    report: &mut Report,
) -> Option<Vec<Outcome>> {
    let Some(payload) = payload.as_str().and_then(|text| hex::decode(text).ok()) else {
        report.fail(format!("{what}: its payload is no hex text"));
        return None;
    };
    match decode_batch(&payload) {
        Ok(commands) => {
            if encode_batch(&commands) != payload {
                report.fail(format!(
                    "{what}: its encoding is another one after a decode"
                ));
            }
            Some(
                commands
                    .iter()
                    .map(|command| state.apply(command))
                    .collect(),
            )
        }
        Err(error) => {
            report.fail(format!("{what}: {error}"));
            None
        }
    }
}

fn lines(text: &str, report: &mut Report) -> Vec<Map<String, Value>> {
    let mut lines = Vec::new();
    for (at, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        match serde_json::from_str(line) {
            Ok(Value::Object(line)) => lines.push(line),
            _ => report.fail(format!("line {}: no JSON object", at + 1)),
        }
    }
    lines
}

fn field<'a>(line: &'a Map<String, Value>, name: &str) -> &'a Value {
    line.get(name).unwrap_or(&Value::Null)
}

/// Checks a file of several sequences, each from the empty state.
pub fn check_apply(text: &str, report: &mut Report) {
    let mut current = None;
    let mut sequence = Sequence::default();
    for line in lines(text, report) {
        let number = field(&line, "seq");
        if current.as_ref() != Some(number) {
            current = Some(number.clone());
            sequence = Sequence::default();
            report.sequences += 1;
        }
        let what = format!("sequence {number}, step {}", field(&line, "step"));
        sequence.row(
            &what,
            field(&line, "batch_hex"),
            field(&line, "results"),
            report,
        );
        sequence.snapshot(&what, &line, "snapshot", report);
    }
}

/// Checks a file of one sequence with its header.
pub fn check_fuzz(text: &str, report: &mut Report) {
    let mut sequence = Sequence::default();
    let mut steps = 0_u64;
    let mut announced = None;
    report.sequences += 1;
    for line in lines(text, report) {
        if let Some(format) = line.get("format") {
            report.same("format", format, &Value::from("picomq-apply-fuzz-v1"));
            announced = line.get("steps").cloned();
            continue;
        }
        steps += 1;
        let what = format!("step {}", field(&line, "step"));
        sequence.row(&what, field(&line, "hex"), field(&line, "res"), report);
        sequence.snapshot(&what, &line, "snap", report);
        if let Some(Value::Object(stated)) = line.get("state") {
            let ours = words::state(&sequence.state, steps);
            words::same_fields(&what, &ours, stated, report);
        }
    }
    if let Some(announced) = announced {
        report.same("number of steps", &Value::from(steps), &announced);
    }
}
