//! [`html`]: a signed document as one HTML page with inline styles and drawings and without scripts, for a screen of
//! any width and for paper.

use crate::document::Evidence;
use crate::files::FileSet;
use crate::judge::Judgement;
use crate::key::Key;
use crate::signed::Signature;
use crate::verdict::Verdict;
use std::fmt::Write as _;

/// Returns the page of a document, its signature and the key that made it.
#[must_use]
pub fn html(evidence: &Evidence, signature: &Signature, key: &Key) -> String {
    let name = file_name(&evidence.model.path);
    let title = format!("Verification of {name}");
    let title = escape(&title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    put(
        &mut page,
        format_args!(
            "<p class=\"verdict {}\"><strong>{}</strong> {}</p>\n",
            class(evidence.verdict),
            evidence.verdict.word(),
            escape(&summary(evidence))
        ),
    );
    if !evidence.floors.is_empty() {
        page += "<h2>Quality</h2>\n";
        evidence.floors.iter().for_each(|floor| judgement(&mut page, floor));
    }
    load(&mut page, evidence);
    method(&mut page, evidence);
    page += "<h2>Files</h2>\n";
    files(&mut page, "Model", &evidence.model);
    if let Some(reference) = &evidence.reference {
        files(&mut page, "Reference", reference);
    }
    evidence.data.iter().for_each(|data| files(&mut page, "Data", data));
    circumstances(&mut page, evidence);
    put(
        &mut page,
        format_args!(
            "<h2>Signature</h2>\n<dl class=\"files\"><div><dt>algorithm</dt><dd>Ed25519</dd></div>\
             <div><dt>public key</dt><dd class=\"hash\">{}</dd></div>\
             <div><dt>key expires</dt><dd>{}</dd></div>\
             <div><dt>signature</dt><dd class=\"hash\">{}</dd></div></dl>\n\
             <p>The signature covers the evidence file, from which this page was made. \
             <code>leyden verify --check FILE --key KEY.pub</code> checks it, the files, the program and the processor.</p>\n",
            escape(&signature.key),
            key.expires(),
            escape(&signature.value)
        ),
    );
    page += "</main>\n</body>\n</html>\n";
    page
}

/// Returns the verdict in one sentence.
fn summary(evidence: &Evidence) -> String {
    let confidence =
        evidence.confidence().map(|c| format!(" The confidence is {}.", sure(c))).unwrap_or_default();
    match evidence.verdict {
        Verdict::Pass => format!("The model keeps every condition below.{confidence}"),
        Verdict::Fail => format!("The model misses at least one condition below.{confidence}"),
        Verdict::Inconclusive => "The data are too few to decide every condition below.".to_owned(),
    }
}

fn judgement(page: &mut String, floor: &Judgement) {
    put(
        page,
        format_args!(
            "<section><h3><span class=\"tag {}\">{}</span> {} <small>on {}</small></h3>\n",
            class(floor.verdict),
            floor.verdict.word(),
            escape(&floor.floor),
            escape(&floor.data)
        ),
    );
    plot(page, floor);
    *page += "<dl>";
    let mut fact = |label: &str, text: String| {
        put(page, format_args!("<div><dt>{}</dt><dd>{}</dd></div>", escape(label), escape(&text)));
    };
    fact("model", number(floor.value));
    if let Some(reference) = floor.reference {
        fact("reference", number(reference));
    }
    fact(&floor.quantity, number(floor.estimate));
    match floor.bounds {
        Some((low, high)) => {
            fact("95 % lower bound", number(low));
            fact("95 % upper bound", number(high));
        }
        None => fact("95 % bounds", "none: too few data".to_owned()),
    }
    fact("limit", number(floor.limit));
    fact("confidence", sure(floor.confidence));
    fact(&floor.unit, floor.samples.to_string());
    if let Some(pairs) = floor.pairs.filter(|_| floor.reference.is_some()) {
        fact("both right", pairs.both.to_string());
        fact("only the model right", pairs.only_model.to_string());
        fact("only the reference right", pairs.only_reference.to_string());
        fact("both wrong", pairs.neither.to_string());
    }
    if floor.verdict == Verdict::Inconclusive {
        let needed = match floor.needed {
            Some(n) => format!("about {n} {} if the figures stay as they are", floor.unit),
            None => "more than a million, as the figure is at its limit".to_owned(),
        };
        fact("to decide", needed);
    }
    *page += "</dl></section>\n";
}

/// Draws estimate, bounds and limit on a line.
fn plot(page: &mut String, floor: &Judgement) {
    /// Ends of the line.
    const LEFT: f64 = 12.0;
    const RIGHT: f64 = 588.0;
    let Some((low, high)) = floor.bounds.filter(|(low, high)| low.is_finite() && high.is_finite()) else {
        return;
    };
    let (least, most) = (low.min(floor.limit).min(floor.estimate), high.max(floor.limit).max(floor.estimate));
    let span = if most > least { 1.2 * (most - least) } else { 1.0 };
    let middle = (least + most) / 2.0;
    let x = |value: f64| (LEFT + RIGHT) / 2.0 + (RIGHT - LEFT) * (value - middle) / span;
    let (low, high, estimate, limit) = (x(low), x(high), x(floor.estimate), x(floor.limit));
    let (anchor, at) = if limit < 300.0 { ("start", limit + 6.0) } else { ("end", limit - 6.0) };
    put(
        page,
        format_args!(
            "<svg viewBox=\"0 0 600 52\" role=\"img\" aria-label=\"estimate, bounds and limit\">\
             <line class=\"axis\" x1=\"{LEFT}\" y1=\"34\" x2=\"{RIGHT}\" y2=\"34\"/>\
             <line class=\"limit\" x1=\"{limit:.1}\" y1=\"4\" x2=\"{limit:.1}\" y2=\"48\"/>\
             <text x=\"{at:.1}\" y=\"14\" text-anchor=\"{anchor}\">limit {}</text>\
             <path class=\"whisker {class}\" d=\"M{low:.1} 34H{high:.1}M{low:.1} 28V40M{high:.1} 28V40\"/>\
             <circle class=\"{class}\" cx=\"{estimate:.1}\" cy=\"34\" r=\"5\"/></svg>\n",
            escape(&number(floor.limit)),
            class = class(floor.verdict),
        ),
    );
}

fn load(page: &mut String, evidence: &Evidence) {
    let Some(load) = &evidence.load else { return };
    put(
        page,
        format_args!(
            "<h2>Load</h2>\n<section><h3><span class=\"tag {}\">{}</span> {}</h3>\n<dl>",
            class(load.verdict),
            load.verdict.word(),
            escape(evidence.settings.load.as_deref().unwrap_or_default())
        ),
    );
    let mut fact = |label: &str, text: String| {
        put(page, format_args!("<div><dt>{}</dt><dd>{}</dd></div>", escape(label), escape(&text)));
    };
    fact("requests", load.requests.clone());
    fact("complete", load.completed.to_string());
    fact("failed", load.failed.to_string());
    fact("measured for", format!("{:.1} s", load.seconds));
    fact("answer tokens of all users", format!("{:.1} per second", load.output_tps));
    for limit in &load.limits {
        let unit = if limit.limit.starts_with("user_tps") { "tokens per second" } else { "s" };
        let value = limit.value.map_or("never".to_owned(), |value| format!("{} {unit}", number(value)));
        let text = format!("{value} in {} samples: {}", limit.samples, limit.verdict.word());
        fact(&limit.limit, text);
    }
    *page += "</dl></section>\n";
}

fn method(page: &mut String, evidence: &Evidence) {
    *page += "<h2>Method</h2>\n<p>PASS and FAIL are each stated with at least 95 % confidence: a model whose true value \
        lies at a limit passes with a probability of at most 5 %. Otherwise the verdict is INCONCLUSIVE. Every condition \
        is tested by itself; the joint PASS needs all of them, and any FAIL fails.</p>\n";
    let of_text = |floor: &&Judgement| floor.unit == "windows";
    if evidence.floors.iter().any(|floor| !of_text(&floor)) {
        *page += "<p>Model and reference answered the same questions. The bounds are those of Gaffke (2005) for the mean of \
            paired outcomes, which for right and wrong answers are the exact ones of Clopper and Pearson (1934).</p>\n";
    }
    if evidence.floors.iter().any(|floor| of_text(&floor)) {
        *page += "<p>Texts are cut into windows of equal length, and the second half of each is predicted. The bounds are \
            from a studentised bootstrap over windows (Efron, 1981).</p>\n";
    }
    if evidence.load.is_some() {
        *page += "<p>The model was served on this machine, and the load was sent to it over the loopback interface. \
            Limits of percentiles are compared with the measured percentile of enough samples, and failed requests count \
            as infinitely slow.</p>\n";
    }
}

fn files(page: &mut String, what: &str, set: &FileSet) {
    put(
        page,
        format_args!("<section><h3>{what} <small>{}</small></h3>\n<dl class=\"files\">", escape(&set.path)),
    );
    for file in &set.files {
        put(
            page,
            format_args!(
                "<div><dt>{}, {} bytes</dt><dd class=\"hash\">{}</dd></div>",
                escape(&file.name),
                file.bytes,
                escape(&file.sha256)
            ),
        );
    }
    *page += "</dl></section>\n";
}

fn circumstances(page: &mut String, evidence: &Evidence) {
    let (settings, machine) = (&evidence.settings, &evidence.machine);
    let or_all = |n: Option<usize>| n.map_or("all".to_owned(), |n| n.to_string());
    let yes = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    let mut facts: Vec<(&str, String)> = vec![
        ("made", evidence.made.to_string()),
        ("program", format!("leyden {}", evidence.program.version)),
        ("sha256 of the program", evidence.program.sha256.clone()),
        ("processor", machine.processor.clone()),
        ("vendor, family, model", {
            let parts = [machine.vendor.as_deref(), machine.model.as_deref()];
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        }),
        ("architecture", machine.arch.clone()),
        ("cores", machine.cores.to_string()),
        ("operating system", machine.os.clone()),
        ("instruction set", settings.isa.clone()),
        ("threads", settings.threads.map_or("one per core".to_owned(), |n| n.to_string())),
        ("keys and values", settings.kv_type.clone()),
        ("BF16 unrounded", yes(settings.exact)),
        ("8-bit integers", yes(settings.int8)),
        ("seed", settings.seed.to_string()),
        ("questions", or_all(settings.limit)),
        ("tokens of a window", settings.ctx.to_string()),
        ("windows", or_all(settings.chunks)),
    ];
    facts.retain(|(_, text)| !text.is_empty());
    *page += "<h2>Program, machine and settings</h2>\n<dl>";
    for (label, text) in facts {
        put(page, format_args!("<div><dt>{label}</dt><dd class=\"wide\">{}</dd></div>", escape(&text)));
    }
    *page += "</dl>\n";
}

/// Returns the last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::Inconclusive => "open",
    }
}

