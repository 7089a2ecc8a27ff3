//! [`Page`]: a page of sections, with one look for all commands.

use crate::chart::{Plot, RowPlot};
use crate::html::{escape, put};

const STYLE: &str = include_str!("style.css");

/// Page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Heading.
    pub title: String,
    /// Line below the heading: model, machine, date.
    pub subtitle: String,
    /// Verdict or main figure.
    pub headline: Option<Headline>,
    /// Main figures: labels and values.
    pub tiles: Vec<(String, String)>,
    /// Sections.
    pub sections: Vec<Section>,
    /// Sentences at the end.
    pub notes: Vec<String>,
}

/// Verdict, or main figure, in one sentence.
#[derive(Clone, Debug)]
pub struct Headline {
    /// Meaning, shown as a colour.
    pub tone: Tone,
    /// Verdict in a word or two; may be empty.
    pub word: String,
    /// Sentence.
    pub text: String,
}

/// Meaning of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// None.
    #[default]
    Plain,
    /// Passed, or better.
    Good,
    /// Failed, or worse.
    Bad,
    /// Undecided.
    Open,
}

/// Section of a page.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Heading; may be empty.
    pub heading: String,
    /// Contents.
    pub blocks: Vec<Block>,
}

/// Part of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// Paragraph.
    Text(String),
    /// Heading of a part, with its tone and a word before it.
    Heading(Tone, String, String),
    /// Labels and texts.
    Facts(Vec<(String, String)>),
    /// Labels and long texts, such as hashes.
    Long(Vec<(String, String)>),
    /// Command line, or another text that keeps its characters.
    Code(String),
    /// Table.
    Table(Table),
    /// Curves.
    Plot(Plot),
    /// Bars or dots.
    Rows(RowPlot),
}

/// Table; it scrolls in a box of its own where it is wider than the page.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Names of the columns, and true for those of numbers, which are aligned right.
    pub head: Vec<(String, bool)>,
    /// Rows.
    pub rows: Vec<Vec<Cell>>,
}

/// Cell of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Text.
    pub text: String,
    /// Meaning.
    pub tone: Tone,
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, tone: Tone::Plain }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::from(text.to_owned())
    }
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Tone::Plain => "plain",
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Open => "open",
        }
    }
}

impl Table {
    /// Creates a table; names of columns of numbers begin with `#`.
    #[must_use]
    pub fn new(head: &[&str]) -> Table {
        let column = |name: &&str| match name.strip_prefix('#') {
            Some(name) => (name.to_owned(), true),
            None => ((*name).to_owned(), false),
        };
        Table { head: head.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn add(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn html(&self, html: &mut String) {
        *html += "<div class=\"table\" tabindex=\"0\"><table><thead><tr>";
        for (name, right) in &self.head {
            let class = if *right { " class=\"n\"" } else { "" };
            put(html, format_args!("<th{class}>{}</th>", escape(name)));
        }
        *html += "</tr></thead><tbody>";
        for row in &self.rows {
            *html += "<tr>";
            for (i, cell) in row.iter().enumerate() {
                let right = self.head.get(i).is_some_and(|column| column.1);
                let class = match (right, cell.tone) {
                    (false, Tone::Plain) => String::new(),
                    (true, Tone::Plain) => " class=\"n\"".to_owned(),
                    (false, tone) => format!(" class=\"{}\"", tone.class()),
                    (true, tone) => format!(" class=\"n {}\"", tone.class()),
                };
                put(html, format_args!("<td{class}>{}</td>", escape(&cell.text)));
            }
            *html += "</tr>\n";
        }
        *html += "</tbody></table></div>\n";
    }
}

impl Page {
    /// Returns the HTML.
    #[must_use]
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        );
        if !self.subtitle.is_empty() {
            put(&mut html, format_args!("<p class=\"sub\">{}</p>\n", escape(&self.subtitle)));
        }
        if let Some(Headline { tone, word, text }) = &self.headline {
            let (class, text) = (tone.class(), escape(text));
            put(&mut html, format_args!("<p class=\"headline {class}\">"));
            if !word.is_empty() {
                put(&mut html, format_args!("<strong>{}</strong> ", escape(word)));
            }
            put(&mut html, format_args!("{text}</p>\n"));
        }
        if !self.tiles.is_empty() {
            html += "<div class=\"tiles\">";
            for (label, value) in &self.tiles {
                let (label, value) = (escape(label), escape(value));
                put(&mut html, format_args!("<div><b>{value}</b><span>{label}</span></div>"));
            }
            html += "</div>\n";
        }
        self.sections.iter().for_each(|section| section.html(&mut html));
        if !self.notes.is_empty() {
            html += "<footer>";
            self.notes.iter().for_each(|note| put(&mut html, format_args!("<p>{}</p>", escape(note))));
            html += "</footer>\n";
        }
        html += "</main>\n</body>\n</html>\n";
        html
    }
}

impl Section {
    /// Creates a section.
    #[must_use]
    pub fn new(heading: &str, blocks: Vec<Block>) -> Section {
        Section { heading: heading.to_owned(), blocks }
    }

