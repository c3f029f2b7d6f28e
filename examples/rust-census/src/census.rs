//! What is known of the streams so far.

use std::fmt;

use aedile_plugin::{Stream, StreamId};

/// The count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) streams: u64,
    pub(crate) open: u64,
    pub(crate) records: u64,
    /// The largest streams and what they hold: most records first, lowest id
    /// first among equals.
    pub(crate) top: Vec<(StreamId, u64)>,
    most: usize,
}

impl Census {
    /// An empty count that is to name so many streams.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// Counts one more stream.
    pub(crate) fn add(&mut self, stream: &Stream) {
        let records = stream.end_offset.saturating_sub(stream.start_offset);
        self.streams += 1;
        self.open += u64::from(stream.opened);
        self.records = self.records.saturating_add(records);
        self.rank(stream.id, records);
    }

    /// Puts a stream in its place among the largest.
    fn rank(&mut self, id: StreamId, records: u64) {
        let at = self
            .top
            .partition_point(|&(other, held)| held > records || (held == records && other < id));
        self.top.insert(at, (id, records));
        self.top.truncate(self.most);
    }

    /// Reads back an unfinished count: `after` and the id of the last stream,
    /// then the count as it is written. None if the text is not one.
    pub(crate) fn read(text: &str, most: usize) -> Option<(Self, StreamId)> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        let mut figure = |name: &str| number(lines.next()?.strip_prefix(name)?.strip_prefix(' ')?);
        let after = figure("after")?;
        let mut census = Self {
            streams: figure("streams")?,
            open: figure("open")?,
            records: figure("records")?,
            ..Self::new(most)
        };
        for line in lines {
            let (id, records) = line.strip_prefix("top ")?.split_once(' ')?;
            census.rank(number(id)?, number(records)?);
        }
        Some((census, after))
    }
}

/// Digits only: `parse` would take a sign.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// A line for each figure.
impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "streams {}", self.streams)?;
        writeln!(f, "open {}", self.open)?;
        writeln!(f, "records {}", self.records)?;
        for (id, records) in &self.top {
            writeln!(f, "top {id} {records}")?;
        }
        Ok(())
    }
}
