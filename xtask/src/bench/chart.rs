//! The chart: Q4_K_M of the 1B shape on every machine, relative to the peers.

use super::page::PEERS;
use super::results::Results;
use std::fmt::Write as _;

const LEFT: f64 = 250.0;
const WIDTH: f64 = 860.0;
const BAR: f64 = 15.0;
const GAP: f64 = 22.0;
const TOP: f64 = 64.0;
/// Colours of the peers, distinguishable by colour-blind readers.
const COLOURS: [&str; 2] = ["#0072b2", "#e69f00"];

/// Returns the text of `docs/benchmarks.svg`.
pub(super) fn chart(all: &[Results]) -> String {
    let mut bars = Vec::new();
    for r in all {
        for (what, is) in [("prefill", "pp"), ("decode", "tg")] {
            let ratios = PEERS.map(|peer| {
                let named = |t: &&super::results::Test| {
                    t.model == "1B"
                        && t.dtype == "Q4_K_M"
                        && t.peer.as_deref() == Some(peer)
                        && t.test.strip_prefix(is).is_some_and(|n| n.parse::<usize>().is_ok())
                };
                r.tests.iter().find(named).and_then(|t| t.ratio)
            });
            if ratios.iter().any(Option::is_some) {
                bars.push((r.machine.as_str(), what, ratios));
            }
        }
    }
    let most = bars.iter().flat_map(|b| b.2).flatten().fold(1.0, f64::max).ceil();
    let scale = (WIDTH - LEFT - 70.0) / most;
    let mut rows = String::new();
    let mut y = TOP;
    let mut before = "";
    for (machine, what, ratios) in &bars {
        if *machine != before {
            y += if before.is_empty() { 0.0 } else { GAP };
            let _ = writeln!(rows, r#"<text x="12" y="{:.0}" font-weight="bold">{machine}</text>"#, y + 4.0);
            before = machine;
            y += 14.0;
        }
        let lines = ratios.iter().flatten().count() as f64;
        let _ = writeln!(
            rows,
            r#"<text x="{:.0}" y="{:.1}" text-anchor="end">{what}</text>"#,
            LEFT - 8.0,
            y + lines * BAR / 2.0 + 4.0
        );
        for (ratio, colour) in ratios.iter().zip(COLOURS).filter_map(|(r, c)| Some(((*r)?, c))) {
            let _ = writeln!(
                rows,
                r#"<rect x="{LEFT}" y="{y:.1}" width="{:.1}" height="{:.0}" fill="{colour}"/><text x="{:.1}" y="{:.1}" font-size="11">{ratio:.2}</text>"#,
                ratio * scale,
                BAR - 2.0,
                LEFT + ratio * scale + 5.0,
                y + 10.5
            );
            y += BAR;
        }
        y += 5.0;
    }
    let height = y + 16.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"13\" role=\"img\">\n<title>leyden's tokens per second as a multiple of each peer's, Q4_K_M, 1B</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"16\" font-weight=\"bold\">leyden's speed as a multiple of each peer's \
         (1B, Q4_K_M, same machine, equal threads)</text>\n"
    );
    for (i, (peer, colour)) in PEERS.iter().zip(COLOURS).enumerate() {
        let x = LEFT + 150.0 * i as f64;
        let _ = writeln!(
            out,
            r#"<rect x="{x:.0}" y="34" width="12" height="12" fill="{colour}"/><text x="{:.0}" y="45">of {peer}</text>"#,
            x + 18.0
        );
    }
    for tick in 0..=most as u32 {
        let x = LEFT + f64::from(tick) * scale;
        let (colour, dash) =
            if tick == 1 { ("#555555", "") } else { ("#dddddd", r#" stroke-dasharray="2 3""#) };
        let _ = writeln!(
            out,
            r##"<line x1="{x:.1}" y1="{:.0}" x2="{x:.1}" y2="{:.0}" stroke="{colour}"{dash}/><text x="{x:.1}" y="{:.0}" text-anchor="middle" font-size="11" fill="#555555">{tick}</text>"##,
            TOP - 8.0,
            height - 18.0,
            height - 5.0
        );
    }
    out + &rows + "</svg>\n"
}
