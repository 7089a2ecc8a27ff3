//! Attacks on a log, each with what tells of it.

use super::*;
use crate::ContentKey;
use crate::folder::HEAD;
use std::io::Write as _;

/// A log that was written by several processes, and what an attacker may have of it.
struct Lab {
    _root: tempfile::TempDir,
    /// The log at its end, with segments 1 to `last`.
    log: PathBuf,
    last: u64,
    /// A copy of the folder in the middle.
    old: PathBuf,
    /// A copy of the head in the middle, and one at the end.
    early_anchor: PathBuf,
    anchor: PathBuf,
    /// A log of another key with records of the same ids.
    rebuilt: PathBuf,
    public: PathBuf,
    key: leyden_verify::Key,
}

impl Lab {
    fn new() -> Lab {
        let mut place = Place::new();
        place.options.segment_bytes = 16_000;
        place.options.checkpoint_records = 5;
        place.options.recipient = Some(ContentKey::generate().unwrap().recipient().clone());
        let write = |place: &Place, ids: std::ops::Range<u32>| {
            let log = place.open();
            for id in ids {
                log.append(&record(format!("stream-{id}"), Phase::Start)).unwrap();
                log.append(&record(format!("plain-{id}"), Phase::Whole)).unwrap();
                log.append(&record(format!("stream-{id}"), Phase::End)).unwrap();
            }
            log.close().unwrap();
        };
        let at = |name: &str| place._root.path().join(name);
        write(&place, 0..9);
        copy(&place.folder, &at("old"));
        fs::copy(place.folder.join(HEAD), at("early_anchor")).unwrap();
        let last = crate::folder::segments(&place.folder).unwrap();
        let mut open = fs::File::options().append(true).open(place.segment(*last.last().unwrap())).unwrap();
        open.write_all(b"{\"seq\":99").unwrap();
        write(&place, 9..20);
        fs::copy(place.folder.join(HEAD), at("anchor")).unwrap();
        let other = Place {
            options: place.options.clone(),
            folder: at("rebuilt"),
            _root: tempfile::tempdir().unwrap(),
        };
        let other = Place { options: Options { key: at("other"), ..other.options.clone() }, ..other };
        write(&other, 0..20);
        let last = *crate::folder::segments(&place.folder).unwrap().last().unwrap();
        let key = leyden_verify::Key::read(&at("key")).unwrap();
        let (old, early_anchor, anchor) = (at("old"), at("early_anchor"), at("anchor"));
        let (rebuilt, public) = (at("rebuilt"), at("key.pub"));
        let Place { _root, folder: log, .. } = place;
        assert!(last > 3, "{last}");
        Lab { _root, log, last, old, early_anchor, anchor, rebuilt, public, key }
    }

    /// Returns a copy of the log.
    fn copy(&self) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        copy(&self.log, &log);
        (folder, log)
    }
}

/// Means of the auditor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum With {
    Nothing,
    Key,
    EarlyAnchor,
    Anchor,
}

use With::{Anchor, EarlyAnchor, Key, Nothing};

impl With {
    fn options(self, lab: &Lab) -> VerifyOptions {
        let anchors = match self {
            EarlyAnchor => vec![lab.early_anchor.clone()],
            Anchor => vec![lab.anchor.clone()],
            Nothing | Key => Vec::new(),
        };
        VerifyOptions { anchors, key: (self == Key).then(|| lab.public.clone()) }
    }
}

fn segment(log: &Path, number: u64) -> PathBuf {
    crate::folder::segment(log, number)
}

/// Changes the text of a file.
fn edit(path: PathBuf, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(&path).unwrap();
    let changed = change(text.clone());
    assert_ne!(text, changed, "the attack changes something");
    fs::write(path, changed).unwrap();
}

/// Changes the lines of a segment.
fn lines(log: &Path, number: u64, change: impl FnOnce(&mut Vec<String>)) {
    edit(segment(log, number), |text| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        lines.iter().map(|line| format!("{line}\n")).collect()
    });
}

