//! Bounded store of answers, for later requests that refer to them.
//!
//! Answers are stored as JSON text, because a JSON tree can take fifty times the bytes. When the store is full, the
//! owner with the largest share loses the oldest of its answers, so an owner only loses answers to others if it has more
//! than an equal share.

use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Maximum number of answers.
const ANSWERS: usize = 4096;
/// Maximum size of all answers in bytes.
pub(crate) const BYTES: usize = 64 << 20;
/// Bytes of an answer beside its text: its entry, its names and the allocator's overhead.
const ENTRY_BYTES: usize = 512;

/// Answer with the items before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredAnswer {
    /// Its document, as JSON text.
    pub(crate) document: Vec<u8>,
    /// The items of the conversation before it.
    pub(crate) input: Vec<Value>,
    /// The items of the answer, without probabilities of their tokens.
    pub(crate) output: Vec<Value>,
}

#[derive(Debug)]
struct Entry {
    owner: String,
    id: String,
    document: Box<[u8]>,
    /// The items before the answer and those of the answer, as JSON.
    items: Box<[u8]>,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.document.len() + self.items.len() + self.owner.len() + self.id.len() + ENTRY_BYTES
    }
}

/// The answers of all owners.
#[derive(Debug, Default)]
pub(crate) struct AnswerStore(Mutex<Entries>);

/// Number and bytes of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    answers: usize,
    bytes: usize,
}

/// Entries, the oldest first.
#[derive(Debug, Default)]
struct Entries {
    all: VecDeque<Entry>,
    total: Size,
    /// Number and bytes of answers by owner.
    sizes: HashMap<String, Size>,
}

impl Entries {
    fn add(&mut self, entry: Entry) {
        let (bytes, own) = (entry.bytes(), self.sizes.entry(entry.owner.clone()).or_default());
        for size in [&mut self.total, own] {
            size.answers += 1;
            size.bytes += bytes;
        }
        self.all.push_back(entry);
    }

    fn remove(&mut self, at: usize) -> bool {
        let Some(entry) = self.all.remove(at) else { return false };
        let own = self.sizes.get_mut(&entry.owner);
        for size in own.into_iter().chain([&mut self.total]) {
            size.answers -= 1;
            size.bytes -= entry.bytes();
        }
        self.sizes.retain(|_, size| size.answers > 0);
        true
    }

    /// Returns the index of the oldest answer of the owner with the largest `measure`; among owners with the same
    /// measure, the oldest answer of them all.
    fn oldest_of_largest(&self, measure: fn(&Size) -> usize) -> Option<usize> {
        let most = self.sizes.values().map(measure).max()?;
        self.all
            .iter()
            .position(|entry| self.sizes.get(&entry.owner).is_some_and(|size| measure(size) == most))
    }

    fn shrink(&mut self) {
        loop {
            let measure: fn(&Size) -> usize = match self.total {
                Size { bytes, .. } if bytes > BYTES => |size| size.bytes,
                Size { answers, .. } if answers > ANSWERS => |size| size.answers,
                _ => return,
            };
            if !self.oldest_of_largest(measure).is_some_and(|at| self.remove(at)) {
                return;
            }
        }
    }
}

impl AnswerStore {
    /// Stores an answer, unless it is larger than the store.
    pub(crate) fn insert(&self, owner: &str, id: &str, answer: StoredAnswer) {
        let Ok(items) = serde_json::to_vec(&(&answer.input, &answer.output)) else { return };
        let entry = Entry {
            owner: owner.to_owned(),
            id: id.to_owned(),
            document: answer.document.into_boxed_slice(),
            items: items.into_boxed_slice(),
        };
        if entry.bytes() > BYTES {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.add(entry);
        entries.shrink();
    }

    /// Returns a part of an owner's answer.
    fn part(&self, owner: &str, id: &str, part: fn(&Entry) -> &[u8]) -> Option<Vec<u8>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.all.iter().rev().find(|e| e.id == id && e.owner == owner)?;
        Some(part(entry).to_vec())
    }

