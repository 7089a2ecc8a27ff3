//! Instruction-set levels, one table row each, and tiers: levels that this machine was found to support.

use crate::cpu::vendor;
use crate::types::ActFormat;
use std::fmt;

/// Instruction-set level; levels of one architecture are adjacent, slowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust without explicit SIMD; the reference that every other level must equal bit for bit.
    Scalar,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX2 with int8 dot products (AVX-VNNI: Intel's client processors from Alder Lake on, Sierra Forest, Zen 5).
    AvxVnni,
    /// AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
    /// AVX-512 with bfloat16 dot products (Zen 4 and later, Xeon from Sapphire Rapids on).
    Avx512Bf16,
    /// AVX-512 with int8 matrix products (AMX: Xeon from Sapphire Rapids on).
    Amx,
    /// NEON, which every 64-bit Arm processor has.
    Neon,
    /// NEON with int8 dot products (Armv8.2 and later: Cortex-A76, Neoverse N1, Apple M1).
    DotProd,
    /// NEON with int8 matrix products (Armv8.6 and later: Neoverse V1 and N2, Apple M2).
    I8mm,
}

/// Initial value of integer accumulators: the zero-point correction of a product, computed once per batch for all
/// matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccInit {
    /// Zero.
    None,
    /// Correction of the one shift that makes all quantised weights unsigned.
    Shift,
    /// Sums of activations, for two 16-bit accumulators per row.
    Lanes,
}

impl AccInit {
    /// Returns the number of values per 32 activations of a column, for formats with integer scales. With
    /// [`AccInit::Shift`]: for all 32, for the first 16, for the last 16, and the latter plus [`LOW_HALF_BIAS`]. With
    /// [`AccInit::Lanes`]: for 16 values of each of two blocks, for their first eight, and for their last eight.
    pub(crate) const fn of_block(self) -> usize {
        match self {
            AccInit::None => 0,
            AccInit::Lanes => 3,
            AccInit::Shift => 4,
        }
    }
}

/// Initial value of a 16-bit sum in the low half of a lane whose high half holds another sum: the middle of the
/// unsigned range, so that the low half does not borrow from the high half. It is removed by an exclusive or.
pub(crate) const LOW_HALF_BIAS: i32 = 1 << 15;

/// Properties of a level and of its kernels.
struct About {
    level: Level,
    name: &'static str,
    architecture: Option<&'static str>,
    /// Processor features, as Linux spells them.
    features: &'static str,
    detected: fn() -> bool,
    /// Level whose kernels are used where this one has none of its own.
    shares: Option<Level>,
    /// Columns of the widest tile of integers and of floats: as many sums as fit the registers. Integer tiles also keep
    /// totals in registers.
    columns: [usize; 2],
    acc_init: AccInit,
    /// True if tiles of many tokens multiply signed quantised values as 16-bit integers.
    words: bool,
    together: usize,
    bf16_pairs: bool,
    /// Level whose kernels compute everything that matrix instructions do not: floats, and integer products of few
    /// tokens.
    few: Option<Level>,
}

impl About {
    /// Creates a row with the required fields, and the most common values for the others.
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

/// Detects processor features, spelled as the compiler does; false on another architecture.
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

/// Returns true if AMX can be used, and all features of [`Level::Avx512Bf16`].
fn matrices() -> bool {
    #[cfg(target_arch = "x86_64")]
    return (Level::Avx512Bf16.about().detected)() && crate::cpu::amx_permission::detected();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Properties of all levels, in order.
const TABLE: [About; Level::ALL.len()] = {
    const X86: Option<&str> = Some("x86_64");
    const ARM: Option<&str> = Some("aarch64");
    const WIDEST: [usize; 2] = [Level::VECTOR_COLUMNS; 2];
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
            columns: WIDEST,
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
            columns: WIDEST,
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
            columns: [Level::MAX_COLUMNS, WIDEST[1]],
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
        assert!(
            TABLE[i].level as usize == i && Level::ALL[i] as usize == i,
            "rows are in the order of the levels"
        );
        assert!(TABLE[i].columns[0] <= Level::MAX_COLUMNS && TABLE[i].columns[1] <= Level::MAX_COLUMNS);
        i += 1;
    }
};

impl Level {
    /// Levels of all architectures.
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

