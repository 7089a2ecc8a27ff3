//! The mailbox of an answer in a runtime.

use crate::mailbox::{Abandoned, End, mailbox};
use leyden_text::output::OutputEvent;
use std::time::Duration;

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

#[test]
fn what_is_not_read_is_joined() {
    block(async {
        let (sender, mut mailbox) = mailbox(2);
        sender.decide(Ok(()));
        assert_eq!(mailbox.verdict().await, Ok(Ok(())));
        sender.update(1, |u| u.say([OutputEvent::Content("a".into())]));
        sender.update(1, |u| u.say([OutputEvent::Content("b".into())]));
        let news = mailbox.next().await.unwrap();
        assert_eq!((news.len(), news[0].0, news[0].1.text()), (1, 1, "ab".to_owned()));
        assert_eq!(news[0].1.parts.len(), 1);
        assert!(mailbox.next_within(Duration::from_millis(1)).await.is_none());
        sender.update(0, |u| u.end = Some(End::Stop));
        drop(sender);
        assert_eq!(mailbox.next().await.unwrap()[0].1.end, Some(End::Stop));
        assert_eq!(mailbox.next().await, Err(Abandoned));
    });
}

#[test]
fn a_reader_that_goes_is_noticed() {
    let (sender, mailbox) = mailbox(1);
    assert!(!sender.is_closed());
    drop(mailbox);
    assert!(sender.is_closed());
}
