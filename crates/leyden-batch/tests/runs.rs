//! Runs with computations that fail, panic and stop.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use leyden_batch::{
    Answer, Computation, Error, Feed, Groups, Item, JournalSink, Limits, Recorder, Rows, Run, Sink, Summary,
    run,
};
use leyden_rows::{Format, Journal, Mark, Reader, Row};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Groupable = dyn FnMut(&[Arc<Item>]) -> Result<Vec<Result<Answer, String>>, String>;

fn rows(n: u64) -> Vec<Row> {
    (0..n).map(|n| Row::of_text(format!("text {n}"), format!("line {}", n + 1))).collect()
}

fn text(item: &Item) -> &str {
    item.row.text(None).unwrap()
}

/// Answers each row with its text, and panics on groups with one of these rows.
fn poisonous(numbers: &[u64]) -> Groups<Box<Groupable>> {
    let numbers: HashSet<u64> = numbers.iter().copied().collect();
    Groups::new(Box::new(move |items: &[Arc<Item>]| {
        assert!(!items.iter().any(|item| numbers.contains(&item.number)), "poison");
        Ok(items.iter().map(|item| Ok(Answer::of(json!(text(item)).to_string()))).collect())
    }) as Box<Groupable>)
}

fn error_row(_: &Item, reason: &str) -> String {
    json!({ "error": reason }).to_string()
}

/// Reads the answers back in order.
fn answers(sink: &mut JournalSink) -> Vec<Value> {
    let mut all = Vec::new();
    sink.journal_mut()
        .each(|_, entry| {
            all.push(serde_json::from_str(&entry.row).unwrap());
            Ok(())
        })
        .unwrap();
    all
}

fn go<C: Computation>(
    rows: Vec<Row>,
    sink: &mut dyn Sink,
    limits: Limits,
    computation: &mut C,
) -> Result<Summary, Error<C::Failure>> {
    run(Run::new(Box::new(Rows::from(rows)), sink, &error_row).limits(limits), computation)
}

fn counts(summary: &Summary) -> [u64; 5] {
    [summary.read, summary.done, summary.failed, summary.skipped, summary.kept]
}

#[test]
fn poison_rows_alone_get_an_error() {
    std::panic::set_hook(Box::new(|_| ()));
    for bad in [&[][..], &[0], &[999], &[3, 4, 500, 501, 777]] {
        let mut sink = JournalSink::new(Journal::temporary().unwrap());
        let summary = go(rows(1000), &mut sink, Limits::default(), &mut poisonous(bad)).unwrap();
        let n = bad.len() as u64;
        assert_eq!(counts(&summary), [1000, 1000 - n, n, 0, 0]);
        for (i, answer) in answers(&mut sink).into_iter().enumerate() {
            match bad.contains(&(i as u64)) {
                true => assert_eq!(answer["error"], "the computation failed: poison"),
                false => assert_eq!(answer, format!("text {i}")),
            }
        }
    }
}

/// A computation on threads, which gives back all rows that are in flight together with a bad one.
struct Threads {
    bad: u64,
    computing: Mutex<HashSet<u64>>,
}

impl Computation for Threads {
    type Failure = String;

    fn compute(&mut self, feed: &Feed<'_>) -> Result<(), String> {
        let this = &*self;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(item) = feed.next() {
                        this.computing.lock().unwrap().insert(item.number);
                        std::thread::sleep(Duration::from_micros(item.number % 7 * 100));
                        let poisoned = this.computing.lock().unwrap().contains(&this.bad);
                        match poisoned {
                            true => feed.give_back(item.number, "the engine failed"),
                            false => feed.done(item.number, Answer::of(json!(text(&item)).to_string())),
                        }
                        this.computing.lock().unwrap().remove(&item.number);
                    }
                });
            }
        });
        Ok(())
    }
}

#[test]
fn rows_that_were_given_back_are_computed_again() {
    // With a small window the run must not wait for rows that were given back.
    for window in [8, 4096] {
        let mut sink = JournalSink::new(Journal::temporary().unwrap());
        let mut threads = Threads { bad: 50, computing: Mutex::default() };
        let summary = go(rows(200), &mut sink, Limits::default().window(window), &mut threads).unwrap();
        assert_eq!(counts(&summary), [200, 199, 1, 0, 0]);
        for (i, answer) in answers(&mut sink).into_iter().enumerate() {
            match i == 50 {
                true => assert_eq!(answer["error"], "the engine failed"),
                false => assert_eq!(answer, format!("text {i}")),
            }
        }
    }
}

