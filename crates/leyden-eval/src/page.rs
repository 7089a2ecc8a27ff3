//! [`Page`]: an evaluation as one self-contained HTML page with inline styles and drawings and without scripts.

use crate::error::Error;
use crate::verdict::Verdict;
use leyden_files::OutputOptions;
use std::fmt::Write as _;
use std::path::Path;

/// A figure with its interval, drawn as a bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Label.
    pub label: String,
    /// Value, a share from 0 to 1.
    pub value: f64,
    /// 95 % interval.
    pub interval: (f64, f64),
    /// True if it is the reference's figure.
    pub reference: bool,
}

/// A curve over shares.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Title.
    pub title: String,
    /// Points `(share, value)`, ascending.
    pub points: Vec<(f64, f64)>,
}

/// Contents of a page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Heading.
    pub title: String,
    /// Facts about the measurement: labels and texts.
    pub facts: Vec<(String, String)>,
    /// Verdict and its text, if one was asked for.
    pub verdict: Option<(Verdict, String)>,
    /// Bars.
    pub bars: Vec<Bar>,
    /// Curves.
    pub curves: Vec<Curve>,
    /// Table rows, the first of which is the header; numbers are aligned right.
    pub table: Vec<Vec<String>>,
}

impl Page {
    /// Returns the HTML.
    #[must_use]
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<dl>"
        );
        for (label, text) in &self.facts {
            put(&mut html, format_args!("<div><dt>{}</dt><dd>{}</dd></div>", escape(label), escape(text)));
        }
        html += "</dl>\n";
        if let Some((verdict, words)) = &self.verdict {
            let class = if *verdict == Verdict::Reached { "good" } else { "bad" };
            put(&mut html, format_args!("<p class=\"{class}\">{}</p>\n", escape(words)));
        }
        self.bars(&mut html);
        self.table(&mut html);
        if !self.curves.is_empty() {
            html += "<div class=\"plots\">\n";
            self.curves.iter().for_each(|curve| curve.draw(&mut html));
            html += "</div>\n";
        }
        html += "<footer>Lines over bars are 95 % intervals.</footer>\n</main>\n</body>\n</html>\n";
        html
    }

    /// Writes the page; `path` is the complete new page or the file that was there before.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        leyden_files::write(path, self.html().as_bytes(), OutputOptions::new())
            .map_err(|error| Error::file(path, format!("cannot write: {error}")))
    }

    fn bars(&self, html: &mut String) {
        /// Height of a bar with the space below it.
        const ROW: f64 = 26.0;
        /// Left end of bars, and right end of a bar for 100 %.
        const LEFT: f64 = 200.0;
        const RIGHT: f64 = 690.0;
        if self.bars.is_empty() {
            return;
        }
        let height = ROW * self.bars.len() as f64 + 26.0;
        let x = |share: f64| LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0);
        put(html, format_args!("<figure class=\"wide\"><svg viewBox=\"0 0 760 {height:.0}\" role=\"img\">"));
        for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let (at, bottom) = (x(tick), height - 22.0);
            put(
                html,
                format_args!(
                    "<line class=\"grid\" x1=\"{at:.1}\" y1=\"0\" x2=\"{at:.1}\" y2=\"{bottom:.1}\"/>\
                     <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0} %</text>",
                    height - 6.0,
                    100.0 * tick
                ),
            );
        }
        for (i, bar) in self.bars.iter().enumerate() {
            let (y, class) = (ROW * i as f64 + 3.0, if bar.reference { "b" } else { "a" });
            let (low, high, middle) = (x(bar.interval.0), x(bar.interval.1), y + 9.0);
            put(
                html,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
                     <rect class=\"bar {class}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"18\" rx=\"2\"/>\
                     <path class=\"whisker\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {:.1}V{:.1}M{high:.1} {:.1}V{:.1}\"/>\
                     <text x=\"{:.1}\" y=\"{:.1}\">{:.1}</text>",
                    LEFT - 8.0,
                    y + 13.0,
                    escape(&short(&bar.label, 30)),
                    (x(bar.value) - LEFT).max(0.5),
                    middle - 4.0,
                    middle + 4.0,
                    middle - 4.0,
                    middle + 4.0,
                    high + 8.0,
                    y + 13.0,
                    100.0 * bar.value
                ),
            );
        }
        *html += "</svg></figure>\n";
    }

    fn table(&self, html: &mut String) {
        let Some((head, rows)) = self.table.split_first() else { return };
        // A column of numbers is aligned right, with its header.
        let number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+'));
        let numbers: Vec<bool> = rows.first().unwrap_or(head).iter().map(number).collect();
        let row = |html: &mut String, cells: &[String], tag: &str| {
            *html += "<tr>";
            for (cell, number) in cells.iter().zip(&numbers) {
                let class = if *number { " class=\"n\"" } else { "" };
                put(html, format_args!("<{tag}{class}>{}</{tag}>", escape(cell)));
            }
            *html += "</tr>\n";
        };
        *html += "<table><thead>";
        row(html, head, "th");
        *html += "</thead><tbody>";
        rows.iter().for_each(|cells| row(html, cells, "td"));
        *html += "</tbody></table>\n";
    }
}

