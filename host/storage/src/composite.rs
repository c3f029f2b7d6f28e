//! Objects that hold no data of their own but link others.
//!
//! Big-endian: `0x52`, a count, so many links of 14 bytes, the links' block
//! indexes, and a footer of 48 bytes with the position and size of the indexes
//! at its start and a magic number at its end. An object that holds data ends
//! with a magic number of its own, one less.

use crate::Composite;

/// Length of the footer, in bytes.
pub(crate) const FOOTER: u64 = 48;

const MAGIC: u64 = 0x88E2_41B7_85F4_CFF8;
const DATA_MAGIC: u64 = 0x88E2_41B7_85F4_CFF7;
const FIRST_BYTE: u8 = 0x52;
/// Length of what stands before the links, in bytes.
pub(crate) const PREFIX: u64 = 5;
const LINK: u64 = 14;

/// What the end of an object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Footer {
    /// It ends as an object with data does.
    Plain,
    /// It ends as neither does: [`cut_off`] tells from its first bytes.
    Unknown,
    /// A composite whose links fill this many first bytes.
    LinkList(u64),
    /// It ends as a composite does, but is none that can be read.
    Bad(String),
}

/// Judge an object by its last bytes and its size. `longest` bounds the link
/// list, in bytes.
pub(crate) fn footer(tail: &[u8], size: u64, longest: u64) -> Footer {
    let Some((rest, magic)) = tail.split_last_chunk::<8>() else {
        return Footer::Unknown;
    };
    match u64::from_be_bytes(*magic) {
        MAGIC => {}
        DATA_MAGIC => return Footer::Plain,
        _ => return Footer::Unknown,
    }
    let fields = rest.split_first_chunk::<8>().and_then(|(position, rest)| {
        let (length, _) = rest.split_first_chunk::<4>()?;
        Some((u64::from_be_bytes(*position), u32::from_be_bytes(*length)))
    });
    let Some((position, length)) = fields.filter(|_| tail.len() as u64 == FOOTER) else {
        return Footer::Bad(format!(
            "a composite of {size} bytes is shorter than its footer"
        ));
    };
    let end = position
        .checked_add(u64::from(length))
        .and_then(|end| end.checked_add(FOOTER));
    if end != Some(size) {
        return Footer::Bad(format!(
            "its footer puts {length} bytes of index at {position}, which does not fit its {size} bytes"
        ));
    }
    if position < PREFIX || !(position - PREFIX).is_multiple_of(LINK) {
        return Footer::Bad(format!(
            "its link list of {position} bytes is no whole number of links"
        ));
    }
    if position > longest {
        return Footer::Bad(format!(
            "its link list of {position} bytes is longer than the allowed {longest}"
        ));
    }
    Footer::LinkList(position)
}

/// Why an object is no plain one although it does not end as a composite does:
/// it begins as one, with no more links than `longest` bytes hold, so that its
/// end is lost.
pub(crate) fn cut_off(head: &[u8], size: u64, longest: u64) -> Option<String> {
    let (first, rest) = head.split_first()?;
    let (count, _) = rest.split_first_chunk::<4>()?;
    let count = u64::from(u32::from_be_bytes(*count));
    let allowed = 1..=longest.saturating_sub(PREFIX) / LINK;
    (*first == FIRST_BYTE && allowed.contains(&count)).then(|| {
        format!(
            "it begins as a composite of {count} links does, but its end is cut off, after {size} bytes"
        )
    })
}

