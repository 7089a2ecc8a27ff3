//! The instruction-set tiers: one row of a table each, and the proof that this machine has one.

use crate::cpu::vendor;
use crate::types::ActFormat;
use std::fmt;

/// The instruction-set tiers, those of one architecture after another, each slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust without explicit SIMD; the reference every other tier must equal bit for bit.
    Scalar,
    /// AVX2, FMA and F16C.
    Avx2,
    /// That and products of int8 (AVX-VNNI: Intel's client processors from Alder Lake on, Sierra Forest, Zen 5).
    AvxVnni,
    /// AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
    /// That and products of bfloat16 (Zen 4 and later, Xeon from Sapphire Rapids on).
    Avx512Bf16,
    /// That and products of matrices of int8 (Xeon from Sapphire Rapids on).
    Amx,
    /// NEON, which every 64-bit Arm processor has.
    Neon,
    /// NEON with products of int8 (Armv8.2 and later: Cortex-A76, Neoverse N1, Apple M1).
    DotProd,
    /// That and products of int8 matrices (Armv8.6 and later: Neoverse V1 and N2, Apple M2).
    I8mm,
}

/// The accumulator's initial value: the zero-point correction of a product, computed once per batch for all matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccInit {
    /// Nothing.
    None,
    /// All quantised weights are made unsigned by one shift; the correction of that shift.
    Shift,
    /// Accumulators are two of 16 bits a row; the sums of the activations that each of them multiplies.
    Lanes,
}

impl AccInit {
    /// How many numbers each 32 values of a column have where formats have integer scales. With [`AccInit::Shift`] those of all 32, of
    /// the first 16 and of the last, and the last plus [`LOW_HALF_BIAS`]; with [`AccInit::Lanes`] those of sixteen of each of two blocks, of
    /// their first eight and of their last.
    pub(crate) const fn of_block(self) -> usize {
        match self {
            AccInit::None => 0,
            AccInit::Lanes => 3,
            AccInit::Shift => 4,
        }
    }
}

/// What a sum of 16 bits in the lower half of a lane begins at, where another one has the upper half: the middle of what an
/// unsigned number there holds, so that the one does not borrow from the other. An exclusive or takes it off again.
pub(crate) const LOW_HALF_BIAS: i32 = 1 << 15;

/// What a level is and how its kernels read.
struct About {
    level: Level,
    name: &'static str,
    architecture: Option<&'static str>,
    /// As Linux spells them.
    features: &'static str,
    detected: fn() -> bool,
    /// The level whose kernels it uses where it has none of its own, if any.
    shares: Option<Level>,
    /// Columns in the widest tile of integers and of floats: as many as registers hold sums for. Those of integers lie
    /// beside their totals.
    columns: [usize; 2],
    acc_init: AccInit,
    /// Whether tiles of many tokens multiply signed quantised values as integers of 16 bits.
    words: bool,
    together: usize,
    bf16_pairs: bool,
    /// The level whose kernels multiply what instructions for matrices do not: floats, and integers of few tokens.
    few: Option<Level>,
}

impl About {
    /// What every row says itself, what it needs above all, and for the rest what most have.
    const fn new(
        level: Level,
        name: &'static str,
        architecture: Option<&'static str>,
        features: &'static str,
        detected: fn() -> bool,
    ) -> About {
        About {
            level,
            name,
            architecture,
            features,
            detected,
            shares: None,
            columns: [4; 2],
            acc_init: AccInit::None,
            words: false,
            together: 1,
            bf16_pairs: false,
            few: None,
        }
    }
}

/// Whether the processor has some features, as the compiler spells them; never on another architecture.
macro_rules! detected {
    ($architecture:literal $detected:ident $($feature:tt)*) => {
        || {
            #[cfg(target_arch = $architecture)]
            let has = true $(&& std::arch::$detected!($feature))*;
            #[cfg(not(target_arch = $architecture))]
            let has = false;
            has
        }
    };
    (x86 $($feature:tt)*) => {
        detected!("x86_64" is_x86_feature_detected "avx2" "fma" "f16c" $($feature)*)
    };
    (avx512 $($feature:tt)*) => {
        detected!(x86 "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" $($feature)*)
    };
    (arm $($feature:tt)*) => {
        detected!("aarch64" is_aarch64_feature_detected "neon" $($feature)*)
    };
}

