//! What is read from the database, judged and applied.
//!
//! It trusts nobody's rows blindly. A node whose tail lags can insert below a
//! snapshot, and a restored backup can end before what was applied here. Each
//! look therefore reads, in one statement, the snapshot's index and the rows
//! from the last applied one on, that one included.

use aedile_state::State;

use crate::ahead::{self, Ahead};
use crate::pending::{Delivery, Pending};
use crate::selfcheck::{self, Compared, KEPT, Recent};
use crate::store::{Fetch, Row, Store};
use crate::view::{Answer, LogHealth, View};
use crate::{LogError, LogOptions};

/// How many commands are applied before other tasks get a turn.
const TURN: usize = 256;

/// The position that the applier has reached.
#[derive(Debug, Default)]
pub(crate) struct Applier {
    pub(crate) view: View,
    /// The bytes of the last applied row; none if a snapshot was installed.
    last: Option<Vec<u8>>,
    /// The newest snapshot that was ever seen; 0 if none was.
    seen: u64,
    /// The newest snapshot that was installed, or given to be compared.
    compared: u64,
    /// The views of the last rows.
    recent: Recent,
    /// Rows of ours that are being appended.
    ahead: Ahead,
}

/// What a fetch means for the applier.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// These rows follow; perhaps none.
    Apply(Vec<Row>),
    /// A newer snapshot must be installed; nothing of this fetch is applied.
    Reinstall,
    /// Log and snapshot end before what was applied.
    WentBack(String),
    /// A row is missing and no snapshot covers it.
    Gap(u64),
}

impl Applier {
    /// Index of the newest snapshot that was seen; 0 if none was.
    pub(crate) fn snapshot(&self) -> u64 {
        self.seen
    }

    /// The view that a snapshot is to be compared with that has shown up since
    /// this was last asked.
    pub(crate) fn take_due(&mut self) -> Option<View> {
        if self.seen <= self.compared || self.seen > self.view.index {
            return None;
        }
        self.compared = self.seen;
        let view = self.recent.at(self.seen).cloned();
        if view.is_none() {
            tracing::debug!(
                index = self.seen,
                "this snapshot was passed too long ago to be compared"
            );
        }
        view
    }

    /// Judge a fetch that began at the last applied row.
    fn judge(&mut self, fetch: Fetch) -> Step {
        let applied = self.view.index;
        let snapshot = fetch.snapshot.unwrap_or(0);
        if snapshot < self.seen {
            return Step::WentBack(match fetch.snapshot {
                Some(_) => format!("the snapshot is at {snapshot} now, it was at {}", self.seen),
                None => format!("the snapshot is gone, it was at {}", self.seen),
            });
        }
        self.seen = snapshot;
        let mut rows = fetch.rows;
        let found = match rows.first() {
            Some((index, _)) if *index == applied && applied > 0 => Some(rows.remove(0).1),
            _ => None,
        };
        let same = match (&found, &self.last) {
            (Some(found), Some(last)) => found == last,
            // Its bytes were never seen here: a snapshot was installed.
            (Some(_), None) => snapshot <= applied,
            (None, _) => false,
        };
        // At the snapshot's own index a row may be gone. One with other bytes was
        // inserted below the snapshot, or is of another history: the snapshot
        // is right in both cases.
        let differs = found.is_some() && !same;
        if (snapshot > applied && !same) || (snapshot == applied && differs) {
            return Step::Reinstall;
        }
        if snapshot < applied && !same {
            return Step::WentBack(match found {
                Some(_) => format!("row {applied} has other bytes now"),
                None => match rows.first() {
                    Some((index, _)) => {
                        format!("row {applied} is gone while row {index} is there")
                    }
                    None => format!("the log ends before it now and the snapshot at {snapshot}"),
                },
            });
        }
        match rows.first() {
            Some((index, _)) if *index != applied + 1 => {
                if snapshot > applied {
                    Step::Reinstall
                } else {
                    Step::Gap(*index)
                }
            }
            _ => {
                // Contiguous as far as it goes; what follows a hole waits.
                let keep = rows
                    .iter()
                    .zip(applied + 1..)
                    .take_while(|((index, _), expected)| index == expected)
                    .count();
                rows.truncate(keep);
                Step::Apply(rows)
            }
        }
    }

    /// Do what can be done while rows of ours are being appended, rather than
    /// between their commit and their answers.
    pub(crate) fn prepare(&mut self, pending: &Pending) {
        self.recent.trim();
        self.ahead.prepare(&self.view, pending);
    }

    /// Apply one row and hand its answers to whoever waits for them.
    fn apply(
        &mut self,
        index: u64,
        payload: Vec<u8>,
        pending: &Pending,
        delivery: &mut Delivery,
    ) -> Result<usize, LogError> {
        let outcomes = match self.ahead.take(&payload) {
            Some((state, outcomes)) => {
                self.view.state = state;
                outcomes
            }
            None => ahead::apply(&mut self.view.state, index, &payload)?,
        };
        let count = outcomes.len();
        let mut answers = outcomes.into_iter().map(Answer::from);
        pending.applied(index, &payload, &mut answers, delivery);
        self.view.index = index;
        self.last = Some(payload);
        Ok(count)
    }

