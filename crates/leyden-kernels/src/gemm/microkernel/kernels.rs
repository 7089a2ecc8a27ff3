//! What a kernel is: a function, how many panels and tokens it takes, and how panels are unpacked for it.

pub(crate) use crate::cpu::isa::Level;
use crate::cpu::isa::Tier;
use crate::quant::packed_a::Tile;

/// Multiplies one panel with one tile: `out[c][16]`, overwritten. Functions for many tokens may take several panels, one
/// behind the other and perhaps unpacked: `out[panel][c][16]` (`gemm::microkernel::kernels`).
///
/// # Safety
/// The processor supports the tier the function belongs to; `panel` is a whole panel of depth `k` in the
/// format the function belongs to, or as many as it takes; `tile` has the format's activation format, depth `k`, and the number of
/// columns the function was made for; `out` has room for 16 values per column and panel.
pub(crate) type TileFn = unsafe fn(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]);

/// Writes a panel as tiles of many tokens read it, and raises `norms` to what `norms_of` says of it, where they
/// read that.
///
/// # Safety
/// As of [`TileFn`]; `out` has as many bytes as [`UnpackKernel::bytes`] says, `norms` one number for each 128 values.
pub(crate) type UnpackFn = unsafe fn(panel: &[u8], k: usize, out: &mut [u8], norms: &mut [f32]);

/// How panels are unpacked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnpackKernel {
    /// Bytes of what is made of a panel of depth `k`, whole cache lines; None on overflow.
    pub(crate) bytes: fn(k: usize) -> Option<usize>,
    pub(crate) panel: UnpackFn,
    /// Tiles that must meet a panel for that to pay.
    pub(crate) min_tiles: usize,
    /// Tiles that read what was made, of as many tokens as [`GemmKernels::tiles`].
    pub(crate) tiles: [TileFn; 2],
}

/// How kernels for many tokens read weights.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Packed panels.
    Packed,
    /// Panels unpacked to bytes, or to floats.
    Unpacked,
    /// Panels unpacked for Winograd's inner product.
    Winograd,
    /// Panels unpacked for `vpmaddubsw`, two sums of 16 bits in a lane.
    Maddubs,
    /// Panels unpacked to integers of 16 bits for `vpmaddwd`.
    Madd,
    /// Panels unpacked to planes of bytes for AMX.
    Amx,
    /// Panels whose pairs of bfloat16 are interleaved.
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

/// How many ports of the processor multiply vectors of 512 bits.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Any,
    Single,
    Two,
}

/// The levels that multiply vectors as AVX-512 does.
#[cfg(target_arch = "x86_64")]
pub(crate) const AVX512_LEVELS: &[Level] = &[Level::Avx512, Level::Avx512Bf16, Level::Amx];

/// The kernels of a format for many tokens, on some levels: a row of the registry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GemmKernels {
    pub(crate) variant: Variant,
    pub(crate) levels: &'static [Level],
    pub(crate) port: Port,
    /// Tokens of the widest tile (MR).
    pub(crate) tokens: usize,
    /// Unpacks panels where enough tiles meet them.
    pub(crate) unpack: Option<UnpackKernel>,
    /// Panels that a tile takes, one behind the other, into `out[panel][c][16]`.
    pub(crate) panels: usize,
    /// Tiles of the most tokens and of one fewer, which is what many tokens are divided into, on packed panels.
    pub(crate) tiles: Option<[TileFn; 2]>,
    /// Whether all these take tiles of any number of tokens instead.
    pub(crate) any_columns: bool,
}

#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
impl GemmKernels {
    /// On packed panels alone.
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

    /// On unpacked panels alone.
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

    /// On packed panels and unpacked ones, for tiles of any number of tokens.
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

    /// The same, and on panels unpacked to floats.
    pub(crate) const fn and_unpacked(self, unpack: UnpackKernel) -> GemmKernels {
        GemmKernels { variant: Variant::Unpacked, unpack: Some(unpack), ..self }
    }

    /// The same, for processors with so many multiply ports.
    pub(crate) const fn on(self, port: Port) -> GemmKernels {
        GemmKernels { port, ..self }
    }
}

impl GemmKernels {
    /// Whether a tier takes this row.
    pub(crate) fn is_for(&self, tier: Tier) -> bool {
        let port = match self.port {
            Port::Any => true,
            Port::Single => tier.single_multiply_port(),
            Port::Two => !tier.single_multiply_port(),
        };
        port && self.levels.contains(&tier.level())
    }
}

/// What a level has that multiplies pairs of bfloat16 by an instruction of their own.
#[derive(Debug)]
pub(crate) struct Bf16Kernels {
    /// The tiles of BF16 weights, by number of columns less one: those that fetch weights into L2, and those that
    /// do so into the first.
    pub(crate) tiles: [[TileFn; Level::VECTOR_COLUMNS]; 2],
    /// Those for many tokens.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
    pub(crate) many: GemmKernels,
    /// Makes so many rounds of independent products in registers, and says how many those were; to be called where the
    /// level is there.
    pub(crate) products: unsafe fn(rounds: u64) -> u64,
}
