//! Registry of the kernels of every weight format, by ISA level and variant.
//!
//! `family_tiles!` makes the packed tiles of every level and number of tokens; GEMV and small batches use them. The
//! rows below are for many tokens: variant, level, tile (MR tokens x panels), and the minimum number of tiles in a
//! batch from which panels are unpacked. The first row that the tier supports is used ([`Kernels::gemm`]);
//! `leyden hwbench` prints it and the reason.

pub(crate) mod rows;
pub(crate) mod tiles;

use crate::cpu::isa::Tier;
use crate::gemm::format::traits::{QuantFormat, Superblock};
use crate::gemm::format::{
    Format, bf16, decoded, float, iq4_nl, iq4_xs, mxfp4, q2_k, q3_k, q4_0, q4_1, q4_k, q5_0, q5_1, q5_k,
    q6_k, q8_0,
};
use crate::gemm::microkernel::float::floats;
use crate::gemm::microkernel::kernels::{GemmKernels, TileFn, UnpackKernel};
use crate::gemm::microkernel::{BF16_ROWS, bf16_kernels};
use crate::quant::packed_a::Tile;
use crate::types::{ActFormat, PANEL_ROWS};
#[cfg(target_arch = "x86_64")]
use bf16::FloatPairs;
use float::F32Row;
use leyden_tensor::{DType, quant};
use rows::rows;
use tiles::{family_tiles, simd_tiles};

/// Weight format and its kernels.
#[derive(Debug)]
pub(crate) struct Kernels {
    pub(crate) format: Format,
    /// Tiles of a tier on packed panels, by number of tokens minus 1.
    pub(crate) tiles: fn(Tier) -> &'static [TileFn],
    /// Rows for many tokens, in order of preference.
    pub(crate) rows: &'static [&'static [GemmKernels]],
}

impl Kernels {
    /// Returns the row of a tier, if it has one.
    pub(crate) fn gemm(&self, tier: Tier) -> Option<&'static GemmKernels> {
        self.rows.iter().copied().flatten().find(|row| row.is_for(tier))
    }

    /// Returns the row for a batch of `tiles` tiles, and its unpacking if the batch has enough tiles for that.
    pub(crate) fn for_tiles(
        &self,
        tier: Tier,
        tiles: usize,
    ) -> Option<(&'static GemmKernels, Option<&'static UnpackKernel>)> {
        let row = self.gemm(tier)?;
        let unpack = row.unpack.as_ref().filter(|unpack| tiles >= unpack.min_tiles);
        (unpack.is_some() || row.tiles.is_some()).then_some((row, unpack))
    }
}

/// Defines a format's entry: its panels, scalar definition, family, type and rows.
macro_rules! kernels {
    ($format:path, $scalar:path, $family:ident $f:path,
     $($variant:ident $level:ident $mr:literal x $panels:literal, $min:literal;)*) => {
        Kernels {
            format: $format,
            tiles: family_tiles!($scalar, $family $f),
            rows: &[$(rows!($variant $level $mr x $panels, $min, $family $f),)*],
        }
    };
}

const Q4_0: Kernels = kernels!(q4_0::FORMAT, q4_0::scalar, block32 q4_0::Q4_0,
    amx Amx 64 x 1, 1;
    unpacked Avx512 12 x 2, 4;
    unpacked AvxVnni 6 x 1, 4;
    maddubs Avx2 6 x 1, 3;
);

const Q2_K: Kernels = kernels!(q2_k::FORMAT, q2_k::scalar, superblocks q2_k::Q2K,
    amx Amx 64 x 1, 1;
    unpacked Avx512 12 x 2, 4;
    unpacked AvxVnni 6 x 1, 4;
    maddubs Avx2 6 x 1, 3;
);

