//! Captured databases: the state that snapshot and rows give, the answers on
//! the way, and all that the file beside the database states of them.

use std::collections::BTreeMap;

use aedile_state::codec::{decode_batch, encode_batch};
use aedile_state::{ObjectId, Outcome, State};
use serde_json::{Map, Value, json};

use crate::captures::Capture;
use crate::report::Report;
use crate::sql::{self, Copy, Tables};
use crate::words;

/// What a database gives.
#[derive(Debug)]
pub struct Rebuilt {
    /// The index of the last row applied, or of the snapshot.
    pub index: u64,
    /// The state by then.
    pub state: State,
    /// The state of the snapshot, and its index.
    snapshot: Option<(u64, State)>,
    answers: BTreeMap<u64, Vec<Outcome>>,
}

/// Loads the snapshot and applies the rows after it.
pub fn rebuild(tables: &Tables) -> Result<Rebuilt, String> {
    let mut snapshot = None;
    if let Some((index, payload)) = &tables.snapshot {
        let state = State::decode_snapshot(payload)
            .map_err(|error| format!("snapshot at {index}: {error}"))?;
        if state.encode_snapshot() != *payload {
            return Err(format!("snapshot at {index}: another one after a decode"));
        }
        snapshot = Some((*index, state));
    }
    let (mut index, mut state) = snapshot.clone().unwrap_or_default();
    let mut answers = BTreeMap::new();
    for (row, payload) in tables
        .rows
        .iter()
        .filter(|(row, _)| *row > index)
        .collect::<Vec<_>>()
    {
        if *row != index + 1 {
            return Err(format!("row {} is missing", index + 1));
        }
        let commands = decode_batch(payload).map_err(|error| format!("row {row}: {error}"))?;
        if encode_batch(&commands) != *payload {
            return Err(format!("row {row}: another one after a decode"));
        }
        answers.insert(
            *row,
            commands
                .iter()
                .map(|command| state.apply(command))
                .collect(),
        );
        index = *row;
    }
    Ok(Rebuilt {
        index,
        state,
        snapshot,
        answers,
    })
}

/// Checks a captured SQLite database: by plain queries, and as the log's own
/// reader sees it.
pub fn check_sqlite(capture: &Capture, stated: &Value, report: &mut Report) {
    let copy = Copy::of(&capture.bytes());
    let tables = copy.tables();
    if let Some(rebuilt) = tables.as_ref().ok().and_then(|tables| rebuild(tables).ok()) {
        match copy.view() {
            Ok(view) => {
                report.read += 1;
                report.same("the reader's index", &view.index, &rebuilt.index);
                if view.state != rebuilt.state {
                    report.fail("the reader's state is another one");
                }
            }
            Err(error) => report.fail(format!("the reader: {error}")),
        }
    }
    check(tables, stated, report);
}

/// Checks a captured PostgreSQL dump.
pub fn check_postgres(capture: &Capture, stated: &Value, report: &mut Report) {
    check(sql::dump(&capture.text()), stated, report);
}

fn check(tables: Result<Tables, String>, stated: &Value, report: &mut Report) {
    let rebuilt = tables.and_then(|tables| rebuild(&tables).map(|rebuilt| (tables, rebuilt)));
    let (tables, rebuilt) = match rebuilt {
        Ok(rebuilt) => rebuilt,
        Err(why) => return report.fail(why),
    };
    report.databases += 1;
    report.rows += rebuilt.answers.len();
    let Value::Object(stated) = stated else {
        return report.fail("what is stated of it is no JSON object");
    };
    if let Some(Value::Object(state)) = stated.get("final_state") {
        let ours = words::state(&rebuilt.state, rebuilt.index);
        words::same_fields("final state", &ours, state, report);
        log_form(&tables, &rebuilt, stated, report);
    } else if stated.contains_key("cases") {
        composite_form(&tables, &rebuilt, stated, report);
    } else if stated.contains_key("snapshot_sha256") {
        state_form(&tables, &rebuilt, stated, report);
    } else {
        let keys: Vec<&String> = stated.keys().collect();
        report.fail(format!("of no known form: states the fields {keys:?}"));
    }
}

/// Form `{snapshot, log, final_state}`: every row with commands and answers.
fn log_form(tables: &Tables, rebuilt: &Rebuilt, stated: &Map<String, Value>, report: &mut Report) {
    snapshot_row(
        tables,
        rebuilt,
        stated.get("snapshot").unwrap_or(&Value::Null),
        report,
    );
    let Some(Value::Array(log)) = stated.get("log") else {
        return report.fail("states no log");
    };
    report.same("number of log rows", &tables.rows.len(), &log.len());
    for row in log {
        stated_row(tables, rebuilt, row, "payload_hex", report);
    }
}

