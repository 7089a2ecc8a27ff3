//! [`costs`]: cost per hour, per million tokens or documents, over three years, and energy per token.

use crate::interval::Interval;
use serde::Serialize;

/// Years of a total cost of ownership.
pub const TCO_YEARS: f64 = 3.0;
const HOURS: f64 = 24.0 * 365.0 * TCO_YEARS;
const MILLION: f64 = 1e6;

/// Prices, in US dollars, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Prices {
    /// Machine, per hour.
    pub per_hour: Option<f64>,
    /// Purchase of the machine, once.
    pub purchase: Option<f64>,
    /// Power of the machine under load, in watts.
    pub watts: Option<f64>,
    /// Electricity, per kilowatt-hour.
    pub per_kwh: Option<f64>,
    /// Share of the time in which the machine computes, 0 to 1.
    pub utilisation: f64,
}

/// Other way to get the same tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Rival {
    /// API with prices per million tokens.
    Api {
        /// Per million input tokens.
        input: f64,
        /// Per million output tokens.
        output: f64,
    },
    /// Rented GPUs.
    Gpu {
        /// Per hour of one.
        per_hour: f64,
        /// Output tokens per second of one, for the same requests.
        output_tps: f64,
    },
}

/// Total costs over [`TCO_YEARS`] years, in US dollars, for the requests that the machine answers at its utilisation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tco {
    /// Machine.
    pub machine: f64,
    /// Other way.
    pub rival: Interval,
    /// GPUs that are needed, if they are the other way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Interval>,
}

/// Costs of a workload, each as far as its prices are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Costs {
    /// US dollars per hour; purchases spread over [`TCO_YEARS`] years.
    pub per_hour: Option<f64>,
    /// US dollars per million input tokens.
    pub per_million_input: Option<Interval>,
    /// US dollars per million output tokens, those of their prompts not included.
    pub per_million_output: Option<Interval>,
    /// US dollars per million output tokens with their prompts.
    pub per_million_output_all: Option<Interval>,
    /// Joules per output token, prompts not included.
    pub joules_per_output_token: Option<Interval>,
    /// Total costs over years, with another way to get the same tokens.
    pub tco: Option<Tco>,
}

impl Prices {
    /// Returns the price of an hour, with purchase and power, if any price is known.
    #[must_use]
    pub fn hour(&self) -> Option<f64> {
        let power =
            self.watts.zip(self.per_kwh).map(|(watts, price)| watts / 1000.0 * price * self.utilisation);
        let parts = [self.per_hour, self.purchase.map(|price| price / HOURS), power];
        // Power alone is no price of a machine.
        let known = self.per_hour.is_some() || self.purchase.is_some();
        known.then(|| parts.into_iter().flatten().sum())
    }
}

/// Rates that costs follow from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    pub(crate) input_token_s: Interval,
    pub(crate) output_token_s: Interval,
    pub(crate) output_tps: Interval,
    /// Input tokens per output token.
    pub(crate) inputs: f64,
}

/// Computes costs of tokens from the machine seconds of input and output tokens, the output tokens per second in steady
/// use, and the numbers of tokens of prompt and answer.
#[must_use]
pub fn costs(
    figures: &crate::figures::Figures,
    tokens: [usize; 2],
    prices: &Prices,
    rival: Option<Rival>,
) -> Costs {
    let rates = Rates {
        input_token_s: figures.input_token_s,
        output_token_s: figures.output_token_s,
        output_tps: figures.output_tps,
        inputs: tokens[0] as f64 / tokens[1].max(1) as f64,
    };
    of_rates(&rates, prices, rival)
}

