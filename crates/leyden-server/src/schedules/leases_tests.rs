//! Schedules of requests for models of which only one fits into memory.

use super::check;
use super::leases::{self, Desk, Host, has_failed, is_loaded, is_unloaded, lease, proceed};
use super::sync::{Arc, Mutex, now};
use crate::residency::{ModelIndex, Residency, Times, Why};
use shuttle::future::block_on;
use shuttle::thread;
use std::time::Duration;

/// Bytes of each model, and of all memory.
const BYTES: u64 = 10;
const BUDGET: u64 = 15;

/// A server whose models are numbers.
struct Server {
    desk: Desk<Server>,
    models: Mutex<Vec<Model>>,
    /// True if loading fails.
    broken: bool,
}

/// State of a model in memory.
#[derive(Clone, Copy, Default)]
struct Model {
    in_memory: bool,
    /// Leases of the clients.
    uses: usize,
    loads: usize,
}

type Lease = leases::Lease<Server>;

impl Server {
    fn new(models: usize, broken: bool) -> Arc<Server> {
        let mut plan = Residency::new(Some(BUDGET), Times::of(Duration::from_secs(30)));
        for _ in 0..models {
            plan.add(BYTES, None, now());
        }
        let models = Mutex::new(vec![Model::default(); models]);
        Arc::new(Server { desk: Desk::new(plan), models, broken })
    }

    fn change(&self, place: ModelIndex, change: impl FnOnce(&mut Model)) {
        change(&mut self.models.lock().unwrap()[place]);
    }

    /// Uses a model, which must be in memory until the end.
    fn work(self: &Arc<Server>, place: ModelIndex, lease: Lease) {
        self.change(place, |model| {
            assert!(model.in_memory, "the lease of a model that is not loaded");
            model.uses += 1;
        });
        thread::yield_now();
        self.change(place, |model| {
            assert!(model.in_memory, "a model was unloaded in use");
            model.uses -= 1;
        });
        drop(lease);
    }

    /// Requests a model, and uses it.
    fn client(self: &Arc<Server>, place: ModelIndex) -> bool {
        match block_on(lease(self, place)) {
            Ok(lease) => {
                self.work(place, lease);
                true
            }
            Err(()) => false,
        }
    }

    /// Checks that nothing is left of the requests: every model can be unloaded for every other.
    fn is_at_rest(self: &Arc<Server>) {
        let all = self.models.lock().unwrap().len();
        for place in 0..all {
            assert!(self.client(place), "a lease was never returned");
        }
    }
}

impl Host for Server {
    type Error = ();

    fn desk(&self) -> &Desk<Server> {
        &self.desk
    }

    fn load(self: &Arc<Server>, place: ModelIndex, bytes: Option<u64>) {
        assert!(bytes.is_some_and(|bytes| bytes >= BYTES));
        let server = Arc::clone(self);
        thread::spawn(move || {
            if server.broken {
                has_failed(&*server, place, || ());
            } else {
                server.change(place, |model| {
                    (model.in_memory, model.loads) = (true, model.loads + 1);
                });
                let loaded = server.models.lock().unwrap().iter().filter(|model| model.in_memory).count();
                assert!(loaded as u64 * BYTES <= BUDGET, "more is loaded than fits");
                is_loaded(&*server, place, BYTES, Duration::ZERO);
            }
            proceed(&server);
        });
    }

    fn unload(self: &Arc<Server>, place: ModelIndex, _: Why) {
        let server = Arc::clone(self);
        thread::spawn(move || {
            server.change(place, |model| {
                assert!(model.in_memory && model.uses == 0, "a model in use is unloaded");
                model.in_memory = false;
            });
            is_unloaded(&*server, place);
            proceed(&server);
        });
    }

    fn too_large(&self, _: ModelIndex, _: (u64, u64)) {}

    fn no_room(&self, _: ModelIndex) {}

    fn lost(&self) {}
}

/// Every client gets its model, one after the other.
#[test]
fn models_that_do_not_fit_together_serve_all_clients() {
    check(|| {
        let server = Server::new(2, false);
        let clients: Vec<_> = [0, 1, 0]
            .map(|place| {
                let server = Arc::clone(&server);
                thread::spawn(move || assert!(server.client(place)))
            })
            .into();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.is_at_rest();
    });
}

/// A client that goes while it waits, or at the moment of its lease, leaves nothing behind.
#[test]
fn clients_that_go_leave_no_lease() {
    check(|| {
        let server = Server::new(2, false);
        let goes = {
            let server = Arc::clone(&server);
            thread::spawn(move || {
                drop(block_on(super::once(lease(&server, 0))));
                drop(block_on(super::once(lease(&server, 1))));
            })
        };
        assert!(server.client(1));
        goes.join().unwrap();
        server.is_at_rest();
    });
}

/// A failure reaches every client that waits, and the next client begins anew.
#[test]
fn clients_of_a_model_that_cannot_be_loaded_are_told() {
    check(|| {
        let server = Server::new(1, true);
        let other = {
            let server = Arc::clone(&server);
            thread::spawn(move || server.client(0))
        };
        assert!(!server.client(0));
        assert!(!other.join().unwrap());
        assert!(!server.client(0));
    });
}