/// Stops after every few rows, and begins again, until all rows are done.
#[test]
fn an_interrupted_run_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.jsonl");
    let open = || JournalSink::new(Journal::open(&output, "run").unwrap());
    let mut kept = 0;
    loop {
        let computed = AtomicU64::new(0);
        let mut groups = Groups::new(|items: &[Arc<Item>]| -> Result<_, String> {
            computed.fetch_add(items.len() as u64, Ordering::Relaxed);
            Ok(items.iter().map(|item| Ok(Answer::of(json!(text(item)).to_string()))).collect())
        });
        let mut sink = open();
        let stop = || computed.load(Ordering::Relaxed) > 100;
        let batch = Run::new(Box::new(Rows::from(rows(1000))), &mut sink, &error_row).stop(&stop);
        let summary = run(batch, &mut groups).unwrap();
        assert_eq!(summary.kept, kept);
        kept = summary.done;
        if !summary.stopped {
            assert_eq!(answers(&mut sink).len(), 1000);
            break;
        }
        assert!(kept <= 1000);
    }
    let mut changed = rows(1000);
    changed[500] = Row::of_text("other".to_owned(), "line 501".to_owned());
    let error = go(changed, &mut open(), Limits::default(), &mut poisonous(&[])).unwrap_err();
    assert!(error.to_string().contains("line 501 of the input differs"), "{error}");
    let error = go(rows(900), &mut open(), Limits::default(), &mut poisonous(&[])).unwrap_err();
    assert!(matches!(error, Error::Shorter { rows: 100 }), "{error}");
    let summary = go(rows(1000), &mut open(), Limits::default(), &mut poisonous(&[])).unwrap();
    assert_eq!(counts(&summary), [1000, 1000, 0, 0, 1000]);
}

/// A row that ends the process is found after some restarts: the process is killed while nothing else is computed.
#[test]
fn a_row_that_kills_the_process_gets_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.jsonl");
    let mut starts = 0;
    let summary = loop {
        starts += 1;
        let mut sink = JournalSink::new(Journal::open(&output, "run").unwrap());
        let mut deadly = Groups::new(|items: &[Arc<Item>]| {
            if items.iter().any(|item| item.number == 40) {
                return Err("killed");
            }
            Ok(items.iter().map(|item| Ok(Answer::of(json!(text(item)).to_string()))).collect())
        });
        let mut deaf = Deaf(&mut sink);
        match go(rows(100), &mut deaf, Limits::default(), &mut deadly) {
            Ok(summary) => break summary,
            Err(Error::Computation("killed")) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(starts < 10);
    };
    assert_eq!(counts(&summary)[1..3], [99, 1]);
    assert!(summary.first_error.unwrap().contains("killed 2 times while it computed this row alone"));
}

/// A sink that does not hear of an orderly end, as if the process had been killed.
struct Deaf<'a>(&'a mut JournalSink);

impl Sink for Deaf<'_> {
    fn has(&mut self, number: u64, row: &Row) -> Result<bool, leyden_rows::Error> {
        self.0.has(number, row)
    }
    fn kept(&self) -> (u64, u64) {
        self.0.kept()
    }
    fn put(&mut self, item: Item, answer: Answer) -> Result<(), leyden_rows::Error> {
        self.0.put(item, answer)
    }
    fn flush(&mut self) -> Result<(), leyden_rows::Error> {
        self.0.flush()
    }
    fn begin(&mut self) -> Result<bool, leyden_rows::Error> {
        self.0.begin()
    }
    fn begin_alone(&mut self, number: u64) -> Result<u32, leyden_rows::Error> {
        self.0.begin_alone(number)
    }
}

#[test]
fn shards_together_have_every_row_once() {
    let mut found = Vec::new();
    for k in 1..=3 {
        let mut sink = JournalSink::new(Journal::temporary().unwrap());
        let limits = Limits::default().shard(Some(format!("{k}/3").parse().unwrap()));
        let summary = go(rows(500), &mut sink, limits, &mut poisonous(&[])).unwrap();
        assert_eq!(summary.read, 500);
        assert_eq!(summary.done + summary.skipped, 500);
        found.extend(answers(&mut sink));
    }
    let numbers: HashSet<String> = found.iter().map(|text| text.as_str().unwrap().to_owned()).collect();
    assert_eq!((found.len(), numbers.len()), (500, 500));
}

