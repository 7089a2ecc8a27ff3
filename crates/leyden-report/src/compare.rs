//! [`side_by_side`]: several runs of one command on one page.

use crate::chart::{Estimate, Extent, Mark, Row, Series, Shape};
use crate::error::Error;
use crate::html::file_name;
use crate::page::{Block, Cell, Headline, Page, Section, Table, Tone};
use crate::run::{About, Better, Figure, Group, Lines, Run};
use crate::unit::{Unit, rate};

/// Maximum number of runs on a page: each has a colour.
pub const MAX_RUNS: usize = 8;

/// Returns the page of several runs: drawings with all of them, and a table with their differences from the first.
///
/// # Errors
/// There are fewer than two or more than [`MAX_RUNS`] runs, or they are of different commands.
pub fn side_by_side(runs: &[Run]) -> Result<Page, Error> {
    if !(2..=MAX_RUNS).contains(&runs.len()) {
        return Err(Error::Runs(format!("{} runs: a comparison has 2 to {MAX_RUNS}", runs.len())));
    }
    let kind = runs[0].kind;
    if let Some(other) = runs.iter().find(|run| run.kind != kind) {
        return Err(Error::Runs(format!(
            "{} is of leyden {kind}, and {} of leyden {}: compare runs of one command",
            runs[0].file, other.file, other.kind
        )));
    }
    let letters: Vec<String> = ('A'..).take(runs.len()).map(String::from).collect();
    let groups = all_groups(runs);
    let mut blocks: Vec<Block> = groups.iter().map(|group| drawn(group, runs, &letters)).collect();
    let mut titles: Vec<&str> = Vec::new();
    for lines in runs.iter().flat_map(|run| &run.lines) {
        if !titles.contains(&lines.title.as_str()) {
            titles.push(&lines.title);
            blocks.extend(curves(lines, runs, &letters));
        }
    }
    let mut repeat = Vec::new();
    for (letter, run) in letters.iter().zip(runs) {
        let (command, facts) = (&run.about.command, run.about.facts());
        if command.is_empty() && facts.is_empty() {
            continue;
        }
        repeat.push(Block::Heading(Tone::Plain, letter.clone(), label(run)));
        if !command.is_empty() {
            repeat.push(Block::Code(command.clone()));
        }
        repeat.push(Block::Facts(facts));
    }
    let mut notes = vec![
        "Differences are from A. They are coloured where both figures have intervals that do not overlap: green is better.".to_owned(),
    ];
    for note in runs.iter().flat_map(|run| &run.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    Ok(Page {
        title: format!("{} runs of leyden {kind}", runs.len()),
        headline: headline(&groups, runs),
        sections: vec![
            Section::new("Runs", vec![Block::Table(overview(runs, &letters))]),
            Section::new("", blocks),
            Section::new("Figures", vec![Block::Table(differences(&groups, runs, &letters))]),
            Section::new("To repeat", repeat),
        ],
        notes,
        ..Page::default()
    })
}

/// Returns the name of a run, with that of its file.
fn label(run: &Run) -> String {
    let file = file_name(&run.file);
    if file.is_empty() { run.name.clone() } else { format!("{} ({file})", run.name) }
}

fn overview(runs: &[Run], letters: &[String]) -> Table {
    // Columns that no run has are left out.
    let about = |pick: fn(&About) -> &String| {
        let all: Vec<&str> = runs.iter().map(|run| pick(&run.about).as_str()).collect();
        all.iter().any(|text| !text.is_empty()).then_some(all)
    };
    let circumstances = [
        ("machine", about(|a| &a.machine)),
        ("date", about(|a| &a.date)),
        ("program", about(|a| &a.program)),
    ];
    let known: Vec<(&str, Vec<&str>)> =
        circumstances.into_iter().filter_map(|(name, texts)| Some((name, texts?))).collect();
    let head: Vec<&str> =
        ["", "run", "result"].into_iter().chain(known.iter().map(|column| column.0)).collect();
    let mut table = Table::new(&head);
    for (i, (letter, run)) in letters.iter().zip(runs).enumerate() {
        let headline = run.headline.as_ref();
        let text = headline
            .map_or(String::new(), |h| if h.word.is_empty() { h.text.clone() } else { h.word.clone() });
        let tone = headline.map_or(Tone::Plain, |h| if h.word.is_empty() { Tone::Plain } else { h.tone });
        let cells = [Cell::from(letter.as_str()), Cell::from(label(run)), Cell { text, tone }];
        table.add(cells.into_iter().chain(known.iter().map(|column| Cell::from(column.1[i]))));
    }
    table
}

/// Returns the groups of all runs by title, with the figures of any of them by name.
fn all_groups(runs: &[Run]) -> Vec<Group> {
    let mut all: Vec<Group> = Vec::new();
    for group in runs.iter().flat_map(|run| run.compared.iter().chain(&run.groups)) {
        if group.figures.is_empty() {
            continue;
        }
        let Some(known) = all.iter_mut().find(|known| known.title == group.title) else {
            all.push(group.clone());
            continue;
        };
        for figure in &group.figures {
            if !known.figures.iter().any(|other| other.name == figure.name) {
                known.figures.push(figure.clone());
            }
        }
    }
    all
}

/// Returns the figure of a run.
fn figure<'r>(run: &'r Run, group: &Group, name: &str) -> Option<&'r Figure> {
    let all = run.compared.iter().chain(&run.groups);
    all.filter(|g| g.title == group.title).flat_map(|g| &g.figures).find(|f| f.name == name)
}

