"""Attention by products of queries and keys."""

from __future__ import annotations

import math
from typing import Any

from keras.src import backend

import tapec
from tapec.keras.engine.conversion import convert_to_tensor, promoted
from tapec.tensor import Tensor


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    scale: Any = None,
    is_causal: bool = False,
    flash_attention: bool | None = None,
    attn_logits_soft_cap: float | None = None,
) -> Tensor:
    """Means of the values, weighted by how queries and keys agree: ``[B, T, N, H]`` of queries, ``[B, S, K, H]``.

    Softmax is computed in float32 at least. ``flash_attention`` changes nothing: it is one program anyhow.

    Raises:
        ValueError: the operands do not have four axes, or flash attention is asked for.
    """
    if flash_attention:
        raise ValueError("Flash attention is not supported in tapec backend.")
    q, k, v = promoted(query, key, value)
    if any(x.type.rank != 4 for x in (q, k, v)):
        raise ValueError(
            "`dot_product_attention` only supports 4D inputs. Received: "
            f"query.shape={q.shape}, key.shape={k.shape}, value.shape={v.shape}."
        )
    heads, shared = q.shape[2], k.shape[2]
    if heads is not None and shared is not None and heads > shared:
        k, v = (tapec.repeat(x, heads // shared, 2) for x in (k, v))
    wide = backend.result_type(q.dtype, "float32")
    logits = tapec.cast(tapec.einsum("btnh,bsnh->bnts", q, k), wide)
    logits = logits * _scale(q, scale, wide)
    if bias is not None:
        logits = logits + convert_to_tensor(bias, wide)
    if attn_logits_soft_cap is not None:
        logits = tapec.tanh(logits / attn_logits_soft_cap) * attn_logits_soft_cap
    logits = _masked(logits, mask, is_causal)
    weights = tapec.cast(tapec.nn.softmax(logits, -1), v.dtype)
    return tapec.einsum("bnts,bsnh->btnh", weights, v)


def _scale(q: Tensor, scale: Any, dtype: str) -> Any:
    if scale is not None:
        return convert_to_tensor(scale, dtype)
    return 1.0 / math.sqrt(q.shape[-1])


def _masked(logits: Tensor, mask: Any, is_causal: bool) -> Tensor:
    """Logits, far below all others where nothing may be looked at."""
    least = tapec.constant(-0.7 * 3.38953e38, logits.dtype)
    if mask is not None:
        logits = tapec.where(convert_to_tensor(mask, "bool"), logits, least)
    if is_causal:
        rows = tapec.range(tapec.shape(logits)[2])[:, None]
        columns = tapec.range(tapec.shape(logits)[3])[None, :]
        logits = tapec.where(columns <= rows, logits, least)
    return logits
