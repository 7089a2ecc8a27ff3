//! Grouped products compared with one token, one expert and one plain product at a time.

use super::*;
use crate::cpu::isa::Tier;
use crate::gemm::Gating;
use crate::gemm::epilogue::Write;
use crate::gemm::linear::multiply;
use crate::gemm::product::Product;
use crate::gemm::swiglu::{Gated, swiglu};
use crate::gemm::tests::{Fill, Rng, weights};
use crate::ops::{Activation, gate as gate_with};
use crate::quant::packed_a::PackedA;
use leyden_tensor::{DType, TensorView};

const COUNT: usize = 6;

/// Stack in the file's bits, packed whole and matrix by matrix.
struct Stack {
    dtype: DType,
    shape: [usize; 3],
    bytes: Vec<u8>,
}

impl Stack {
    fn new(dtype: DType, rows: usize, k: usize, rng: &mut Rng) -> Stack {
        let bytes = weights(dtype, COUNT * rows, k, Fill::Random, rng);
        Stack { dtype, shape: [COUNT, rows, k], bytes }
    }

    fn packed(&self, cpu: &Cpu) -> PackedWeights {
        let view = TensorView::new("stack", self.dtype, &self.shape, &self.bytes).unwrap();
        let mut done = 0;
        let packed = PackedWeights::pack_in_slices(cpu, &view, &mut |part| {
            assert_eq!(part.start, done);
            done = part.end;
        });
        assert_eq!(done, self.bytes.len());
        packed.unwrap()
    }

    fn single(&self, cpu: &Cpu) -> Vec<PackedWeights> {
        let each = self.bytes.chunks(self.bytes.len() / COUNT);
        let pack = |bytes| {
            let view = TensorView::new("one", self.dtype, &self.shape[1..], bytes).unwrap();
            PackedWeights::pack(cpu, &view).unwrap()
        };
        each.map(pack).collect()
    }
}

/// Multiplies one matrix after the other for one token after the other.
fn plain(
    cpu: &Cpu,
    [gate, up, down]: &[Stack; 3],
    biases: Option<ExpertBiases<'_>>,
    routing: &Routing,
    x: &[f32],
    out: &mut [f32],
) {
    let [gate, up, down] = [gate, up, down].map(|s| s.single(cpu));
    let (hidden, width) = (gate[0].rows(), gate[0].k());
    let mut batch = PackedA::default();
    let mut product = |w: &PackedWeights, bias: Option<&[f32]>, x: &[f32]| {
        let mut y = vec![0.0; w.rows()];
        batch.fill(cpu.tier(), cpu.pool(), w.act_format(), x, w.k());
        multiply(cpu, &batch, &mut [Product { weights: w, bias, out: &mut y, write: Write::Set }]);
        y
    };
    for (t, (x, out)) in x.chunks(width).zip(out.chunks_mut(width)).enumerate() {
        let mut chosen: Vec<(usize, f32)> = routing.of_token(t).collect();
        chosen.sort_by_key(|pair| pair.0);
        for (e, weight) in chosen {
            let mut h = vec![0.0; hidden];
            if let Some(b) = biases {
                h = product(&gate[e], Some(&b.gate[e * hidden..][..hidden]), x);
                let u = product(&up[e], Some(&b.up[e * hidden..][..hidden]), x);
                gate_with(cpu.tier(), Activation::ClampedSwiglu, &mut h, &u);
            } else if gate[e].act_format() == up[e].act_format() {
                let mut batch = PackedA::default();
                batch.fill(cpu.tier(), cpu.pool(), gate[e].act_format(), x, width);
                let swiglu_rows = Gated { activation: Activation::Silu, gate: &gate[e], up: &up[e] };
                swiglu(cpu, &batch, &swiglu_rows, &mut h);
            } else {
                h = product(&gate[e], None, x);
                gate_with(cpu.tier(), Activation::Silu, &mut h, &product(&up[e], None, x));
            }
            for (o, y) in
                out.iter_mut().zip(product(&down[e], biases.map(|b| &b.down[e * width..][..width]), &h))
            {
                *o = y.mul_add(weight, *o);
            }
        }
    }
}

