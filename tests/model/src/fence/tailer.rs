//! What a node knows of the log: the rules of `host/log/src/applier.rs` and
//! `selfcheck.rs`.

use super::database::{Database, Row};

/// What a node has applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tailer {
    /// The rows, in order. Its length is the index.
    pub view: Vec<Row>,
    /// The last of them was applied here, not installed with a snapshot.
    pub applied: bool,
    /// The newest snapshot that it saw.
    pub seen: usize,
    /// The newest snapshot that it installed or compared.
    pub compared: usize,
    /// It found that the log went back or that a snapshot contradicts it, and
    /// reads no more.
    pub stopped: bool,
}

impl Tailer {
    /// One look at the database, in one statement.
    pub fn look(&mut self, database: &Database) {
        let (applied, snapshot) = (self.view.len(), database.covered());
        if snapshot < self.seen {
            self.stopped = true;
            return;
        }
        self.seen = snapshot;
        let found = database.rows.get(&applied);
        let same = match (found, self.applied) {
            (Some(found), true) => self.view.last() == Some(found),
            (Some(_), false) => snapshot <= applied,
            (None, _) => false,
        };
        let differs = found.is_some() && !same;
        if (snapshot > applied && !same) || (snapshot == applied && differs) {
            self.install(database);
        } else if snapshot < applied && !same {
            self.stopped = true;
        } else {
            self.follow(database);
            self.compare(database);
        }
    }

    /// A snapshot of an index that was passed here has to say the same.
    fn compare(&mut self, database: &Database) {
        let own = self.view.get(..self.seen);
        if self.seen > self.compared && own.is_some() {
            self.compared = self.seen;
            self.stopped |= database.snapshot.as_deref() != own;
        }
    }

    /// The look of one that trusts every row: PicoMQ's own tailer.
    pub fn trust(&mut self, database: &Database) {
        self.follow(database);
    }

    /// Apply what follows; install the snapshot where that is not there.
    fn follow(&mut self, database: &Database) {
        let next = self.view.len() + 1;
        let later = database.rows.range(next..).next();
        if later.is_some_and(|(index, _)| *index != next) {
            if database.covered() >= next {
                self.install(database);
            }
            return;
        }
        while let Some(row) = database.rows.get(&(self.view.len() + 1)) {
            self.view.push(*row);
            self.applied = true;
        }
    }

    fn install(&mut self, database: &Database) {
        if let Some(snapshot) = &database.snapshot
            && snapshot.len() >= self.view.len()
        {
            self.view.clone_from(snapshot);
            self.applied = false;
            self.seen = snapshot.len();
            self.compared = snapshot.len();
        }
    }
}
