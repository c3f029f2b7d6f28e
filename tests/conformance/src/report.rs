//! What was checked, and what did not hold.

use std::fmt;

/// Failures that are told in full for one file.
const TOLD: usize = 20;

/// Counts of what was compared, and the failures.
#[derive(Debug, Default)]
pub struct Report {
    /// Sequences, each from the empty state.
    pub sequences: usize,
    /// Commands applied in sequences.
    pub commands: usize,
    /// Answers compared, in sequences and rows.
    pub answers: usize,
    /// Snapshot encodings compared.
    pub snapshots: usize,
    /// Commands compared field by field with their stated form.
    pub decoded: usize,
    /// Payloads that must not decode.
    pub corrupt: usize,
    /// Databases rebuilt, of either kind.
    pub databases: usize,
    /// SQLite databases that the log's own reader read to the same state.
    pub read: usize,
    /// Log rows applied from databases.
    pub rows: usize,
    /// Fields of stated states compared.
    pub fields: usize,
    /// Object archives looked through.
    pub archives: usize,
    /// Live objects found in archives.
    pub objects: usize,
    /// What did not hold.
    pub failures: Vec<String>,
    file: String,
    in_file: usize,
}

impl Report {
    /// From here on, failures are those of this file.
    pub fn begin(&mut self, file: &str) {
        self.file = file.to_owned();
        self.in_file = 0;
    }

    /// Something did not hold.
    pub fn fail(&mut self, what: impl fmt::Display) {
        self.in_file += 1;
        if self.in_file <= TOLD {
            self.failures.push(format!("{}: {what}", self.file));
        }
    }

    /// Compares two things that the capture and we must agree on.
    pub fn same<T: PartialEq + fmt::Debug>(
        &mut self,
        what: impl fmt::Display,
        ours: &T,
        stated: &T,
    ) {
        if ours != stated {
            self.fail(format!(
                "{what}: ours {}, stated {}",
                short(ours),
                short(stated)
            ));
        }
    }

    /// All that was compared.
    pub fn checked(&self) -> usize {
        self.answers + self.snapshots + self.decoded + self.corrupt + self.fields + self.objects
    }

    /// The counts that are zero, by name: what the directory holds none of.
    pub fn absent(&self) -> Vec<&'static str> {
        self.counts()
            .into_iter()
            .filter(|&(count, _)| count == 0)
            .map(|(_, name)| name)
            .collect()
    }

    fn counts(&self) -> [(usize, &'static str); 12] {
        [
            (self.sequences, "sequences"),
            (self.commands, "commands applied in them"),
            (self.answers, "answers compared"),
            (self.snapshots, "snapshot encodings compared"),
            (self.decoded, "commands compared with their stated form"),
            (self.corrupt, "corrupt payloads refused by class"),
            (self.databases, "databases rebuilt"),
            (self.read, "of them read by the log's own reader"),
            (self.rows, "log rows applied from them"),
            (self.fields, "fields of stated states compared"),
            (self.archives, "object archives"),
            (self.objects, "live objects found in them"),
        ]
    }
}

fn short(value: &impl fmt::Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(400) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, name) in self.counts() {
            let note = if count == 0 {
                "   <-- NONE in this directory"
            } else {
                ""
            };
            writeln!(f, "{count:>8}  {name}{note}")?;
        }
        writeln!(f, "{:>8}  failures", self.failures.len())
    }
}
