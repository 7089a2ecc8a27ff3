//! Description of a kernel: its function, the number of panels and tokens it takes, and how panels are unpacked for it.

pub(crate) use crate::cpu::isa::Level;
use crate::cpu::isa::Tier;
use crate::quant::packed_a::Tile;

/// Multiplies one panel with one tile: overwrites `out[c][16]`. Functions for many tokens may take several contiguous
/// panels, packed or unpacked: `out[panel][c][16]`.
///
/// # Safety
/// The processor supports the tier that the function belongs to; `panel` is a whole panel of depth `k` in the
/// function's format, or as many as it takes; `tile` has the format's activation format, depth `k`, and the number of
/// columns that the function was made for; `out` has room for 16 values per column and panel.
pub(crate) type TileFn = unsafe fn(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]);

/// Unpacks a panel for tiles of many tokens, and raises `norms` to the panel's norms (`norms_of`) if the tiles read
/// them.
///
/// # Safety
/// As in [`TileFn`]; `out` has [`UnpackKernel::bytes`] bytes, `norms` one value per 128 values of the depth.
pub(crate) type UnpackFn = unsafe fn(panel: &[u8], k: usize, out: &mut [u8], norms: &mut [f32]);

/// Unpacking of panels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnpackKernel {
    /// Computes the bytes of an unpacked panel of depth `k`, whole cache lines; `None` on overflow.
    pub(crate) bytes: fn(k: usize) -> Option<usize>,
    pub(crate) panel: UnpackFn,
    /// Minimum number of tiles per panel for which unpacking pays.
    pub(crate) min_tiles: usize,
    /// Tiles on unpacked panels, for the same numbers of tokens as [`GemmKernels::tiles`].
    pub(crate) tiles: [TileFn; 2],
}

/// Form in which kernels for many tokens read weights.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Packed panels.
    Packed,
    /// Panels unpacked to bytes, or to floats.
    Unpacked,
    /// Panels unpacked for Winograd's inner product.
    Winograd,
    /// Panels unpacked for `vpmaddubsw`, with two 16-bit sums per lane.
    Maddubs,
    /// Panels unpacked to 16-bit integers for `vpmaddwd`.
    Madd,
    /// Panels unpacked to planes of bytes for AMX.
    Amx,
    /// Panels with interleaved pairs of bfloat16.
    Interleaved,
}

impl Variant {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Variant::Packed => "packed",
            Variant::Unpacked => "unpacked",
            Variant::Winograd => "winograd",
            Variant::Maddubs => "maddubs",
            Variant::Madd => "madd",
            Variant::Amx => "amx planes",
            Variant::Interleaved => "interleaved",
        }
    }
}

/// Number of ports of the processor that multiply 512-bit vectors.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Any,
    Single,
    Two,
}

/// Levels that multiply vectors as AVX-512 does.
#[cfg(target_arch = "x86_64")]
pub(crate) const AVX512_LEVELS: &[Level] = &[Level::Avx512, Level::Avx512Bf16, Level::Amx];

/// Kernels of a format for many tokens, on some levels: a row of the registry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GemmKernels {
    pub(crate) variant: Variant,
    pub(crate) levels: &'static [Level],
    pub(crate) port: Port,
    /// Tokens of the widest tile (MR).
    pub(crate) tokens: usize,
    /// Unpacking of panels, if there are enough tiles.
    pub(crate) unpack: Option<UnpackKernel>,
    /// Number of contiguous panels that a tile takes, into `out[panel][c][16]`.
    pub(crate) panels: usize,
    /// Tiles on packed panels of `tokens` and of `tokens - 1` tokens, the sizes into which many tokens are divided.
    pub(crate) tiles: Option<[TileFn; 2]>,
    /// True if all these tiles take any number of tokens.
    pub(crate) any_columns: bool,
}

#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
impl GemmKernels {
    /// Creates a row with tiles on packed panels only.
    pub(crate) const fn packed(
        levels: &'static [Level],
        tokens: usize,
        panels: usize,
        tiles: [TileFn; 2],
    ) -> GemmKernels {
        GemmKernels {
            variant: Variant::Packed,
            levels,
            port: Port::Any,
            tokens,
            unpack: None,
            panels,
            tiles: Some(tiles),
            any_columns: false,
        }
    }

    /// Creates a row with tiles on unpacked panels only.
    pub(crate) const fn unpacked(
        variant: Variant,
        levels: &'static [Level],
        tokens: usize,
        panels: usize,
        unpack: UnpackKernel,
    ) -> GemmKernels {
        let (port, unpack) = (Port::Any, Some(unpack));
        GemmKernels { variant, levels, port, tokens, unpack, panels, tiles: None, any_columns: false }
    }

    /// Creates a row with tiles on packed and on unpacked panels, for any number of tokens.
    pub(crate) const fn any_tokens(
        variant: Variant,
        levels: &'static [Level],
        tokens: usize,
        panels: usize,
        packed: [TileFn; 2],
        unpack: UnpackKernel,
    ) -> GemmKernels {
        let (port, unpack) = (Port::Any, Some(unpack));
        GemmKernels { variant, levels, port, tokens, unpack, panels, tiles: Some(packed), any_columns: true }
    }

    /// Adds tiles on panels unpacked to floats to a row.
    pub(crate) const fn and_unpacked(self, unpack: UnpackKernel) -> GemmKernels {
        GemmKernels { variant: Variant::Unpacked, unpack: Some(unpack), ..self }
    }

    /// Restricts a row to processors with this number of multiply ports.
    pub(crate) const fn on(self, port: Port) -> GemmKernels {
        GemmKernels { port, ..self }
    }
}

impl GemmKernels {
    /// Returns whether a tier uses this row.
    pub(crate) fn is_for(&self, tier: Tier) -> bool {
        let port = match self.port {
            Port::Any => true,
            Port::Single => tier.single_multiply_port(),
            Port::Two => !tier.single_multiply_port(),
        };
        port && self.levels.contains(&tier.level())
    }
}

/// Kernels of a level with an instruction that multiplies pairs of bfloat16.
#[derive(Debug)]
pub(crate) struct Bf16Kernels {
    /// Tiles of BF16 weights, by number of columns minus 1: those that prefetch weights into L2, and those that
    /// prefetch into L1.
    pub(crate) tiles: [[TileFn; Level::VECTOR_COLUMNS]; 2],
    /// Kernels for many tokens.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
    pub(crate) many: GemmKernels,
    /// Computes `rounds` rounds of independent products in registers and returns the number of products. To be called
    /// only if the level is supported.
    pub(crate) products: unsafe fn(rounds: u64) -> u64,
}
