"""Transforms in real arithmetic equal torch's, at powers of two and elsewhere."""

from __future__ import annotations

import pytest
import torch

from planformer import dft, iq


@pytest.mark.parametrize("n", [1, 2, 16, 64, 80, 256, 1024, 7])
def test_sequences(n: int) -> None:
    x = torch.randn(3, 2 * n)
    torch.testing.assert_close(dft.dft(x), iq.fft(x), atol=5e-6, rtol=1e-5)
    torch.testing.assert_close(dft.dft(x, inverse=True), iq.ifft(x), atol=5e-6, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 16, 64, 80])
def test_tokens(n: int) -> None:
    x = torch.randn(2, n, 12)
    for inverse in (False, True):
        found = dft.token_dft(x, inverse=inverse)
        torch.testing.assert_close(found, iq.token_fft(x, inverse=inverse), atol=5e-6, rtol=1e-5)


def test_the_switch_is_local_and_survives_errors() -> None:
    x = torch.randn(1, 160)
    plain = iq.fft(x)
    with pytest.raises(RuntimeError), iq.real_arithmetic():
        assert not torch.equal(iq.fft(x), plain)  # other rounding: the other path
        raise RuntimeError
    assert torch.equal(iq.fft(x), plain)