    /// Columns of the widest matrix tile of any level.
    pub(crate) const MAX_COLUMNS: usize = 64;
    /// Maximum number of columns that are interleaved in memory: wider tiles are stored as consecutive parts of this
    /// many columns, the last one possibly narrower.
    pub(crate) const PART_COLUMNS: usize = 16;
    /// Columns of the widest tile of any level whose sums are kept in registers.
    pub(crate) const VECTOR_COLUMNS: usize = 12;

    const fn about(self) -> &'static About {
        &TABLE[self as usize]
    }

    /// Returns the levels of this program's architecture, slowest first.
    pub fn native() -> impl DoubleEndedIterator<Item = Level> {
        Level::ALL.into_iter().filter(|l| l.architecture().is_none_or(|a| a == std::env::consts::ARCH))
    }

    /// Returns the level's architecture as in [`std::env::consts::ARCH`]; `None` for the scalar level.
    #[must_use]
    pub fn architecture(self) -> Option<&'static str> {
        self.about().architecture
    }

    /// Returns the name used on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// Returns the level called `name`, or `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|l| l.name() == name)
    }

    /// Returns the processor features that the level needs, as Linux spells them.
    #[must_use]
    pub fn features(self) -> &'static str {
        self.about().features
    }

    /// Returns the level whose kernels are used where this one has none of its own.
    pub(crate) const fn common(self) -> Level {
        match self.about().shares {
            Some(level) => level,
            None => self,
        }
    }

    /// Returns whether there are kernels that prefetch weights into L1 beside those that prefetch into L2.
    const fn can_prefetch_to_l1(self) -> bool {
        matches!(self.common(), Level::Avx512)
    }

    /// Returns whether an instruction multiplies pairs of bfloat16; tiles then hold pairs.
    pub(crate) const fn bf16_pairs(self) -> bool {
        self.about().bf16_pairs
    }

    /// Returns the number of columns of the widest matrix tile.
    pub(crate) const fn columns(self, act_format: ActFormat) -> usize {
        self.about().columns[act_format.is_float() as usize]
    }

    /// Returns the initial value of the accumulators, where panels were unpacked.
    pub(crate) const fn acc_init(self) -> AccInit {
        self.about().acc_init
    }

    /// Returns whether tiles of many tokens multiply signed quantised values as 16-bit integers.
    pub(crate) const fn words(self) -> bool {
        self.about().words
    }

    /// Returns the number of columns that one instruction multiplies: tiles hold a multiple if the batch allows it.
    pub(crate) const fn together(self, act_format: ActFormat) -> usize {
        match self.about().few {
            Some(few) if act_format.is_float() => few.together(act_format),
            Some(_) => Level::PART_COLUMNS,
            None => self.about().together,
        }
    }

    /// Returns the number of consecutive quantised values of one column that are adjacent in a part of `c` columns.
    /// With matrix instructions 64, or as many as are left: each row of a matrix holds 64 values of one column.
    pub(crate) const fn run(self, c: usize) -> usize {
        match self.about().together {
            _ if self.matrices() => 64,
            2 if c.is_multiple_of(2) => 8,
            _ => 4,
        }
    }

    /// Returns whether the level has matrix instructions: sums and quantised values then have no zero-point correction.
    pub(crate) const fn matrices(self) -> bool {
        self.about().few.is_some()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Number of columns from which BF16 tiles are faster without bfloat16 pair products, where these are slow.
const WIDE: usize = 10;

/// Number of columns from which AMX is faster than AVX-512: with fewer, unpacking the panels costs more than it saves.
const WORTH_MATRICES: usize = 32;

/// Instruction-set level that this machine was found to support: proof that its features, and those of the other levels
/// whose kernels it may use, are there. Only detection creates one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tier {
    level: Level,
    /// Level whose kernels multiply wide tiles of BF16 weights.
    wide_bf16: Level,
    /// True if weights are prefetched into L1 (hint T0) instead of L2 (hint T1), where the level has kernels for both.
    prefetches_to_l1: bool,
}

