//! [`LoadSpec`]: the text of `--load`.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use leyden_load::{Arrivals, Lengths, Pause, Slo, parse_duration};

/// Time in which requests are measured, and time before it, by default.
const DURATION: Duration = Duration::from_secs(60);
const WARMUP: Duration = Duration::from_secs(5);

/// Parsed text of `--load`.
#[derive(Clone, Debug)]
pub(super) struct LoadSpec {
    text: String,
    pub(super) arrivals: Arrivals,
    pub(super) slo: Slo,
    pub(super) duration: Option<Duration>,
    pub(super) warmup: Duration,
    pub(super) requests: Option<u64>,
    pub(super) prompt: Lengths,
    pub(super) output: Lengths,
}

impl Display for LoadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for LoadSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<LoadSpec, String> {
        let (mut arrivals, mut limits) = (None, Vec::new());
        let (mut duration, mut warmup, mut requests) = (None, WARMUP, None);
        let (mut prompt, mut output) = ("30..200".to_owned(), "24..96".to_owned());
        for part in text.split(',').map(str::trim) {
            let wrong = |what: String| format!("{part}: {what}");
            let number = |value: &str| value.parse().map_err(|_| wrong(format!("`{value}` is no number")));
            let time = |value: &str| parse_duration(value).map_err(|error| wrong(error.to_string()));
            let Some((key, value)) = part.split_once('=').map(|(key, value)| (key.trim(), value.trim()))
            else {
                return Err(wrong("want NAME=VALUE, such as users=20 or ttft_p95=2s".to_owned()));
            };
            match key {
                "users" | "rate" if arrivals.is_some() => {
                    return Err(wrong("users or rate is given twice".to_owned()));
                }
                "users" => {
                    let users: u32 =
                        value.parse().map_err(|_| wrong(format!("`{value}` is no number of users")))?;
                    arrivals = Some(Arrivals::Users(users, Pause::default()));
                }
                "rate" => arrivals = Some(Arrivals::Rate(number(value)?)),
                "duration" => duration = Some(time(value)?),
                "warmup" => warmup = time(value)?,
                "requests" => {
                    requests = Some(
                        value.parse().map_err(|_| wrong(format!("`{value}` is no number of requests")))?,
                    );
                }
                "prompt" => value.clone_into(&mut prompt),
                "output" => value.clone_into(&mut output),
                _ => limits.push(part),
            }
        }
        let arrivals = arrivals.ok_or("it lacks users=N or rate=R")?;
        if limits.is_empty() {
            return Err("it lacks a limit, such as ttft_p95=2s or user_tps>=5".to_owned());
        }
        let lengths = |name: &str, text: &str| -> Result<Lengths, String> {
            text.parse().map_err(|error| format!("{name}: {error}"))
        };
        Ok(LoadSpec {
            text: text.to_owned(),
            arrivals,
            slo: limits.join(",").parse().map_err(|error: leyden_load::Error| error.to_string())?,
            duration: duration.or(requests.is_none().then_some(DURATION)),
            warmup,
            requests,
            prompt: lengths("prompt", &prompt)?,
            output: lengths("output", &output)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_load_is_read() {
        let spec: LoadSpec = "users=20, ttft_p95=2s, user_tps>=5".parse().unwrap();
        assert!(matches!(spec.arrivals, Arrivals::Users(20, _)));
        assert_eq!((spec.slo.limits().len(), spec.duration), (2, Some(DURATION)));
        let spec: LoadSpec = "rate=0.5,requests=40,prompt=8..16,output=4,itl_p99<=200ms".parse().unwrap();
        assert_eq!((spec.requests, spec.duration, spec.output), (Some(40), None, Lengths::Fixed(4)));
        for (text, words) in [
            ("", "want NAME=VALUE"),
            ("ttft_p95=2s", "lacks users=N"),
            ("users=2", "lacks a limit"),
            ("users=2,rate=3,ttft_p95=2s", "rate=3: users or rate is given twice"),
            ("users=x,ttft_p95=2s", "users=x: `x` is no number"),
            ("users=2,speed=3", "its metric is none of"),
            ("users=2,duration=fast,ttft_p95=2s", "duration=fast"),
            ("users=2,prompt=0,ttft_p95=2s", "prompt: "),
        ] {
            let error = text.parse::<LoadSpec>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