/// Replaces `from` in the first line of segment 2 that has it.
fn replace(log: &Path, from: &str, to: &str) {
    lines(log, 2, |lines| {
        let line =
            lines.iter_mut().find(|line| line.contains(from)).unwrap_or_else(|| panic!("no line has {from}"));
        *line = line.replacen(from, to, 1);
    });
}

/// Replaces the byte after `behind` in the first line of segment 2 that has it.
fn change_behind(log: &Path, behind: &str) {
    lines(log, 2, |lines| {
        let line = lines
            .iter_mut()
            .find(|line| line.contains(behind))
            .unwrap_or_else(|| panic!("no line has {behind}"));
        let at = line.find(behind).unwrap() + behind.len();
        let new = if &line[at..=at] == "1" { "2" } else { "1" };
        line.replace_range(at..=at, new);
    });
}

/// Writes lines anew so that each continues the one before, with signatures by `key` if there is one; the head too.
fn chain_anew(log: &Path, key: Option<&leyden_verify::Key>) {
    let (mut seq, mut prev) = (0, [0; 32]);
    for number in crate::folder::segments(log).unwrap() {
        let text = fs::read(segment(log, number)).unwrap();
        let mut out = Vec::new();
        for old in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line = crate::line::parse(old).unwrap();
            let from = out.len();
            crate::line::write(&mut out, (seq, &prev), line.stamp, line.kind, line.body);
            if line.kind == crate::line::Kind::Checkpoint {
                match key {
                    Some(key) => crate::line::sign(&mut out, from, key).unwrap(),
                    // The old signature is kept.
                    None => {
                        out.pop();
                        out.extend_from_slice(&old[old.len() - 144..]);
                    }
                }
                fs::write(log.join(HEAD), [&out[from..], b"\n"].concat()).unwrap();
            }
            prev = crate::line::hash(&out[from..]);
            out.push(b'\n');
            seq += 1;
        }
        fs::write(segment(log, number), out).unwrap();
    }
}

fn replace_folder(log: &Path, by: &Path) {
    fs::remove_dir_all(log).unwrap();
    copy(by, log);
}