/// Four significant digits.
fn number(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let digits = (3 - x.abs().log10().floor() as i32).clamp(0, 9);
    format!("{x:.*}", digits as usize)
}

/// A confidence in percent, never rounded up to 100.
fn sure(confidence: f64) -> String {
    if confidence >= 0.9995 { "above 99.9 %".to_owned() } else { format!("{:.1} %", 100.0 * confidence) }
}

/// Appends formatted text; writing to a string never fails.
fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(text);
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

const STYLE: &str = "
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#59636e;--line:#d5dae0;--pass:#1a7f37;--fail:#c0202b;\
--open:#9a6700}
@media (prefers-color-scheme:dark){:root{--paper:#14171c;--ink:#e8eaed;--soft:#9aa4af;--line:#333a43;--pass:#5fcf80;\
--fail:#ff8078;--open:#e3b341}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);\
font:15px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
main{max-width:820px;margin:0 auto;padding:24px 20px 40px;overflow-wrap:anywhere}
h1{font-size:23px;margin:0 0 12px}h2{font-size:18px;margin:28px 0 8px}h3{font-size:15px;margin:0 0 8px}
small{color:var(--soft);font-weight:400;font-size:13px}p{margin:0 0 10px}
section{border:1px solid var(--line);border-radius:6px;padding:12px 14px;margin:0 0 12px}
.verdict{border-left:5px solid;padding:8px 12px}.verdict strong{margin-right:6px}
.verdict.pass,.tag.pass{color:var(--pass)}.verdict.fail,.tag.fail{color:var(--fail)}.verdict.open,.tag.open{color:var(--open)}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,230px),1fr));gap:4px 20px;margin:0}
dl div{display:flex;flex-wrap:wrap;gap:0 8px;justify-content:space-between;align-content:flex-start;border-bottom:1px dotted var(--line)}\
dt{color:var(--soft)}dd{margin:0;font-variant-numeric:tabular-nums;min-width:0}
dl.files{display:block;margin-bottom:10px}.hash{font:12px/1.6 ui-monospace,Menlo,Consolas,monospace}
code{font:13px ui-monospace,Menlo,Consolas,monospace}
svg{display:block;width:100%;height:auto;margin:0 0 8px;font:13px system-ui,sans-serif}svg text{fill:var(--soft)}
.axis{stroke:var(--line)}.limit{stroke:var(--ink);stroke-dasharray:4 3}.whisker{fill:none;stroke-width:2}
.whisker.pass{stroke:var(--pass)}.whisker.fail{stroke:var(--fail)}.whisker.open{stroke:var(--open)}
circle.pass{fill:var(--pass)}circle.fail{fill:var(--fail)}circle.open{fill:var(--open)}
@media print{:root{--paper:#fff;--ink:#000;--soft:#444;--line:#bbb;--pass:#116329;--fail:#a0111f;--open:#7d4e00}\
section{break-inside:avoid}main{max-width:none;padding:0}}
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{LimitResult, LoadResult};
    use crate::signed::Signed;
    use crate::signed::tests::{NOW, evidence};

    #[test]
    fn a_page_needs_nothing_else_and_is_well_formed() {
        let mut evidence = evidence();
        evidence.data[0].path = "/<script>\u{1}".to_owned();
        let mut open = evidence.floors[0].clone();
        (open.verdict, open.bounds, open.needed) = (Verdict::Inconclusive, None, Some(77));
        evidence.floors.push(open);
        let limit = LimitResult {
            limit: "user_tps_p5>=5".to_owned(),
            value: None,
            samples: 3,
            verdict: Verdict::Fail,
        };
        evidence.load = Some(LoadResult {
            verdict: Verdict::Fail,
            requests: "2 users".to_owned(),
            completed: 3,
            failed: 0,
            seconds: 1.0,
            output_tps: 3.0,
            limits: vec![limit],
        });
        let key = Key::generate(NOW, 30).unwrap();
        let signed = Signed::new(&evidence, &key).unwrap();
        let page = html(&evidence, signed.signature(), &key);
        for absent in ["<script", "<link", "url(", "src=", "href=", "@import", "NaN", "inf<"] {
            assert!(!page.contains(absent), "{absent}");
        }
        for tag in ["svg", "section", "div", "dl", "dt", "dd", "h2", "h3", "p", "small", "text"] {
            let open = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        for wanted in [
            "<strong>PASS</strong>",
            "accuracy&gt;=0.95*ref",
            "about 77 questions",
            &key.id(),
            "&lt;Processor&gt;",
            "never in 3 samples: FAIL",
        ] {
            assert!(page.contains(wanted), "{wanted}");
        }
    }

    #[test]
    fn numbers_have_four_digits() {
        let all = [0.123456, 1234.5, -0.00123456, 0.0, 12.0].map(number);
        assert_eq!(all, ["0.1235", "1234", "-0.001235", "0", "12.00"]);
        assert_eq!((sure(0.99999), sure(0.953)), ("above 99.9 %".to_owned(), "95.3 %".to_owned()));
    }
}
