//! [`Think`]: amount of reasoning, and its variables in chat templates.

use serde_json::{Map, Value};

/// Amount of reasoning before an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Think {
    /// Reason before the answer
    #[value(alias = "true")]
    On,
    /// Answer without reasoning, if the model allows it
    #[value(alias = "false")]
    Off,
    /// Reason a little
    Low,
    /// Reason more
    Medium,
    /// Reason much
    High,
}

impl Think {
    /// Levels with their names.
    pub(super) const NAMES: [(&'static str, Think); 5] = [
        ("on", Think::On),
        ("off", Think::Off),
        ("low", Think::Low),
        ("medium", Think::Medium),
        ("high", Think::High),
    ];

    /// Variables of chat templates: `enable_thinking` of Qwen and others, `thinking` of DeepSeek and Granite,
    /// `reasoning_effort` of gpt-oss.
    pub(super) const VARIABLES: [&'static str; 3] = ["enable_thinking", "thinking", "reasoning_effort"];

    /// Returns the variables for chat templates.
    pub(super) fn variables(self) -> Map<String, Value> {
        let [enable, thinking, effort] = Self::VARIABLES.map(str::to_owned);
        let is_on = self != Think::Off;
        let mut variables = Map::from_iter([(enable, is_on.into()), (thinking, is_on.into())]);
        let level = match self {
            Think::On => None,
            // gpt-oss always reasons.
            Think::Off | Think::Low => Some("low"),
            Think::Medium => Some("medium"),
            Think::High => Some("high"),
        };
        variables.extend(level.map(|level| (effort, level.into())));
        variables
    }

    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, think)| *think == self).map_or("", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_has_three_names() {
        assert_eq!(
            Value::Object(Think::Off.variables()),
            serde_json::json!({
                "enable_thinking": false, "thinking": false, "reasoning_effort": "low"
            })
        );
        assert_eq!(
            Value::Object(Think::On.variables()),
            serde_json::json!({ "enable_thinking": true, "thinking": true })
        );
        assert_eq!(Think::High.variables()["reasoning_effort"], "high");
    }
}
