//! Overlapping windows over a text that is longer than the context.

use std::cmp::Reverse;

/// Returns the first tokens of the windows of `room` tokens over `tokens` tokens; each overlaps the previous one by a
/// quarter.
pub(crate) fn starts(tokens: usize, room: usize) -> impl ExactSizeIterator<Item = usize> {
    let step = (room - room / 4).max(1);
    let count = if tokens <= room { usize::from(tokens > 0) } else { (tokens - room).div_ceil(step) + 1 };
    (0..count).map(move |i| i * step)
}

/// Returns the start of the window whose edges are farthest from a token; beginning and end of the text do not count as
/// edges.
pub(crate) fn owner(token: usize, tokens: usize, room: usize) -> usize {
    let edge = |start: usize| {
        let before = if start == 0 { usize::MAX } else { token - start };
        let end = start + room;
        let after = if end >= tokens { usize::MAX } else { end - 1 - token };
        before.min(after)
    };
    let step = (room - room / 4).max(1);
    let from = (token + 1).saturating_sub(room).div_ceil(step);
    let count = starts(tokens, room).len();
    let windows = (from..count.min(token / step + 1)).map(|i| i * step);
    // Of equally far ones the first.
    windows.max_by_key(|start| (edge(*start), Reverse(*start))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_has_one_window_far_from_its_edges() {
        for (tokens, room) in [(0, 8), (5, 8), (8, 8), (9, 8), (30, 8), (31, 8), (7, 1), (100, 10)] {
            let all: Vec<usize> = starts(tokens, room).collect();
            assert!(all.last().is_none_or(|last| last + room >= tokens), "{tokens} in {room}: {all:?}");
            for token in 0..tokens {
                let owner = owner(token, tokens, room);
                assert!(all.contains(&owner) && (owner..owner + room).contains(&token));
            }
        }
        // The second window begins at 6; each window gets one of the two common tokens.
        assert_eq!([owner(6, 14, 8), owner(7, 14, 8)], [0, 6]);
    }
}
