//! [`KernelClass`]: kinds of processors that our kernels have constants for, and these constants.
//!
//! A constant is the share of a measured peak that a kernel reaches. They were fitted to the records under
//! `bench/results`; [`grades`](crate::grades) computes the errors that remain. Classes without records have the
//! constants of the nearest class with records, and are marked.

use leyden_kernels::gemm::act_format_of;
use leyden_kernels::{ActFormat, Level};
use leyden_tensor::DType;
use serde::Serialize;

/// Kind of processor, by the kernels that it runs and how near its peaks these come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum KernelClass {
    /// AVX2 without VNNI: Zen 2 and 3, Haswell to Cascade Lake's AVX2.
    Avx2,
    /// AVX2 with VNNI, which Intel's client processors have.
    AvxVnni,
    /// AVX-512 with VNNI on AMD: Zen 4 and 5.
    Avx512Amd,
    /// AVX-512 with VNNI on Intel.
    Avx512Intel,
    /// AMX: Xeon from Sapphire Rapids on.
    Amx,
    /// NEON with int8 dot products: Neoverse N1.
    DotProd,
    /// NEON with int8 matrix products: Neoverse V1 and V2, AmpereOne.
    I8mm,
    /// No SIMD kernels, or NEON without dot products.
    Plain,
}

/// Shares of a class's peaks and other constants.
#[derive(Debug)]
pub(crate) struct Constants {
    class: KernelClass,
    name: &'static str,
    /// Level of the kernels.
    level: &'static str,
    /// True if records of this class exist.
    pub(crate) graded: bool,
    /// Share of the int8 peak that products of many tokens reach, by type; the first row is that of other types.
    int8: &'static [(DType, f64)],
    /// Share of the int8 peak of INT8 rows (encoders).
    int8_rows: f64,
    /// Share of the f32 peak of F16 weights, and of F32 weights.
    f16: f64,
    f32: f64,
    /// Share of the bf16 peak of BF16 weights.
    bf16: f64,
    /// Share of the f32 peak in attention over keys and values in floats, and of the int8 peak over quantised ones.
    pub(crate) attention: [f64; 2],
    /// Share of the read bandwidth that decoding one sequence reaches.
    pub(crate) read: f64,
    /// Factor on the time of products where sequences are decoded together, relative to a prompt.
    pub(crate) together: f64,
    /// Factor on the time of experts' products, whose tokens fill tiles badly.
    pub(crate) experts: f64,
    /// Loss of products per further core, up to [`MAX_LOSS_CORES`]: for prompts, and for sequences decoded together.
    pub(crate) loss: [f64; 2],
}

/// Number of cores from which on no further loss is assumed: the largest number that was measured.
pub(crate) const MAX_LOSS_CORES: usize = 16;
/// Share of the shorter of reading and multiplying that is not hidden behind the longer, in steps of many tokens.
pub(crate) const EXPOSED: f64 = 0.8;
/// Core seconds per value of the residual stream and layer in norms, rotations, quantisation and sums.
pub(crate) const ELEMENT_SECONDS: f64 = 3e-9;
/// Seconds per layer and step in which threads wait for each other: fixed, and per further core.
pub(crate) const LAYER_SECONDS: [f64; 2] = [6e-6, 1e-6];
/// Factor on the bandwidth if the last-level cache holds twice the weights.
pub(crate) const CACHED: f64 = 3.0;

const AVX2: Constants = Constants {
    class: KernelClass::Avx2,
    name: "AVX2",
    level: "avx2",
    graded: true,
    int8: &[
        (DType::Q4_0, 0.41),
        (DType::Q4K, 0.47),
        (DType::Q5K, 0.47),
        (DType::Q6K, 0.355),
        (DType::Q8_0, 0.25),
        (DType::IQ4XS, 0.30),
        (DType::IQ4NL, 0.30),
    ],
    int8_rows: 0.45,
    f16: 0.83,
    f32: 0.74,
    bf16: 0.76,
    attention: [0.72, 0.24],
    read: 0.92,
    together: 0.80,
    experts: 1.2,
    loss: [0.013, 0.02],
};

const AVX512_AMD: Constants = Constants {
    class: KernelClass::Avx512Amd,
    name: "AVX-512 on AMD",
    level: "avx512",
    graded: true,
    int8: &[
        (DType::Q4_0, 0.67),
        (DType::Q4K, 0.68),
        (DType::Q5K, 0.635),
        (DType::Q6K, 0.68),
        (DType::IQ4XS, 0.71),
    ],
    int8_rows: 0.83,
    f16: 0.89,
    f32: 0.74,
    bf16: 0.83,
    attention: [0.83, 0.37],
    read: 0.88,
    together: 0.95,
    experts: 1.2,
    loss: [0.025, 0.04],
};

