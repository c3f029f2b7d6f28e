//! Statements that look right and lack a guard of the client's: what a rule
//! forbids, so that a suite can show it to break where the client does not.
//! Nothing of this is in the client; each runs on a plain connection.

use aedile_state::{State, codec};

use super::literal;
use crate::databases::{Kind, Raw};

/// An append that judges its place inside the insert: what PostgreSQL judges by
/// a view from before the insert had to wait.
pub fn judged_inside(kind: Kind, index: i64, payload: &[u8]) -> String {
    format!(
        "INSERT INTO meta_log (idx, payload) SELECT {index}, {} WHERE NOT EXISTS \
         (SELECT 1 FROM meta_snapshot WHERE id = 0 AND applied_idx >= {index})",
        literal(kind, payload)
    )
}

/// A plain insert, without a look at what stands before it.
pub fn plain(kind: Kind, index: i64, payload: &[u8]) -> String {
    format!(
        "INSERT INTO meta_log (idx, payload) VALUES ({index}, {})",
        literal(kind, payload)
    )
}

/// How many snapshots there are that an append at `index` must not land below,
/// asked in a statement of its own.
pub fn covering(index: i64) -> String {
    format!("SELECT count(*) FROM meta_snapshot WHERE id = 0 AND applied_idx >= {index}")
}

/// How many terms stand, asked without a lock.
pub fn standing(holder: &str, epoch: u64) -> String {
    format!(
        "SELECT count(*) FROM meta_lease WHERE id = 0 AND holder = '{holder}' AND epoch = {epoch}"
    )
}

/// A reader that asks for what follows its last row and for no snapshot.
///
/// # Panics
/// The database fails.
pub async fn read_on(raw: &mut Raw, state: &mut State, applied: i64) {
    let rows = raw.rows_after(applied).await.expect("rows");
    for (_, payload) in rows {
        for command in codec::decode_batch(&payload).expect("a row") {
            let _ = state.apply(&command);
        }
    }
}