/// Read the link list, which is as long as the footer said.
pub(crate) fn links(list: &[u8], expected: u64) -> Composite {
    if list.len() as u64 != expected {
        return Composite::Unreadable(format!(
            "its link list ends after {} of {expected} bytes",
            list.len()
        ));
    }
    let Some((first, rest)) = list.split_first() else {
        return Composite::Unreadable("its link list is empty".into());
    };
    if *first != FIRST_BYTE {
        return Composite::Unreadable(format!(
            "it begins with {first:#04x}, not {FIRST_BYTE:#04x}"
        ));
    }
    let Some((count, entries)) = rest.split_first_chunk::<4>() else {
        return Composite::Unreadable("its link count is cut off".into());
    };
    let count = u64::from(u32::from_be_bytes(*count));
    if entries.len() as u64 != count * LINK {
        return Composite::Unreadable(format!(
            "it counts {count} links, but its link list holds {}",
            entries.len() as u64 / LINK
        ));
    }
    let ids = entries
        .chunks_exact(LINK as usize)
        .filter_map(|entry| entry.first_chunk::<8>())
        .map(|id| u64::from_be_bytes(*id));
    Composite::Links(ids.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: u64 = 1 << 20;

    fn object(ids: &[u64], index: usize) -> Vec<u8> {
        let mut bytes = vec![FIRST_BYTE];
        bytes.extend_from_slice(&u32::try_from(ids.len()).unwrap().to_be_bytes());
        for id in ids {
            bytes.extend_from_slice(&id.to_be_bytes());
            bytes.extend_from_slice(&[0; 6]);
        }
        let position = bytes.len() as u64;
        bytes.extend(std::iter::repeat_n(7, index));
        bytes.extend_from_slice(&position.to_be_bytes());
        bytes.extend_from_slice(&u32::try_from(index).unwrap().to_be_bytes());
        bytes.extend_from_slice(&[0; 28]);
        bytes.extend_from_slice(&MAGIC.to_be_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Composite {
        let tail = &bytes[bytes.len().saturating_sub(FOOTER as usize)..];
        match footer(tail, bytes.len() as u64, LONGEST) {
            Footer::Plain => Composite::Plain,
            Footer::Unknown => match cut_off(bytes, bytes.len() as u64, LONGEST) {
                Some(reason) => Composite::Unreadable(reason),
                None => Composite::Plain,
            },
            Footer::Bad(reason) => Composite::Unreadable(reason),
            Footer::LinkList(length) => {
                let end = usize::try_from(length).unwrap().min(bytes.len());
                links(&bytes[..end], length)
            }
        }
    }

    #[test]
    fn links_are_read_in_order() {
        assert_eq!(
            read(&object(&[17, 18, u64::MAX], 108)),
            Composite::Links(vec![17, 18, u64::MAX])
        );
        assert_eq!(read(&object(&[], 0)), Composite::Links(vec![]));
    }

    #[test]
    fn what_neither_begins_nor_ends_as_a_composite_is_plain() {
        let mut data = object(&[1, 2, 3], 10);
        let end = data.len();
        data[end - 8..].copy_from_slice(&DATA_MAGIC.to_be_bytes());
        for bytes in [&b""[..], b"R", &[0; 47], &[0x52; 400], b"R\0\0\0\0", &data] {
            assert_eq!(read(bytes), Composite::Plain);
        }
    }

    #[test]
    fn a_composite_that_is_cut_off_anywhere_is_told() {
        let good = object(&[1, 2, 3], 10);
        for end in PREFIX as usize..good.len() {
            assert!(
                matches!(read(&good[..end]), Composite::Unreadable(_)),
                "{end} bytes"
            );
        }
    }

    #[test]
    fn damage_is_told_not_guessed() {
        let good = object(&[1, 2, 3], 10);
        let change = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            read(&bytes)
        };
        let end = good.len();
        for damaged in [
            change(0, 0x5a),
            change(4, 2),
            change(1, 0xff),
            change(end - 41, 0),
            change(end - 48, 0xff),
            change(end - 37, 9),
            read(&good[1..]),
            read(&good[end - 8..]),
            read(&good[end - 47..]),
        ] {
            assert!(matches!(damaged, Composite::Unreadable(_)), "{damaged:?}");
        }
    }

    #[test]
    fn a_long_link_list_is_refused_before_it_is_read() {
        let ids: Vec<u64> = (0..10).collect();
        let bytes = object(&ids, 0);
        let tail = &bytes[bytes.len() - 48..];
        assert!(matches!(
            footer(tail, bytes.len() as u64, 144),
            Footer::Bad(_)
        ));
        assert_eq!(footer(tail, bytes.len() as u64, 145), Footer::LinkList(145));
    }

    proptest::proptest! {
        #[test]
        fn any_links_survive(ids: Vec<u64>, index in 0_usize..64) {
            assert_eq!(read(&object(&ids, index)), Composite::Links(ids));
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, position: u64, length: u32) {
            let _ = read(&bytes);
            let mut ended = bytes;
            ended.extend_from_slice(&position.to_be_bytes());
            ended.extend_from_slice(&length.to_be_bytes());
            ended.extend_from_slice(&[0; 28]);
            ended.extend_from_slice(&MAGIC.to_be_bytes());
            let _ = read(&ended);
        }
    }
}