impl Tier {
    /// Tier that runs everywhere.
    pub const SCALAR: Tier = Tier::only(Level::Scalar);

    const fn only(level: Level) -> Tier {
        let wide_bf16 = match level.about().few {
            Some(few) => few,
            None => level,
        };
        Tier { level, wide_bf16, prefetches_to_l1: false }
    }

    /// Returns the tier of `level` that uses its kernels alone, or `None` if this machine lacks it.
    #[must_use]
    pub fn new(level: Level) -> Option<Tier> {
        (level.about().detected)().then(|| Tier {
            prefetches_to_l1: level.can_prefetch_to_l1() && !vendor::is_zen4(),
            ..Tier::only(level)
        })
    }

    /// Returns the best tier of this machine, with the kernels of a lower level where these are faster.
    #[must_use]
    pub fn best() -> Tier {
        Tier::best_where(slow_pairs())
    }

    /// Returns the best tier, given whether products of bfloat16 pairs are slow here.
    pub(crate) fn best_where(slow_pairs: bool) -> Tier {
        let best = Level::ALL.into_iter().rev().find_map(Tier::new).unwrap_or(Tier::SCALAR);
        match best.level {
            level if slow_pairs && level.bf16_pairs() => Tier { wide_bf16: level.common(), ..best },
            _ => best,
        }
    }

    /// Returns the tier whose kernels multiply tiles of up to `columns` columns in an activation format.
    pub(crate) fn for_tiles(self, act_format: ActFormat, columns: usize) -> Tier {
        if act_format == ActFormat::BF16 && columns >= WIDE {
            Tier { level: self.wide_bf16, ..self }
        } else {
            self
        }
    }

    /// Returns the tier whose tiles a batch of `columns` columns in an activation format is divided into.
    pub(crate) fn for_batch(self, act_format: ActFormat, columns: usize) -> Tier {
        if act_format.is_float() || columns < WORTH_MATRICES { self.for_few() } else { self }
    }

    /// Returns the tier whose kernels multiply few tokens.
    pub(crate) fn for_few(self) -> Tier {
        Tier { level: self.level.about().few.unwrap_or(self.level), ..self }
    }

    /// Returns all tiers of this machine, slowest first.
    #[must_use]
    pub fn available() -> Vec<Tier> {
        Level::ALL.into_iter().filter_map(Tier::new).collect()
    }

    /// Creates a tier for looking up tables, without proof.
    #[cfg(test)]
    pub(crate) fn unproved(level: Level) -> Tier {
        Tier::only(level)
    }

    /// Returns whether a single port multiplies 512-bit vectors, integers and floats alike: true of the processors
    /// whose weights are prefetched into L2.
    pub(crate) fn single_multiply_port(self) -> bool {
        self.level.can_prefetch_to_l1() && !self.prefetches_to_l1
    }

    /// Returns whether a processor of this tier, which is an AVX-512 one, chooses among 64 bytes with one instruction
    /// (AVX-512 VBMI: Xeon from Ice Lake on, Zen 4 and later).
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn permutes_bytes(self) -> bool {
        self.level >= Level::Avx512 && self.level <= Level::Amx && detected!(avx512 "avx512vbmi")()
    }

    /// Returns whether weights are prefetched into L1.
    pub(crate) fn prefetches_to_l1(self) -> bool {
        self.prefetches_to_l1
    }

    /// Returns the tier that prefetches weights into the other cache level.
    #[cfg(test)]
    pub(crate) fn other_prefetch_level(self) -> Option<Tier> {
        self.level.can_prefetch_to_l1().then_some(Tier { prefetches_to_l1: !self.prefetches_to_l1, ..self })
    }

    /// Returns the level that this tier proves.
    #[must_use]
    pub fn level(self) -> Level {
        self.level
    }
}

/// Returns whether two float multiply-adds are faster than one product of bfloat16 pairs. A 512-bit `VDPBF16PS` takes
/// Intel's cores two cycles, in which they execute four multiply-adds.
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