/// Keeps the lines up to the last checkpoint of segment `number`, and makes it the head.
fn cut_at_checkpoint(log: &Path, number: u64) {
    for later in number + 1.. {
        if fs::remove_file(segment(log, later)).is_err() {
            break;
        }
    }
    let text = fs::read_to_string(segment(log, number)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().rposition(|line| line.contains("\"kind\":\"checkpoint\"")).unwrap();
    fs::write(segment(log, number), lines[..=at].join("\n") + "\n").unwrap();
    fs::write(log.join(HEAD), format!("{}\n", lines[at])).unwrap();
}

type Attack = (&'static str, With, &'static str, fn(&Path, &Lab));

/// Attacks, with what the auditor has and the words that tell of each.
const ATTACKS: &[Attack] = &[
    // A byte in each field.
    ("edit seq", Nothing, "seq:", |log, _| change_behind(log, "\"seq\":")),
    ("edit prev", Nothing, "prev:", |log, _| change_behind(log, "\"prev\":\"")),
    ("edit the time", Nothing, "time:", |log, _| change_behind(log, "\"time\":\"202")),
    ("edit the microseconds of the time", Nothing, "prev:", |log, _| {
        lines(log, 2, |lines| {
            let at = lines[3].find("Z\",\"tick").unwrap() - 1;
            let new = if &lines[3][at..=at] == "1" { "2" } else { "1" };
            lines[3].replace_range(at..=at, new);
        });
    }),
    ("edit tick", Nothing, "prev:", |log, _| change_behind(log, "\"tick\":")),
    ("edit kind", Nothing, "kind:", |log, _| replace(log, "\"kind\":\"entry\"", "\"kind\":\"ent1y\"")),
    ("make a record a cut", Nothing, "body:", |log, _| {
        replace(log, "\"kind\":\"entry\"", "\"kind\":\"cut\"")
    }),
    ("edit the id", Nothing, "prev:", |log, _| change_behind(log, "\"id\":\"plain-")),
    ("edit the id of a stream", Nothing, "prev:", |log, _| change_behind(log, "\"id\":\"stream-")),
    ("edit the phase", Nothing, "prev:", |log, _| replace(log, "\"phase\":\"whole\"", "\"phase\":\"start\"")),
    ("edit the task", Nothing, "prev:", |log, _| change_behind(log, "\"task\":\"")),
    ("edit the model's name", Nothing, "prev:", |log, _| change_behind(log, "\"name\":\"")),
    ("edit the model's hash", Nothing, "prev:", |log, _| change_behind(log, "\"sha256\":\"")),
    ("edit the template's hash", Nothing, "prev:", |log, _| change_behind(log, "\"template_sha256\":\"")),
    ("edit a setting", Nothing, "prev:", |log, _| change_behind(log, "\"temperature\":0.")),
    ("edit the seed", Nothing, "prev:", |log, _| change_behind(log, "\"seed\":")),
    ("edit the prompt's tokens", Nothing, "prev:", |log, _| change_behind(log, "\"prompt_tokens\":")),
    ("edit the answer's tokens", Nothing, "prev:", |log, _| change_behind(log, "\"completion_tokens\":")),
    ("edit the finish reason", Nothing, "prev:", |log, _| change_behind(log, "\"finish\":\"")),
    ("edit the status", Nothing, "prev:", |log, _| change_behind(log, "\"status\":")),
    ("edit the input's digest", Nothing, "prev:", |log, _| change_behind(log, "\"input_sha256\":\"")),
    ("edit the output's digest", Nothing, "prev:", |log, _| change_behind(log, "\"output_sha256\":\"")),
    ("edit the result's digest", Nothing, "prev:", |log, _| change_behind(log, "\"result_sha256\":\"")),
    ("edit the encrypted content", Nothing, "prev:", |log, _| change_behind(log, "\"text\":\"")),
    ("edit a checkpoint", Nothing, "signature:", |log, _| {
        replace(log, "\"why\":\"interval\"", "\"why\":\"rotation\"")
    }),
    ("edit a signature", Nothing, "signature:", |log, _| change_behind(log, "\"signature\":\"")),
    ("edit a checkpoint's key", Nothing, "key:", |log, lab| replace(log, &lab.key.id(), &"0".repeat(64))),
    ("edit a checkpoint's log", Nothing, "log:", |log, _| change_behind(log, "\"log\":\"")),
    ("add white space", Nothing, "seq:", |log, _| replace(log, "{\"seq\"", "{ \"seq\"")),
    ("add a carriage return", Nothing, "body:", |log, _| lines(log, 2, |lines| lines[0].push('\r'))),
    ("blank out a line", Nothing, "seq:", |log, _| lines(log, 2, |lines| lines[1].clear())),
    // Lines.
    ("delete a line", Nothing, "lines before it were removed", |log, _| {
        lines(log, 2, |lines| drop(lines.remove(3)))
    }),
    ("delete the first line of the log", Nothing, "seq:", |log, _| {
        lines(log, 1, |lines| drop(lines.remove(0)))
    }),
    ("delete the first line of a segment", Nothing, "lines before", |log, _| {
        lines(log, 3, |lines| drop(lines.remove(0)))
    }),
    ("delete the last line of a segment", Nothing, "lines before", |log, _| {
        lines(log, 2, |lines| drop(lines.pop()))
    }),
    ("duplicate a line", Nothing, "seq:", |log, _| lines(log, 2, |lines| lines.insert(3, lines[2].clone()))),
    ("swap two lines", Nothing, "seq:", |log, _| lines(log, 2, |lines| lines.swap(2, 3))),
    ("insert a line of another log", Nothing, "seq:", |log, lab| {
        let other = fs::read_to_string(segment(&lab.rebuilt, 1)).unwrap();
        lines(log, 2, |lines| lines.insert(2, other.lines().nth(3).unwrap().to_owned()));
    }),
    // Chains written anew.
    ("edit a record and hash anew", Nothing, "signature:", |log, _| {
        change_behind(log, "\"completion_tokens\":");
        chain_anew(log, None);
    }),
    ("delete a record and hash anew", Nothing, "signature:", |log, _| {
        lines(log, 2, |lines| drop(lines.remove(3)));
        chain_anew(log, None);
    }),
    ("edit and sign with another key", Nothing, "signature:", |log, _| {
        change_behind(log, "\"completion_tokens\":");
        chain_anew(log, Some(&leyden_verify::Key::generate(leyden_verify::Time::now(), 9).unwrap()));
    }),
    ("edit and sign with the stolen key, an anchor is elsewhere", Anchor, "written anew", |log, lab| {
        change_behind(log, "\"completion_tokens\":");
        chain_anew(log, Some(&lab.key));
    }),
    (
        "edit and sign with the stolen key, an early anchor is elsewhere",
        EarlyAnchor,
        "written anew",
        |log, lab| {
            change_behind(log, "\"completion_tokens\":");
            chain_anew(log, Some(&lab.key));
        },
    ),
    ("a rebuilt log with another key, against the key", Key, "key:", |log, lab| {
        replace_folder(log, &lab.rebuilt)
    }),
    ("a rebuilt log with another key, against an anchor", Anchor, "is not that of", |log, lab| {
        replace_folder(log, &lab.rebuilt)
    }),
    ("a forged checkpoint", Nothing, "signature:", |log, _| {
        lines(log, 2, |lines| {
            let at = lines.iter().position(|line| line.contains("checkpoint")).unwrap();
            let digits = lines[at].len() - 130;
            lines[at].replace_range(digits..digits + 128, &"0".repeat(128));
        });
    }),
    ("a checkpoint's signature on another line", Nothing, "signature:", |log, _| {
        lines(log, 2, |lines| {
            let all: Vec<usize> = (0..lines.len()).filter(|i| lines[*i].contains("\"checkpoint\"")).collect();
            let from = lines[all[0]].len() - 130;
            let digits = lines[all[0]][from..from + 128].to_owned();
            let to = lines[all[1]].len() - 130;
            lines[all[1]].replace_range(to..to + 128, &digits);
        });
    }),
    ("a clock that is set without a line about it", Nothing, "time:", |log, lab| {
        replace(log, "\"time\":\"2", "\"time\":\"3");
        chain_anew(log, Some(&lab.key));
    }),
    // Files.
    ("remove the first segment", Nothing, "missing", |log, _| fs::remove_file(segment(log, 1)).unwrap()),
    ("remove a segment", Nothing, "missing", |log, _| fs::remove_file(segment(log, 2)).unwrap()),
    ("remove the last segment", Nothing, "its end was removed", |log, lab| {
        fs::remove_file(segment(log, lab.last)).unwrap()
    }),
    ("remove a segment and close the gap", Nothing, "lines before", |log, lab| {
        for number in 3..=lab.last {
            fs::rename(segment(log, number), segment(log, number - 1)).unwrap();
        }
    }),
    ("swap segments", Nothing, "seq:", |log, _| {
        fs::rename(segment(log, 2), log.join("x")).unwrap();
        fs::rename(segment(log, 3), segment(log, 2)).unwrap();
        fs::rename(log.join("x"), segment(log, 3)).unwrap();
    }),
    ("add a copy of a segment", Nothing, "seq:", |log, lab| {
        fs::copy(segment(log, lab.last), segment(log, lab.last + 1)).unwrap();
    }),
    ("add a segment with another name", Nothing, "not a name of a segment", |log, _| {
        fs::copy(segment(log, 2), log.join("segment-2.jsonl")).unwrap();
    }),
    ("empty a segment", Nothing, "no lines", |log, _| fs::write(segment(log, 2), "").unwrap()),
    ("a folder in the place of a segment", Nothing, "not a regular file", |log, _| {
        fs::remove_file(segment(log, 2)).unwrap();
        fs::create_dir(segment(log, 2)).unwrap();
    }),
    ("remove all segments", Nothing, "missing", |log, lab| {
        (1..=lab.last).for_each(|number| fs::remove_file(segment(log, number)).unwrap());
    }),
    ("remove the head", Nothing, "head: missing", |log, _| fs::remove_file(log.join(HEAD)).unwrap()),
    ("empty the head", Nothing, "head:1:", |log, _| fs::write(log.join(HEAD), "").unwrap()),
    ("the head of another log", Nothing, "head:1: key", |log, lab| {
        fs::copy(lab.rebuilt.join(HEAD), log.join(HEAD)).map(drop).unwrap();
    }),
    ("edit the head", Nothing, "head:1:", |log, _| {
        edit(log.join(HEAD), |text| text.replacen("close", "open", 1))
    }),
    // Ends that were removed.
    (
        "cut off at a checkpoint with a head of it, an anchor is elsewhere",
        Anchor,
        "an old copy",
        |log, lab| {
            cut_at_checkpoint(log, lab.last - 1);
        },
    ),
    ("an old copy of the head", Anchor, "an old copy", |log, lab| {
        cut_at_checkpoint(log, lab.last - 1);
        fs::copy(&lab.early_anchor, log.join(HEAD)).map(drop).unwrap();
    }),
    ("an old copy of the folder, an anchor is elsewhere", Anchor, "an old copy", |log, lab| {
        replace_folder(log, &lab.old)
    }),
    // Hostile contents.
    ("deep JSON", Nothing, "body:", |log, _| {
        let deep = format!("\"settings\":{{\"x\":{}{},", "[".repeat(100_000), "]".repeat(100_000));
        replace(log, "\"settings\":{", &deep);
    }),
    ("deep JSON in an unknown field", Nothing, "prev:", |log, _| {
        let deep = format!("\"body\":{{\"x\":{}{},", "[".repeat(100_000), "]".repeat(100_000));
        replace(log, "\"body\":{", &deep);
    }),
    ("a number beyond all numbers", Nothing, "seq: not a whole number", |log, _| {
        replace(log, "\"seq\":", "\"seq\":9999999999999999999999");
    }),
    ("the largest number", Nothing, "seq:", |log, _| {
        lines(log, 2, |lines| {
            let at = lines[2].find(",\"prev\"").unwrap();
            lines[2].replace_range(..at, &format!("{{\"seq\":{}", u64::MAX));
        });
    }),
    ("a field twice", Nothing, "duplicate field", |log, _| {
        replace(log, "\"body\":{\"id\"", "\"body\":{\"id\":\"x\",\"id\"")
    }),
    ("a huge line", Nothing, "not where the format", |log, _| {
        replace(log, "{\"seq\":", &"x".repeat(20_000_000))
    }),
    ("a huge line without an end", Nothing, "unfinished", |log, lab| {
        let mut file = fs::File::options().append(true).open(segment(log, lab.last)).unwrap();
        file.write_all(&vec![b'9'; 20_000_000]).unwrap();
    }),
    ("no UTF-8", Nothing, "", |log, _| {
        let mut bytes = fs::read(segment(log, 2)).unwrap();
        let at = bytes.len() / 2;
        bytes[at] = 0xff;
        fs::write(segment(log, 2), bytes).unwrap();
    }),
    ("zeros", Nothing, "", |log, _| {
        let mut bytes = fs::read(segment(log, 2)).unwrap();
        let (at, end) = (bytes.len() / 2, bytes.len() / 2 + 100);
        bytes[at..end].fill(0);
        fs::write(segment(log, 2), bytes).unwrap();
    }),
    ("times without a sense", Nothing, "time:", |log, _| replace(log, "\"time\":\"20", "\"time\":\"-1")),
];

#[test]
fn the_log_itself_is_right() {
    let lab = Lab::new();
    for with in [Nothing, Key, EarlyAnchor, Anchor] {
        let report = verify(&lab.log, &with.options(&lab)).unwrap();
        assert!(report.problems.is_empty(), "{with:?}: {}", problems(&report));
        assert!(report.closed && report.unsigned == 0 && report.entries == 60 && report.segments == lab.last);
        let told =
            report.warnings.iter().any(|warning| warning.what.contains("the key that the log itself names"));
        assert_eq!(told, with == Nothing, "{:?}", report.warnings);
    }
}

#[test]
fn attacks_are_told_with_file_and_line() {
    assert!(ATTACKS.len() >= 60);
    let lab = Lab::new();
    for (name, with, words, attack) in ATTACKS {
        let (_kept, log) = lab.copy();
        attack(&log, &lab);
        let report = verify(&log, &with.options(&lab)).unwrap();
        let told = report.problems.iter().find(|problem| problem.to_string().contains(words));
        let told = told.unwrap_or_else(|| panic!("{name}: {}", problems(&report)));
        assert!(told.file.starts_with(&*log.to_string_lossy()), "{name}: {told}");
        let about_files = ["missing", "not a name of a segment", "not a regular file"];
        assert!(
            told.line.is_some() || about_files.iter().any(|words| told.what.contains(words)),
            "{name}: {told}"
        );
    }
}

/// Without an anchor, a log that ends at an earlier checkpoint is a right log. This is why anchors are kept elsewhere.
#[test]
fn what_needs_an_anchor_is_not_told_without_one() {
    let lab = Lab::new();
    for attack in [
        (|log: &Path, lab: &Lab| cut_at_checkpoint(log, lab.last - 1)) as fn(&Path, &Lab),
        |log, lab| replace_folder(log, &lab.old),
        |log, lab| replace_folder(log, &lab.rebuilt),
    ] {
        let (_kept, log) = lab.copy();
        attack(&log, &lab);
        let report = verify(&log, &VerifyOptions::default()).unwrap();
        assert!(report.problems.is_empty(), "{}", problems(&report));
        assert!(!verify(&log, &Anchor.options(&lab)).unwrap().problems.is_empty());
    }
}

#[test]
fn a_log_cut_off_at_any_byte_is_told() {
    let lab = Lab::new();
    let (_kept, log) = lab.copy();
    let path = segment(&log, lab.last);
    let whole = fs::read(&path).unwrap();
    let borders = (0..whole.len()).filter(|at| *at == 0 || whole[at - 1] == b'\n');
    let places: Vec<usize> = (0..whole.len()).step_by(97).chain(borders).chain([whole.len() - 1]).collect();
    for with in [Nothing, Anchor] {
        for at in &places {
            fs::write(&path, &whole[..*at]).unwrap();
            let report = verify(&log, &with.options(&lab)).unwrap();
            assert!(!report.problems.is_empty(), "{with:?} {at}");
            assert!(report.problems[0].line.is_some());
        }
    }
    // With a head that ends earlier too, the anchor tells.
    for at in &places {
        fs::write(&path, &whole[..*at]).unwrap();
        fs::copy(&lab.early_anchor, log.join(HEAD)).unwrap();
        assert!(!verify(&log, &Anchor.options(&lab)).unwrap().problems.is_empty(), "{at}");
    }
}

/// Each byte of a segment, changed alone.
#[test]
fn any_changed_byte_is_told() {
    let lab = Lab::new();
    let (_kept, log) = lab.copy();
    let path = segment(&log, 2);
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(61) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).unwrap();
        assert!(!verify(&log, &VerifyOptions::default()).unwrap().problems.is_empty(), "{at}");
    }
}

