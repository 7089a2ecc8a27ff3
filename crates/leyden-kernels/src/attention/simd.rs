//! Loops of attention per instruction set: the scalar definitions, or their vector forms.

use crate::attention::block::{Row, TileRange};
use crate::attention::online_softmax::PvOutput;
use crate::attention::q8_values::{self, Block, Weights};
use crate::attention::scores::{self, Keys, Values};
use crate::attention::softmax;
use crate::attention::whole_softmax;
use crate::simd::scalar::Scalar;
use crate::simd::{Simd, VectorSimd};

/// Loops of attention on an instruction set.
pub(super) trait AttentionSimd: Simd {
    /// Computes scores; [`scores::plain_scores`] defines them.
    #[inline(always)]
    fn scores<const R: usize, const G: usize>(
        self,
        keys: Keys<'_>,
        queries: &[f32],
        group: usize,
        scale: f32,
        out: &mut [Row],
    ) {
        scores::plain_scores::<Self, R, G>(self, keys, queries, group, scale, out);
    }
    /// Computes weighted values; [`scores::plain_pv_product`] defines them.
    #[inline(always)]
    fn pv_product<const R: usize, const G: usize>(
        self,
        values: Values<'_>,
        tokens: usize,
        at: usize,
        p: &[Row],
        to: &mut PvOutput<'_>,
    ) {
        scores::plain_pv_product::<Self, R, G>(self, values, tokens, at, p, to);
    }
    /// Computes the softmax exponentials of a tile's scores; [`softmax::plain_exp_scores`] defines them.
    #[inline(always)]
    fn exp_scores(self, s: &mut Row, attended: TileRange) -> (f32, f32) {
        softmax::plain_exp_scores(s, attended)
    }
    /// Computes [`AttentionSimd::exp_scores`] of 16 rows; returns their maximum scores and their sums.
    #[inline(always)]
    fn exp_scores_of_16(self, s: &mut [Row; 16], attended: [TileRange; 16]) -> [[f32; 16]; 2] {
        let mut states = [[0.0; 16]; 2];
        for r in 0..16 {
            (states[0][r], states[1][r]) = self.exp_scores(&mut s[r], attended[r]);
        }
        states
    }
    /// Computes the softmax of a whole row; [`whole_softmax::plain`] defines it.
    #[inline(always)]
    fn softmax_weights(self, scores: &mut [f32]) -> f32 {
        whole_softmax::plain(scores)
    }
    /// Multiplies 16 floats by one.
    #[inline(always)]
    fn scaled(self, x: &[f32; 16], by: f32) -> [f32; 16] {
        x.map(|x| x * by)
    }
    /// Computes the integer weights of quantised values; [`q8_values::plain_weights`] defines them.
    #[inline(always)]
    fn q8_weights(self, p: &Row, shares: &Row, out: &mut Weights) {
        q8_values::plain_weights(p, shares, out);
    }
    /// Computes weighted quantised values; [`q8_values::plain_pv_product`] defines them.
    #[inline(always)]
    fn pv_product_q8<const R: usize>(
        self,
        values: Block<'_>,
        tokens: usize,
        weights: (&[Weights], &[f32]),
        place: (usize, usize),
        to: &mut PvOutput<'_>,
    ) {
        q8_values::plain_pv_product::<R>(values, tokens, weights, place, to);
    }
}

impl AttentionSimd for Scalar {}

impl<S: VectorSimd> AttentionSimd for S {
    #[inline(always)]
    fn scores<const R: usize, const G: usize>(
        self,
        keys: Keys<'_>,
        queries: &[f32],
        group: usize,
        scale: f32,
        out: &mut [Row],
    ) {
        scores::vector_scores::<_, R, G>(self.vectors(), keys, queries, group, scale, out);
    }
    #[inline(always)]
    fn pv_product<const R: usize, const G: usize>(
        self,
        values: Values<'_>,
        tokens: usize,
        at: usize,
        p: &[Row],
        to: &mut PvOutput<'_>,
    ) {
        scores::vector_pv_product::<_, R, G>(self.vectors(), values, tokens, at, p, to);
    }
    #[inline(always)]
    fn exp_scores(self, s: &mut Row, attended: TileRange) -> (f32, f32) {
        softmax::vector_exp_scores(self.vectors(), s, attended)
    }
    #[inline(always)]
    fn exp_scores_of_16(self, s: &mut [Row; 16], attended: [TileRange; 16]) -> [[f32; 16]; 2] {
        if Self::WIDE_REGISTER_FILE {
            softmax::vector_exp_scores_of_16::<_, 8>(self.vectors(), s, attended)
        } else {
            softmax::vector_exp_scores_of_16::<_, 2>(self.vectors(), s, attended)
        }
    }
    #[inline(always)]
    fn softmax_weights(self, scores: &mut [f32]) -> f32 {
        whole_softmax::over_vectors(self.vectors(), scores)
    }
    #[inline(always)]
    fn scaled(self, x: &[f32; 16], by: f32) -> [f32; 16] {
        scores::vector_scaled(self.vectors(), x, by)
    }
    #[inline(always)]
    fn q8_weights(self, p: &Row, shares: &Row, out: &mut Weights) {
        q8_values::vector_weights(self.vectors(), p, shares, out)
    }
    #[inline(always)]
    fn pv_product_q8<const R: usize>(
        self,
        values: Block<'_>,
        tokens: usize,
        weights: (&[Weights], &[f32]),
        (at, dim): (usize, usize),
        to: &mut PvOutput<'_>,
    ) {
        if Self::WIDE_REGISTER_FILE || R <= 2 {
            q8_values::vector_pv_product::<_, R, 2>(self.vectors(), values, tokens, weights, (at, dim), to);
        } else {
            for at in [at, at + q8_values::VALUES / 2] {
                q8_values::vector_pv_product::<_, R, 1>(
                    self.vectors(),
                    values,
                    tokens,
                    weights,
                    (at, dim),
                    to,
                );
            }
        }
    }
}
