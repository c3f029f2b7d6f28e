//! Names of holders: ours, and those of PicoMQ's own nodes.

use crate::LeaseError;

/// Letters of a random suffix: no digits, so that no node name can complete it
/// to a native one, and 16 of them, so that a byte chooses two without bias.
const LETTERS: &[u8; 16] = b"abcdefghjkmnpqrs";

/// A name that no other process, and no earlier run of this one, has.
pub(crate) fn unique(node: &str) -> Result<String, LeaseError> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(LeaseError::Randomness)?;
    let letters = random
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(LETTERS[usize::from(nibble)]));
    let mut holder = format!("{node}-");
    holder.extend(letters);
    Ok(holder)
}

/// Whether a PicoMQ node holds under this name: `node-<id>-<epoch>`, both
/// integers.
pub fn is_native(holder: &str) -> bool {
    // The id may be negative: `node--1-7`.
    holder
        .strip_prefix("node-")
        .and_then(|rest| rest.rsplit_once('-'))
        .is_some_and(|(id, epoch)| id.parse::<i32>().is_ok() && digits(epoch))
        && !holder.contains('+')
}

fn digits(text: &str) -> bool {
    text.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_names_are_exactly_those_of_picomq() {
        for native in ["node-1-1796191747112", "node-0-0", "node--1-7"] {
            assert!(is_native(native), "{native}");
        }
        for other in [
            "",
            "node",
            "node-1",
            "node-1-",
            "node--1",
            "node-a-1",
            "node-1-b",
            "node-1-1-x",
            "xnode-1-1",
            "node-+1-1",
            "node-1-+1",
            "node-1-1 ",
            "Node-1-1",
        ] {
            assert!(!is_native(other), "{other}");
        }
    }

    #[test]
    fn oban_py_32_one_node_name_gives_different_holders_and_never_a_native_one() {
        for node in ["node-1", "node-1-2", "node", "a"] {
            let (one, two) = (unique(node).expect("random"), unique(node).expect("random"));
            assert_ne!(one, two);
            assert!(one.starts_with(node));
            assert!(!is_native(&one), "{one}");
        }
    }
}