/// Entry of the decoded formats, which differ in their packing only.
const DECODED: Kernels = Kernels {
    format: decoded::format::<quant::NVFP4>(),
    tiles: simd_tiles!(floats decoded::scalar, |d, C, panel, k, t, out| {
        floats::<_, _, C>(d, F32Row, decoded::decoded(panel, k).bytes(), k, t, out)
    }),
    rows: &[rows!(decoded Avx512 12 x 2, 2), rows!(decoded Avx2 6 x 1, 2)],
};

/// Entries of all weight formats. A new format is a file in `format` and an entry here.
pub(crate) static KERNELS: &[Kernels] = &[
    Kernels {
        format: float::F32,
        tiles: family_tiles!(float::scalar_f32, floats F32Row),
        rows: &[rows!(floats Avx512 12 x 2, 4, F32Row)],
    },
    Kernels {
        format: float::F16,
        tiles: family_tiles!(float::scalar_f16, floats float::F16Row),
        rows: &[rows!(floats Avx512 12 x 2, 4, float::F16Row, F32Row)],
    },
    Kernels {
        format: bf16::FORMAT,
        tiles: |tier| match bf16_kernels(tier.level()) {
            Some(kernels) => &kernels.tiles[usize::from(tier.prefetches_to_l1())],
            None => family_tiles!(bf16::scalar, floats bf16::Pairs)(tier),
        },
        rows: &[BF16_ROWS[0], BF16_ROWS[1], rows!(floats Avx512 12 x 2, 4, bf16::Pairs, FloatPairs)],
    },
    Q4_0,
    Kernels { format: q4_0::Q1_0, ..Q4_0 },
    kernels!(q4_1::FORMAT, q4_1::scalar, block32 q4_1::Q4_1,
        amx Amx 64 x 1, 1;
        unpacked Avx512 12 x 2, 4;
        unpacked AvxVnni 6 x 1, 4;
        maddubs Avx2 6 x 1, 3;
    ),
    kernels!(q5_0::FORMAT, q5_0::scalar, block32 q5_0::Q5_0,
        amx Amx 64 x 1, 1;
        unpacked Avx512 12 x 2, 4;
        unpacked AvxVnni 6 x 1, 4;
        maddubs Avx2 6 x 1, 3;
    ),
    kernels!(q5_1::FORMAT, q5_1::scalar, block32 q5_1::Q5_1,
        amx Amx 64 x 1, 1;
        unpacked Avx512 12 x 2, 4;
        unpacked AvxVnni 6 x 1, 4;
        maddubs Avx2 6 x 1, 3;
    ),
    kernels!(q8_0::FORMAT, q8_0::scalar, block32 q8_0::Q8_0,
        amx Amx 64 x 1, 1;
        unpacked Avx512 12 x 2, 4;
        unpacked AvxVnni 6 x 1, 4;
        madd Avx2 6 x 1, 3;
    ),
    kernels!(iq4_nl::FORMAT, iq4_nl::scalar, block32 iq4_nl::Iq4Nl,
        amx Amx 64 x 1, 1;
        unpacked Avx512 12 x 2, 4;
        unpacked AvxVnni 6 x 1, 4;
        madd Avx2 6 x 1, 3;
    ),
    kernels!(mxfp4::FORMAT, mxfp4::scalar, block32 mxfp4::Mxfp4,
        amx Amx 64 x 1, 1;
        unpacked Avx512 12 x 2, 4;
        unpacked AvxVnni 6 x 1, 4;
        maddubs Avx2 6 x 1, 2;
    ),
    Q2_K,
    Kernels { format: q2_k::TQ1_0, ..Q2_K },
    Kernels { format: q2_k::TQ2_0, ..Q2_K },
    Kernels { format: decoded::format::<quant::NVFP4>(), ..DECODED },
    Kernels { format: decoded::format::<quant::IQ1S>(), ..DECODED },
    Kernels { format: decoded::format::<quant::IQ1M>(), ..DECODED },
    Kernels { format: decoded::format::<quant::IQ2XXS>(), ..DECODED },
    Kernels { format: decoded::format::<quant::IQ2XS>(), ..DECODED },
    Kernels { format: decoded::format::<quant::IQ2S>(), ..DECODED },
    Kernels { format: decoded::format::<quant::IQ3XXS>(), ..DECODED },
    Kernels { format: decoded::format::<quant::IQ3S>(), ..DECODED },
    kernels!(q3_k::FORMAT, q3_k::scalar, superblocks q3_k::Q3K,
        amx Amx 64 x 1, 1;
        unpacked Avx512 12 x 2, 4;
        unpacked AvxVnni 6 x 1, 4;
        maddubs Avx2 6 x 1, 3;
    ),
    kernels!(q4_k::FORMAT, q4_k::scalar, superblocks q4_k::Q4K,
        amx Amx 64 x 1, 1;
        winograd Avx512 12 x 2, 4;
        unpacked Avx512 12 x 2, 4;
        unpacked AvxVnni 6 x 1, 4;
        maddubs Avx2 6 x 1, 3;
    ),
    kernels!(q5_k::FORMAT, q5_k::scalar, superblocks q5_k::Q5K,
        amx Amx 64 x 1, 1;
        unpacked Avx512 12 x 2, 4;
        unpacked AvxVnni 6 x 1, 4;
        maddubs Avx2 6 x 1, 3;
    ),
    kernels!(q6_k::FORMAT, q6_k::scalar, superblocks q6_k::Q6K,
        amx Amx 64 x 1, 1;
        unpacked Avx512 12 x 2, 4;
        unpacked AvxVnni 6 x 1, 4;
        maddubs Avx2 6 x 1, 2;
    ),
    kernels!(iq4_xs::FORMAT, iq4_xs::scalar, superblocks iq4_xs::Iq4Xs,
        amx Amx 64 x 1, 1;
        unpacked Avx512 12 x 2, 4;
        unpacked AvxVnni 6 x 1, 4;
        madd Avx2 6 x 1, 3;
    ),
];

