//! Schedules of a worker that fills a mailbox and a task that reads it.

use super::check;
use super::mailbox::{Abandoned, End, mailbox};
use leyden_text::output::OutputEvent;
use shuttle::future::block_on;
use shuttle::sync::{Arc, Barrier};
use shuttle::thread;

/// No update is lost or doubled, and the end is seen, whether the reader is faster or slower than the worker.
#[test]
fn an_answer_arrives_whole() {
    check(|| {
        let (sender, mut mailbox) = mailbox(2);
        let worker = thread::spawn(move || {
            sender.decide(Ok(()));
            for text in ["a", "b", "c"] {
                sender.update(0, |update| update.say([OutputEvent::Content(text.to_owned())]));
            }
            sender.update(1, |update| update.end = Some(End::Length));
            sender.update(0, |update| update.end = Some(End::Stop));
        });
        let (text, ends) = block_on(async {
            assert_eq!(mailbox.verdict().await, Ok(Ok(())));
            let (mut text, mut ends) = (String::new(), [None, None]);
            while ends.iter().any(Option::is_none) {
                for (choice, update) in mailbox.next().await.unwrap() {
                    text.push_str(&update.text());
                    ends[choice] = ends[choice].or(update.end);
                }
            }
            assert_eq!(mailbox.next().await, Err(Abandoned));
            (text, ends)
        });
        worker.join().unwrap();
        assert_eq!((text.as_str(), ends), ("abc", [Some(End::Stop), Some(End::Length)]));
    });
}

/// Each update wakes the reader by itself: the worker goes on only when it was read.
#[test]
fn an_update_wakes_its_reader() {
    check(|| {
        let (sender, mut mailbox) = mailbox(1);
        let both = Arc::new(Barrier::new(2));
        let read = Arc::clone(&both);
        let worker = thread::spawn(move || {
            sender.decide(Ok(()));
            both.wait();
            for _ in 0..2 {
                sender.update(0, |update| update.generated += 1);
                both.wait();
            }
        });
        assert_eq!(block_on(mailbox.verdict()), Ok(Ok(())));
        read.wait();
        for _ in 0..2 {
            assert_eq!(block_on(mailbox.next()).unwrap()[0].1.generated, 1);
            read.wait();
        }
        worker.join().unwrap();
    });
}

/// A worker that ends without a decision does not leave the reader waiting.
#[test]
fn a_reader_of_a_dead_worker_does_not_wait() {
    check(|| {
        let (sender, mut mailbox) = mailbox(1);
        let worker = thread::spawn(move || drop(sender));
        assert_eq!(block_on(mailbox.verdict()), Err(Abandoned));
        assert_eq!(block_on(mailbox.next()), Err(Abandoned));
        worker.join().unwrap();
    });
}

/// Reading that is given up and begun again, as with a timeout, loses nothing.
#[test]
fn a_wait_that_is_given_up_loses_nothing() {
    check(|| {
        let (sender, mut mailbox) = mailbox(1);
        let worker = thread::spawn(move || {
            sender.update(0, |update| update.generated = 1);
            sender.update(0, |update| update.generated = 2);
        });
        let first = block_on(super::once(mailbox.next()));
        thread::yield_now();
        let mut last = first.map(|news| news.unwrap()[0].1.generated).unwrap_or_default();
        while last < 2 {
            last = block_on(mailbox.next()).unwrap()[0].1.generated;
        }
        worker.join().unwrap();
        assert_eq!(last, 2);
    });
}

/// The worker sees that the reader is gone.
#[test]
fn a_reader_that_goes_is_seen() {
    check(|| {
        let (sender, mailbox) = mailbox(1);
        let reader = thread::spawn(move || drop(mailbox));
        sender.update(0, |update| update.generated = 1);
        reader.join().unwrap();
        assert!(sender.is_closed());
    });
}