fn drawn(group: &Group, runs: &[Run], letters: &[String]) -> Block {
    let row = |found: &Figure| Row {
        label: found.name.clone(),
        values: runs.iter().map(|run| figure(run, group, &found.name).map(|f| f.value)).collect(),
    };
    let mut marks: Vec<Mark> = Vec::new();
    for mark in group.figures.iter().filter_map(|figure| figure.limit.clone()) {
        if !marks.iter().any(|known| known.at == mark.at) {
            marks.push(mark);
        }
    }
    group.drawn(letters.to_vec(), group.figures.iter().map(row).collect(), marks)
}

/// Returns the drawing of a curve of all runs that have it.
fn curves(lines: &Lines, runs: &[Run], letters: &[String]) -> Option<Block> {
    let mut series = Vec::new();
    let mut marks: Vec<Mark> = Vec::new();
    for (i, (run, letter)) in runs.iter().zip(letters).enumerate() {
        let Some(found) = run.lines.iter().find(|other| other.title == lines.title) else { continue };
        if found.points.is_empty() {
            continue;
        }
        let mut curve = Series::new(letter, i, Shape::Dotted, found.points.clone());
        curve.band.clone_from(&found.band);
        series.push(curve);
        if let Some(mark) = found.limit.clone()
            && !marks.iter().any(|known| known.at == mark.at)
        {
            marks.push(mark);
        }
    }
    let mut lines = lines.clone();
    if lines.y.extent != Extent::Fitted && lines.y.unit == Unit::Seconds {
        lines.y.extent = Extent::of(series.iter().flat_map(|s| s.points.iter().map(|p| p.1)));
    }
    series.iter().any(|s| s.points.len() > 1).then(|| lines.drawn(series, marks))
}

fn differences(groups: &[Group], runs: &[Run], letters: &[String]) -> Table {
    let mut head = vec!["figure".to_owned(), "#A".to_owned()];
    for letter in &letters[1..] {
        head.extend([format!("#{letter}"), format!("#{letter} – A")]);
    }
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for group in groups {
        for found in &group.figures {
            let name = group.name_of(&found.name);
            let values: Vec<Option<Estimate>> =
                runs.iter().map(|run| figure(run, group, &found.name).map(|f| f.value)).collect();
            let shown = |value: &Option<Estimate>| {
                Cell::from(value.map_or("–".to_owned(), |v| group.axis.unit.text(v.value)))
            };
            let mut row = vec![Cell::from(name), shown(&values[0])];
            for value in &values[1..] {
                row.push(shown(value));
                row.push(values[0].zip(*value).map_or(Cell::from("–"), |(a, b)| difference(group, a, b)));
            }
            table.add(row);
        }
    }
    table
}

/// Returns the difference of `b` from `a`: of shares in percentage points, of other figures in per cent.
fn difference(group: &Group, a: Estimate, b: Estimate) -> Cell {
    let text = match group.axis.unit {
        Unit::Share | Unit::Points => format!("{:+.2} points", 100.0 * (b.value - a.value)),
        // A ratio to a figure near 0, or of the other sign, says nothing.
        _ if a.value * b.value <= 0.0
            || group.axis.extent == Extent::Fitted && a.value.min(b.value) < 0.0 =>
        {
            format!("{}{}", if b.value > a.value { "+" } else { "" }, group.axis.unit.bare(b.value - a.value))
        }
        _ => match b.value / a.value {
            ratio @ 0.1..10.0 => format!("{:+.1} %", 100.0 * (ratio - 1.0)),
            ratio => format!("× {}", rate(ratio)),
        },
    };
    let apart = a.interval.zip(b.interval).is_some_and(|(a, b)| a.1 < b.0 || b.1 < a.0);
    let tone = match group.better {
        Some(better) if apart => match (b.value > a.value) == (better == Better::Higher) {
            true => Tone::Good,
            false => Tone::Bad,
        },
        _ => Tone::Plain,
    };
    Cell { text, tone }
}

/// Returns the first figure of all runs in one sentence.
fn headline(groups: &[Group], runs: &[Run]) -> Option<Headline> {
    let group = groups
        .iter()
        .find(|group| runs.iter().all(|run| figure(run, group, &group.figures[0].name).is_some()))?;
    let found = &group.figures[0];
    let values = runs.iter().zip('A'..).filter_map(|(run, letter)| {
        let value = figure(run, group, &found.name)?.value;
        Some(format!("{letter} {}", group.axis.unit.text(value.value)))
    });
    let name = group.name_of(&found.name);
    let text = format!("{name}: {}.", values.collect::<Vec<_>>().join(", "));
    Some(Headline { tone: Tone::Plain, word: String::new(), text })
}