fn of_rates(rates: &Rates, prices: &Prices, rival: Option<Rival>) -> Costs {
    let hour = prices.hour();
    let second = hour.map(|hour| hour / 3600.0 / prices.utilisation);
    let million = |seconds: Interval| second.map(|price| seconds.times(price * MILLION));
    let total = hour.zip(rival).map(|(hour, rival)| {
        // Tokens in millions over the years.
        let outputs = rates.output_tps.times(3600.0 * HOURS * prices.utilisation / MILLION);
        let (rival, gpus) = match rival {
            Rival::Api { input, output } => (outputs.times(output + input * rates.inputs), None),
            Rival::Gpu { per_hour, output_tps } => {
                let whole = |tps: f64| (tps * prices.utilisation / output_tps).ceil().max(1.0);
                let Interval { value, low, high } = rates.output_tps;
                let gpus = Interval { value: whole(value), low: whole(low), high: whole(high) };
                (gpus.times(per_hour * HOURS), Some(gpus))
            }
        };
        Tco { machine: hour * HOURS, rival, gpus }
    });
    Costs {
        per_hour: hour,
        per_million_input: million(rates.input_token_s),
        per_million_output: million(rates.output_token_s),
        per_million_output_all: second.map(|price| rates.output_tps.inverse(price * MILLION)),
        joules_per_output_token: prices.watts.map(|watts| rates.output_token_s.times(watts)),
        tco: total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(output_tps: f64) -> Rates {
        let output_token_s = Interval::exact(1.0 / output_tps);
        Rates {
            input_token_s: Interval::exact(0.001),
            output_token_s,
            output_tps: Interval::exact(output_tps),
            inputs: 2.0,
        }
    }

    #[test]
    fn a_million_tokens_cost_their_hours() {
        // Published: 11.5 t/s at $0.19 an hour are $4.6 a million tokens.
        let prices = Prices { per_hour: Some(0.19), utilisation: 1.0, ..Prices::default() };
        let costs = of_rates(&rates(11.5), &prices, None);
        assert!((costs.per_million_output.unwrap().value - 4.589).abs() < 1e-3);
        assert!(costs.tco.is_none() && costs.joules_per_output_token.is_none());
        let half = of_rates(&rates(11.5), &Prices { utilisation: 0.5, ..prices }, None);
        assert!((half.per_million_output.unwrap().value - 9.179).abs() < 1e-3);
        assert_eq!(half.per_hour, Some(0.19));
    }

    #[test]
    fn unknown_prices_give_no_costs() {
        let costs = of_rates(
            &rates(10.0),
            &Prices { watts: Some(200.0), utilisation: 1.0, ..Prices::default() },
            None,
        );
        assert_eq!((costs.per_hour, costs.per_million_input), (None, None));
        assert_eq!(costs.joules_per_output_token.unwrap().value, 20.0);
    }

    #[test]
    fn totals_compare_equal_tokens() {
        let prices = Prices { per_hour: Some(1.0), utilisation: 0.5, ..Prices::default() };
        let api = of_rates(&rates(100.0), &prices, Some(Rival::Api { input: 0.1, output: 0.4 })).tco.unwrap();
        assert_eq!(api.machine, 26_280.0);
        // 100 t/s half of the time, two input tokens for each.
        let millions = 100.0 * 3600.0 * 26_280.0 * 0.5 / 1e6;
        assert!((api.rival.value - millions * 0.6).abs() < 1e-6);
        let gpu = of_rates(&rates(100.0), &prices, Some(Rival::Gpu { per_hour: 2.0, output_tps: 30.0 }))
            .tco
            .unwrap();
        assert_eq!((gpu.gpus.unwrap().value, gpu.rival.value), (2.0, 2.0 * 2.0 * 26_280.0));
    }

    #[test]
    fn a_purchase_is_spread_and_power_added() {
        let prices = Prices {
            purchase: Some(26_280.0),
            watts: Some(500.0),
            per_kwh: Some(0.2),
            utilisation: 0.5,
            ..Prices::default()
        };
        assert_eq!(prices.hour(), Some(1.05));
        assert_eq!(Prices { purchase: None, ..prices }.hour(), None);
    }
}
