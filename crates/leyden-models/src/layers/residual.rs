//! Addition of a sublayer's results to the residual stream.

use super::norm::Norm;
use crate::config::NormPlacement;
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::Write;

/// Destination of the results of a sublayer (attention or feed-forward layer): the residual stream, with a norm before
/// or after the addition.
#[derive(Clone, Copy)]
pub(crate) struct Residual<'a> {
    placement: NormPlacement,
    norm: Option<&'a Norm>,
    scale: f32,
}

impl<'a> Residual<'a> {
    /// Returns the destination of a sublayer's results, scaled by `scale` if there is no norm.
    pub(super) fn new(placement: NormPlacement, norm: Option<&'a Norm>, scale: f32) -> Residual<'a> {
        Residual { placement, norm, scale }
    }

    /// Runs `product`, which gets the buffer of its results and how to write to it, then scales, adds and normalises
    /// the results. They have as many rows as the stream.
    pub(crate) fn write(
        self,
        cpu: &Cpu,
        work: &mut Workspace,
        product: impl FnOnce(&mut Workspace, &mut [f32], Write),
    ) {
        // Taken from the workspace, whose other buffers the product reads.
        let mut stream = std::mem::take(&mut work.stream);
        match (self.norm, self.placement) {
            (None, _) if self.scale == 1.0 => product(work, &mut stream, Write::Add),
            (None, _) => {
                let mut branch = std::mem::take(&mut work.branch);
                branch.resize(stream.len());
                product(work, &mut branch, Write::Set);
                add_scaled(cpu, &mut stream, &branch, self.scale);
                work.branch = branch;
            }
            (Some(norm), NormPlacement::Post) => {
                product(work, &mut stream, Write::Add);
                norm.in_place(cpu, &mut stream);
            }
            (Some(norm), _) => {
                let mut branch = std::mem::take(&mut work.branch);
                branch.resize(stream.len());
                product(work, &mut branch, Write::Set);
                norm.add(cpu, &mut branch, &mut stream);
                work.branch = branch;
            }
        }
        work.stream = stream;
    }
}

/// Adds `scale * values` to `to`.
pub(super) fn add_scaled(cpu: &Cpu, to: &mut [f32], values: &[f32], scale: f32) {
    /// Number of values that one task adds.
    const PIECE: usize = 4096;
    let whole = to.len() / PIECE * PIECE;
    let add = |to: &mut [f32], values: &[f32]| to.iter_mut().zip(values).for_each(|(t, v)| *t += v * scale);
    cpu.for_rows(&mut to[..whole], PIECE, |i, to| add(to, &values[i * PIECE..(i + 1) * PIECE]));
    add(&mut to[whole..], &values[whole..]);
}
