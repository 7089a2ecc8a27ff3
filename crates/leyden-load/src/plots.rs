//! [`plots`]: drawings of a run that its figures alone do not have, for its page.

mod series;

use crate::run::Run;
use crate::slo::{Metric, Slo};
use crate::stats::Samples;
use leyden_report::{Axis, Block, Extent, Mark, Plot, Series, Shape, Unit};

/// Returns the distributions of times, rates and requests over time, and every request as a point. Their size is bounded for
/// runs of any length: curves and points are thinned out.
#[must_use]
pub fn plots(run: &Run, slo: Option<&Slo>) -> Vec<Block> {
    let marks = |metrics: &[Metric]| -> Vec<Mark> {
        let limits = slo.map(Slo::limits).unwrap_or_default().iter();
        let wanted = limits.filter(|limit| metrics.contains(&limit.metric));
        wanted.map(|limit| Mark { at: limit.bound, label: limit.to_string() }).collect()
    };
    let axis = |label: &str, unit: Unit, extent: Extent| Axis { label: label.to_owned(), unit, extent };
    let measured = || run.records.iter().filter(|record| record.measured);
    let ttft = Samples::new(measured().filter_map(|record| record.ttft()).collect());
    let itl = Samples::new(measured().flat_map(|record| record.gaps()).collect());
    let share = || axis("share of samples", Unit::Share, Extent::Zero);
    let distribution = |title: &str, label: &str, samples: &Samples, metric: Metric| Plot {
        title: title.to_owned(),
        x: axis(label, Unit::Seconds, Extent::of(samples.sorted().iter().copied())),
        y: share(),
        series: vec![Series::new("", 0, Shape::Line, series::cdf(samples))],
        vertical: marks(&[metric]),
        horizontal: Vec::new(),
        note: String::new(),
    };
    let time = || axis("time since the start", Unit::Seconds, Extent::Zero);
    let begin = || match run.from.as_secs_f64() {
        0.0 => Vec::new(),
        at => vec![Mark { at, label: "measured from here".to_owned() }],
    };
    let bins = series::Bins::over(run);
    let [running, answering] = bins.running(run);
    let requests = series::requests(run);
    let times = Extent::of(requests.iter().flat_map(|s| s.points.iter().map(|p| p.1)));
    let over_time = |title: &str, y: Axis, series: Vec<Series>, horizontal: Vec<Mark>| Plot {
        title: title.to_owned(),
        x: time(),
        y,
        series,
        vertical: begin(),
        horizontal,
        note: String::new(),
    };
    let rate = axis("output, all users", Unit::Rate("t/s"), Extent::Zero);
    let count = axis("requests", Unit::Number(""), Extent::Zero);
    let plots = [
        distribution("Time to first token, distribution", "from request to first token", &ttft, Metric::Ttft),
        distribution("Inter-token time, distribution", "between events with content", &itl, Metric::Itl),
        over_time(
            "Tokens per second over time",
            rate,
            vec![Series::new("", 0, Shape::Area, bins.tokens(run))],
            Vec::new(),
        ),
        over_time(
            "Requests in flight",
            count,
            vec![
                Series::new("in flight", 0, Shape::Line, running),
                Series::new("answered", 1, Shape::Line, answering),
            ],
            Vec::new(),
        ),
        over_time(
            "Every request",
            axis("time", Unit::Seconds, times),
            requests,
            marks(&[Metric::Ttft, Metric::E2e]),
        ),
    ];
    plots.into_iter().map(Block::Plot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use crate::record::{Class, Fail};
    use leyden_report::{Page, Section};
    use std::time::Duration;

    fn page(run: &Run) -> String {
        let slo: Slo = "ttft_p95=2s,user_tps>=5".parse().unwrap();
        let sections = vec![Section::new("", plots(run, Some(&slo)))];
        Page { title: "load".to_owned(), sections, ..Page::default() }.html()
    }

    #[test]
    fn runs_of_any_length_have_drawings() {
        let mut records: Vec<_> = (0..40).map(|i| record(i * 100, &[100 + i as u32, 200, 350])).collect();
        records[3].fail = Some(Fail::new(Class::Http5xx, "out of memory"));
        let run =
            Run { records, from: Duration::from_secs(1), to: Duration::from_secs(4), interrupted: false };
        let html = page(&run);
        assert_eq!(html.matches("<svg").count(), 5);
        for wanted in ["ttft_p95&lt;=2s", "measured from here", ">in flight</text>", "failed"] {
            assert!(html.contains(wanted), "{wanted}");
        }
        let empty = page(&Run::default());
        assert!(empty.contains("<svg") && !empty.contains("NaN") && !empty.contains("inf"));
        let records = (0..50_000).map(|i| record(i, &[1, 2, 3, 4 + (i % 1000) as u32])).collect();
        let run = Run { records, to: Duration::from_secs(50), ..Run::default() };
        assert!(page(&run).len() < 700_000);
    }
}
