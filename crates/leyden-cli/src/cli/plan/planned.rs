//! [`Plan`]: prediction for a model on a machine.

use leyden_plan::{
    Costs, EncoderFigures, Figures, Interval, Machine, MemoryParts, ModelFacts, Prices, Rival, Slo, Workload,
    costs, encoder_figures, figures, memory, users_within,
};

use super::args::Args;
use crate::cli::failure::Failure;

/// Prediction for a model on a machine.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) model: ModelFacts,
    pub(super) machine: Machine,
    pub(super) load: Workload,
    pub(super) memory: MemoryParts,
    pub(super) speed: Speed,
    pub(super) slo: Option<(Slo, Interval)>,
    pub(super) prices: Prices,
    pub(super) costs: Costs,
}

/// Predicted rates of a kind of model.
#[derive(Debug)]
pub(super) enum Speed {
    /// Language model.
    Tokens(Box<Figures>),
    /// Encoder.
    Documents(EncoderFigures),
}

impl Plan {
    pub(super) fn new(
        args: &Args,
        model: ModelFacts,
        machine: Machine,
        mut load: Workload,
    ) -> Result<Plan, Failure> {
        let generates = model.config.generates();
        if !generates {
            load.context = load.prompt;
        }
        let prices = Prices {
            per_hour: machine.price_per_hour,
            purchase: args.facts.purchase,
            watts: machine.watts,
            per_kwh: args.facts.price_per_kwh,
            utilisation: args.utilisation,
        };
        let speed = match generates {
            true => Speed::Tokens(Box::new(figures(&model, &machine, &load))),
            false => Speed::Documents(encoder_figures(&model, &machine, load.prompt, load.step_tokens)),
        };
        let costs = match &speed {
            Speed::Tokens(figures) => costs(figures, [load.prompt, load.output], &prices, rival(args)),
            Speed::Documents(_) => Costs { per_hour: prices.hour(), ..Costs::default() },
        };
        let slo = Slo { ttft_s: args.ttft, user_tps: args.user_tps };
        let asked = generates && (slo.ttft_s.is_some() || slo.user_tps.is_some());
        let slo = asked.then(|| (slo, users_within(&model, &machine, &load, &slo)));
        Ok(Plan { memory: memory(&model, &load)?, model, machine, load, speed, slo, prices, costs })
    }

    /// Returns whether the model fits the memory, if that is known.
    pub(super) fn fits(&self) -> Option<bool> {
        self.machine.memory_bytes.map(|available| self.memory.total_bytes <= available)
    }

    /// Returns the price of a million documents, if the price of an hour is known.
    pub(super) fn per_million_documents(&self) -> Option<Interval> {
        let Speed::Documents(figures) = &self.speed else { return None };
        let hour = self.prices.hour()? / self.prices.utilisation;
        Some(figures.documents_per_hour.inverse(hour * 1e6))
    }
}

/// Returns the other way to get the same tokens, if the arguments name one.
pub(super) fn rival(args: &Args) -> Option<Rival> {
    match (args.api_price, args.gpu_price_per_hour.zip(args.gpu_tps)) {
        (Some([input, output]), _) => Some(Rival::Api { input, output }),
        (None, Some((per_hour, output_tps))) => Some(Rival::Gpu { per_hour, output_tps }),
        (None, None) => None,
    }
}