/// Formats used instead for exact products: of types whose weights are not quantised but whose activations would be
/// rounded. The panels are the same.
pub(crate) static EXACT: &[Kernels] = &[Kernels {
    format: float::BF16,
    tiles: family_tiles!(float::scalar_bf16, floats float::Bf16Row),
    rows: &[rows!(floats Avx512 12 x 2, 4, float::Bf16Row, F32Row)],
}];

/// Tiles of attention keys, 16 tokens as 16 rows. The memory after them holds keys of other heads, so they do not
/// prefetch; the task prefetches its next keys itself.
pub(crate) const KEY_TILES: fn(Tier) -> &'static [TileFn] = family_tiles!(q8_0::scalar, block32 q8_0::Keys);

/// Returns the entry of a data type; `None` for types without a kernel.
pub(crate) fn kernels_of(dtype: DType, exact: bool) -> Option<&'static Kernels> {
    let exact = EXACT.iter().filter(|_| exact);
    exact.chain(KERNELS).find(|kernels| kernels.format.dtype == dtype)
}

/// Returns the bytes of packed weights per byte of the file, for whole panels; `None` for types without a kernel.
#[must_use]
pub fn packed_ratio(dtype: DType) -> Option<f64> {
    // Multiple of all block sizes, deep enough that fixed parts of a panel do not matter.
    const K: usize = 1 << 14;
    let panel = (kernels_of(dtype, false)?.format.panel_bytes)(K)?;
    Some(panel as f64 / (dtype.row_bytes(K)? * PANEL_ROWS) as f64)
}

/// Returns the activation format for weights of a type, by default or for exact products
/// ([`Cpu::with_exact`](crate::Cpu::with_exact)); `None` for types without a kernel.
#[must_use]
pub fn act_format_of(dtype: DType, exact: bool) -> Option<ActFormat> {
    kernels_of(dtype, exact).map(|kernels| kernels.format.act_format)
}
