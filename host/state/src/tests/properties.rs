//! What holds for every sequence of commands and every payload.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::generate::sequence;
use super::*;
use crate::codec::{decode_batch, decode_command, encode_batch, encode_command};
use crate::is_composite;

fn run(commands: &[Command]) -> State {
    let mut state = State::new();
    for command in commands {
        let _ = state.apply(command);
    }
    state
}

/// Whether some placement is one that the snapshot does not show.
fn hides_a_placement(state: &State) -> bool {
    state.placed_streams().any(|(node, _)| node == NodeId::NONE)
}

/// Whether the flags of a clean say what left the queue.
fn items_agree(before: &State, command: &Command, changes: &Changes) -> bool {
    let Command::CleanDestroyedObjects { objects } = command else {
        return !matches!(changes, Changes::Items(_));
    };
    let mut seen = BTreeSet::new();
    let expected: Vec<bool> = objects
        .iter()
        .map(|&id| before.mark(id).is_some() && seen.insert(id))
        .collect();
    match changes {
        Changes::None => expected.iter().all(|queued| !queued),
        Changes::All => expected.iter().all(|queued| *queued),
        Changes::Items(flags) => {
            **flags == *expected && expected.contains(&true) && expected.contains(&false)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_rejected_command_changes_nothing(commands in sequence(60)) {
        let mut state = State::new();
        for command in &commands {
            let before = state.clone();
            if state.apply(command).is_err() {
                prop_assert_eq!(&state, &before, "{:?}", command);
                prop_assert_eq!(state.encode_snapshot(), before.encode_snapshot());
            }
        }
    }

    #[test]
    fn changes_tell_whether_the_state_changed(commands in sequence(60)) {
        let mut state = State::new();
        for command in &commands {
            let before = state.clone();
            let Ok(applied) = state.apply(command) else { continue };
            let none = applied.changes == Changes::None;
            prop_assert_eq!(none, state == before, "{:?} {:?}", command, applied);
            let same_bytes = state.encode_snapshot() == before.encode_snapshot();
            let hidden = hides_a_placement(&state) || hides_a_placement(&before);
            prop_assert!(none == same_bytes || hidden, "{:?} {:?}", command, applied);
            prop_assert!(items_agree(&before, command, &applied.changes), "{:?}", applied);
        }
    }

    #[test]
    fn a_snapshot_survives_a_decode(commands in sequence(80)) {
        let state = run(&commands);
        let bytes = state.encode_snapshot();
        let restored = State::decode_snapshot(&bytes).unwrap();
        prop_assert_eq!(restored.encode_snapshot(), bytes);
        prop_assert!(restored == state || hides_a_placement(&state));
        prop_assert_eq!(restored.first_difference(&state), None);
    }

    /// A state from a snapshot answers further commands like the original.
    #[test]
    fn a_restored_state_goes_on_alike(commands in sequence(80), cut in 0..80_usize) {
        let (before, after) = commands.split_at(cut.min(commands.len()));
        let mut state = run(before);
        let mut restored = State::decode_snapshot(&state.encode_snapshot()).unwrap();
        for command in after {
            if hides_a_placement(&state) {
                break;
            }
            prop_assert_eq!(state.apply(command), restored.apply(command));
        }
        prop_assert!(hides_a_placement(&state) || state == restored);
    }

    /// What comes later never contradicts what was before, decoded or not.
    #[test]
    fn no_state_contradicts_its_past(commands in sequence(80)) {
        let mut state = State::new();
        let mut past = Vec::new();
        for command in &commands {
            past.push(state.clone());
            let _ = state.apply(command);
        }
        let restored = State::decode_snapshot(&state.encode_snapshot()).unwrap();
        for earlier in &past {
            prop_assert_eq!(earlier.first_contradiction(&state), None);
            prop_assert_eq!(earlier.first_contradiction(&restored), None);
        }
    }

    #[test]
    fn derived_indexes_agree(commands in sequence(80)) {
        let state = run(&commands);
        let by_deadline: BTreeSet<_> =
            state.reservations_after(None).map(|(id, deadline)| (deadline, id)).collect();
        prop_assert!(state.lapsed(i64::MAX).eq(by_deadline));

        let opened: BTreeSet<_> = state
            .streams_after(None)
            .filter(|stream| stream.state == crate::StreamState::Opened)
            .map(|stream| (stream.node, stream.id))
            .collect();
        prop_assert_eq!(state.opened_streams().collect::<BTreeSet<_>>(), opened.clone());
        for node in -1..5 {
            let expected = opened.iter().filter(|(of, _)| of.0 == node).count() as u64;
            prop_assert_eq!(state.opened.count(NodeId(node)), expected);
        }

        let marks: BTreeMap<_, _> =
            state.marks_after(None).map(|(seq, id, operation)| (id, (seq, operation))).collect();
        prop_assert_eq!(marks.len(), state.counts().marks);
        prop_assert!(marks.iter().all(|(&id, &mark)| state.mark(id) == Some(mark)));

        let live: Vec<_> = state.objects_after(None).collect();
        prop_assert_eq!(live.len(), state.counts().live_objects());
        let composites = live.iter().filter(|o| is_composite(o.attributes)).map(|o| o.id);
        prop_assert!(state.composites().eq(composites));
        let bytes: u128 = live.iter().map(|object| u128::from(object.size)).sum();
        prop_assert_eq!(bytes, state.counts().live_bytes);
        prop_assert!(live.iter().all(|object| state.is_live(object.id)));
        let of_streams: usize = (0..64)
            .map(|stream| state.stream_objects_after(StreamId(stream), None).count())
            .sum();
        prop_assert_eq!(of_streams, state.counts().stream_objects);
    }

    #[test]
    fn commands_survive_both_forms(commands in sequence(20)) {
        prop_assert_eq!(decode_batch(&encode_batch(&commands)).unwrap(), commands.clone());
        for command in commands {
            prop_assert_eq!(decode_command(&encode_command(&command)).unwrap(), command);
        }
    }

    /// A sample has the objects asked for, live and without a repetition.
    #[test]
    fn a_sample_is_of_live_objects(commands in sequence(80), k in 0..20_usize) {
        let state = run(&commands);
        let sample = state.sample_live(k);
        prop_assert_eq!(sample.len(), k.min(state.counts().live_objects()));
        prop_assert!(sample.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(sample.iter().all(|&id| state.is_live(id)));
    }
}

/// A payload with some bytes changed, and cut somewhere.
fn damaged(
    mut payload: Vec<u8>,
    damage: &[(prop::sample::Index, u8)],
    cut: prop::sample::Index,
) -> Vec<u8> {
    for (at, byte) in damage {
        let at = at.index(payload.len());
        payload[at] = *byte;
    }
    payload.truncate(cut.index(payload.len() * 4 + 1).max(1));
    payload
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_batch(&bytes);
        let _ = decode_command(&bytes);
        let _ = State::decode_snapshot(&bytes);
        let _ = State::decode_snapshot(&[&[0], &bytes[..]].concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Damage that still decodes gives a state that can be worked on.
    #[test]
    fn damaged_payloads_never_panic(
        commands in sequence(30),
        later in sequence(30),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        // A reservation of up to 2^32 ids would be made good, not refused.
        let small = |command: &Command| {
            !matches!(command, Command::PrepareObject { count, .. } if *count > 1000)
        };
        if let Ok(decoded) = decode_batch(&damaged(encode_batch(&commands), &damage, cut)) {
            run(&decoded.into_iter().filter(small).collect::<Vec<_>>());
        }
        let snapshot = damaged(run(&commands).encode_snapshot(), &damage, cut);
        if let Ok(mut state) = State::decode_snapshot(&snapshot) {
            for command in &later {
                let before = state.clone();
                if state.apply(command).is_err() {
                    prop_assert_eq!(&state, &before);
                }
            }
            let bytes = state.encode_snapshot();
            let restored = State::decode_snapshot(&bytes).unwrap();
            prop_assert_eq!(restored.encode_snapshot(), bytes);
            state.sample_live(3);
            prop_assert!(state.objects_after(None).count() <= state.counts().live_objects());
        }
    }
}