    /// Returns the document of an owner's answer.
    pub(crate) fn document(&self, owner: &str, id: &str) -> Option<Vec<u8>> {
        self.part(owner, id, |entry| &entry.document)
    }

    /// Returns the items before an owner's answer, and those of the answer.
    pub(crate) fn items(&self, owner: &str, id: &str) -> Option<(Vec<Value>, Vec<Value>)> {
        serde_json::from_slice(&self.part(owner, id, |entry| &entry.items)?).ok()
    }

    /// Removes an answer; returns `false` if there is none.
    pub(crate) fn remove(&self, owner: &str, id: &str) -> bool {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.all.iter().position(|e| e.id == id && e.owner == owner);
        at.is_some_and(|at| entries.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(text: String) -> StoredAnswer {
        StoredAnswer { document: text.into_bytes(), ..StoredAnswer::default() }
    }

    #[test]
    fn the_oldest_goes_where_there_are_too_many() {
        let store = AnswerStore::default();
        for i in 0..=ANSWERS {
            store.insert("ada", &format!("resp_{i}"), of(i.to_string()));
        }
        assert!(store.document("ada", "resp_0").is_none());
        assert_eq!(store.document("ada", "resp_1").unwrap(), b"1");
        assert!(store.document("eve", "resp_1").is_none() && !store.remove("eve", "resp_1"));
        assert!(store.remove("ada", "resp_1") && store.document("ada", "resp_1").is_none());
        // Three answers of a third of the bytes exceed the limit, because of their overhead.
        for id in ["a", "b", "c"] {
            store.insert("ada", id, of("x".repeat(BYTES / 3)));
        }
        let known: Vec<bool> = ["a", "b", "c"].iter().map(|id| store.document("ada", id).is_some()).collect();
        assert_eq!(known, [false, true, true]);
        store.insert("ada", "d", of("x".repeat(BYTES)));
        assert!(store.document("ada", "d").is_none() && store.document("ada", "c").is_some());
    }

    #[test]
    fn nobody_loses_answers_to_one_who_has_more() {
        let store = AnswerStore::default();
        store.insert("bob", "first", of("x".to_owned()));
        store.insert("bob", "second", of("x".repeat(BYTES / 8)));
        for i in 0..40 {
            store.insert("ada", &format!("a{i}"), of("x".repeat(BYTES / 10)));
        }
        for i in 0..2 * ANSWERS {
            store.insert("eve", &format!("e{i}"), of(String::new()));
        }
        assert!(store.document("bob", "first").is_some() && store.document("bob", "second").is_some());
        assert!(store.document("ada", "a39").is_some() && store.document("ada", "a0").is_none());
        assert!(store.document("eve", &format!("e{}", 2 * ANSWERS - 1)).is_some());
        let entries = store.0.lock().unwrap();
        let counted = entries.all.iter().fold(Size::default(), |sum, entry| Size {
            answers: sum.answers + 1,
            bytes: sum.bytes + entry.bytes(),
        });
        assert_eq!(counted, entries.total);
        assert!(counted.bytes <= BYTES && counted.answers <= ANSWERS);
    }

    /// Trees take many times the bytes of their text, so texts are kept.
    #[test]
    fn what_is_kept_takes_what_is_counted() {
        let deep = (0..60).fold(json!(1), |inner, _| json!({ "a": inner }));
        let (input, output) = (vec![deep; 500], vec![json!({ "type": "message" })]);
        let bytes = serde_json::to_vec(&(&input, &output)).unwrap().len();
        let store = AnswerStore::default();
        store.insert(
            "ada",
            "a",
            StoredAnswer { document: b"{}".to_vec(), input: input.clone(), output: output.clone() },
        );
        assert_eq!(store.items("ada", "a").unwrap(), (input, output));
        assert!(store.items("eve", "a").is_none());
        let entries = store.0.lock().unwrap();
        assert_eq!(entries.all[0].items.len(), bytes);
        assert_eq!(entries.total.bytes, 2 + bytes + "ada".len() + "a".len() + ENTRY_BYTES);
    }
}
