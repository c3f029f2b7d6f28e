//! A configuration against the schema in its module's manifest.

use std::sync::mpsc;
use std::time::Duration;

use boon::{Compiler, ErrorKind, Schemas, SchemeUrlLoader, ValidationError};
use serde_json::{Map, Value};

/// What the schema is called while it is compiled; nothing is fetched from there.
const PLACE: &str = "aedile:config-schema";
/// Most mistakes that are listed.
const LISTED: usize = 10;
/// A schema can be made to take for ever.
const LONGEST: Duration = Duration::from_secs(5);

/// Why a configuration does not fit.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    /// It does not say what the schema wants.
    #[error("the configuration does not fit the schema in the plugin's manifest:\n{}", .0.join("\n"))]
    Config(Vec<String>),
    /// The schema itself is none.
    #[error("`config-schema` in the plugin's manifest is no JSON Schema: {0}")]
    Schema(String),
    /// Neither yes nor no came.
    #[error(
        "the configuration was not compared with `config-schema` in the plugin's manifest within {} s; \
         simplify the schema",
        LONGEST.as_secs()
    )]
    Slow,
}

/// Compare a configuration with a schema: every mistake, each with its place.
pub(crate) fn check(schema: &Value, config: &Map<String, Value>) -> Result<(), SchemaError> {
    let (schema, config) = (schema.clone(), Value::Object(config.clone()));
    let (reply, answer) = mpsc::channel();
    // A thread of its own: it may never end, and then the process does before it.
    let compare = std::thread::Builder::new().name("config-schema".to_owned());
    compare
        .spawn(move || {
            let _ = reply.send(compared(schema, &config));
        })
        .map_err(|error| SchemaError::Schema(error.to_string()))?;
    match answer.recv_timeout(LONGEST) {
        Ok(compared) => compared,
        Err(mpsc::RecvTimeoutError::Timeout) => Err(SchemaError::Slow),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(SchemaError::Schema("it cannot be compiled".to_owned()))
        }
    }
}

fn compared(schema: Value, config: &Value) -> Result<(), SchemaError> {
    let wrong = |error: boon::CompileError| SchemaError::Schema(format!("{error:#}"));
    let mut compiler = Compiler::new();
    // No scheme is registered: a `$ref` leads nowhere but into the schema itself,
    // neither to a file of this machine nor to the network.
    compiler.use_loader(Box::new(SchemeUrlLoader::new()));
    compiler.add_resource(PLACE, schema).map_err(wrong)?;
    let mut schemas = Schemas::new();
    let index = compiler.compile(PLACE, &mut schemas).map_err(wrong)?;
    let Err(error) = schemas.validate(config, index) else {
        return Ok(());
    };
    let mut found = Vec::new();
    mistakes(&error, &mut found);
    found.dedup();
    if found.len() > LISTED {
        let rest = found.len() - LISTED;
        found.truncate(LISTED);
        found.push(format!("  … and {rest} more"));
    }
    Err(SchemaError::Config(found))
}

