//! [`Run`]: figures of one run, and its page.

use crate::chart::{Axis, Estimate, Extent, Mark, Plot, Row, RowPlot, Series, Shape};
use crate::page::{Block, Headline, Page, Section};
use crate::unit::Unit;

/// Figures of one run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Command that made it, such as `bench`.
    pub kind: &'static str,
    /// File of the document; empty if it was not read from one.
    pub file: String,
    /// Title of its page.
    pub title: String,
    /// Name beside other runs, such as that of the model.
    pub name: String,
    /// Command, version, machine and date.
    pub about: About,
    /// Verdict or main figure.
    pub headline: Option<Headline>,
    /// Main figures.
    pub tiles: Vec<(String, String)>,
    /// Names of a figure and of the one beside it, such as `model` and `reference`.
    pub names: [&'static str; 2],
    /// Figures.
    pub groups: Vec<Group>,
    /// Figures that are drawn beside other runs alone.
    pub compared: Vec<Group>,
    /// Curves that are comparable between runs.
    pub lines: Vec<Lines>,
    /// True if the curves come before the figures.
    pub lines_first: bool,
    /// Drawings of this run alone.
    pub plots: Vec<Block>,
    /// Tables and texts of this run alone.
    pub sections: Vec<Section>,
    /// Sentences at the end.
    pub notes: Vec<String>,
}

/// Circumstances of a run; what is not known is empty.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Command line.
    pub command: String,
    /// Program and version.
    pub program: String,
    /// Machine.
    pub machine: String,
    /// Date and time.
    pub date: String,
}

/// Figures of one unit, drawn together.
#[derive(Clone, Debug)]
pub struct Group {
    /// Title.
    pub title: String,
    /// Axis.
    pub axis: Axis,
    /// Direction in which figures are better, if there is one.
    pub better: Option<Better>,
    /// Figures.
    pub figures: Vec<Figure>,
    /// Sentence below the drawing; may be empty.
    pub note: String,
}

/// Direction in which a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// Figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name.
    pub name: String,
    /// Value.
    pub value: Estimate,
    /// Value beside it, such as that of the reference.
    pub beside: Option<Estimate>,
    /// Limit.
    pub limit: Option<Mark>,
}

/// Curve that has counterparts in other runs.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Title.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Points.
    pub points: Vec<(f64, f64)>,
    /// Interval of each point; empty without intervals.
    pub band: Vec<(f64, f64)>,
    /// Limit of the vertical axis.
    pub limit: Option<Mark>,
}

impl Figure {
    /// Returns a figure alone.
    #[must_use]
    pub fn new(name: impl Into<String>, value: f64, interval: Option<(f64, f64)>) -> Figure {
        Figure { name: name.into(), value: Estimate { value, interval }, beside: None, limit: None }
    }
}

impl Group {
    /// Returns a group of bars without figures.
    #[must_use]
    pub fn new(title: &str, label: &str, unit: Unit, better: Option<Better>) -> Group {
        let axis = Axis { label: label.to_owned(), unit, extent: Extent::Zero };
        Group { title: title.to_owned(), axis, better, figures: Vec::new(), note: String::new() }
    }

    /// Returns the name of a figure with that of its group.
    pub(crate) fn name_of(&self, figure: &str) -> String {
        let (title, name) = (self.title.to_lowercase(), figure.to_lowercase());
        if title.contains(&name) {
            return self.title.clone();
        }
        match name.contains(&title) {
            true => figure.to_owned(),
            false => format!("{}: {figure}", self.title),
        }
    }

    /// Returns the drawing of rows.
    pub(crate) fn drawn(&self, names: Vec<String>, rows: Vec<Row>, marks: Vec<Mark>) -> Block {
        let (title, axis, note) = (self.title.clone(), self.axis.clone(), self.note.clone());
        Block::Rows(RowPlot { title, axis, names, rows, marks, note })
    }
}

impl Lines {
    /// Returns a drawing of the curve in several runs.
    pub(crate) fn drawn(&self, series: Vec<Series>, marks: Vec<Mark>) -> Block {
        Block::Plot(Plot {
            title: self.title.clone(),
            x: self.x.clone(),
            y: self.y.clone(),
            series,
            vertical: Vec::new(),
            horizontal: marks,
            note: String::new(),
        })
    }
}

impl About {
    /// Returns labels and texts of the known circumstances but the command.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let all = [("program", &self.program), ("machine", &self.machine), ("date", &self.date)];
        let known = all.into_iter().filter(|(_, text)| !text.is_empty());
        known.map(|(label, text)| (label.to_owned(), text.clone())).collect()
    }

    /// Returns machine, date and program in one line.
    fn line(&self) -> String {
        let all = [&self.machine, &self.date, &self.program];
        all.into_iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join(" · ")
    }
}

impl Run {
    /// Returns the page of this run.
    #[must_use]
    pub fn page(&self) -> Page {
        let groups = self.groups.iter().filter(|group| !group.figures.is_empty());
        let groups = groups.map(|group| self.group(group));
        let lines = self.lines.iter().filter(|lines| lines.points.len() > 1).map(|lines| {
            let mut series = Series::new("", 0, Shape::Dotted, lines.points.clone());
            series.band.clone_from(&lines.band);
            lines.drawn(vec![series], lines.limit.iter().cloned().collect())
        });
        let mut plots: Vec<Block> = match self.lines_first {
            true => lines.chain(groups).collect(),
            false => groups.chain(lines).collect(),
        };
        plots.extend(self.plots.iter().cloned());
        let mut sections = vec![Section::new("", plots)];
        sections.extend(self.sections.iter().cloned());
        let mut repeat = Vec::new();
        if !self.about.command.is_empty() {
            repeat.push(Block::Code(self.about.command.clone()));
        }
        let facts = self.about.facts();
        if !facts.is_empty() {
            repeat.push(Block::Facts(facts));
        }
        sections.push(Section::new("To repeat", repeat));
        Page {
            title: self.title.clone(),
            subtitle: self.about.line(),
            headline: self.headline.clone(),
            tiles: self.tiles.clone(),
            sections,
            notes: self.notes.clone(),
        }
    }

    fn group(&self, group: &Group) -> Block {
        let both = group.figures.iter().any(|figure| figure.beside.is_some());
        let names = if both { self.names.map(str::to_owned).to_vec() } else { vec![String::new()] };
        let row = |figure: &Figure| {
            let beside = both.then_some(figure.beside);
            let values = [Some(Some(figure.value)), beside].into_iter().flatten().collect();
            Row { label: figure.name.clone(), values }
        };
        let marks = group.figures.iter().filter_map(|figure| figure.limit.clone()).collect();
        group.drawn(names, group.figures.iter().map(row).collect(), marks)
    }
}
