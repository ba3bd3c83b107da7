"""The oracle's mixtures: routers, experts and what stands beside them, written from the definition of each family."""
from dataclasses import dataclass

import numpy as np

BAND = 0.01  # router_jitter_noise of Phi-3.5-MoE


def act(name, x):
    if name == "relu":
        return np.maximum(x, 0)
    if name == "relu_squared":
        return np.maximum(x, 0) ** 2
    return x / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def mixture_weights(s, p, matrix, vector):
    """Tensors of one layer; expert tensors in the 3-D form."""
    matrix(p + "ffn_gate_inp.weight", s.experts, s.width)
    for name, dims in (("gate", (s.ffn, s.width)), ("up", (s.ffn, s.width)), ("down", (s.width, s.ffn))):
        matrix(f"{p}ffn_{name}_exps.weight", s.experts, *dims)
    shared = s.shared_count * s.ffn or s.shared_ffn
    if shared:
        for name, dims in (("gate", (shared, s.width)), ("up", (shared, s.width)), ("down", (s.width, shared))):
            matrix(f"{p}ffn_{name}_shexp.weight", *dims)
    if s.shared_gate:
        vector(p + "ffn_gate_inp_shexp.weight", s.width)


def mixture_metadata(s, writer):
    writer.add_expert_count(s.experts)
    writer.add_expert_used_count(s.experts_used)
    if s.plain_ffn and s.lengths:
        writer.add_expert_feed_forward_length(s.ffn)
    if s.shared_ffn and s.lengths:
        writer.add_expert_shared_feed_forward_length(s.shared_ffn)
    if s.shared_count:
        writer.add_expert_shared_count(s.shared_count)
    if s.dense_layers is not None:
        writer.add_leading_dense_block_count(s.dense_layers)
        writer.add_expert_weights_scale(s.expert_scale)


@dataclass(frozen=True)
class Drop:
    """An expert computes so many rows of each chunk, and drops the others: those whose attention output has the smallest L2 norm, or
    those to which the router gave the least weight."""
    capacity: int
    chunk: int
    by_norm: bool


def _dropped(chosen, shares, norms, drop):
    """-> {(row, expert)}"""
    out = set()
    for first in range(0, len(chosen), drop.chunk):
        rows = range(first, min(first + drop.chunk, len(chosen)))
        for expert in {e for t in rows for e in chosen[t]}:
            mine = [t for t in rows if expert in chosen[t]]
            rank = {t: norms[t] if drop.by_norm else shares[t][list(chosen[t]).index(expert)] for t in mine}
            out |= {(t, expert) for t in sorted(mine, key=lambda t: -rank[t])[drop.capacity:]}
    return out


def _competitors(scores, best):
    """Which logits a sparse mixer lets compete with the best one."""
    size = np.maximum(np.abs(scores), best)
    return best - scores <= 2 * BAND * size


def _sparse_mixer(scores, k):
    """-> chosen ids, their weights, and the least change of a logit that would change which of them compete."""
    left, chosen, weights, gap = scores.copy(), [], [], np.inf
    for _ in range(k):
        best = int(np.argmax(left))
        inside = _competitors(scores, left[best]) & np.isfinite(left)
        weights.append(softmax(np.where(inside, left, -np.inf))[best])
        edge = left[best] - scores - 2 * BAND * np.maximum(np.abs(scores), left[best])
        gap = min(gap, np.abs(np.where(np.isfinite(left), edge, np.inf)).min())
        chosen.append(best)
        left[best] = -np.inf
    return np.array(chosen), np.array(weights), gap


def route(s, scores, gaps):
    """-> the ids that a row chooses, best first, and their weights."""
    order = np.argsort(-scores, kind="stable")
    chosen, gap = order[:s.experts_used], np.inf
    if s.experts_used < s.experts:
        gap = scores[order[s.experts_used - 1]] - scores[order[s.experts_used]]
    if s.weights == "sparse_mixer":
        chosen, weights, edge = _sparse_mixer(scores, s.experts_used)
        gap = min(gap, edge)
    else:
        weights = softmax(scores[chosen]) if s.weights == "of_chosen" else softmax(scores)[chosen]
    if gaps is not None:
        gaps.append(gap)
    return chosen, s.expert_scale * weights


def _ffn(s, x, gate, up, down):
    return down @ (act(s.activation, gate @ x) * (up @ x))


def mixture(s, w, p, x, norms, drop, gaps):
    routed = [route(s, row, gaps) for row in x @ w[p + "ffn_gate_inp.weight"].T]
    dropped = _dropped([chosen for chosen, _ in routed], [share for _, share in routed], norms, drop) if drop else set()
    out = np.zeros_like(x)
    for t, (chosen, share) in enumerate(routed):
        for e, weight in zip(chosen, share):
            if (t, e) not in dropped:
                out[t] += weight * _ffn(s, x[t], *(w[f"{p}ffn_{n}_exps.weight"][e] for n in ("gate", "up", "down")))
        if s.shared_ffn or s.shared_count:
            gate = 1 / (1 + np.exp(-w[p + "ffn_gate_inp_shexp.weight"] @ x[t])) if s.shared_gate else 1
            out[t] += gate * _ffn(s, x[t], *(w[f"{p}ffn_{n}_shexp.weight"] for n in ("gate", "up", "down")))
    return out
