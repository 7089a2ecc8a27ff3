//! [`Page`]: a run as one self-contained HTML page with inline styles and drawings and without scripts.

mod file;
mod plot;
mod series;
mod text;

use crate::run::Run;
use crate::slo::{Metric, Slo, Verdict};
use crate::stats::{Percentiles, Samples};
use crate::summary::Summary;
use plot::{Axis, Curve, Mark, Plot, Scale, Shape};
use text::{escape, number, put, seconds};

pub use file::write_page;

/// Contents of a page.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Heading.
    pub title: &'a str,
    /// Facts about the run: labels and texts.
    pub facts: &'a [(String, String)],
    /// Run.
    pub run: &'a Run,
    /// Figures of the run.
    pub summary: &'a Summary,
    /// Objectives.
    pub slo: Option<&'a Slo>,
    /// Steps of a search for users, in the order in which they were run; empty without a search.
    pub steps: &'a [(u32, Summary)],
}

impl Page<'_> {
    /// Returns the HTML. Its length is bounded for runs of any length: curves and points are thinned out.
    #[must_use]
    pub fn html(&self) -> String {
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
            title = escape(self.title),
        );
        self.facts(&mut html);
        self.tiles(&mut html);
        self.verdict(&mut html);
        self.steps(&mut html);
        self.percentiles(&mut html);
        self.errors(&mut html);
        html += "<div class=\"plots\">\n";
        for plot in self.plots() {
            html += &plot.svg();
        }
        html += "</div>\n<footer>Percentiles are by the nearest rank. Time to first token and inter-token times are \
                 those of events with content, as they arrived.</footer>\n</main>\n</body>\n</html>\n";
        html
    }

    fn facts(&self, html: &mut String) {
        *html += "<dl>";
        for (label, text) in self.facts {
            put(html, format_args!("<div><dt>{}</dt><dd>{}</dd></div>", escape(label), escape(text)));
        }
        *html += "</dl>\n";
    }

    fn tiles(&self, html: &mut String) {
        let s = self.summary;
        let mut tiles = vec![
            ("output t/s, all users", number(s.output_tps)),
            ("input t/s", number(s.input_tps)),
            ("requests/s", number(s.requests_per_s)),
            ("complete", s.requests.completed.to_string()),
            ("failed", s.requests.failed.to_string()),
        ];
        if let Some(rate) = s.user_tps {
            tiles.insert(1, ("t/s per user, median", number(rate.p50)));
            tiles.insert(2, ("t/s per user, slowest 5 %", number(rate.p5)));
        }
        if let Some(slo) = &s.slo {
            tiles.push(("goodput", format!("{} %", number(slo.goodput * 100.0))));
        }
        *html += "<div class=\"tiles\">";
        for (label, value) in tiles {
            put(html, format_args!("<div><b>{value}</b><span>{label}</span></div>"));
        }
        *html += "</div>\n";
    }

    fn verdict(&self, html: &mut String) {
        let Some(slo) = &self.summary.slo else { return };
        *html += "<table><thead><tr><th>objective</th><th class=\"n\">measured</th><th class=\"n\">samples</th>\
                  <th>verdict</th></tr></thead><tbody>";
        for (outcome, limit) in slo.limits.iter().zip(self.slo.map(Slo::limits).unwrap_or_default()) {
            let value = match outcome.value {
                None => "never".to_owned(),
                Some(value) if limit.metric == Metric::UserTps => format!("{} t/s", number(value)),
                Some(value) => seconds(value),
            };
            let (class, word) = match outcome.verdict {
                Verdict::Pass => ("good", "PASS"),
                Verdict::Fail => ("bad", "FAIL"),
                Verdict::Unsure => ("", "too few samples"),
            };
            put(
                html,
                format_args!(
                    "<tr><td>{}</td><td class=\"n\">{value}</td><td class=\"n\">{}</td><td class=\"{class}\">{word}</td></tr>",
                    escape(&outcome.limit),
                    outcome.count,
                ),
            );
        }
        *html += "</tbody></table>\n";
    }

    fn steps(&self, html: &mut String) {
        if self.steps.is_empty() {
            return;
        }
        *html += "<table><thead><tr><th class=\"n\">users</th><th>held</th><th class=\"n\">output t/s</th>\
                  <th class=\"n\">ttft p95</th><th class=\"n\">inter-token p99</th><th class=\"n\">goodput</th></tr>\
                  </thead><tbody>";
        for (users, s) in self.steps {
            let held = match s.slo.as_ref().map(|slo| slo.verdict) {
                Some(Verdict::Pass) if s.requests.failed == 0 => ("good", "yes"),
                Some(Verdict::Unsure) => ("", "perhaps"),
                _ => ("bad", "no"),
            };
            let time = |p: Option<f64>| p.map_or("–".to_owned(), seconds);
            put(
                html,
                format_args!(
                    "<tr><td class=\"n\">{users}</td><td class=\"{}\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td><td class=\"n\">{} %</td></tr>",
                    held.0,
                    held.1,
                    number(s.output_tps),
                    time(s.ttft_s.map(|p| p.p95)),
                    time(s.itl_s.map(|p| p.p99)),
                    number(s.slo.as_ref().map_or(0.0, |slo| slo.goodput * 100.0)),
                ),
            );
        }
        *html += "</tbody></table>\n";
    }

    fn percentiles(&self, html: &mut String) {
        let s = self.summary;
        *html += "<table><thead><tr><th></th>";
        for name in ["mean", "p50", "p90", "p95", "p99", "max", "samples"] {
            put(html, format_args!("<th class=\"n\">{name}</th>"));
        }
        *html += "</tr></thead><tbody>";
        type Show = fn(f64) -> String;
        let rows: [(&str, Option<Percentiles>, Show); 6] = [
            ("time to first token", s.ttft_s, seconds),
            ("inter-token", s.itl_s, seconds),
            ("end to end", s.e2e_s, seconds),
            ("prompt tokens", s.prompt_tokens, number),
            ("output tokens", s.output_tokens, number),
            ("lag of the generator", s.send_lag_s, seconds),
        ];
        for (name, percentiles, show) in rows {
            let Some(p) = percentiles else { continue };
            put(html, format_args!("<tr><td>{name}</td>"));
            for value in [p.mean, p.p50, p.p90, p.p95, p.p99, p.max] {
                put(html, format_args!("<td class=\"n\">{}</td>", show(value)));
            }
            put(html, format_args!("<td class=\"n\">{}</td></tr>", p.count));
        }
        *html += "</tbody></table>\n";
    }

    fn errors(&self, html: &mut String) {
        if self.summary.errors.is_empty() {
            return;
        }
        *html += "<table><thead><tr><th>failure</th><th class=\"n\">requests</th><th>one of them</th></tr></thead><tbody>";
        for row in &self.summary.errors {
            put(
                html,
                format_args!(
                    "<tr><td class=\"bad\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
                    row.class.name(),
                    row.count,
                    escape(&row.example),
                ),
            );
        }
        *html += "</tbody></table>\n";
    }

    /// Returns limits on a metric as lines of a drawing.
    fn marks(&self, metrics: &[Metric]) -> Vec<Mark> {
        let limits = self.slo.map(Slo::limits).unwrap_or_default().iter();
        let wanted = limits.filter(|limit| metrics.contains(&limit.metric));
        wanted.map(|limit| Mark { at: limit.bound, label: limit.to_string() }).collect()
    }

    fn plots(&self) -> Vec<Plot> {
        let measured = || self.run.records.iter().filter(|record| record.measured);
        let ttft = Samples::new(measured().filter_map(|record| record.ttft()).collect());
        let itl = Samples::new(measured().flat_map(|record| record.gaps()).collect());
        let share = || Axis { label: "share of samples", scale: Scale::Share };
        let cdf = |title, label, samples: &Samples, metric| Plot {
            title,
            x: Axis { label, scale: Scale::time_for(samples.sorted()) },
            y: share(),
            curves: vec![Curve { name: "", class: "a", shape: Shape::Line, points: series::cdf(samples) }],
            vertical: self.marks(&[metric]),
            horizontal: Vec::new(),
        };
        let time = || Axis { label: "time since the start", scale: Scale::Clock };
        let begin = || match self.run.from.as_secs_f64() {
            0.0 => Vec::new(),
            at => vec![Mark { at, label: "measured from here".into() }],
        };
        let bins = series::Bins::over(self.run);
        let [running, answering] = bins.running(self.run);
        let scatter = series::requests(self.run);
        let all: Vec<f64> = scatter.iter().flat_map(|curve| curve.points.iter().map(|p| p.1)).collect();
        vec![
            cdf("Time to first token", "time from request to first token", &ttft, Metric::Ttft),
            cdf("Inter-token time", "time between events with content", &itl, Metric::Itl),
            Plot {
                title: "Tokens per second",
                x: time(),
                y: Axis { label: "output t/s, all users", scale: Scale::Plain },
                curves: vec![Curve {
                    name: "",
                    class: "a",
                    shape: Shape::Area,
                    points: bins.tokens(self.run),
                }],
                vertical: begin(),
                horizontal: Vec::new(),
            },
            Plot {
                title: "Requests in flight",
                x: time(),
                y: Axis { label: "requests", scale: Scale::Plain },
                curves: vec![
                    Curve { name: "in flight", class: "a", shape: Shape::Line, points: running },
                    Curve { name: "being answered", class: "b", shape: Shape::Line, points: answering },
                ],
                vertical: begin(),
                horizontal: Vec::new(),
            },
            Plot {
                title: "Every request",
                x: time(),
                y: Axis { label: "time", scale: Scale::time_for(&all) },
                curves: scatter,
                vertical: begin(),
                horizontal: self.marks(&[Metric::Ttft, Metric::E2e]),
            },
        ]
    }
}

