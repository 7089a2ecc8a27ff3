//! Name and features of the processor, from `/proc/cpuinfo`.

use serde::Serialize;

use crate::cpu::topology::cpu_list::CpuList;
use crate::cpu::topology::sysfs::{SysFs, field_in};

/// Extensions that matter to kernels, in Linux's spelling and from old to new. The full list of flags has a hundred and
/// more entries and says nothing further about speed.
const COMPUTE_FEATURES: &[&str] = &[
    // x86-64
    "ssse3",
    "sse4_2",
    "avx",
    "f16c",
    "fma",
    "avx2",
    "bmi2",
    "avx_vnni",
    "avx_vnni_int8",
    "avx_ne_convert",
    "avx512f",
    "avx512cd",
    "avx512bw",
    "avx512dq",
    "avx512vl",
    "avx512vbmi",
    "avx512_vbmi2",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "avx10",
    "gfni",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "amx_fp16",
    // aarch64
    "asimd",
    "fphp",
    "asimdhp",
    "asimddp",
    "asimdfhm",
    "sve",
    "i8mm",
    "bf16",
    "sve2",
    "svei8mm",
    "svebf16",
    "sme",
    "sme2",
];

/// Arm cores by (implementer, part): on Arm, `cpuinfo` gives numbers instead of a name.
const ARM_PARTS: &[(u32, u32, &str)] = &[
    (0x41, 0xd03, "Arm Cortex-A53"),
    (0x41, 0xd05, "Arm Cortex-A55"),
    (0x41, 0xd07, "Arm Cortex-A57"),
    (0x41, 0xd08, "Arm Cortex-A72"),
    (0x41, 0xd0b, "Arm Cortex-A76"),
    (0x41, 0xd0c, "Arm Neoverse N1"),
    (0x41, 0xd40, "Arm Neoverse V1"),
    (0x41, 0xd49, "Arm Neoverse N2"),
    (0x41, 0xd4f, "Arm Neoverse V2"),
    (0x41, 0xd84, "Arm Neoverse V3"),
    (0x41, 0xd8e, "Arm Neoverse N3"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1a"),
];

/// Name of the processor and the extensions that the operating system lets programs use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Processor {
    /// Architecture that this program was built for, such as `x86_64`.
    pub arch: String,
    /// Marketing name, or `unknown processor`.
    pub brand: String,
    /// Vendor identification (`GenuineIntel`; the implementer number on Arm).
    pub vendor: Option<String>,
    /// Family, model and stepping on x86; implementer, part and variant on Arm.
    pub model: Option<String>,
    /// Instruction-set extensions that matter for arithmetic, in the kernel's spelling, from old to new.
    pub features: Vec<String>,
    /// True if a hypervisor is announced: numbers of cores and caches may then be invented.
    pub virtual_machine: bool,
}

impl Processor {
    /// Returns true if `feature` is among [`features`](Self::features).
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|f| f == feature)
    }
}

/// Reads the first processor of `cpuinfo`; the others repeat it.
pub(super) fn read(sys: &SysFs) -> Processor {
    let text = sys.text("proc/cpuinfo").unwrap_or_default();
    let flags: Vec<&str> = field_in(&text, "flags")
        .or_else(|| field_in(&text, "Features"))
        .map(|flags| flags.split_ascii_whitespace().collect())
        .unwrap_or_default();
    let implementer = field_in(&text, "CPU implementer");
    let part = field_in(&text, "CPU part");
    let brand = field_in(&text, "model name")
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .or_else(|| arm_brand(implementer?, part?))
        .unwrap_or_else(|| "unknown processor".to_owned());
    let x86_model = || {
        let (family, model) = (field_in(&text, "cpu family")?, field_in(&text, "model")?);
        let stepping = field_in(&text, "stepping").unwrap_or("?");
        Some(format!("family {family} model {model} stepping {stepping}"))
    };
    let arm_model = || {
        let variant = field_in(&text, "CPU variant").unwrap_or("?");
        Some(format!("implementer {} part {} variant {variant}", implementer?, part?))
    };
    Processor {
        arch: std::env::consts::ARCH.to_owned(),
        brand,
        vendor: field_in(&text, "vendor_id").or(implementer).map(str::to_owned),
        model: x86_model().or_else(arm_model),
        features: COMPUTE_FEATURES.iter().filter(|f| flags.contains(f)).map(|&f| f.to_owned()).collect(),
        virtual_machine: flags.contains(&"hypervisor"),
    }
}

/// Returns the CPU numbers in the `processor` lines of `cpuinfo`, which some sandboxes offer without `/sys`.
pub(super) fn listed_cpus(sys: &SysFs) -> CpuList {
    let text = sys.text("proc/cpuinfo").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            if name.trim() == "processor" { value.trim().parse().ok() } else { None }
        })
        .collect()
}

fn arm_brand(implementer: &str, part: &str) -> Option<String> {
    let (implementer, part) = (hex(implementer)?, hex(part)?);
    ARM_PARTS.iter().find(|entry| (entry.0, entry.1) == (implementer, part)).map(|entry| entry.2.to_owned())
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
