//! How large a value is when it crosses the boundary: what it takes in the
//! host's memory, which is what `limits.host-call-bytes` counts.

use aedile_engine::Call;
use aedile_engine::wit::{
    Answer, Compaction, Counts, DeleteOutcome, HostError, KvEntry, Mark, Node, Object, Put,
    Refusal, Reservation, Stored, Stream, StreamAt, StreamObject, Sweep, Transfer, Trim,
};

/// A value that crosses the boundary.
pub(super) trait Wire {
    /// Bytes that it points to, besides its own.
    fn heap(&self) -> usize;

    /// All of its bytes.
    fn wire(&self) -> usize
    where
        Self: Sized,
    {
        size_of::<Self>() + self.heap()
    }
}

macro_rules! flat {
    ($($type:ty),*) => { $(impl Wire for $type { fn heap(&self) -> usize { 0 } })* };
}

flat!(
    u8,
    u32,
    u64,
    Counts,
    Mark,
    Object,
    Reservation,
    Stream,
    StreamAt,
    StreamObject,
    Transfer,
    Trim
);

impl Wire for String {
    fn heap(&self) -> usize {
        self.len()
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn heap(&self) -> usize {
        self.iter().map(Wire::wire).sum()
    }
}

impl<T: Wire> Wire for Option<T> {
    fn heap(&self) -> usize {
        self.as_ref().map_or(0, Wire::heap)
    }
}

impl Wire for KvEntry {
    fn heap(&self) -> usize {
        self.key.heap() + self.value.heap()
    }
}

impl Wire for Put {
    fn heap(&self) -> usize {
        self.key.heap() + self.value.heap()
    }
}

impl Wire for Node {
    fn heap(&self) -> usize {
        self.http_address.heap()
    }
}

impl Wire for Compaction {
    fn heap(&self) -> usize {
        self.objects.heap()
    }
}

impl Wire for Stored {
    fn heap(&self) -> usize {
        self.key.heap()
    }
}

impl Wire for Sweep {
    fn heap(&self) -> usize {
        self.ripe.heap() + self.held.heap()
    }
}

impl Wire for Answer {
    fn heap(&self) -> usize {
        match self {
            Self::Rejected(text) => text.heap(),
            Self::Applied | Self::Redundant | Self::Unknown => 0,
        }
    }
}

impl Wire for DeleteOutcome {
    fn heap(&self) -> usize {
        match self {
            Self::Retry(text)
            | Self::Denied(text)
            | Self::Refused(
                Refusal::Conflict(text) | Refusal::Parked(text) | Refusal::StoreSuspect(text),
            ) => text.heap(),
            _ => 0,
        }
    }
}

/// The bytes of an answer; a call that ended the tick carries none.
pub(super) fn answered<T: Wire>(call: &Call<T>) -> usize {
    match call {
        Ok(Ok(value)) => value.wire(),
        Ok(Err(HostError::InvalidArgument(text) | HostError::Unavailable(text))) => text.wire(),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_texts_count_whole() {
        assert_eq!(7_u64.wire(), 8);
        assert_eq!(vec![1_u64, 2].heap(), 16);
        let put = Put {
            key: "abc".to_owned(),
            value: vec![0; 10],
        };
        assert_eq!(put.heap(), 13);
        assert_eq!(
            answered::<Vec<u64>>(&Err(aedile_engine::Fatal::LeaseLost)),
            0
        );
        assert_eq!(
            answered(&Ok(Ok(vec![Answer::Rejected("no".to_owned())]))),
            size_of::<Vec<Answer>>() + size_of::<Answer>() + 2
        );
    }
}