/// Whether the processor has matrices, and what is done to them besides.
fn matrices() -> bool {
    #[cfg(target_arch = "x86_64")]
    return (Level::Avx512Bf16.about().detected)() && crate::cpu::amx_permission::detected();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The levels, in order.
const TABLE: [About; Level::ALL.len()] = {
    const X86: Option<&str> = Some("x86_64");
    const ARM: Option<&str> = Some("aarch64");
    const MOST: [usize; 2] = [Level::VECTOR_COLUMNS; 2];
    [
        About::new(Level::Scalar, "scalar", None, "none", || true),
        About {
            columns: [6; 2],
            acc_init: AccInit::Lanes,
            words: true,
            ..About::new(Level::Avx2, "avx2", X86, "avx2, fma, f16c", detected!(x86))
        },
        About {
            shares: Some(Level::Avx2),
            columns: [6; 2],
            acc_init: AccInit::Shift,
            ..About::new(
                Level::AvxVnni,
                "avxvnni",
                X86,
                "avx2, fma, f16c, avx_vnni",
                detected!(x86 "avxvnni"),
            )
        },
        About {
            columns: MOST,
            acc_init: AccInit::Shift,
            ..About::new(
                Level::Avx512,
                "avx512",
                X86,
                "avx512f, avx512bw, avx512dq, avx512vl, avx512vnni",
                detected!(avx512),
            )
        },
        About {
            shares: Some(Level::Avx512),
            columns: MOST,
            acc_init: AccInit::Shift,
            bf16_pairs: true,
            ..About::new(
                Level::Avx512Bf16,
                "avx512bf16",
                X86,
                "avx512f, avx512bw, avx512dq, avx512vl, avx512vnni, avx512_bf16",
                detected!(avx512 "avx512bf16"),
            )
        },
        About {
            shares: Some(Level::Avx512),
            columns: [Level::MAX_COLUMNS, MOST[1]],
            bf16_pairs: true,
            few: Some(Level::Avx512Bf16),
            ..About::new(
                Level::Amx,
                "amx",
                X86,
                "avx512f, avx512bw, avx512dq, avx512vl, avx512vnni, avx512_bf16, amx_tile, amx_int8",
                matrices,
            )
        },
        About::new(Level::Neon, "neon", ARM, "asimd", detected!(arm)),
        About {
            columns: [8; 2],
            ..About::new(Level::DotProd, "dotprod", ARM, "asimd, asimddp", detected!(arm "dotprod"))
        },
        About {
            columns: [8; 2],
            together: 2,
            ..About::new(Level::I8mm, "i8mm", ARM, "asimd, asimddp, i8mm", detected!(arm "dotprod" "i8mm"))
        },
    ]
};

const _: () = {
    let mut i = 0;
    while i < TABLE.len() {
        assert!(TABLE[i].level as usize == i && Level::ALL[i] as usize == i, "rows stand in order");
        assert!(TABLE[i].columns[0] <= Level::MAX_COLUMNS && TABLE[i].columns[1] <= Level::MAX_COLUMNS);
        i += 1;
    }
};

impl Level {
    /// The levels of every architecture.
    pub const ALL: [Level; 9] = [
        Level::Scalar,
        Level::Avx2,
        Level::AvxVnni,
        Level::Avx512,
        Level::Avx512Bf16,
        Level::Amx,
        Level::Neon,
        Level::DotProd,
        Level::I8mm,
    ];

    /// Columns in the widest matrix tile of any level.
    pub(crate) const MAX_COLUMNS: usize = 64;
    /// Columns that lie side by side in memory, at most: wider tiles are parts of so many, one behind the other, and the last of
    /// fewer.
    pub(crate) const PART_COLUMNS: usize = 16;
    /// Columns in the widest tile whose sums are kept in registers, of any level.
    pub(crate) const VECTOR_COLUMNS: usize = 12;

    const fn about(self) -> &'static About {
        &TABLE[self as usize]
    }

    /// The levels of the architecture that this program was built for, slowest first.
    pub fn native() -> impl DoubleEndedIterator<Item = Level> {
        Level::ALL.into_iter().filter(|l| l.architecture().is_none_or(|a| a == std::env::consts::ARCH))
    }

    /// The architecture that the level belongs to, as [`std::env::consts::ARCH`] has it; `None` for the plain path.
    #[must_use]
    pub fn architecture(self) -> Option<&'static str> {
        self.about().architecture
    }

    /// The name used on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// The level called `name`, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|l| l.name() == name)
    }

    /// The processor features the level needs, as Linux spells them.
    #[must_use]
    pub fn features(self) -> &'static str {
        self.about().features
    }

    /// The level whose kernels this one uses where it has none of its own.
    pub(crate) const fn common(self) -> Level {
        match self.about().shares {
            Some(level) => level,
            None => self,
        }
    }

    /// Whether there are tiles that prefetch weights into L1 beside those that do so into the second.
    const fn can_prefetch_to_l1(self) -> bool {
        matches!(self.common(), Level::Avx512)
    }

    /// Whether an instruction multiplies two bfloat16 of a row at once: tiles then hold pairs of them.
    pub(crate) const fn bf16_pairs(self) -> bool {
        self.about().bf16_pairs
    }

    /// Columns in the widest matrix tile.
    pub(crate) const fn columns(self, act_format: ActFormat) -> usize {
        self.about().columns[act_format.is_float() as usize]
    }

    /// The accumulator's initial value of sums of products  where panels were unpacked.
    pub(crate) const fn acc_init(self) -> AccInit {
        self.about().acc_init
    }

    /// Whether tiles of many tokens multiply signed quantised values as integers of 16 bits.
    pub(crate) const fn words(self) -> bool {
        self.about().words
    }

    /// Columns that one instruction multiplies: tiles hold a multiple where the batch allows it.
    pub(crate) const fn together(self, act_format: ActFormat) -> usize {
        match self.about().few {
            Some(few) if act_format.is_float() => few.together(act_format),
            Some(_) => Level::PART_COLUMNS,
            None => self.about().together,
        }
    }

    /// How many consecutive quantised values of one column lie side by side in a part of a tile, of `c` columns: with 64, as many as there are.
    pub(crate) const fn run(self, c: usize) -> usize {
        match self.about().together {
            _ if self.matrices() => 64,
            2 if c.is_multiple_of(2) => 8,
            _ => 4,
        }
    }

    /// Whether instructions multiply matrices: sums and quantised values are then nothing but themselves.
    pub(crate) const fn matrices(self) -> bool {
        self.about().few.is_some()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Columns of a tile of BF16 weights from which a level without products of pairs is faster, where those are slow.
const WIDE: usize = 10;

/// Columns from which AMX is faster than AVX-512: before them, panels must be unpacked.
const WORTH_MATRICES: usize = 32;

/// A tier this machine was seen to support: a proof that its level's features are there, and those of the other level whose
/// kernels it may prefer. Only detection makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tier {
    level: Level,
    /// The level whose kernels multiply wide tiles of BF16 weights.
    wide_bf16: Level,
    /// Whether weights are prefetched into L1 (hint T0) instead of L2 (hint T1), where the level has kernels for both.
    prefetches_to_l1: bool,
}

