//! Lists that the host hands to a plugin.

use super::context::Context;
use super::end::Ended;
use crate::limits::LimitName;
use crate::wit::HostError;

/// Longest page.
pub(crate) const PAGE: usize = 2000;

/// Bytes allowed for each answer to an item of a list.
const ITEM_BYTES: usize = 64;

/// The length of a page that was asked for as `limit`.
pub(crate) fn page_len(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(PAGE).min(PAGE)
}

impl Context {
    /// Cut a page to what one call may carry. `size` is what an item takes in
    /// the plugin's memory, in bytes; `name` says what it is if one alone is
    /// too large.
    pub(crate) fn page<T>(
        &self,
        mut items: Vec<T>,
        limit: usize,
        size: impl Fn(&T) -> usize,
        name: impl FnOnce(&T) -> String,
    ) -> Result<Vec<T>, Ended> {
        let most = self.limits.host_call_bytes;
        items.truncate(limit);
        let mut sum: usize = 0;
        let fits = items
            .iter()
            .take_while(|item| {
                sum = sum.saturating_add(size(item));
                sum <= most
            })
            .count();
        match items.first() {
            // An empty page would read as the end.
            Some(first) if fits == 0 => Err(self.too_large(&name(first), size(first))),
            _ => {
                items.truncate(fits);
                Ok(items)
            }
        }
    }

    /// The end of a tick that asked for something larger than a call may carry.
    pub(crate) fn too_large(&self, what: &str, size: usize) -> Ended {
        Ended::limit(
            LimitName::HostCallBytes,
            format!(
                "{what} takes {size} bytes; a host call may carry {}",
                self.limits.host_call_bytes
            ),
        )
    }

    /// Whether a list of this length can be answered in one call.
    pub(crate) fn list_fits(&self, length: usize) -> Result<(), HostError> {
        let most = self.limits.host_call_bytes / ITEM_BYTES;
        if length > most {
            return Err(HostError::InvalidArgument(format!(
                "a list of {length} items; at most {most} in one call"
            )));
        }
        Ok(())
    }

    /// Cut the texts of answers so that all of them fit into one call.
    pub(crate) fn cut_texts<'a>(&self, texts: impl Iterator<Item = &'a mut String>) {
        let mut room = self.limits.host_call_bytes / 2;
        for text in texts {
            let most = room.min(crate::text::LINE_BYTES);
            if text.len() > most {
                let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
                text.truncate(end.unwrap_or(0));
            }
            room -= text.len();
        }
    }
}
