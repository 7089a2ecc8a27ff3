//! Loops over elements: one tensor, or two that are broadcast.

use crate::error::Error;
use crate::graph::Context;
use crate::shape::{Shape, broadcast, broadcast_strides, for_offsets};

/// Number of elements of a task.
const TASK: usize = 16 << 10;

/// Replaces each value by a function of it.
pub(crate) fn map_f32(ctx: &Context<'_>, x: &mut [f32], f: impl Fn(f32) -> f32 + Sync) {
    ctx.cpu.for_blocks(x, 1, TASK, |_, x| x.iter_mut().for_each(|x| *x = f(*x)));
}

/// Replaces each value by a function of it.
pub(crate) fn map_f64(ctx: &Context<'_>, x: &mut [f64], f: impl Fn(f64) -> f64 + Sync) {
    ctx.cpu.for_blocks(x, 1, TASK, |_, x| x.iter_mut().for_each(|x| *x = f(*x)));
}

/// Two shapes read as one: dimensions that are contiguous in both are joined.
#[derive(Debug)]
pub(crate) struct Joined {
    /// Shape of the result.
    pub(crate) shape: Shape,
    /// Joined dimensions, and the strides of both.
    dims: Shape,
    a: Shape,
    b: Shape,
}

impl Joined {
    pub(crate) fn new(a: &[usize], b: &[usize]) -> Result<Joined, Error> {
        let shape = broadcast(a, b)?;
        let (sa, sb) = (broadcast_strides(a, &shape), broadcast_strides(b, &shape));
        let (mut dims, mut ja, mut jb) = (Shape::new(), Shape::new(), Shape::new());
        for (i, &n) in shape.iter().enumerate() {
            if n == 1 {
                continue;
            }
            let last = dims.len().wrapping_sub(1);
            // The dimension before continues in this one if its stride is this one's size times its stride.
            let joins = |outer: &Shape, inner: usize| outer[last] == inner * n;
            if !dims.is_empty() && joins(&ja, sa[i]) && joins(&jb, sb[i]) {
                dims[last] *= n;
                (ja[last], jb[last]) = (sa[i], sb[i]);
            } else {
                dims.push(n);
                ja.push(sa[i]);
                jb.push(sb[i]);
            }
        }
        if dims.is_empty() {
            dims.push(shape.iter().product());
            ja.push(0);
            jb.push(0);
        }
        Ok(Joined { shape, dims, a: ja, b: jb })
    }

    /// Returns the number of elements of the result.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Computes `f` of all pairs.
    pub(crate) fn map<T: Copy, U: Copy, R>(&self, a: &[T], b: &[U], f: impl Fn(T, U) -> R) -> Vec<R> {
        let mut out = Vec::with_capacity(self.len());
        self.for_runs(|n, [x, y], [dx, dy]| match (dx, dy) {
            (1, 1) => out.extend(a[x..x + n].iter().zip(&b[y..y + n]).map(|(x, y)| f(*x, *y))),
            (1, 0) => {
                let y = b[y];
                out.extend(a[x..x + n].iter().map(|x| f(*x, y)));
            }
            (0, 1) => {
                let x = a[x];
                out.extend(b[y..y + n].iter().map(|y| f(x, *y)));
            }
            _ => out.extend((0..n).map(|i| f(a[x + i * dx], b[y + i * dy]))),
        });
        out
    }

    /// Replaces values of `a`, whose shape is that of the result.
    pub(crate) fn map_in_place<T: Copy, U: Copy>(&self, a: &mut [T], b: &[U], f: impl Fn(T, U) -> T) {
        self.for_runs(|n, [x, y], [dx, dy]| match (dx, dy) {
            (1, 1) => a[x..x + n].iter_mut().zip(&b[y..y + n]).for_each(|(x, y)| *x = f(*x, *y)),
            (1, 0) => {
                let y = b[y];
                a[x..x + n].iter_mut().for_each(|x| *x = f(*x, y));
            }
            _ => (0..n).for_each(|i| a[x + i * dx] = f(a[x + i * dx], b[y + i * dy])),
        });
    }

    fn for_runs(&self, mut f: impl FnMut(usize, [usize; 2], [usize; 2])) {
        let last = self.dims.len() - 1;
        let n = self.dims[last];
        if n == 0 {
            return;
        }
        for_offsets(&self.dims[..last], [&self.a[..last], &self.b[..last]], |at| {
            f(n, at, [self.a[last], self.b[last]]);
        });
    }
}
