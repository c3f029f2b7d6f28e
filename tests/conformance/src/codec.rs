//! Commands with their encodings, and payloads that are corrupt.

use aedile_state::codec::{decode_batch, decode_command, encode_batch, encode_command};
use aedile_state::{Command, DecodeError};
use serde_json::{Map, Value, json};

use crate::report::Report;
use crate::words;

/// Checks a file of the codec form.
pub fn check(text: &str, report: &mut Report) {
    for (at, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let what = format!("line {}", at + 1);
        let Ok(Value::Object(line)) = serde_json::from_str(line) else {
            report.fail(format!("{what}: no JSON object"));
            continue;
        };
        if let Some(name) = line.get("corrupt") {
            corrupt(&format!("{what} ({name})"), &line, report);
        } else if let Some(stated) = line.get("command") {
            encodings(&what, &line, std::slice::from_ref(stated), report);
        } else if let Some(Value::Array(stated)) = line.get("commands") {
            encodings(&what, &line, stated, report);
        } else {
            report.fail(format!(
                "{what}: neither a command, nor commands, nor corrupt"
            ));
        }
    }
}

fn payload(
    what: &str,
    line: &Map<String, Value>,
    key: &str,
    report: &mut Report,
) -> Option<Vec<u8>> {
    let payload = line
        .get(key)?
        .as_str()
        .and_then(|text| hex::decode(text).ok());
    if payload.is_none() {
        report.fail(format!("{what}: {key} is no hex text"));
    }
    payload
}

/// Each encoding decodes to the stated commands and is what they encode to.
fn encodings(what: &str, line: &Map<String, Value>, stated: &[Value], report: &mut Report) {
    let batch = payload(what, line, "batch_hex", report);
    let single = payload(what, line, "single_hex", report);
    if batch.is_none() && single.is_none() {
        return report.fail(format!("{what}: no encoding"));
    }
    if let Some(batch) = batch {
        match decode_batch(&batch) {
            Ok(commands) => {
                words::same_commands(what, &commands, &Value::from(stated), report);
                report.same(format!("{what}: batch"), &encode_batch(&commands), &batch);
            }
            Err(error) => report.fail(format!("{what}: {error}")),
        }
    }
    if let Some(single) = single {
        match decode_command(&single) {
            Ok(command) => {
                let commands = [command];
                words::same_commands(what, &commands, &Value::from(stated), report);
                report.same(
                    format!("{what}: single"),
                    &encode_command(&commands[0]),
                    &single,
                );
            }
            Err(error) => report.fail(format!("{what}: {error}")),
        }
    }
}

fn class(error: &DecodeError) -> Value {
    match error {
        DecodeError::UnsupportedVersion(v) => json!({"error": "UnsupportedVersion", "v": v}),
        DecodeError::UnknownCommand(v) => json!({"error": "UnknownCommand", "v": v}),
        DecodeError::Corrupt { .. } => json!({"error": "Corrupt"}),
        other => json!({"error": format!("{other:?}")}),
    }
}

fn corrupt(what: &str, line: &Map<String, Value>, report: &mut Report) {
    let decoded: Result<Vec<Command>, DecodeError> =
        if let Some(batch) = payload(what, line, "batch_hex", report) {
            decode_batch(&batch)
        } else if let Some(single) = payload(what, line, "single_hex", report) {
            decode_command(&single).map(|command| vec![command])
        } else {
            return report.fail(format!("{what}: no payload"));
        };
    let stated = line.get("expect").unwrap_or(&Value::Null);
    let fails = stated.get("error").is_some();
    match decoded {
        Err(error) => {
            report.corrupt += 1;
            report.same(format!("{what}: class"), &class(&error), stated);
        }
        Ok(commands) if fails => {
            report.fail(format!("{what}: decodes to {commands:?}, stated {stated}"));
        }
        Ok(commands) => still_decodes(what, &commands, stated, report),
    }
}

/// A damaged payload that is a valid one still: stated are the commands, or
/// how many there are.
fn still_decodes(what: &str, commands: &[Command], stated: &Value, report: &mut Report) {
    let values = match stated {
        Value::Object(fields) => fields.values().collect(),
        other => vec![other],
    };
    for value in &values {
        match value {
            Value::Array(_) => return words::same_commands(what, commands, value, report),
            Value::Number(_) => {
                report.decoded += commands.len();
                let count = Value::from(commands.len());
                return report.same(format!("{what}: number of commands"), &count, value);
            }
            _ => {}
        }
    }
    report.fail(format!(
        "{what}: no class and no commands are stated, but {stated}"
    ));
}
