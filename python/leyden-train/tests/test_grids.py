"""Masks and grids of single matrices."""

import pytest
import torch

from leyden_train import masks, quant, recipe


def matrix(rows=16, columns=64):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(3))


def test_masks_have_the_share_and_the_blocks():
    w = matrix()
    for pattern, side in (("any", (1, 1)), ("1x4", (1, 4)), ("4x1", (4, 1))):
        mask = masks.magnitude_mask(w, 0.75, pattern)
        assert int(mask.sum()) == w.numel() // 4
        blocks = mask.reshape(16 // side[0], side[0], 64 // side[1], side[1]).sum((1, 3))
        assert set(blocks.flatten().tolist()) <= {0, side[0] * side[1]}
    assert masks.magnitude_mask(w, 0.5, "2:4").reshape(-1, 4).sum(1).eq(2).all()
    kept = w[masks.magnitude_mask(w, 0.75, "any")].abs().min()
    assert kept > w[~masks.magnitude_mask(w, 0.75, "any")].abs().max()


def test_equal_magnitudes_keep_their_share():
    assert int(masks.magnitude_mask(torch.ones(8, 8), 0.5, "any").sum()) == 32
    assert int(masks.magnitude_mask(torch.zeros(8, 8), 0.5, "any").sum()) in (0, 32)


def test_the_schedule_is_cubic_and_ends_at_the_target():
    stage = recipe.Prune("s", "prune", 1, sparsity=0.8, ramp=0.5, updates=10)
    found = masks.schedule(stage, 100)
    assert len(found) == 10 and max(found) == 50 and found[50] == pytest.approx(0.8)
    assert found[25] == pytest.approx(0.8 * (1 - 0.5**3))
    assert masks.schedule(stage, 1) == {1: 0.8} or 0 in masks.schedule(stage, 1)


def test_rows_of_8_bits_are_found_again_exactly():
    w = matrix() * 0.03
    codes, scales = quant.grid(w, 8, 0)
    back = quant.values(codes, scales)
    assert codes.abs().amax(1).eq(127).all() and (scales.half().float() == scales).all()
    # As leyden finds them: the scale is the largest magnitude divided by 127, in F32.
    scale = back.abs().amax(1, keepdim=True) / 127.0
    assert (scale == scales).all() and (back / scale == codes.float()).all()
    again, same = quant.grid(back, 8, 0)
    assert torch.equal(again, codes) and torch.equal(same, scales)


def test_groups_of_4_bits_are_found_again_exactly():
    w = matrix() * 0.03
    w[0, :32] = 0
    codes, scales = quant.grid(w, 4, 32)
    back = quant.values(codes, scales)
    assert int(codes.min()) == -8 and int(codes.max()) <= 7
    assert codes.reshape(-1, 32).amin(1)[1:].eq(-8).all() and codes[0, :32].eq(0).all()
    again, same = quant.grid(back, 4, 32)
    assert torch.equal(again, codes) and torch.equal(same, scales)
    assert (back[w == 0] == 0).all()


def test_rounded_weights_are_there_for_a_pass_alone():
    w = torch.nn.Parameter(matrix())
    before = w.detach().clone()
    quantiser = quant.Quantiser({"w": w}, 4, 32)
    with quantiser.rounded():
        assert torch.equal(w, quant.round_to_grid(before, 4, 32))
        (w * 2).sum().backward()
    assert torch.equal(w, before) and w.grad.eq(2).all()
    x = torch.randn(3, 8, requires_grad=True)
    quant.round_activations(x).sum().backward()
    assert x.grad.eq(1).all()