    /// Install the stored snapshot if it covers `least` or more, and if it can
    /// have come from what was applied here.
    async fn install(&mut self, store: &dyn Store, least: u64) -> Result<Install, LogError> {
        let Some((index, payload)) = store.snapshot().await? else {
            return Ok(Install::None);
        };
        if index < least {
            return Ok(Install::None);
        }
        let before = self.view.clone();
        let judged = tokio::task::spawn_blocking(move || judge_snapshot(&before, index, &payload));
        let state = match judged
            .await
            .map_err(|error| LogError::Stopped(format!("reading a snapshot: {error}")))??
        {
            Ok(state) => state,
            Err(section) => return Ok(Install::Contradicts(index, section)),
        };
        self.view = View { index, state };
        self.last = None;
        self.seen = index;
        self.compared = index;
        self.recent = Recent::default();
        self.ahead.clear();
        Ok(Install::Done)
    }

    /// Read everything that is there now.
    pub(crate) async fn load(
        &mut self,
        store: &dyn Store,
        options: &LogOptions,
    ) -> Result<(), LogError> {
        let installed = self.install(store, 1).await?;
        debug_assert!(!matches!(installed, Install::Contradicts(..)));
        let pending = Pending::default();
        loop {
            match self.step(store, options, &pending).await? {
                Progress::Rows(Rows {
                    corrupt: Some(error),
                    ..
                }) => return Err(error),
                Progress::Rows(Rows { all: true, .. }) => return Ok(()),
                Progress::Rows(_) | Progress::Installed => {}
                Progress::Final(health) => return Err(LogError::Stopped(health.to_string())),
                Progress::Contradicts(index, section) => {
                    return Err(LogError::Stopped(format!(
                        "the snapshot at index {index} contradicts the rows before it in its \
                         section {section:?}"
                    )));
                }
            }
        }
    }

    /// One look at the database.
    pub(crate) async fn step(
        &mut self,
        store: &dyn Store,
        options: &LogOptions,
        pending: &Pending,
    ) -> Result<Progress, LogError> {
        self.recent.trim();
        let fetch = store.fetch(self.view.index, options.fetch).await?;
        let all = fetch.rows.len() < options.fetch as usize;
        self.take(store, fetch, all, pending).await
    }

    /// What an append of ours brought, if it begins where this ends: the same as a
    /// look, and judged like one.
    pub(crate) async fn own(
        &mut self,
        store: &dyn Store,
        pending: &Pending,
    ) -> Option<Result<Progress, LogError>> {
        let fetch = pending.look(self.view.index)?;
        // A look since then has seen a newer snapshot: this is of before.
        if fetch.snapshot.unwrap_or(0) < self.seen {
            return None;
        }
        Some(self.take(store, fetch, false, pending).await)
    }

    async fn take(
        &mut self,
        store: &dyn Store,
        fetch: Fetch,
        all: bool,
        pending: &Pending,
    ) -> Result<Progress, LogError> {
        match self.judge(fetch) {
            Step::Apply(rows) => {
                let mut done = Rows {
                    all,
                    ..Rows::default()
                };
                let mut since = 0;
                let count = rows.len();
                for (index, payload) in rows {
                    match self.apply(index, payload, pending, &mut done.delivery) {
                        Ok(commands) => {
                            since += commands;
                            if count - done.count <= KEPT {
                                self.recent.push(&self.view, commands);
                            }
                        }
                        Err(error) => {
                            done.corrupt = Some(error);
                            break;
                        }
                    }
                    done.count += 1;
                    if since >= TURN {
                        since = 0;
                        tokio::task::yield_now().await;
                    }
                }
                Ok(Progress::Rows(done))
            }
            Step::Reinstall => {
                // None, if it has gone since: the next look tells.
                match self.install(store, self.view.index).await? {
                    Install::Done | Install::None => {}
                    Install::Contradicts(index, section) => {
                        return Ok(Progress::Contradicts(index, section));
                    }
                }
                pending.covered(self.view.index);
                Ok(Progress::Installed)
            }
            Step::WentBack(found) => Ok(Progress::Final(LogHealth::WentBack {
                applied: self.view.index,
                found,
            })),
            // A snapshot may have come between the two looks.
            Step::Gap(found) => {
                let expected = self.view.index + 1;
                match self.install(store, expected).await? {
                    Install::Done => {}
                    Install::None => return Err(LogError::Gap { expected, found }),
                    Install::Contradicts(index, section) => {
                        return Ok(Progress::Contradicts(index, section));
                    }
                }
                pending.covered(self.view.index);
                Ok(Progress::Installed)
            }
        }
    }
}