impl Curve {
    fn draw(&self, html: &mut String) {
        /// Edges of the drawing area.
        const LEFT: f64 = 64.0;
        const RIGHT: f64 = 450.0;
        const TOP: f64 = 10.0;
        const BOTTOM: f64 = 220.0;
        let finite = self.points.iter().filter(|(_, value)| value.is_finite());
        let least = finite.clone().map(|p| p.1).fold(0.0_f64, f64::min);
        let most = finite.clone().map(|p| p.1).fold(0.0_f64, f64::max);
        let span = if most > least { most - least } else { 1.0 };
        let x = |share: f64| LEFT + (RIGHT - LEFT) * share;
        let y = |value: f64| BOTTOM - (BOTTOM - TOP) * (value - least) / span;
        put(
            html,
            format_args!(
                "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 480 246\" role=\"img\">",
                escape(&self.title)
            ),
        );
        for i in 0..=4 {
            let share = f64::from(i) / 4.0;
            let value = least + span * share;
            let digits = if span < 0.1 { 4 } else { 2 };
            put(
                html,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{:.1}\" x2=\"{RIGHT}\" y2=\"{:.1}\"/>\
                     <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.digits$}</text>\
                     <text x=\"{:.1}\" y=\"240\" text-anchor=\"middle\">{:.0} %</text>",
                    y(value),
                    y(value),
                    LEFT - 6.0,
                    y(value) + 4.0,
                    x(share),
                    100.0 * share
                ),
            );
        }
        *html += "<path class=\"line\" d=\"";
        for (i, (share, value)) in finite.enumerate() {
            let step = if i == 0 { 'M' } else { 'L' };
            put(html, format_args!("{step}{:.1} {:.1}", x(*share), y(*value)));
        }
        *html += "\"/></svg></figure>\n";
    }
}

/// Appends formatted text; writing to a string never fails.
fn put(html: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = html.write_fmt(text);
}

fn short(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

const STYLE: &str = "
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#59636e;--line:#d5dae0;--a:#1f5fbf;--b:#b35900;\
--bad:#c0202b;--good:#1a7f37}
@media (prefers-color-scheme:dark){:root{--paper:#14171c;--ink:#e8eaed;--soft:#9aa4af;--line:#333a43;--a:#7db4ff;\
--b:#f0a35c;--bad:#ff8078;--good:#5fcf80}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);\
font:15px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
main{max-width:1000px;margin:0 auto;padding:24px 20px 40px}h1{font-size:22px;margin:0 0 12px}
dl{display:flex;flex-wrap:wrap;gap:4px 24px;margin:0 0 16px}dl div{display:flex;gap:6px}dt{color:var(--soft)}\
dd{margin:0;overflow-wrap:anywhere}
table{border-collapse:collapse;margin:0 0 18px;width:100%;display:block;overflow-x:auto}th,td{text-align:left;\
padding:4px 10px;border-bottom:1px solid var(--line);white-space:nowrap}th{color:var(--soft);font-weight:500}\
.n{text-align:right;font-variant-numeric:tabular-nums}.good,.bad{font-weight:600}.good{color:var(--good)}\
.bad{color:var(--bad)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:18px}figure{margin:0 0 18px}\
figcaption{font-weight:600;margin:0 0 4px}
svg{display:block;width:100%;height:auto;font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\
svg text{fill:var(--soft)}.grid{stroke:var(--line);stroke-width:1}.bar.a{fill:var(--a)}.bar.b{fill:var(--b)}\
.bar{fill-opacity:.55}.whisker{stroke:var(--ink);stroke-width:1.4;fill:none}.line{fill:none;stroke:var(--a);stroke-width:1.8;\
stroke-linejoin:round}
footer{color:var(--soft);font-size:13px;margin-top:20px}
@media print{:root{--paper:#fff;--ink:#000}}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_else_and_escapes_what_it_is_given() {
        let bar = Bar { label: "<a & b>".to_owned(), value: 0.5, interval: (0.4, 0.6), reference: false };
        let curve = Curve { title: "KLD".to_owned(), points: vec![(0.0, f64::NAN), (0.5, 0.1), (1.0, 2.0)] };
        let page = Page {
            title: "a \"b\" & c".to_owned(),
            facts: vec![("model".to_owned(), "<script>\u{1}".to_owned())],
            verdict: Some((Verdict::Missed, "missed".to_owned())),
            bars: vec![bar],
            curves: vec![curve, Curve { title: String::new(), points: Vec::new() }],
            table: vec![vec!["task".to_owned()], vec!["12".to_owned()]],
        };
        let html = page.html();
        for absent in ["<script", "<link", "url(", "src=", "href=", "@import", "NaN", "inf"] {
            assert!(!html.contains(absent), "{absent}");
        }
        for tag in ["svg", "figure", "table", "div", "tr", "td", "th", "dl", "text", "p"] {
            let open = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
            assert_eq!(open, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(html.contains("&lt;a &amp; b&gt;") && html.contains("<td class=\"n\">12</td>"));
    }
}
