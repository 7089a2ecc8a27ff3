//! [`SamplingStep`]: names of the steps between the logits and the draw, in their default order.

/// Calls a macro with the table of steps, in their default order: the name of each, its module and llama.cpp's name.
macro_rules! table_of_steps {
    ($macro:ident) => {
        $macro! {
            /// Repetition, frequency and presence penalties.
            Penalties penalties "penalties",
            /// DRY: penalties on tokens that would continue a repetition.
            Dry dry "dry",
            /// Top-n-sigma.
            TopNSigma top_n_sigma "top_n_sigma",
            /// Top-k.
            TopK top_k "top_k",
            /// Locally typical sampling.
            Typical typical "typ_p",
            /// Top-p.
            TopP top_p "top_p",
            /// Min-p.
            MinP min_p "min_p",
            /// XTC.
            Xtc xtc "xtc",
            /// Temperature, fixed or dynamic.
            Temperature temperature "temperature",
        }
    };
}
pub(super) use table_of_steps;

/// Declares the names.
macro_rules! declare {
    ($($(#[$doc:meta])* $name:ident $module:ident $text:literal,)*) => {
        /// Step between the model's logits and the draw. [`SamplingParams::order`](super::SamplingParams::order) lists
        /// the steps that run, in order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum SamplingStep {
            $($(#[$doc])* $name,)*
        }

        impl SamplingStep {
            /// All steps, in the default order.
            pub const ALL: &[SamplingStep] = &[$(SamplingStep::$name,)*];

            /// Returns the name, which is llama.cpp's.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(SamplingStep::$name => $text,)*
                }
            }
        }
    };
}

table_of_steps!(declare);

impl SamplingStep {
    /// Returns the step of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<SamplingStep> {
        Self::ALL.iter().copied().find(|s| s.name() == name)
    }

    /// Returns the steps in a list of names separated by semicolons, such as `top_k;temperature`. An empty list has no
    /// steps.
    ///
    /// # Errors
    /// A name is unknown or repeated; the message names it and, if unknown, lists all steps.
    pub fn parse_order(text: &str) -> Result<Vec<SamplingStep>, String> {
        let mut order = Vec::new();
        for name in text.split(';').map(str::trim) {
            if name.is_empty() && text.trim().is_empty() {
                break;
            }
            let step = Self::from_name(name).ok_or_else(|| {
                let known: Vec<&str> = Self::ALL.iter().map(|s| s.name()).collect();
                format!("no step `{name}`; known: {}", known.join(", "))
            })?;
            if order.contains(&step) {
                return Err(format!("`{name}` is listed twice"));
            }
            order.push(step);
        }
        Ok(order)
    }
}