/// What became of a snapshot that was to be installed.
#[derive(Debug, PartialEq, Eq)]
enum Install {
    /// It was.
    Done,
    /// There is none that covers enough.
    None,
    /// It cannot have come from what was applied here: index and section.
    Contradicts(u64, &'static str),
}

/// Decode a snapshot; the section in which it contradicts the view, if it does.
fn judge_snapshot(
    view: &View,
    index: u64,
    payload: &[u8],
) -> Result<Result<State, &'static str>, LogError> {
    if index == view.index
        && let Compared::Differs(section) = selfcheck::compare(&view.state, index, payload)?
    {
        return Ok(Err(section));
    }
    let state =
        State::decode_snapshot(payload).map_err(|source| LogError::Snapshot { index, source })?;
    Ok(match view.state.first_contradiction(&state) {
        Some(section) => Err(section),
        None => Ok(state),
    })
}

/// Rows that were applied.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) count: usize,
    pub(crate) delivery: Delivery,
    /// Whether these were all that the log held.
    pub(crate) all: bool,
    /// What is wrong with the row behind them.
    pub(crate) corrupt: Option<LogError>,
}

/// What one look brought.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Rows were applied, perhaps none.
    Rows(Rows),
    /// A snapshot was installed.
    Installed,
    /// Nothing will ever be applied again.
    Final(LogHealth),
    /// The snapshot of this index cannot have come from what was applied here;
    /// the first section that shows it.
    Contradicts(u64, &'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An applier at row 5, which it has applied or, with `None`, has from a
    /// snapshot.
    fn at_five(last: Option<&[u8]>, seen: u64) -> Applier {
        Applier {
            view: View {
                index: 5,
                state: State::new(),
            },
            last: last.map(<[u8]>::to_vec),
            seen,
            ..Applier::default()
        }
    }

    fn fetch(snapshot: Option<u64>, rows: &[(u64, &[u8])]) -> Fetch {
        Fetch {
            snapshot,
            rows: rows
                .iter()
                .map(|(index, row)| (*index, row.to_vec()))
                .collect(),
        }
    }

    const OURS: &[u8] = b"ours";
    const OTHER: &[u8] = b"other";

    fn rows(indexes: &[u64]) -> Step {
        Step::Apply(
            indexes
                .iter()
                .map(|index| (*index, OTHER.to_vec()))
                .collect(),
        )
    }

    #[test]
    fn every_look_is_judged_as_it_must_be() {
        for (snapshot, found, expected) in [
            // Nothing new, with the snapshot far below, and at this row.
            (None, &[(5, OURS)][..], rows(&[])),
            (Some(2), &[(5, OURS)], rows(&[])),
            (Some(5), &[(5, OURS)], rows(&[])),
            (Some(5), &[], rows(&[])),
            // Rows follow.
            (None, &[(5, OURS), (6, OTHER), (7, OTHER)], rows(&[6, 7])),
            (Some(5), &[(6, OTHER), (7, OTHER)], rows(&[6, 7])),
            // The snapshot is ahead, and the rows below it still stand.
            (Some(6), &[(5, OURS), (6, OTHER), (7, OTHER)], rows(&[6, 7])),
            // It is ahead, and this row is gone or another.
            (Some(7), &[(6, OTHER)], Step::Reinstall),
            (Some(7), &[], Step::Reinstall),
            (Some(7), &[(5, OTHER), (6, OTHER)], Step::Reinstall),
            (Some(5), &[(5, OTHER), (6, OTHER)], Step::Reinstall),
            // It is ahead, and the next row is gone.
            (Some(7), &[(5, OURS), (8, OTHER)], Step::Reinstall),
            // What follows a hole waits for the next look.
            (Some(7), &[(5, OURS), (6, OTHER), (8, OTHER)], rows(&[6])),
            // A hole that nothing covers.
            (None, &[(5, OURS), (7, OTHER)], Step::Gap(7)),
            (Some(5), &[(7, OTHER)], Step::Gap(7)),
        ] {
            let looked = fetch(snapshot, found);
            let step = at_five(Some(OURS), 0).judge(looked.clone());
            assert_eq!(step, expected, "{looked:?}");
        }
    }

    #[test]
    fn a_log_that_went_back_is_noticed() {
        for (seen, snapshot, found) in [
            (0, None, &[][..]),
            (0, Some(4), &[]),
            (0, Some(4), &[(5, OTHER)]),
            (0, None, &[(6, OTHER)]),
            // The snapshot itself went back, whatever the rows say.
            (4, Some(3), &[(5, OURS)]),
            (4, None, &[(5, OURS)]),
        ] {
            let looked = fetch(snapshot, found);
            let step = at_five(Some(OURS), seen).judge(looked.clone());
            assert!(matches!(step, Step::WentBack(_)), "{looked:?}: {step:?}");
        }
    }

    #[test]
    fn behind_an_installed_snapshot_rows_below_it_mean_nothing() {
        let mut applier = at_five(None, 5);
        assert_eq!(
            applier.judge(fetch(Some(5), &[(5, OTHER), (6, OTHER)])),
            rows(&[6])
        );
        assert_eq!(applier.judge(fetch(Some(5), &[])), rows(&[]));
        assert_eq!(
            applier.judge(fetch(Some(6), &[(5, OTHER), (6, OTHER)])),
            Step::Reinstall
        );
    }
}
