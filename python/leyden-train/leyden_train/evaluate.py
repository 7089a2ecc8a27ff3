"""Logits and accuracy of a model on rows."""

import torch

BATCH = 256


def autocast(device, precision):
    """Returns the context in which products are computed in BF16, if `precision` says so."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def logits(model, rows, device, precision):
    """Returns the logits [rows, labels] of all rows in F32, without dropout."""
    was_training = model.training
    model.eval()
    out = torch.empty(len(rows), len(rows.labels))
    with torch.no_grad(), autocast(device, precision):
        for batch in rows.in_order(BATCH):
            out[batch] = model(**rows.inputs(batch, device)).logits.float().cpu()
    model.train(was_training)
    return out


def evaluate(model, rows, device, precision):
    """Returns the accuracy and the mean cross-entropy on all rows."""
    all_logits = logits(model, rows, device, precision)
    loss = torch.nn.functional.cross_entropy(all_logits, rows.targets)
    right = int((all_logits.argmax(1) == rows.targets).sum())
    return {"accuracy": right / len(rows), "right": right, "rows": len(rows), "loss": float(loss)}
