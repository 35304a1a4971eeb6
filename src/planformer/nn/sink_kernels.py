"""The noise sink's full-size operations with hand-written derivatives (paper, Appendix A.4.2, stages 3 and 4).

The first stages of the tokenizer are bound by memory, not arithmetic: each function here passes over its tensors a few
times where the same formula, differentiated operation by operation, passes three times as often and saves every
intermediate. Without gradients the plain formula runs, so that an export sees ordinary operators.
"""

from __future__ import annotations

import torch
from torch import Tensor

from planformer.nn.paired import rms_scale

PEARSON_EPS = 1e-8
VARIANCE_FLOOR = 1e-6  # relative to the mean square: below it a row counts as constant


def attention_power(tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Power of the attention-weighted mean token: ``[M, N, D]``, weight ``[1, D]`` -> ``[M]``."""
    if torch.is_grad_enabled() and tokens.requires_grad:
        return _AttentionPower.apply(tokens, weight, bias)
    return _power(tokens, weight, bias)[0]


def _power(tokens: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    # Under autocast a softmax is in single precision whatever the features are in.
    attention = torch.softmax((tokens @ weight[0] + bias), -1).to(tokens.dtype)  # (M, N)
    pooled = torch.bmm(attention[:, None], tokens)[:, 0]  # (M, D)
    return pooled.square().sum(-1), attention, pooled


class _AttentionPower(torch.autograd.Function):
    """The tokens' gradient is of rank two in every sample: one batched product."""

    @staticmethod
    def forward(ctx, tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        power, attention, pooled = _power(tokens, weight, bias)
        ctx.save_for_backward(tokens, weight, attention, pooled)
        return power

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[no-untyped-def]
        tokens, weight, attention, pooled = ctx.saved_tensors
        grad, weight = grad.to(tokens.dtype), weight.to(tokens.dtype)
        pooled_grad = pooled * (2 * grad)[:, None]
        inner = torch.bmm(tokens, pooled_grad[..., None])[..., 0]  # (M, N)
        logit_grad = attention * (inner - (attention * inner).sum(-1, keepdim=True))
        left = torch.stack((attention, logit_grad), -1)  # (M, N, 2)
        right = torch.stack((pooled_grad, weight.expand_as(pooled_grad)), 1)  # (M, 2, D)
        weight_grad = logit_grad.flatten()[None] @ tokens.flatten(0, 1)
        return torch.bmm(left, right), weight_grad, logit_grad.sum()[None]


def compensate(x: Tensor, noise: Tensor, gamma: Tensor, beta: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """``RMSNorm(gamma (x - noise) + beta)`` and the absolute Pearson correlation ``[M]`` of noise and x - noise.

    Tokens ``[M, N, D]``; gamma and beta ``[M, 1, D]``; the norm's weight ``[D]``.
    """
    if torch.is_grad_enabled() and (x.requires_grad or gamma.requires_grad):
        return _Compensate.apply(x, noise, gamma, beta, weight)
    cleaned = x - noise
    correlation, _ = _correlation(noise, cleaned)
    return normalise(cleaned, gamma, beta, weight), correlation.abs()


def normalise(cleaned: Tensor, gamma: Tensor, beta: Tensor, weight: Tensor) -> Tensor:
    """``RMSNorm(gamma cleaned + beta)``."""
    compensated = torch.addcmul(beta, gamma, cleaned)
    return (compensated * rms_scale(compensated)).mul_(weight)


def _correlation(first: Tensor, second: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Pearson correlation of each sample, and (means, centred sums of squares) of both."""
    first, second = first.flatten(1), second.flatten(1)
    count = first.shape[1]
    means = first.sum(1) / count, second.sum(1) / count
    squares = [torch.linalg.vector_norm(x, dim=1).square() for x in (first, second)]
    spreads = [torch.maximum(s - count * m * m, VARIANCE_FLOOR * s) for s, m in zip(squares, means, strict=True)]
    product = (first * second).sum(1) - count * means[0] * means[1]
    correlation = product / (torch.sqrt(spreads[0] * spreads[1]) + PEARSON_EPS)
    return correlation.clamp(-1, 1), (means[0], means[1], spreads[0], spreads[1])


class _Compensate(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[no-untyped-def]
        ctx, x: Tensor, noise: Tensor, gamma: Tensor, beta: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        cleaned = x - noise
        correlation, statistics = _correlation(noise, cleaned)
        compensated = torch.addcmul(beta, gamma, cleaned)
        scale = rms_scale(compensated)
        ctx.save_for_backward(noise, cleaned, gamma, beta, weight, scale, correlation, *statistics)
        return compensated.mul_(scale).mul_(weight), correlation.abs()

    @staticmethod
    def backward(  # type: ignore[no-untyped-def]
        ctx, grad: Tensor, correlation_grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        noise, cleaned, gamma, beta, weight, scale, correlation, *statistics = ctx.saved_tensors
        dim, weight = cleaned.shape[-1], weight.to(grad.dtype)  # autocast: features in half precision, weights not
        compensated = torch.addcmul(beta, gamma, cleaned)
        product = grad * compensated
        weight_grad = scale.flatten()[None] @ product.flatten(0, 1)  # (1, D)
        along = (product @ weight[:, None]) * scale.pow(3)  # (M, N, 1)
        inner = torch.mul(grad, weight, out=product).mul_(scale).addcmul_(compensated, along, value=-1 / dim)
        gamma_grad = torch.mul(inner, cleaned, out=compensated).sum(1, keepdim=True)
        beta_grad = inner.sum(1, keepdim=True)
        cleaned_grad = inner.mul_(gamma)
        signed = correlation_grad * correlation.sign()
        own, other, constant = _correlation_slopes(correlation, statistics, signed, of_second=True)
        cleaned_grad.addcmul_(cleaned, own).addcmul_(noise, other).add_(constant)
        own, other, constant = _correlation_slopes(correlation, statistics, signed, of_second=False)
        noise_grad = torch.addcmul(constant, noise, own).addcmul_(cleaned, other).sub_(cleaned_grad)
        return cleaned_grad, noise_grad, gamma_grad, beta_grad, weight_grad[0]


def _correlation_slopes(
    correlation: Tensor, statistics: list[Tensor], grad: Tensor, *, of_second: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient by one operand is ``own * operand + other * other operand + constant``, ``[M, 1, 1]`` each."""
    means, spreads = statistics[:2], statistics[2:]
    this, that = (1, 0) if of_second else (0, 1)
    other = grad / (torch.sqrt(spreads[0] * spreads[1]) + PEARSON_EPS)
    own = -grad * correlation / (spreads[this] + PEARSON_EPS)
    constant = -other * means[that] - own * means[this]
    return own[:, None, None], other[:, None, None], constant[:, None, None]
