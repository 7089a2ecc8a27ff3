//! Targets of a quantisation: one table row for each name.
//!
//! The names, their ids in `general.file_type` and the mixes are those of llama.cpp's `llama-quantize`, so that files
//! of the same name have the same size.

use leyden_tensor::DType;

/// Role of a tensor in the network, on which rules depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `output.weight`, or the embedding if it is tied to the output.
    Output,
    Embedding,
    AttnV,
    AttnK,
    AttnOutput,
    AttnQkv,
    FfnDown,
    Other,
}

/// Input of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) role: Role,
    /// Index of the layer and number of layers.
    pub(crate) layer: usize,
    pub(crate) layers: usize,
    /// Number of query heads per key-value head.
    pub(crate) group: usize,
    pub(crate) experts: usize,
    pub(crate) imatrix: bool,
}

impl Place {
    /// Returns true for the layers whose errors cost most: the first and the last eighth, and every third of the
    /// others.
    fn more_bits(&self) -> bool {
        let (i, eighth) = (self.layer, self.layers / 8);
        i < eighth || i >= 7 * self.layers / 8 || (i - eighth) % 3 == 2
    }

    fn first(&self, share: usize) -> bool {
        self.layer < self.layers / share
    }
}

/// A target of a quantisation, such as `Q4_K_M`.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name.
    name: &'static str,
    /// Id in `general.file_type`.
    file_type: u32,
    /// Type of most tensors.
    base: DType,
    /// Types of tensors that get another one.
    rule: fn(&Place) -> Option<DType>,
    /// True if the blocks of a row of Q8_0 share one scale.
    by_rows: bool,
}

fn none(_: &Place) -> Option<DType> {
    None
}

fn at_least_q6(place: &Place) -> Option<DType> {
    (place.role == Role::Output).then_some(DType::Q6K)
}

/// Applies the rule for mixtures of eight experts, whose attention is small relative to the experts.
fn of_eight_experts(place: &Place) -> Option<DType> {
    match place.role {
        Role::AttnV | Role::AttnK if place.experts == 8 => Some(DType::Q8_0),
        Role::AttnOutput if place.experts == 8 => Some(DType::Q5K),
        _ => None,
    }
}

fn q2_k(place: &Place) -> Option<DType> {
    at_least_q6(place).or_else(|| of_eight_experts(place)).or(match place.role {
        Role::AttnV if place.group >= 4 => Some(DType::Q4K),
        Role::AttnV | Role::FfnDown | Role::AttnOutput => Some(DType::Q3K),
        _ => None,
    })
}

fn q3_k_s(place: &Place) -> Option<DType> {
    at_least_q6(place).or_else(|| of_eight_experts(place))
}

fn q3_k_m(place: &Place) -> Option<DType> {
    at_least_q6(place).or_else(|| of_eight_experts(place)).or(match place.role {
        Role::AttnV if place.layer < 2 => Some(DType::Q5K),
        Role::FfnDown if place.first(16) => Some(DType::Q5K),
        Role::AttnV | Role::FfnDown | Role::AttnOutput | Role::AttnQkv => Some(DType::Q4K),
        _ => None,
    })
}

fn q3_k_l(place: &Place) -> Option<DType> {
    at_least_q6(place).or_else(|| of_eight_experts(place)).or(match place.role {
        Role::AttnV | Role::FfnDown | Role::AttnOutput => Some(DType::Q5K),
        Role::AttnQkv => Some(DType::Q4K),
        _ => None,
    })
}

fn q4_k_s(place: &Place) -> Option<DType> {
    at_least_q6(place).or_else(|| of_eight_experts(place)).or(match place.role {
        Role::AttnV if place.layer < 4 => Some(DType::Q5K),
        Role::FfnDown if place.first(8) => Some(DType::Q5K),
        _ => None,
    })
}

fn q4_k_m(place: &Place) -> Option<DType> {
    at_least_q6(place).or_else(|| of_eight_experts(place)).or(match place.role {
        Role::AttnV | Role::FfnDown if place.more_bits() => Some(DType::Q6K),
        Role::AttnQkv => Some(DType::Q5K),
        _ => None,
    })
}

fn q5_k_s(place: &Place) -> Option<DType> {
    at_least_q6(place).or(match place.role {
        Role::AttnV | Role::AttnK if place.experts == 8 => Some(DType::Q8_0),
        _ => None,
    })
}

fn q5_k_m(place: &Place) -> Option<DType> {
    q5_k_s(place).or(match place.role {
        Role::AttnV | Role::FfnDown if place.more_bits() => Some(DType::Q6K),
        Role::AttnQkv => Some(DType::Q6K),
        _ => None,
    })
}

fn q4_0(place: &Place) -> Option<DType> {
    at_least_q6(place).or_else(|| of_eight_experts(place)).or(match place.role {
        Role::FfnDown if place.imatrix && place.first(8) => Some(DType::Q4_1),
        _ => None,
    })
}