/// The mistakes at the ends of the tree: what lies above says only that some are
/// below.
fn mistakes(error: &ValidationError<'_, '_>, found: &mut Vec<String>) {
    if !error.causes.is_empty() {
        for cause in &error.causes {
            mistakes(cause, found);
        }
        return;
    }
    let place = error.instance_location.to_string();
    let place = if place.is_empty() { "/" } else { &place };
    let reason = match &error.kind {
        ErrorKind::AdditionalProperties { got } => format!(
            "unknown {}",
            got.iter()
                .map(|name| format!("`{}`", name.escape_debug()))
                .collect::<Vec<_>>()
                .join(", ")
        ),
        ErrorKind::FalseSchema => "nothing may be here".to_owned(),
        kind => kind.to_string(),
    };
    found.push(format!("  {}: {reason}", place.escape_debug()));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn against(schema: &Value, config: Value) -> Result<(), String> {
        let Value::Object(config) = config else {
            panic!("an object");
        };
        check(schema, &config).map_err(|error| error.to_string())
    }

    #[test]
    fn every_mistake_is_told_with_its_path_and_reason() {
        let schema = json!({
            "type": "object",
            "required": ["rules"],
            "additionalProperties": false,
            "properties": {
                "rules": { "type": "array", "items": {
                    "type": "object",
                    "required": ["prefix", "ttl"],
                    "properties": {
                        "prefix": { "type": "string", "minLength": 1 },
                        "ttl": { "type": "string", "pattern": "^[0-9]+[smhd]$" },
                    },
                }},
            },
        });
        let good = json!({"rules": [{"prefix": "a/", "ttl": "1h"}]});
        assert_eq!(against(&schema, good), Ok(()));
        for (config, expected) in [
            (json!({}), "  /: missing properties 'rules'"),
            (json!({"rules": [], "rule": 1}), "  /: unknown `rule`"),
            (
                json!({"rules": [{"prefix": "a/"}]}),
                "  /rules/0: missing properties 'ttl'",
            ),
            (
                json!({"rules": [{"prefix": "a/", "ttl": 3}]}),
                "  /rules/0/ttl: want string, but got number",
            ),
            (
                json!({"rules": [{"prefix": "", "ttl": "1 hour"}]}),
                "  /rules/0/ttl: '1 hour' does not match pattern",
            ),
        ] {
            let text = against(&schema, config).expect_err(expected);
            assert!(text.contains(expected), "{text}");
        }
        let many = json!({"rules": vec![json!({}); 100]});
        let text = against(&schema, many).expect_err("many");
        assert!(
            text.lines().count() == LISTED + 2 && text.contains("and 90 more"),
            "{text}"
        );
    }

    #[test]
    fn a_schema_reads_no_file_and_asks_no_network() {
        // One that would do, if it were read.
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("other.json");
        std::fs::write(&file, "{}").expect("a file");
        for reference in [
            format!("file://{}", file.display()),
            "https://example.org/schema.json".to_owned(),
            "other.json".to_owned(),
        ] {
            let schema = json!({"properties": {"a": {"$ref": reference}}});
            let text = against(&schema, json!({"a": 1})).expect_err(&reference);
            assert!(text.contains("is no JSON Schema"), "{text}");
        }
    }

    #[test]
    fn a_schema_that_is_none_is_told_apart_from_a_configuration_that_does_not_fit() {
        for schema in [
            json!({"type": "objekt"}),
            json!({"properties": 3}),
            json!({"$schema": "https://example.org/dialect"}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!([]),
        ] {
            let text = against(&schema, json!({"a": "b"})).expect_err("no schema");
            assert!(text.contains("is no JSON Schema"), "{schema}: {text}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let text = against(&json!({"$ref": "#"}), json!({})).expect_err("a circle");
        assert!(text.contains("cycle"), "{text}");
    }

    #[test]
    fn a_schema_that_is_made_to_take_for_ever_is_given_up() {
        // Each definition tries the one below it twice: 2^60 tries.
        let mut definitions = Map::new();
        definitions.insert("d0".to_owned(), json!({"type": "object"}));
        for depth in 1..60 {
            let below = json!({"$ref": format!("#/$defs/d{}", depth - 1)});
            let twice = json!({"allOf": [below.clone(), below]});
            definitions.insert(format!("d{depth}"), twice);
        }
        let schema = json!({"$defs": definitions, "$ref": "#/$defs/d59"});
        let text = against(&schema, json!({})).expect_err("slow");
        assert!(text.contains("simplify the schema"), "{text}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_schema_and_no_configuration_panics(
            keyword in "(type|items|enum|required|pattern|minimum|\\$ref|\\$id|properties|format|if)",
            value in "[\\PC]{0,12}",
        ) {
            let config = json!({"a": value, "b": [1, {"c": null}]});
            for schema in [json!({&keyword: value}), json!({"properties": {"a": {&keyword: [value]}}})] {
                let _ = against(&schema, config.clone());
            }
        }
    }
}
