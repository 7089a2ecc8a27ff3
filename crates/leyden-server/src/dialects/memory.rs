//! What a server keeps of answers so that the next request can name them: a bounded memory, the oldest of which goes first.

use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The most answers.
const ANSWERS: usize = 4096;
/// The most bytes of their JSON in all.
const BYTES: usize = 64 << 20;

/// An answer that is kept.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Its document, as it was sent.
    pub(crate) document: Value,
    /// The conversation up to its end, in a chat's messages.
    pub(crate) messages: Vec<Value>,
}

#[derive(Debug)]
struct Entry {
    owner: String,
    id: String,
    bytes: usize,
    kept: Kept,
}

/// Answers, each of one owner's.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Entries>);

/// The oldest first.
#[derive(Debug, Default)]
struct Entries {
    all: VecDeque<Entry>,
    bytes: usize,
}

impl Memory {
    /// Keeps an answer. One that is too large for it is not kept.
    pub(crate) fn keep(&self, owner: &str, id: &str, kept: Kept) {
        let sizes = kept.messages.iter().chain([&kept.document]).map(|value| value.to_string().len());
        // The tree of a text takes some times as much as the text.
        let bytes = sizes.sum::<usize>().saturating_mul(3).saturating_add(1024);
        if bytes > BYTES {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.all.push_back(Entry { owner: owner.to_owned(), id: id.to_owned(), bytes, kept });
        entries.bytes += bytes;
        while entries.all.len() > ANSWERS || entries.bytes > BYTES {
            let Some(oldest) = entries.all.pop_front() else { break };
            entries.bytes -= oldest.bytes;
        }
    }

    /// An answer of this owner's.
    pub(crate) fn find(&self, owner: &str, id: &str) -> Option<Kept> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.all.iter().rev().find(|e| e.id == id && e.owner == owner).map(|e| e.kept.clone())
    }

    /// Forgets it; whether it was there.
    pub(crate) fn forget(&self, owner: &str, id: &str) -> bool {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = entries.all.iter().position(|e| e.id == id && e.owner == owner) else { return false };
        let gone = entries.all.remove(at);
        entries.bytes -= gone.map_or(0, |entry| entry.bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_oldest_goes_where_there_are_too_many() {
        let memory = Memory::default();
        let of = |text: String| Kept { document: json!({}), messages: vec![text.into()] };
        for i in 0..=ANSWERS {
            memory.keep("ada", &format!("resp_{i}"), of(i.to_string()));
        }
        assert!(memory.find("ada", "resp_0").is_none());
        assert_eq!(memory.find("ada", "resp_1").unwrap().messages, [json!("1")]);
        assert!(memory.find("eve", "resp_1").is_none() && !memory.forget("eve", "resp_1"));
        assert!(memory.forget("ada", "resp_1") && memory.find("ada", "resp_1").is_none());
        // Three of a third of the room are one too many, with what they weigh beside their text.
        let third = BYTES / 9;
        for id in ["a", "b", "c"] {
            memory.keep("ada", id, of("x".repeat(third)));
        }
        let known: Vec<bool> = ["a", "b", "c"].iter().map(|id| memory.find("ada", id).is_some()).collect();
        assert_eq!(known, [false, true, true]);
        memory.keep("ada", "d", of("x".repeat(BYTES)));
        assert!(memory.find("ada", "d").is_none() && memory.find("ada", "c").is_some());
    }
}
