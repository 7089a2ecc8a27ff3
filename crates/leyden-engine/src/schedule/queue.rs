//! Queue of waiting requests: by priority, then by key, then in the order of their arrival. [`Queue::next`] picks among
//! them.

use super::counters::Counters;
use super::priority_ageing;
use super::request::{KeyId, RequestId};
use super::task::Task;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Key of a request in the queue.
type Place = (Reverse<i32>, KeyId, u64);

/// Waiting requests.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    tasks: BTreeMap<Place, Task>,
    places: HashMap<RequestId, Place>,
    keys: BTreeMap<KeyId, usize>,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns the number of waiting requests of a key.
    pub(crate) fn of_key(&self, key: KeyId) -> usize {
        self.keys.get(&key).copied().unwrap_or(0)
    }

    /// Returns the keys with waiting requests.
    pub(crate) fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.keys.keys().copied()
    }

    pub(crate) fn contains(&self, id: RequestId) -> bool {
        self.places.contains_key(&id)
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&Task> {
        self.tasks.get(self.places.get(&id)?)
    }

    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Task> {
        self.tasks.get_mut(self.places.get(&id)?)
    }

    pub(crate) fn push(&mut self, task: Task) {
        let place = (Reverse(task.request.priority), task.request.key, task.order);
        self.places.insert(task.request.id, place);
        *self.keys.entry(task.request.key).or_default() += 1;
        self.tasks.insert(place, task);
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Task> {
        let place = self.places.remove(&id)?;
        if let Some(n) = self.keys.get_mut(&place.1) {
            *n -= 1;
            if *n == 0 {
                self.keys.remove(&place.1);
            }
        }
        self.tasks.remove(&place)
    }

    /// Returns the requests in the order of the queue.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values()
    }

    /// Returns the requests for changes that do not affect their order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.tasks.values_mut()
    }

    /// Returns the next request among those of the highest priority that are `ready`: of the key with the least
    /// service, and of its requests the first by [`priority_ageing::rank`].
    pub(crate) fn next(&self, counters: &Counters, ready: impl Fn(&Task) -> bool) -> Option<&Task> {
        let mut best: Option<(&Task, (u64, priority_ageing::Rank))> = None;
        for ((priority, key, _), task) in &self.tasks {
            if best.is_some_and(|(b, _)| b.request.priority != priority.0) {
                break;
            }
            let rank = (counters.get(*key), priority_ageing::rank(task));
            if best.is_none_or(|(_, r)| rank < r) && ready(task) {
                best = Some((task, rank));
            }
        }
        best.map(|(task, _)| task)
    }
}