/// Every class.
static CLASSES: [Constants; 8] = [
    AVX2,
    Constants {
        class: KernelClass::AvxVnni,
        name: "AVX2 with VNNI",
        level: "avxvnni",
        graded: false,
        int8: &[(DType::Q4_0, 0.55)],
        int8_rows: 0.6,
        ..AVX2
    },
    AVX512_AMD,
    Constants {
        class: KernelClass::Avx512Intel,
        name: "AVX-512 on Intel",
        int8: &[
            (DType::Q4_0, 0.46),
            (DType::Q4K, 0.45),
            (DType::Q5K, 0.41),
            (DType::Q6K, 0.435),
            (DType::IQ4XS, 0.49),
        ],
        int8_rows: 0.5,
        f16: 0.68,
        f32: 0.6,
        bf16: 0.58,
        attention: [0.61, 0.23],
        read: 0.78,
        together: 1.2,
        ..AVX512_AMD
    },
    Constants {
        class: KernelClass::Amx,
        name: "AMX",
        level: "amx",
        int8: &[
            (DType::Q4_0, 0.098),
            (DType::Q4K, 0.103),
            (DType::Q5K, 0.108),
            (DType::Q6K, 0.120),
            (DType::Q8_0, 0.095),
            (DType::IQ4XS, 0.121),
        ],
        int8_rows: 0.12,
        f16: 0.70,
        f32: 0.6,
        bf16: 0.72,
        attention: [0.61, 0.034],
        read: 0.87,
        together: 1.2,
        experts: 2.3,
        loss: [0.05, 0.085],
        ..AVX512_AMD
    },
    Constants {
        class: KernelClass::DotProd,
        name: "NEON with dot products",
        level: "dotprod",
        graded: false,
        int8: &[(DType::Q4_0, 0.5)],
        int8_rows: 0.5,
        f16: 0.6,
        f32: 0.6,
        bf16: 0.5,
        attention: [0.6, 0.25],
        read: 0.85,
        ..AVX2
    },
    Constants {
        class: KernelClass::I8mm,
        name: "NEON with matrix products",
        level: "i8mm",
        graded: false,
        int8: &[(DType::Q4_0, 0.45)],
        int8_rows: 0.45,
        f16: 0.6,
        f32: 0.6,
        bf16: 0.5,
        attention: [0.6, 0.15],
        read: 0.85,
        ..AVX2
    },
    Constants {
        class: KernelClass::Plain,
        name: "no SIMD kernels",
        level: "scalar",
        graded: false,
        int8: &[(DType::Q4_0, 0.3)],
        int8_rows: 0.3,
        f16: 0.3,
        f32: 0.3,
        bf16: 0.3,
        attention: [0.3, 0.3],
        read: 0.5,
        ..AVX2
    },
];

impl KernelClass {
    /// Returns every class.
    pub fn all() -> impl Iterator<Item = KernelClass> {
        CLASSES.iter().map(|c| c.class)
    }

    /// Returns the class of a level of kernels on a processor of `vendor` (as Linux writes it).
    #[must_use]
    pub fn of(level: Level, vendor: Option<&str>) -> KernelClass {
        match level {
            Level::Scalar | Level::Neon => KernelClass::Plain,
            Level::Avx2 => KernelClass::Avx2,
            Level::AvxVnni => KernelClass::AvxVnni,
            Level::Avx512 | Level::Avx512Bf16 if vendor == Some("AuthenticAMD") => KernelClass::Avx512Amd,
            Level::Avx512 | Level::Avx512Bf16 => KernelClass::Avx512Intel,
            Level::Amx => KernelClass::Amx,
            Level::DotProd => KernelClass::DotProd,
            Level::I8mm => KernelClass::I8mm,
        }
    }

    /// Returns the class of this name in the tables.
    pub(crate) fn from_name(name: &str) -> Option<KernelClass> {
        CLASSES.iter().find(|c| c.name == name).map(|c| c.class)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.constants().name
    }

    /// Returns the name of the level of kernels.
    #[must_use]
    pub fn level(self) -> &'static str {
        self.constants().level
    }

    /// Returns the most bytes per second that one core with vector units of `simd_bits` bits was recorded to read. Arm
    /// has the number of Zen 4, the middle one, as nothing was recorded there.
    pub(crate) fn core_read_bytes(self, simd_bits: f64) -> f64 {
        match self {
            KernelClass::Avx2 | KernelClass::AvxVnni => 11.5e9,
            KernelClass::Avx512Amd if simd_bits > 512.0 => 42e9,
            KernelClass::Avx512Intel | KernelClass::Amx => 13.5e9,
            KernelClass::Avx512Amd | KernelClass::DotProd | KernelClass::I8mm | KernelClass::Plain => 18e9,
        }
    }

    /// Returns true if the class has records that its constants were fitted to.
    #[must_use]
    pub fn is_graded(self) -> bool {
        self.constants().graded
    }

    pub(crate) fn constants(self) -> &'static Constants {
        CLASSES.iter().find(|c| c.class == self).unwrap_or(&AVX2)
    }
}

/// Peak that a share refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeakKind {
    Int8,
    F32,
    Bf16,
}

impl Constants {
    /// Returns the peak and the share of it that products of many tokens with weights of a type reach. `rows` is true
    /// for an encoder whose matrices are INT8 rows.
    pub(crate) fn products(&self, dtype: DType, rows: bool) -> (PeakKind, f64) {
        if rows && dtype == DType::Q8_0 {
            return (PeakKind::Int8, self.int8_rows);
        }
        match act_format_of(dtype, false) {
            Some(ActFormat::BF16) => (PeakKind::Bf16, self.bf16),
            Some(ActFormat::F32) if dtype == DType::F32 => (PeakKind::F32, self.f32),
            Some(ActFormat::F32) | None => (PeakKind::F32, self.f16),
            Some(_) => {
                let other = self.int8.first().map_or(0.3, |row| row.1);
                let found = self.int8.iter().find(|row| row.0 == dtype);
                (PeakKind::Int8, found.map_or(other, |row| row.1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_row_and_a_share_for_every_type() {
        for class in KernelClass::all() {
            assert_eq!(class.constants().class, class);
            assert_eq!(KernelClass::from_name(class.name()), Some(class));
            for dtype in DType::all() {
                let (_, share) = class.constants().products(dtype, false);
                assert!(share > 0.0 && share <= 1.0, "{} {dtype}", class.name());
            }
        }
        for level in Level::ALL {
            assert!(KernelClass::all().any(|class| class == KernelClass::of(level, None)));
        }
    }
}
