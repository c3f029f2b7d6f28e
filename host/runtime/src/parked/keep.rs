//! The holder's part: parking what is due, and doing what operators ask.

use aedile_log::Answer;

use crate::backend::{Backend, Trouble};
use crate::guard::Guards;

use super::ParkedObject;
use super::edit::{Edit, edit};

/// Who proposes it, where a dry run would tell.
const SELF: &str = "aedile";

/// Bring the parked objects up to date. Proposes nothing when nothing is to
/// change, and then asks no database.
pub(crate) async fn keep<B: Backend>(guards: &Guards<B>) -> Result<(), Trouble> {
    let now = guards.backend.clock().boot();
    let due = guards.aside.due(now);
    let view = guards.backend.latest();
    let planned = edit(&view.state, &guards.parked.of(&view.state).all, &due);
    if planned.commands.is_empty() {
        settle(guards, &due, &planned);
        return Ok(());
    }
    guards.authority()?;
    let since = guards.backend.now().await?.0;
    let due: Vec<ParkedObject> = due
        .into_iter()
        .map(|object| ParkedObject { since, ..object })
        .collect();
    // Decided by what the log has by now, not by what was seen of it last.
    let view = guards.backend.fresh().await?;
    let parked = guards.parked.of(&view.state);
    let edit = edit(&view.state, &parked.all, &due);
    if edit.commands.is_empty() {
        settle(guards, &due, &edit);
        return Ok(());
    }
    let answers = guards.propose(SELF, edit.commands.clone()).await?;
    if answers.contains(&Answer::Unknown) {
        return Err(Trouble::Unavailable(
            "it is not known whether the parked objects were written; that is looked at again"
                .to_owned(),
        ));
    }
    for (ids, what) in [
        (
            &edit.parked,
            "parked: not tried again until an operator asks for it",
        ),
        (&edit.retried, "tried again, as an operator asks"),
        (
            &edit.forgotten,
            "forgotten, as an operator asks: the marks are gone, the bytes stay",
        ),
    ] {
        if let Some(first) = ids.first() {
            tracing::warn!(objects = ids.len(), first, "{what}");
        }
    }
    if !edit.no_room.is_empty() {
        tracing::warn!(
            objects = edit.no_room.len(),
            "no room to park more; they are tried on once an hour"
        );
    }
    settle(guards, &due, &edit);
    for id in edit.retried.iter().chain(&edit.forgotten) {
        guards.aside.forget(*id);
    }
    Ok(())
}

/// Forget what was due: it is parked now, or has lost its mark. What found no
/// room is tried on.
fn settle<B: Backend>(guards: &Guards<B>, due: &[ParkedObject], edit: &Edit) {
    let now = guards.backend.clock().boot();
    guards.aside.tried_on(&edit.no_room, now);
    for object in due {
        if !edit.no_room.contains(&object.id) {
            guards.aside.forget(object.id);
        }
    }
}
