//! Rows of ours, applied while they are being appended.
//!
//! Applying is a function of a state and of bytes. What a row comes to can
//! therefore be worked out before it stands, and is right if it lands directly
//! behind what it was applied to. That takes the work off the way between the
//! commit of a row and its answers.

use std::collections::VecDeque;
use std::sync::Arc;

use aedile_state::{Command, Outcome, State, codec};

use crate::LogError;
use crate::pending::Pending;
use crate::view::View;

/// Apply the commands of a row; nothing of it, if it cannot be decoded.
pub(crate) fn apply(
    state: &mut State,
    index: u64,
    payload: &[u8],
) -> Result<Vec<Outcome>, LogError> {
    let commands: Vec<Command> =
        codec::decode_batch(payload).map_err(|source| LogError::Row { index, source })?;
    Ok(commands
        .iter()
        .map(|command| state.apply(command))
        .collect())
}

/// What one row comes to.
#[derive(Debug)]
struct Known {
    payload: Arc<[u8]>,
    state: State,
    outcomes: Vec<Outcome>,
}

/// What the rows come to that are about to follow a view, in order.
#[derive(Debug, Default)]
pub(crate) struct Ahead(VecDeque<Known>);

impl Ahead {
    /// Work out what follows this view. What is known already must stand on it.
    pub(crate) fn prepare(&mut self, view: &View, pending: &Pending) {
        let next = view.index + 1;
        let stand = (next..)
            .zip(&self.0)
            .take_while(|(index, known)| {
                let row = pending.payload(*index);
                row.is_some_and(|payload| Arc::ptr_eq(&payload, &known.payload))
            })
            .count();
        self.0.truncate(stand);
        loop {
            let index = next + self.0.len() as u64;
            let Some(payload) = pending.payload(index) else {
                break;
            };
            let last = self.0.back();
            let mut state = last.map_or(&view.state, |last| &last.state).clone();
            // An error is told where the row is met.
            let Ok(outcomes) = apply(&mut state, index, &payload) else {
                break;
            };
            self.0.push_back(Known {
                payload,
                state,
                outcomes,
            });
        }
    }

    /// What this row comes to, if it is the one that was to follow. Whatever it
    /// is, it follows now: what is known afterwards stands on it.
    pub(crate) fn take(&mut self, payload: &[u8]) -> Option<(State, Vec<Outcome>)> {
        let known = self.0.pop_front()?;
        if known.payload[..] == *payload {
            return Some((known.state, known.outcomes));
        }
        self.clear();
        None
    }

    /// The view is another now.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use aedile_clock::BootInstant;

    use super::*;

    fn put(value: u8) -> Arc<[u8]> {
        let key = "/k".to_owned();
        let value = vec![value];
        codec::encode_batch(&[Command::PutKv { key, value }]).into()
    }

    /// Two rows that are about to be appended behind index 5, both known.
    fn two() -> (View, Pending, Ahead) {
        let view = View {
            index: 5,
            state: State::new(),
        };
        let pending = Pending::default();
        let until = BootInstant::default();
        pending.register(6, put(6), Vec::new(), until);
        pending.register(7, put(7), Vec::new(), until);
        let mut ahead = Ahead::default();
        ahead.prepare(&view, &pending);
        (view, pending, ahead)
    }

    fn value(state: &State) -> Option<&[u8]> {
        state.kv_get("/k")
    }

    #[test]
    fn rows_that_land_in_order_are_known() {
        let (view, _, mut ahead) = two();
        assert_eq!(value(&view.state), None);
        for number in [6, 7] {
            let (state, outcomes) = ahead.take(&put(number)).expect("known");
            assert_eq!(value(&state), Some(&[number][..]));
            assert_eq!(outcomes.len(), 1);
        }
        assert!(ahead.take(&put(8)).is_none());
    }

    #[test]
    fn nothing_is_known_behind_a_row_of_somebody_else() {
        let (_, _, mut ahead) = two();
        assert!(ahead.take(&put(9)).is_none());
        assert!(ahead.take(&put(7)).is_none(), "it stands on another state");
    }

    #[test]
    fn a_row_that_took_the_place_of_another_is_worked_out_anew() {
        let (view, pending, mut ahead) = two();
        pending.withdraw(6, 2);
        pending.register(6, put(9), Vec::new(), BootInstant::default());
        ahead.prepare(&view, &pending);
        let (state, _) = ahead.take(&put(9)).expect("known");
        assert_eq!(value(&state), Some(&[9][..]));
        assert!(ahead.take(&put(7)).is_none());
    }

    #[test]
    fn a_row_that_cannot_be_decoded_is_left_to_whoever_meets_it() {
        let (view, pending, mut ahead) = two();
        pending.withdraw(6, 1);
        pending.register(6, vec![0xff; 3].into(), Vec::new(), BootInstant::default());
        ahead.prepare(&view, &pending);
        assert!(ahead.take(&[0xff; 3]).is_none());
        assert!(ahead.take(&put(7)).is_none());
    }
}