#[test]
fn rows_without_a_result_keep_their_place() {
    let input: &[u8] = b"{\"custom_id\":\"a\",\"text\":\"1\"}\n{broken\n{\"custom_id\":\"b\",\"text\":\"\xff\"}\n{\"custom_id\":\"a\",\"text\":\"2\"}\n{\"custom_id\":7,\"text\":\"3\"}\n";
    let reader = Reader::from_read(Box::new(input), "in.jsonl", Format::JsonLines).unwrap();
    let mut sink = JournalSink::new(Journal::temporary().unwrap());
    let summary = run(Run::new(Box::new(reader), &mut sink, &error_row), &mut poisonous(&[])).unwrap();
    assert_eq!(counts(&summary), [5, 2, 3, 0, 0]);
    let answers = answers(&mut sink);
    assert_eq!((&answers[0], &answers[4]), (&json!("1"), &json!("3")));
    assert!(answers[1]["error"].as_str().unwrap().contains("not JSON"), "{}", answers[1]);
    assert_eq!(answers[3]["error"], "custom_id `a`: row 1 has it, too");
    let mut sink = JournalSink::new(Journal::temporary().unwrap());
    let summary = go(Vec::new(), &mut sink, Limits::default(), &mut poisonous(&[])).unwrap();
    assert_eq!((counts(&summary), summary.stopped), ([0; 5], false));
}

#[test]
fn keys_do_not_depend_on_the_place() {
    let seen = Mutex::new(Vec::new());
    let row = |id: Option<&str>, text: &str| {
        let mut fields = Map::from_iter([("text".to_owned(), json!(text))]);
        fields.extend(id.map(|id| ("custom_id".to_owned(), json!(id))));
        Row::new(fields, String::new())
    };
    let all = [row(Some("x"), "a"), row(Some("y"), "a"), row(None, "b"), row(None, "c")];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0]] {
        let mut groups = Groups::new(|items: &[Arc<Item>]| -> Result<_, String> {
            seen.lock().unwrap().extend(items.iter().map(|item| item.key()));
            Ok(items.iter().map(|_| Ok(Answer::of("{}".to_owned()))).collect())
        });
        let mut sink = JournalSink::new(Journal::temporary().unwrap());
        go(order.map(|i| all[i].clone()).to_vec(), &mut sink, Limits::default(), &mut groups).unwrap();
    }
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen[..4].iter().rev().collect::<Vec<_>>(), seen[4..].iter().collect::<Vec<_>>());
    assert_eq!(seen.iter().collect::<HashSet<_>>().len(), 4);
}

/// Records of an audit, in memory; fails after `most` of them.
struct Records(Arc<Mutex<Vec<u64>>>, usize);

impl Recorder for Records {
    fn record(&mut self, item: &Item, _: &Answer) -> Result<(), String> {
        let mut all = self.0.lock().unwrap();
        if all.len() == self.1 {
            return Err("no space left".to_owned());
        }
        all.push(item.number);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn a_row_counts_as_done_after_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.jsonl");
    let records = Arc::default();
    let sink = |most| {
        let journal = Journal::open(&output, "run").unwrap();
        JournalSink::new(journal).with_recorder(Box::new(Records(Arc::clone(&records), most)))
    };
    let limits = Limits::default().flush_every(Duration::ZERO);
    let error = go(rows(100), &mut sink(30), limits, &mut poisonous(&[])).unwrap_err();
    assert!(error.to_string().contains("audit: no space left"), "{error}");
    let mut whole = sink(100);
    let summary = go(rows(100), &mut whole, limits, &mut poisonous(&[])).unwrap();
    assert_eq!((summary.kept, answers(&mut whole).len()), (30, 100));
    assert_eq!(*records.lock().unwrap(), (0..100).collect::<Vec<u64>>());
}

#[test]
fn a_full_disk_ends_the_run() {
    // Writes to this device fail like those to a full disk.
    if !Path::new("/dev/full").exists() {
        return;
    }
    struct Full(std::fs::File);
    impl Sink for Full {
        fn put(&mut self, _: Item, answer: Answer) -> Result<(), leyden_rows::Error> {
            use std::io::Write;
            self.0.write_all(answer.row.as_bytes()).map_err(|error| leyden_rows::Error::new("out", error))
        }
        fn flush(&mut self) -> Result<(), leyden_rows::Error> {
            Ok(())
        }
    }
    let mut full = Full(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let error = go(rows(100), &mut full, Limits::default(), &mut poisonous(&[])).unwrap_err();
    assert!(error.to_string().contains("No space left"), "{error}");
}

#[test]
fn marks_are_not_rows() {
    let mut journal = Journal::temporary().unwrap();
    journal.mark(Mark::Begin).unwrap();
    let mut sink = JournalSink::new(journal);
    assert_eq!(go(rows(3), &mut sink, Limits::default(), &mut poisonous(&[])).unwrap().done, 3);
    assert_eq!(answers(&mut sink).len(), 3);
}