impl Tier {
    /// The tier that runs everywhere.
    pub const SCALAR: Tier = Tier::only(Level::Scalar);

    const fn only(level: Level) -> Tier {
        let wide_bf16 = match level.about().few {
            Some(few) => few,
            None => level,
        };
        Tier { level, wide_bf16, prefetches_to_l1: false }
    }

    /// The tier for `level` and its kernels alone, or `None` where this machine lacks it.
    #[must_use]
    pub fn new(level: Level) -> Option<Tier> {
        (level.about().detected)().then(|| Tier {
            prefetches_to_l1: level.can_prefetch_to_l1() && !vendor::is_zen4(),
            ..Tier::only(level)
        })
    }

    /// The best tier of this machine, with the kernels of the level below for what that is faster at.
    #[must_use]
    pub fn best() -> Tier {
        Tier::best_where(slow_pairs())
    }

    /// [`best`](Self::best), if products of pairs of bfloat16 are slow here.
    pub(crate) fn best_where(slow_pairs: bool) -> Tier {
        let best = Level::ALL.into_iter().rev().find_map(Tier::new).unwrap_or(Tier::SCALAR);
        match best.level {
            level if slow_pairs && level.bf16_pairs() => Tier { wide_bf16: level.common(), ..best },
            _ => best,
        }
    }