const STYLE: &str = "
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#59636e;--line:#d5dae0;--a:#1f5fbf;--b:#b35900;\
--bad:#c0202b;--good:#1a7f37;--wash:#f4f6f8}
@media (prefers-color-scheme:dark){:root{--paper:#14171c;--ink:#e8eaed;--soft:#9aa4af;--line:#333a43;--a:#7db4ff;\
--b:#f0a35c;--bad:#ff8078;--good:#5fcf80;--wash:#1d2229}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);\
font:15px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:24px 20px 40px}h1{font-size:22px;margin:0 0 12px}
dl{display:flex;flex-wrap:wrap;gap:4px 24px;margin:0 0 16px}dl div{display:flex;gap:6px}dt{color:var(--soft)}\
dd{margin:0;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(118px,1fr));gap:10px;margin:0 0 18px}.tiles div{background:var(--wash);border-radius:6px;\
padding:8px 12px}.tiles b{display:block;font-size:20px;font-variant-numeric:tabular-nums}\
.tiles span{color:var(--soft);font-size:13px}
table{border-collapse:collapse;margin:0 0 18px;width:100%}th,td{text-align:left;padding:4px 10px;\
border-bottom:1px solid var(--line)}th{color:var(--soft);font-weight:500}.n{text-align:right;\
font-variant-numeric:tabular-nums;white-space:nowrap}.good{color:var(--good);font-weight:600}.bad{color:var(--bad);\
font-weight:600}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:18px}figure{margin:0}\
figure.wide{grid-column:1/-1}figcaption{font-weight:600;margin:0 0 4px}.key{font-weight:400;color:var(--soft);\
font-size:13px;margin-left:14px;white-space:nowrap}.key i{display:inline-block;width:10px;height:10px;\
border-radius:5px;margin-right:5px}
svg{display:block;width:100%;height:auto;font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
svg text{fill:var(--soft)}.grid{stroke:var(--line);stroke-width:1}.frame{stroke:var(--soft);stroke-width:1;fill:none}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.line.a{stroke:var(--a)}.line.b{stroke:var(--b)}
.area.a{fill:var(--a);fill-opacity:.18;stroke:none}.dot.a{fill:var(--a)}.dot.b{fill:var(--b)}.dot.bad{fill:var(--bad)}\
.dot{fill-opacity:.75}.key i.a{background:var(--a)}.key i.b{background:var(--b)}.key i.bad{background:var(--bad)}
.mark{stroke:var(--bad);stroke-width:1.2;stroke-dasharray:5 4}svg text.markname{fill:var(--bad);paint-order:stroke;stroke:var(--paper);\
stroke-width:4px;stroke-linejoin:round}
footer{color:var(--soft);font-size:13px;margin-top:20px}
@media print{:root{--paper:#fff;--ink:#000}}
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use crate::record::{Class, Fail};
    use std::time::Duration;

    fn page(run: &Run, title: &str) -> String {
        let slo: Slo = "ttft_p95=2s,user_tps>=5".parse().unwrap();
        let summary = Summary::new(run, Some(&slo));
        let facts = [("server".to_owned(), "http://h/<x>".to_owned())];
        let steps = [(4, summary.clone())];
        Page { title, facts: &facts, run, summary: &summary, slo: Some(&slo), steps: &steps }.html()
    }

    #[test]
    fn a_page_needs_nothing_else_and_escapes_what_it_is_given() {
        let mut records: Vec<_> = (0..40).map(|i| record(i * 100, &[100 + i as u32, 200, 350])).collect();
        records[3].fail = Some(Fail::new(Class::Http5xx, "<script>alert('x')</script>\u{1}"));
        let run =
            Run { records, from: Duration::from_secs(1), to: Duration::from_secs(4), interrupted: false };
        let html = page(&run, "a \"b\" & c");
        assert!(
            html.contains("<title>a &quot;b&quot; &amp; c</title>") && html.contains("http://h/&lt;x&gt;")
        );
        for absent in ["<script", "<link", "url(", "src=", "href=", "@import", "NaN", "inf"] {
            assert!(!html.contains(absent), "{absent}");
        }
        assert_eq!(html.matches("<svg").count(), 5);
        for tag in ["svg", "figure", "table", "div", "tr", "td", "th", "dl", "text", "g"] {
            let open = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
            assert_eq!(open, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(html.contains("ttft_p95&lt;=2s") && html.contains("PASS"));
    }

    #[test]
    fn an_empty_run_and_a_huge_one_have_pages() {
        let empty = page(&Run::default(), "empty");
        assert!(empty.contains("<svg") && !empty.contains("NaN") && !empty.contains("inf"));
        let records = (0..50_000).map(|i| record(i, &[1, 2, 3, 4 + (i % 1000) as u32])).collect();
        let run = Run { records, to: Duration::from_secs(50), ..Run::default() };
        assert!(page(&run, "huge").len() < 700_000);
    }

    #[test]
    fn figures_read_well() {
        let shown = [0.0, 0.000_02, 0.0123, 0.2, 0.9996, 12.34, 1234.5].map(seconds);
        assert_eq!(shown, ["0 ms", "20.0 µs", "12.3 ms", "200 ms", "1.00 s", "12.3 s", "1234 s"]);
        assert_eq!([0.5, 5.25, 50.0, 5000.0].map(number), ["0.50", "5.25", "50.0", "5000"]);
    }
}