fn snapshot_row(tables: &Tables, rebuilt: &Rebuilt, stated: &Value, report: &mut Report) {
    let (Some((index, payload)), Some((_, state))) = (&tables.snapshot, &rebuilt.snapshot) else {
        return report.same("snapshot row", &Value::Null, stated);
    };
    let Value::Object(stated) = stated else {
        return report.fail("states no snapshot row, but there is one");
    };
    let mut stated = stated.clone();
    if let Some(Value::Object(stated)) = stated.remove("state") {
        words::same_fields(
            "snapshot state",
            &words::state(state, *index),
            &stated,
            report,
        );
    }
    let ours = Map::from_iter([
        ("applied_idx".to_owned(), Value::from(*index)),
        ("len".to_owned(), payload.len().into()),
        ("payload_hex".to_owned(), hex::encode(payload).into()),
        ("sha256".to_owned(), words::sha256(payload).into()),
    ]);
    words::same_fields("snapshot row", &ours, &stated, report);
}

fn stated_row(
    tables: &Tables,
    rebuilt: &Rebuilt,
    stated: &Value,
    payload_key: &str,
    report: &mut Report,
) {
    let Some(index) = stated.get("idx").and_then(Value::as_u64) else {
        return report.fail("a stated row has no index");
    };
    let what = format!("row {index}");
    let Some((_, payload)) = tables.rows.iter().find(|(row, _)| *row == index) else {
        return report.fail(format!("{what} is not in the database"));
    };
    let ours = Value::from(hex::encode(payload));
    report.same(format!("{what}: payload"), &ours, &stated[payload_key]);
    match decode_batch(payload) {
        Ok(commands) => words::same_commands(&what, &commands, &stated["commands"], report),
        Err(error) => report.fail(format!("{what}: {error}")),
    }
    let Some(answers) = rebuilt.answers.get(&index) else {
        report.same(
            format!("{what}: covered by the snapshot"),
            &Value::from(true),
            &stated["covered_by_snapshot"],
        );
        return;
    };
    if let Some(stated) = stated.get("results") {
        words::same_answers(&what, answers, stated, report);
    }
}

/// Form with the state's fields at the top, and some rows decoded.
fn state_form(
    tables: &Tables,
    rebuilt: &Rebuilt,
    stated: &Map<String, Value>,
    report: &mut Report,
) {
    let mut ours = words::state(&rebuilt.state, rebuilt.index);
    ours.insert("log_rows".to_owned(), tables.rows.len().into());
    let snapshot = tables.snapshot.as_ref().map_or(0, |&(index, _)| index);
    ours.insert("snapshot_row_idx".to_owned(), snapshot.into());
    let mut stated = stated.clone();
    if let Some(rows) = stated.remove("first_rows") {
        for row in rows.as_array().into_iter().flatten() {
            stated_row(tables, rebuilt, row, "hex", report);
        }
    }
    words::same_fields("state", &ours, &stated, report);
}

/// Form with composites in cases. What a pass over its objects must leave is
/// stated for the tests of the cleaner.
fn composite_form(
    tables: &Tables,
    rebuilt: &Rebuilt,
    stated: &Map<String, Value>,
    report: &mut Report,
) {
    let state = &rebuilt.state;
    let live: Vec<u64> = state.live_after(None).map(|id| id.0).collect();
    let ours = json!({
        "destroyed": words::marks(state),
        "stream_objects": live,
        "log_rows": tables.rows.len(),
    });
    let mut stated = stated.clone();
    stated.remove("expect_after_one_pass");
    let cases = stated.remove("cases").unwrap_or_default();
    for case in cases.as_array().into_iter().flatten() {
        for key in ["composite", "second_composite"] {
            let Some(id) = case.get(key).and_then(Value::as_u64).map(ObjectId) else {
                continue;
            };
            report.fields += 1;
            if !state.composites().any(|live| live == id) && state.mark(id).is_none() {
                report.fail(format!(
                    "case {}: {id} is no composite and not marked",
                    case["case"]
                ));
            }
        }
    }
    match ours {
        Value::Object(ours) => words::same_fields("state", &ours, &stated, report),
        _ => unreachable!("built as an object above"),
    }
}
