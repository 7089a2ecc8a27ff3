//! The flags that say how tokens are chosen.

use std::hash::{BuildHasher, RandomState};

use leyden::{GenerateOptions, Penalties, SamplingParams};

/// Flags of the sampler.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Choice of tokens")]
pub(crate) struct Sampling {
    /// Temperature; 0 takes the most probable token always
    #[arg(long, value_name = "T", default_value_t = SamplingParams::default().temperature, allow_negative_numbers = true)]
    temp: f32,
    /// Choose among the K most probable tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = SamplingParams::default().top_k)]
    top_k: usize,
    /// Choose among the most probable tokens whose probabilities sum up to P
    #[arg(long, value_name = "P", default_value_t = SamplingParams::default().top_p, allow_negative_numbers = true)]
    top_p: f32,
    /// Drop tokens less probable than P times the best
    #[arg(long, value_name = "P", default_value_t = SamplingParams::default().min_p, allow_negative_numbers = true)]
    min_p: f32,
    /// Divide the logits of tokens that were used; 1 for none
    #[arg(long, value_name = "X", default_value_t = Penalties::default().repeat, allow_negative_numbers = true)]
    repeat_penalty: f32,
    /// Lower the logit of a token by X for every time it was used
    #[arg(long, value_name = "X", default_value_t = Penalties::default().frequency, allow_negative_numbers = true)]
    frequency_penalty: f32,
    /// Lower the logit of a token by X if it was used at all
    #[arg(long, value_name = "X", default_value_t = Penalties::default().presence, allow_negative_numbers = true)]
    presence_penalty: f32,
    /// Tokens that the penalties look back on
    #[arg(long, value_name = "N", default_value_t = Penalties::default().window)]
    penalty_window: usize,
    /// Add X to the logit of a token, -inf forbids it; may be repeated
    #[arg(long, value_name = "ID=X", value_parser = bias)]
    logit_bias: Vec<(u32, f32)>,
    /// End before this text; may be repeated
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    stop: Vec<String>,
    /// Seed of the random numbers: the same seed gives the same text; by default a new one each time
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

impl Sampling {
    /// What they mean for the library. Ranges are checked there, where the vocabulary is known.
    pub(super) fn options(&self, max_tokens: Option<usize>) -> GenerateOptions {
        let penalties = Penalties {
            repeat: self.repeat_penalty,
            frequency: self.frequency_penalty,
            presence: self.presence_penalty,
            window: self.penalty_window,
        };
        let sampling = SamplingParams {
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            penalties,
            logit_bias: self.logit_bias.clone(),
            // The standard library seeds its hashers from the system's random numbers. 32 bits are easier to type.
            seed: self.seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32),
        };
        GenerateOptions { max_tokens, sampling, stop: self.stop.clone() }
    }
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let (id, value) = text.split_once('=').ok_or("want ID=X, such as 13=-inf")?;
    let id = id.trim().parse().map_err(|_| format!("`{id}` is not a token id"))?;
    let value = value.trim().parse().map_err(|_| format!("`{value}` is not a number"))?;
    Ok((id, value))
}

#[cfg(test)]
mod tests {
    use super::bias;

    #[test]
    fn bias_reads_id_and_number() {
        assert_eq!(bias("13=-inf"), Ok((13, f32::NEG_INFINITY)));
        assert_eq!(bias("2=1.5"), Ok((2, 1.5)));
        for text in ["13", "x=1", "-1=1", "1=x", "="] {
            assert!(bias(text).is_err(), "{text}");
        }
    }
}