fn q4_1(place: &Place) -> Option<DType> {
    at_least_q6(place).or_else(|| of_eight_experts(place))
}

fn q5_0(place: &Place) -> Option<DType> {
    q5_k_s(place).or(match place.role {
        Role::FfnDown if place.imatrix && place.first(8) => Some(DType::Q5_1),
        _ => None,
    })
}

fn iq4(place: &Place) -> Option<DType> {
    at_least_q6(place).or_else(|| of_eight_experts(place)).or(match place.role {
        Role::AttnV if place.group >= 4 => Some(DType::Q5K),
        Role::FfnDown if !place.imatrix && place.first(8) => Some(DType::Q5K),
        _ => None,
    })
}

/// Applies the mix of gpt-oss: only experts are MXFP4, the rest has more bits.
fn mxfp4(place: &Place) -> Option<DType> {
    (place.experts == 0 || place.role != Role::Other && place.role != Role::FfnDown).then_some(DType::Q8_0)
}

/// Every target, the largest first.
static TARGETS: [Target; 21] = [
    Target { name: "F32", file_type: 0, base: DType::F32, rule: none, by_rows: false },
    Target { name: "F16", file_type: 1, base: DType::F16, rule: none, by_rows: false },
    Target { name: "BF16", file_type: 32, base: DType::BF16, rule: none, by_rows: false },
    Target { name: "Q8_0", file_type: 7, base: DType::Q8_0, rule: none, by_rows: false },
    Target { name: "INT8", file_type: 7, base: DType::Q8_0, rule: none, by_rows: true },
    Target { name: "Q6_K", file_type: 18, base: DType::Q6K, rule: none, by_rows: false },
    Target { name: "Q5_1", file_type: 9, base: DType::Q5_1, rule: q5_k_s, by_rows: false },
    Target { name: "Q5_K_M", file_type: 17, base: DType::Q5K, rule: q5_k_m, by_rows: false },
    Target { name: "Q5_K_S", file_type: 16, base: DType::Q5K, rule: q5_k_s, by_rows: false },
    Target { name: "Q5_0", file_type: 8, base: DType::Q5_0, rule: q5_0, by_rows: false },
    Target { name: "Q4_1", file_type: 3, base: DType::Q4_1, rule: q4_1, by_rows: false },
    Target { name: "Q4_K_M", file_type: 15, base: DType::Q4K, rule: q4_k_m, by_rows: false },
    Target { name: "Q4_K_S", file_type: 14, base: DType::Q4K, rule: q4_k_s, by_rows: false },
    Target { name: "IQ4_NL", file_type: 25, base: DType::IQ4NL, rule: iq4, by_rows: false },
    Target { name: "Q4_0", file_type: 2, base: DType::Q4_0, rule: q4_0, by_rows: false },
    Target { name: "IQ4_XS", file_type: 30, base: DType::IQ4XS, rule: iq4, by_rows: false },
    Target { name: "MXFP4", file_type: 38, base: DType::MXFP4, rule: mxfp4, by_rows: false },
    Target { name: "Q3_K_L", file_type: 13, base: DType::Q3K, rule: q3_k_l, by_rows: false },
    Target { name: "Q3_K_M", file_type: 12, base: DType::Q3K, rule: q3_k_m, by_rows: false },
    Target { name: "Q3_K_S", file_type: 11, base: DType::Q3K, rule: q3_k_s, by_rows: false },
    Target { name: "Q2_K", file_type: 10, base: DType::Q2K, rule: q2_k, by_rows: false },
];

impl Target {
    /// Returns every target, the largest first.
    pub fn all() -> impl ExactSizeIterator<Item = Target> {
        TARGETS.iter().copied()
    }

    /// Returns the target of this name, ignoring case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Target> {
        Target::all().find(|target| target.name.eq_ignore_ascii_case(name))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the target whose base is this type, used to describe a mix by one name.
    #[must_use]
    pub fn of_dtype(dtype: DType) -> Option<Target> {
        Target::all().find(|target| target.base == dtype)
    }

    pub(crate) fn file_type(&self) -> u32 {
        self.file_type
    }

    /// Returns the type of most tensors.
    #[must_use]
    pub fn base(&self) -> DType {
        self.base
    }

    /// Returns true if the blocks of a row of Q8_0 share one scale, with which encoders are fastest.
    #[must_use]
    pub fn by_rows(&self) -> bool {
        self.by_rows
    }

    pub(crate) fn dtype(&self, place: &Place) -> DType {
        (self.rule)(place).unwrap_or(self.base)
    }
}

/// Returns the type for rows that are not a whole number of blocks of `dtype`, as llama.cpp chooses it.
pub(crate) fn narrower_blocks(dtype: DType) -> DType {
    match dtype {
        DType::Q2K | DType::Q3K | DType::IQ4XS => DType::IQ4NL,
        DType::Q4K => DType::Q5_0,
        DType::Q5K => DType::Q5_1,
        DType::Q6K => DType::Q8_0,
        _ => DType::F16,
    }
}