#[test]
fn damaged_anchors_and_keys_are_errors() {
    let lab = Lab::new();
    let bad = lab.log.with_file_name("bad");
    let right = fs::read_to_string(&lab.anchor).unwrap();
    for (text, words) in [
        (String::new(), "bad:1:"),
        (right.replacen("close", "open", 1), "bad:1: signature"),
        (right.replacen("\"key\":\"", "\"key\":\"zz", 1), "bad:1: key"),
        (right.repeat(2), "bad:1:"),
        ("x".repeat(1 << 20), "bad:1:"),
    ] {
        fs::write(&bad, text).unwrap();
        let options = VerifyOptions { anchors: vec![bad.clone()], key: None };
        let told = verify(&lab.log, &options).unwrap_err().to_string();
        assert!(told.contains(words), "{told}");
        assert!(verify(&lab.log, &VerifyOptions { anchors: Vec::new(), key: Some(bad.clone()) }).is_err());
    }
    let none = VerifyOptions { anchors: vec![lab.log.join("none")], key: None };
    assert!(verify(&lab.log, &none).is_err());
    assert!(verify(&lab.log.join("none"), &VerifyOptions::default()).is_err());
    assert!(
        verify(lab._root.path(), &VerifyOptions::default()).unwrap_err().to_string().contains("no audit log")
    );
}