    /// The tier whose kernels multiply tiles of up to so many tokens on an activation format.
    pub(crate) fn for_tiles(self, act_format: ActFormat, columns: usize) -> Tier {
        if act_format == ActFormat::BF16 && columns >= WIDE {
            Tier { level: self.wide_bf16, ..self }
        } else {
            self
        }
    }

    /// The tier whose tiles a batch of so many tokens on an activation format is divided into.
    pub(crate) fn for_batch(self, act_format: ActFormat, columns: usize) -> Tier {
        if act_format.is_float() || columns < WORTH_MATRICES { self.for_few() } else { self }
    }

    /// The tier whose kernels multiply few tokens.
    pub(crate) fn for_few(self) -> Tier {
        Tier { level: self.level.about().few.unwrap_or(self.level), ..self }
    }

    /// Every tier of this machine, slowest first.
    #[must_use]
    pub fn available() -> Vec<Tier> {
        Level::ALL.into_iter().filter_map(Tier::new).collect()
    }

    /// A tier to look tables up with, without the proof.
    #[cfg(test)]
    pub(crate) fn unproved(level: Level) -> Tier {
        Tier::only(level)
    }

    /// Whether one unit multiplies vectors of 512 bits, be it integers or floats, while others are idle: of the processors whose
    /// weights are fetched into L2.
    pub(crate) fn single_multiply_port(self) -> bool {
        self.level.can_prefetch_to_l1() && !self.prefetches_to_l1
    }

    /// Whether tiles are those that prefetch weights into L1.
    pub(crate) fn prefetches_to_l1(self) -> bool {
        self.prefetches_to_l1
    }

    /// The tier that prefetches weights into the other cache than this one does.
    #[cfg(test)]
    pub(crate) fn other_prefetch_level(self) -> Option<Tier> {
        self.level.can_prefetch_to_l1().then_some(Tier { prefetches_to_l1: !self.prefetches_to_l1, ..self })
    }

    /// The level this tier proves.
    #[must_use]
    pub fn level(self) -> Level {
        self.level
    }
}

/// Whether two multiply-adds of floats are faster than one product of pairs of bfloat16. `VDPBF16PS` of 512 bits takes
/// Intel's cores two cycles, in which they make four multiply-adds.
fn slow_pairs() -> bool {
    vendor::is_intel()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_scalar_is_always_there() {
        for l in Level::ALL {
            assert_eq!(Level::from_name(l.name()), Some(l));
        }
        assert_eq!(Tier::available()[0], Tier::SCALAR);
        assert!(Tier::best() >= Tier::SCALAR);
    }

    #[test]
    fn only_the_best_tier_leaves_wide_tiles_of_bf16_to_another_level() {
        let best = Tier::best_where(true).for_few();
        let level = best.level();
        let wide = if level.bf16_pairs() { level.common() } else { level };
        assert_eq!(best.for_tiles(ActFormat::BF16, WIDE).level(), wide);
        for (act_format, columns) in
            [(ActFormat::BF16, WIDE - 1), (ActFormat::F32, WIDE), (ActFormat::Q8Block32, WIDE)]
        {
            assert_eq!(best.for_tiles(act_format, columns), best);
        }
        for tier in Tier::available().into_iter().chain([Tier::best_where(false)]).map(Tier::for_few) {
            assert_eq!(tier.for_tiles(ActFormat::BF16, WIDE), tier);
        }
    }
}