    fn html(&self, html: &mut String) {
        if self.blocks.is_empty() {
            return;
        }
        *html += "<section>\n";
        if !self.heading.is_empty() {
            put(html, format_args!("<h2>{}</h2>\n", escape(&self.heading)));
        }
        // Drawings in succession stand beside each other where there is room.
        let mut in_plots = false;
        for block in &self.blocks {
            let is_plot = matches!(block, Block::Plot(_) | Block::Rows(_));
            if is_plot != in_plots {
                *html += if is_plot { "<div class=\"plots\">\n" } else { "</div>\n" };
                in_plots = is_plot;
            }
            block.html(html);
        }
        *html += if in_plots { "</div>\n</section>\n" } else { "</section>\n" };
    }
}

impl Block {
    fn html(&self, html: &mut String) {
        match self {
            Block::Text(text) => put(html, format_args!("<p>{}</p>\n", escape(text))),
            Block::Heading(tone, word, text) => {
                let (class, word, text) = (tone.class(), escape(word), escape(text));
                put(html, format_args!("<h3><span class=\"tag {class}\">{word}</span> {text}</h3>\n"));
            }
            Block::Facts(facts) | Block::Long(facts) => {
                let is_long = matches!(self, Block::Long(_));
                *html += if is_long { "<dl class=\"long\">" } else { "<dl>" };
                for (label, text) in facts {
                    let (label, text) = (escape(label), escape(text));
                    put(html, format_args!("<div><dt>{label}</dt><dd>{text}</dd></div>"));
                }
                *html += "</dl>\n";
            }
            Block::Code(text) => put(html, format_args!("<pre>{}</pre>\n", escape(text))),
            Block::Table(table) => table.html(html),
            Block::Plot(plot) => *html += &plot.figure(),
            Block::Rows(rows) => *html += &rows.figure(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Checks that a page needs nothing else, and closes what it opens.
    pub(crate) fn check(html: &str) {
        for absent in ["<script", "<link", "url(", "src=", "href=", "@import", "NaN", "inf\"", "inf "] {
            assert!(!html.contains(absent), "{absent}");
        }
        for tag in [
            "svg",
            "figure",
            "figcaption",
            "table",
            "div",
            "tr",
            "td",
            "th",
            "dl",
            "dt",
            "dd",
            "text",
            "p",
            "h2",
            "h3",
            "section",
            "span",
            "g",
            "pre",
            "footer",
            "main",
        ] {
            let open = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
            assert_eq!(open, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }

    #[test]
    fn a_page_needs_nothing_else_and_escapes_what_it_is_given() {
        let evil = "<script>alert('x')</script>\u{1}\u{202e}\"&";
        let mut table = Table::new(&[evil, "#n"]);
        table.add([Cell::from(evil), Cell { text: evil.to_owned(), tone: Tone::Bad }]);
        let facts = vec![(evil.to_owned(), evil.to_owned())];
        let page = Page {
            title: evil.to_owned(),
            subtitle: evil.to_owned(),
            headline: Some(Headline { tone: Tone::Open, word: evil.to_owned(), text: evil.to_owned() }),
            tiles: facts.clone(),
            sections: vec![
                Section::new(
                    evil,
                    vec![
                        Block::Text(evil.to_owned()),
                        Block::Heading(Tone::Good, evil.to_owned(), evil.to_owned()),
                        Block::Facts(facts.clone()),
                        Block::Long(facts),
                        Block::Code(evil.to_owned()),
                        Block::Table(table),
                    ],
                ),
                Section::default(),
            ],
            notes: vec![evil.to_owned()],
        };
        let html = page.html();
        check(&html);
        assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &quot;&amp;"), "{html}");
        assert!(html.contains("<td class=\"n bad\">") && !html.contains('\u{202e}'));
    }
}
