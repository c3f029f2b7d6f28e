//! `aedile check`: what is wrong, and what to do. Writes nothing.

mod database;
mod plugins;
mod storage;

use serde::Serialize;

use crate::commands;
use crate::config::{Config, ConfigError, misspelt_variables};
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::{self};
use crate::{settings, version};

/// How one item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// It works, and should be looked at.
    Warn,
    /// It does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Item {
    /// What was looked at.
    pub(crate) what: &'static str,
    /// How it stands.
    pub(crate) state: State,
    /// What was found.
    pub(crate) text: String,
    /// What to do; empty if nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) todo: String,
    /// The exit code's class if this is a failure.
    #[serde(skip)]
    class: Option<Exit>,
}

/// The items as they are found.
#[derive(Debug, Default)]
pub(crate) struct Items(Vec<Item>);

impl Items {
    pub(crate) fn ok(&mut self, what: &'static str, text: impl Into<String>) {
        self.push(what, State::Ok, text.into(), String::new(), None);
    }

    pub(crate) fn warn(
        &mut self,
        what: &'static str,
        text: impl Into<String>,
        todo: impl Into<String>,
    ) {
        self.push(what, State::Warn, text.into(), todo.into(), None);
    }

    pub(crate) fn fail(
        &mut self,
        what: &'static str,
        class: Exit,
        text: impl Into<String>,
        todo: impl Into<String>,
    ) {
        self.push(what, State::Fail, text.into(), todo.into(), Some(class));
    }

    /// A failure whose text says itself what to do.
    pub(crate) fn error(&mut self, what: &'static str, error: impl Into<anyhow::Error>) {
        let error = error.into();
        let class = crate::exit::class(&error);
        let mut text = String::new();
        for cause in error.chain() {
            let cause = cause.to_string();
            if text.contains(&cause) {
                continue;
            }
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
        self.fail(what, class, text, String::new());
    }

    fn push(
        &mut self,
        what: &'static str,
        state: State,
        text: String,
        todo: String,
        class: Option<Exit>,
    ) {
        let mask = |text: String| crate::secrets::mask(&text).into_owned();
        self.0.push(Item {
            what,
            state,
            text: mask(text),
            todo: mask(todo),
            class,
        });
    }

    fn exit(&self) -> Exit {
        self.0
            .iter()
            .find_map(|item| item.class)
            .unwrap_or(Exit::Ok)
    }
}

/// Look at everything.
pub(crate) async fn run(config: &Config) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let mut items = Items::default();
    configuration(config, &mut items);
    let clock = commands::clock();
    let view = database::look(config, &clock, &mut items).await;
    storage::look(config, &clock, view.as_ref(), &mut items).await;
    plugins::look(config, &clock, &mut items).await;
    let exit = items.exit();
    if json {
        output::json(&serde_json::json!({ "exit_code": exit.code(), "items": items.0 }))?;
    } else {
        print(&items.0);
    }
    Ok(exit)
}

fn configuration(config: &Config, items: &mut Items) {
    const WHAT: &str = "configuration";
    match config.file() {
        Some(path) => items.ok(WHAT, format!("file {}", path.display())),
        None => items.ok(WHAT, "no file; flags and environment alone"),
    }
    for setting in settings::ALL {
        let Some(source) = config.source(*setting) else {
            continue;
        };
        if matches!(setting.name, "json" | "config") {
            continue;
        }
        // Those with a secret are shown by what they name, masked.
        let value = match setting.name {
            "meta-url" => config.meta_url().map(|url| url.to_string()),
            "storage" => config.storage().map(|storage| storage.to_string()),
            _ => Ok(config.text(*setting).unwrap_or_default().to_owned()),
        };
        if let Ok(value) = value {
            items.ok(WHAT, format!("{} = {value} ({source})", setting.name));
        }
    }
    let checks: [Result<(), ConfigError>; 9] = [
        config.node().map(drop),
        config.ttl().map(drop),
        config.heartbeat().map(drop),
        config.snapshot_every().map(drop),
        config.delete_rate().map(drop),
        config.switch(settings::TAKE_OVER).map(drop),
        config.plugin_dir().map(drop),
        config.storage().map(drop),
        config.trust().map(drop),
    ];
    for error in checks.into_iter().filter_map(Result::err) {
        items.error(WHAT, error);
    }
    for (name, meant) in misspelt_variables() {
        items.warn(
            WHAT,
            format!("the environment variable {name} is not read"),
            format!("did you mean {meant}?"),
        );
    }
    if version::WITHOUT_GUARD {
        items.fail(
            WHAT,
            Exit::Usage,
            "this build has no guard: it deletes live data",
            "use a build without the feature `without-guard`",
        );
    }
}

fn print(items: &[Item]) {
    let style = Style::stdout();
    for item in items {
        let state = match item.state {
            State::Ok => style.good("ok  "),
            State::Warn => style.warn("warn"),
            State::Fail => style.bad("FAIL"),
        };
        output::line(&format!("{state}  {:<13}  {}", item.what, item.text));
        if !item.todo.is_empty() {
            output::line(&format!("                     → {}", item.todo));
        }
    }
    let count = |state| items.iter().filter(|item| item.state == state).count();
    let (warnings, failures) = (count(State::Warn), count(State::Fail));
    output::line("");
    let plural = |count: usize, noun: &str| output::figures::count(count as u64, noun);
    output::line(&match (failures, warnings) {
        (0, 0) => style.good("everything is as it should be"),
        (0, _) => style.warn(&plural(warnings, "warning")),
        _ => style.bad(&format!(
            "{}, {}",
            plural(failures, "failure"),
            plural(warnings, "warning")
        )),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_gives_the_exit_code() {
        let mut items = Items::default();
        items.ok("a", "fine");
        items.warn("b", "odd", "look");
        assert_eq!(items.exit(), Exit::Ok);
        items.fail("c", Exit::Storage, "gone", "");
        items.fail("d", Exit::Plugin, "bad", "");
        assert_eq!(items.exit(), Exit::Storage);
    }
}
