//! Transfers that a backend sends in several parts.

use std::collections::BTreeMap;

/// Transfers under way in several parts: how many of them have not arrived, by token.
#[derive(Debug, Default)]
pub struct Parts(BTreeMap<u64, u32>);

impl Parts {
    /// A transfer starts in this many parts.
    #[inline]
    pub fn start(&mut self, token: u64, parts: u32) {
        if parts > 1 {
            self.0.insert(token, parts);
        }
    }

    /// A part has arrived; true if it was the last one.
    #[inline]
    pub fn arrive(&mut self, token: u64) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let Some(left) = self.0.get_mut(&token) else { return true };
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.0.remove(&token);
        }
        is_last
    }
}
