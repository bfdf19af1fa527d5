"""The target's loss and each depth's, and how often they are right."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from frontier_oracle.reference_impl.model.weights import Model


def outputs(model: Model, ids: Tensor) -> list[tuple[Tensor, Tensor]]:
    """(logits [b, t, V], labels [b, t]) of the target, then of each depth. ids [b, t + depths + 1].

    The target's row p predicts x[p+1]; depth d's predicts x[p+2+d]."""
    t = ids.shape[1] - model.config.depths - 1
    shared = model.target.embedding.weight
    hidden = _frozen(model, ids[:, :t]) if model.config.pretrained else model.target(ids[:, :t])
    scored = [(model.target.logits(hidden), ids[:, 1 : t + 1])]
    for d, output in enumerate(model.chain(hidden, ids[:, :-1], shared)):
        scored.append((model.chain.logits(output, shared), ids[:, d + 2 : d + 2 + t]))
    return scored


@torch.compiler.disable
@torch.no_grad()
def _frozen(model: Model, ids: Tensor) -> Tensor:
    """A pretrained target's hiddens: it is deep and gets no gradient, so compiling it would cost more than it saves."""
    return model.target(ids)


def losses(model: Model, ids: Tensor) -> Tensor:
    """Mean cross entropy in nats of the target, then of each depth: [1 + depths]."""
    return torch.stack(
        [F.cross_entropy(logits.float().flatten(0, 1), labels.flatten()) for logits, labels in outputs(model, ids)]
    )


@torch.no_grad()
def accuracy(model: Model, batches: list[Tensor]) -> dict[str, float | list[float]]:
    """Teacher-forced, on held-out rows.

    loss: nats, target first. top1: how often the largest score is the text's next token, target first. agrees[d]: how
    often depth d's draft is the token that the target itself would choose there. prefix[d]: how often depths 0..d all
    agree; 1 plus their sum is the accept length to expect of greedy decoding on such text."""
    count = model.config.depths
    loss, top1 = torch.zeros(1 + count, dtype=torch.float64), torch.zeros(1 + count, dtype=torch.float64)
    agrees, prefix = torch.zeros(count, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)
    for ids in batches:
        scored = outputs(model, ids)
        choices = [logits.argmax(-1) for logits, _ in scored]
        loss += torch.stack([F.cross_entropy(s.float().flatten(0, 1), y.flatten()) for s, y in scored]).double().cpu()
        top1 += torch.stack([(c == y).double().mean() for c, (_, y) in zip(choices, scored, strict=True)]).cpu()
        t = choices[0].shape[1] - count
        # The target's row p+1+d has the same label as depth d's row p.
        same = torch.stack([choices[d + 1][:, :t] == choices[0][:, d + 1 : d + 1 + t] for d in range(count)])
        agrees += same.double().mean((1, 2)).cpu()
        prefix += same.cumprod(0).double().mean((1, 2)).cpu()
    n = len(batches)
    return {
        "loss": (loss / n).tolist(),
        "top1": (top1 / n).tolist(),
        "agrees": (agrees / n).tolist(),
        "prefix": (prefix / n).tolist(),
        "expected_accept_length": 1 + float((prefix / n).sum()),
    }