/// Returns one row of scores per token. No token selects expert 3; with `one`, all select expert 4 alone.
fn scores(n: usize, one: bool, rng: &mut Rng) -> Vec<f32> {
    let score = |i: usize, random: f32| match i % COUNT {
        3 => -100.0,
        4 if one => 100.0,
        _ => random,
    };
    (0..n * COUNT).map(|i| score(i, rng.float())).collect()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn equals_the_plain_loop_on_every_tier_with_any_team_and_batch() {
    use DType::{BF16, F16, F32, MXFP4, Q4_0, Q4K, Q6K, Q8_0};
    let mut rng = Rng(17);
    let reference = Cpu::new(Tier::SCALAR, 1).unwrap();
    for (dtypes, hidden, width) in [
        ([F32, F32, F32], 40, 23),
        ([F16, BF16, F16], 7, 33),
        ([Q8_0, Q4_0, MXFP4], 96, 64),
        ([Q4K, Q4K, Q6K], 256, 512),
        ([Q4K, Q8_0, F16], 48, 256),
    ] {
        let shapes = [(hidden, width), (hidden, width), (width, hidden)];
        let mut i = 0;
        let stacks = dtypes.map(|dtype| {
            let (rows, k) = shapes[i];
            i += 1;
            Stack::new(dtype, rows, k, &mut rng)
        });
        let floats: Vec<f32> = (0..COUNT * (2 * hidden + width)).map(|_| 9.0 * rng.float()).collect();
        let (of_gate, rest) = floats.split_at(COUNT * hidden);
        let (of_up, of_down) = rest.split_at(COUNT * hidden);
        let biases = ExpertBiases { gate: of_gate, up: of_up, down: of_down };
        for (n, used, one) in
            [(1, 2, false), (1, 1, true), (5, 3, false), (30, 1, true), (41, 2, false), (70, 1, true)]
        {
            let mut routing = Routing::default();
            routing.choose(&reference, &scores(n, one, &mut rng), &Gating::softmax(COUNT, used, true));
            let absent = routing.groups().iter().all(|g| g.expert != 3);
            assert!(absent && (!one || routing.groups().len() == 1));
            let x: Vec<f32> = (0..n * width).map(|_| rng.float()).collect();
            let stream: Vec<f32> = (0..n * width).map(|_| rng.float()).collect();
            let mut want = stream.clone();
            // With biases and without.
            let biases = Some(biases).filter(|_| n % 2 == 1);
            let activation = if biases.is_some() { Activation::ClampedSwiglu } else { Activation::Silu };
            plain(&reference, &stacks, biases, &routing, &x, &mut want);
            for tier in Tier::available() {
                for threads in [1, 3] {
                    let cpu = Cpu::new(tier, threads).unwrap();
                    let [gate, up, down] = [0, 1, 2].map(|i| stacks[i].packed(&cpu));
                    let experts = Experts { activation, gate: &gate, up: &up, down: &down, biases };
                    let mut work = MoeScratch::default();
                    let mut got = stream.clone();
                    moe(&cpu, &experts, &routing, &x, &mut work, &mut got);
                    let at = format!("{dtypes:?} n {n} of {used} on {} x{threads}", tier.level());
                    assert_eq!(bits(&got), bits(&want), "{at}");
                    // Again with the buffers of the last run.
                    let mut got = stream.clone();
                    moe(&cpu, &experts, &routing, &x, &mut work, &mut got);
                    assert_eq!(bits(&got), bits(&want), "{at}, again");
                }
            }
        }
    }
}

#[test]
fn a_stack_is_its_matrices_one_after_the_other() {
    let mut rng = Rng(3);
    let cpu = Cpu::new(Tier::best(), 2).unwrap();
    for (dtype, rows, k) in [(DType::F32, 17, 9), (DType::Q8_0, 32, 64), (DType::Q4K, 33, 256)] {
        let stack = Stack::new(dtype, rows, k, &mut rng);
        let packed = stack.packed(&cpu);
        assert_eq!((packed.count(), packed.rows(), packed.k()), (COUNT, rows, k));
        let one_by_one: Vec<u8> = stack.single(&cpu).iter().flat_map(|m| m.as_bytes().to_vec()).collect();
        assert_eq!(packed.as_bytes(), one_by_one);
    }
}

#[test]
fn no_tokens_are_no_work_and_what_does_not_fit_is_refused() {
    let mut rng = Rng(3);
    let cpu = Cpu::new(Tier::best(), 2).unwrap();
    let gate = Stack::new(DType::F32, 16, 8, &mut rng).packed(&cpu);
    let down = Stack::new(DType::F32, 8, 16, &mut rng).packed(&cpu);
    let mut routing = Routing::default();
    routing.choose(&cpu, &[], &Gating::softmax(COUNT, 2, true));
    let run = |experts: Experts<'_>, x: &[f32], out: &mut [f32]| {
        moe(&cpu, &experts, &routing, x, &mut MoeScratch::default(), out);
    };
    run(
        Experts { activation: Activation::Silu, gate: &gate, up: &gate, down: &down, biases: None },
        &[],
        &mut [],
    );
    for (down, x) in [(&gate, &[][..]), (&down, &[1.0; 8][..])] {
        let call = std::panic::AssertUnwindSafe(|| {
            run(
                Experts { activation: Activation::Silu, gate: &gate, up: &gate, down, biases: None },
                x,
                &mut vec![0.0; x.len()],
            );
        });
        assert!(std::panic::catch_unwind(call).is_err());
    }
}
