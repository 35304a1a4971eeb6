"""Physical descriptors of a waveform, read linearly from the embedding: our addition to the paper's objectives.

The paper keeps instance detail in the latent through a decoder and hundreds of GPU hours. On a CPU the same end is
reached much sooner by asking a *linear* map to read a coarse physical description of the noise-free signal from the
embedding: its log spectrum (linear and logarithmic bands), spectrogram, envelope, waveform, amplitude and phase-step
distributions, envelope modulation and the responses of fixed random kernels. What a linear map can read, a linear
probe can use. Everything is computed from the training signals themselves; nothing is labelled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from planformer.losses.phase_powers import phase_powers

GROUPS = (
    "spectrum",
    "spectrum_deviation",
    "log_spectrum",
    "spectrogram",
    "envelope",
    "modulation",
    "waveform",
    "amplitudes",
    "phase_steps",
    "kernels",
    "fine_envelope",
    "kernel_blocks",
    "band_means",
    "band_deviations",
)
ADDED = ("phase_powers",)  # groups that are described only where they are named
KNOWN = GROUPS + ADDED
FLOOR = 1e-4  # -40 dB under the mean power of a unit-power signal: keeps the logarithms finite in silence


def standardise(embedding: Tensor) -> Tensor:
    """``[B, d]`` with mean zero and unit deviation over the batch; a dimension that does not vary stays small."""
    variance = embedding.var(0, correction=0)
    floor = 1e-6 * embedding.detach().square().mean()
    return (embedding - embedding.mean(0)) / (variance + floor).sqrt()


def log_power(power: Tensor) -> Tensor:
    return torch.log(power + FLOOR)


def _frames(x: Tensor, size: int, hop: int) -> Tensor:
    """Hann-windowed short-time power spectra: complex [B, n] -> [B, frames, size], zero frequency in the middle."""
    window = torch.hann_window(size, device=x.device)
    window = window / window.square().mean().sqrt()
    spectrum = torch.fft.fft(x.unfold(-1, size, hop) * window, norm="ortho")  # (B, frames, size)
    return torch.fft.fftshift(spectrum.abs().square(), dim=-1)


def _bands(power: Tensor, count: int) -> Tensor:
    """Mean over equal neighbouring bands of the last axis."""
    return power.reshape(*power.shape[:-1], count, -1).mean(-1)


def _log_frequency_matrix(n: int, per_side: int) -> Tensor:
    """[2 * per_side, n]: averages the bins of a full spectrum in logarithmic bands, the two sides apart."""
    edges = torch.logspace(0, math.log10(n // 2), per_side + 1).round().long()
    rows = []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        high = max(high, low + 1)
        for bins in (torch.arange(low, high), n - torch.arange(low, high)):
            row = torch.zeros(n)
            row[bins] = 1.0 / len(bins)
            rows.append(row)
    return torch.stack(rows)


def _soft_histogram(values: Tensor, centres: Tensor, weights: Tensor | None = None) -> Tensor:
    """Share of the values near each centre (triangular bins): [B, n] -> [B, len(centres)]. Gradients are not needed."""
    step = float(centres[1] - centres[0])
    position = ((values - centres[0]) / step).clamp(0, len(centres) - 1)
    low = position.floor().clamp(max=len(centres) - 2)
    fraction = position - low
    w = torch.ones_like(values) if weights is None else weights
    out = values.new_zeros(values.shape[0], len(centres))
    out.scatter_add_(1, low.long(), (1 - fraction) * w)
    out.scatter_add_(1, low.long() + 1, fraction * w)
    return out / w.sum(1, keepdim=True).clamp_min(1e-8)


def _random_kernels(count: int, size: int, length: int, seed: int = 1234) -> Tensor:
    """Frequency responses [count, length] of zero-mean unit-energy complex kernels at dilations 1, 4, 16 and 64."""
    generator = torch.Generator().manual_seed(seed)
    taps = torch.randn(count, size, generator=generator) + 1j * torch.randn(count, size, generator=generator)
    taps = taps - taps.mean(1, keepdim=True)
    taps = taps / taps.abs().square().sum(1, keepdim=True).sqrt()
    kernels = torch.zeros(count, length, dtype=torch.complex64)
    for index in range(count):
        dilation = 4 ** (index % 4)
        kernels[index, : size * dilation : dilation] = taps[index]
    return torch.fft.fft(kernels)


class Descriptors(nn.Module):
    """Complex unit-power signals ``[B, n]`` -> named groups of real descriptors ``[B, k]``.

    ``groups`` names those wanted, in any order; :data:`GROUPS` without it. ``roots``: distributions as the square roots
    of their shares, or the shares themselves, which are plain means over the samples.

    >>> found = Descriptors(5120)(torch.randn(2, 5120, dtype=torch.complex64))
    >>> found["envelope"].shape
    torch.Size([2, 80])
    """

    log_bands: Tensor
    frame_bands: Tensor
    kernels: Tensor

    def __init__(
        self, length: int = 5120, num_kernels: int = 32, groups: Iterable[str] | None = None, *, roots: bool = True
    ) -> None:
        super().__init__()
        self.length, self.roots = length, roots
        wanted = set(GROUPS if groups is None else groups)
        self.groups = tuple(name for name in KNOWN if name in wanted)
        if unknown := sorted(wanted - set(KNOWN)):
            raise ValueError(f"{', '.join(unknown)}: not among the descriptor groups {', '.join(KNOWN)}")
        self.register_buffer("log_bands", _log_frequency_matrix(length, 32), persistent=False)
        self.register_buffer("frame_bands", _log_frequency_matrix(512, 24), persistent=False)
        self.register_buffer("kernels", _random_kernels(num_kernels, 9, length), persistent=False)

    @torch.no_grad()
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        if x.shape[-1] != self.length:
            raise ValueError(f"descriptors were made for {self.length} samples, not {x.shape[-1]}")
        found: dict[str, Tensor] = {}
        for names, family in self._families().items():
            if not set(names).isdisjoint(self.groups):
                found |= family(x)
        return {name: found[name] for name in self.groups}

    def _families(self) -> dict[tuple[str, ...], Callable[[Tensor], dict[str, Tensor]]]:
        """Groups that are computed together."""
        return {
            ("spectrum", "spectrum_deviation", "log_spectrum", "spectrogram"): self._spectral,
            ("envelope", "modulation", "waveform", "fine_envelope"): self._temporal,
            ("amplitudes", "phase_steps"): self._distributions,
            ("kernels", "kernel_blocks"): self._kernel_responses,
            ("band_means", "band_deviations"): self._frame_bands,
            ADDED: lambda signals: {"phase_powers": phase_powers(signals)},
        }

    def _spectral(self, x: Tensor) -> dict[str, Tensor]:
        frames = log_power(_bands(_frames(x, 512, 256), 128))  # (B, 19, 128)
        spectrogram = _bands(_frames(x, 256, 128), 32)  # (B, 39, 32)
        blocks = F.adaptive_avg_pool1d(spectrogram.transpose(1, 2), 10)  # (B, 32, 10)
        whole = torch.fft.fft(x, norm="ortho").abs().square()
        return {
            "spectrum": frames.mean(1),
            "spectrum_deviation": frames.std(1),
            "log_spectrum": log_power(whole @ self.log_bands.T),
            "spectrogram": log_power(blocks).flatten(1),
        }

    def _frame_bands(self, x: Tensor) -> dict[str, Tensor]:
        """Mean and deviation over time of the log power in logarithmic bands: what a cepstrum is made from."""
        frames = torch.fft.ifftshift(_frames(x, 512, 128), dim=-1)  # (B, 37, 512), zero frequency first
        bands = log_power(frames @ self.frame_bands.T)  # (B, 37, 48)
        return {"band_means": bands.mean(1), "band_deviations": bands.std(1)}

    @staticmethod
    def _temporal(x: Tensor) -> dict[str, Tensor]:
        power = x.abs().square()
        fine = log_power(_bands(power, 640))
        modulation = torch.fft.rfft(fine - fine.mean(1, keepdim=True), norm="ortho").abs().square()[:, 1:]  # (B, 320)
        waveform = torch.view_as_real(x.reshape(x.shape[0], 80, -1).mean(-1)).flatten(1)
        return {
            "envelope": log_power(_bands(power, 80)),
            "modulation": log_power(_bands(modulation, 32)),
            "waveform": torch.sign(waveform) * waveform.abs().sqrt(),
            "fine_envelope": log_power(_bands(power, 320)),
        }

    def _distributions(self, x: Tensor) -> dict[str, Tensor]:
        step = x[:, 1:] * x[:, :-1].conj()
        amplitude = torch.linspace(-3, 3, 25, device=x.device)
        phase = torch.linspace(-math.pi, math.pi, 33, device=x.device)
        jump = (x[:, 1:] - x[:, :-1]).real
        shares = {
            "amplitudes": torch.cat(
                [
                    _soft_histogram(x.real, amplitude),
                    _soft_histogram(x.abs(), torch.linspace(0, 3, 17, device=x.device)),
                    _soft_histogram(jump, amplitude),
                ],
                dim=1,
            ),
            "phase_steps": _soft_histogram(step.angle(), phase, step.abs().sqrt()),
        }
        return {name: share.sqrt() if self.roots else share for name, share in shares.items()}

    def _kernel_responses(self, x: Tensor) -> dict[str, Tensor]:
        """Share of positive values, mean power and spread of the responses of random kernels at four dilations.

        ``kernel_blocks`` is the power of the first 16 in 20 stretches of time. One signal after the other: its
        responses fit the cache.
        """
        whole, blocks = [], []
        for spectrum in torch.fft.fft(x):
            response = torch.view_as_real(torch.fft.ifft(spectrum * self.kernels))  # circular convolution, (k, n, 2)
            real, imaginary = response.unbind(-1)
            power = (real * real).addcmul_(imaginary, imaginary)  # (k, n)
            blocks.append(_bands(power[:16], 20).flatten())
            mean_power = power.mean(-1)
            magnitude = power.sqrt_()
            magnitude -= magnitude.mean(-1, keepdim=True)
            spread = torch.linalg.vector_norm(magnitude, dim=-1) / math.sqrt(self.length - 1)
            whole.append(torch.cat([(real > 0).float().mean(-1), log_power(mean_power), spread]))
        return {"kernels": torch.stack(whole), "kernel_blocks": log_power(torch.stack(blocks))}


class DescriptorLoss(nn.Module):
    """Squared error of the descriptors' whitened principal components, read from the embedding by the best linear map.

    Neighbouring descriptors say nearly the same, so an error over the descriptors themselves is met by a handful of
    directions, and the embedding's rank falls with it; whitened components, weighted by their share of the variance to
    the power ``emphasis``, ask for more of them. The map is not trained but solved in every step, by ridge regression
    on running moments of embedding and target: at the minimum the map's own change has no effect on the error, so the
    embedding's gradient is exact, and the encoder is never led by a map that is still random.
    :meth:`calibrate` fixes the components once. 1 is what predicting the mean gives, 0 is perfect.

    The moments lag behind an encoder that moves, and a few thousand sequences are few for so large a map. With
    ``trained`` the map is solved only once, by :meth:`start_map`, and is a parameter from there on; it reads the
    embedding standardised over the batch, or else dimensions that hardly vary at the start lead it astray.

    The mean of squares is ruled by signals and components that are described badly. With ``floor`` the logarithm of
    each squared error over it counts instead, scaled so that an error of one still costs one: making a small error
    smaller is then worth as much as making a large one a little less large. The kinds of one data set differ by little.
    """

    mean: Tensor
    deviation: Tensor
    basis: Tensor
    weights: Tensor
    gram: Tensor
    cross: Tensor
    updates: Tensor

    def __init__(
        self,
        embedding_dim: int,
        groups: Mapping[str, int],
        components: int = 128,
        *,
        emphasis: float = 0.5,
        memory: float = 0.99,
        ridge: float = 1e-2,
        group_weights: Mapping[str, float] | None = None,
        trained: bool = False,
        floor: float | None = None,
    ) -> None:
        super().__init__()
        self.groups = dict(groups)
        self.group_weights = dict.fromkeys(self.groups, 1.0) | dict(group_weights or {})
        if unknown := sorted(set(self.group_weights) - set(self.groups)):
            raise ValueError(f"{', '.join(unknown)}: not among the descriptor groups {', '.join(self.groups)}")
        total = sum(self.groups.values())
        if not 1 <= components <= total:
            raise ValueError(f"{components} components of {total} descriptors: choose 1 to {total}")
        self.components, self.emphasis, self.memory, self.ridge = components, emphasis, memory, ridge
        self.register_buffer("mean", torch.zeros(total))
        self.register_buffer("deviation", torch.ones(total))
        self.register_buffer("basis", torch.zeros(components, total))
        self.register_buffer("weights", torch.zeros(components))
        rows = embedding_dim + 1  # the last one is the constant
        self.register_buffer("gram", torch.zeros(rows, rows, dtype=torch.float64))
        self.register_buffer("cross", torch.zeros(rows, components, dtype=torch.float64))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self.trained, self.floor = trained, floor
        if trained:
            self.map = nn.Linear(embedding_dim, components)

    @torch.no_grad()
    def calibrate(self, descriptors: Mapping[str, Tensor]) -> None:
        """Fix mean, deviation and whitened components on many signals' descriptors (twice ``components`` or more)."""
        values = self._joined(descriptors).double()
        if len(values) <= self.components:
            raise ValueError(f"{len(values)} signals can't show {self.components} components")
        self.mean.copy_(values.mean(0))
        self.deviation.copy_(values.std(0).clamp_min(1e-3))
        standard = self._standardise(values.float()).double()
        power, directions = torch.linalg.eigh(standard.T @ standard / len(values))  # ascending
        power, directions = power.flip(0)[: self.components], directions.flip(1)[:, : self.components]
        signs = torch.sign(directions.sum(0))  # an eigenvector's sign is arbitrary: choose one
        self.basis.copy_((directions * signs / power.clamp_min(1e-10).sqrt()).T)
        weights = power.clamp_min(1e-10) ** self.emphasis
        self.weights.copy_(weights / weights.mean())

    def forward(self, embedding: Tensor, descriptors: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Weighted error over the components, and the plain one of each quarter of them, the strongest first."""
        target = (
            self.targets(descriptors) if self.trained or not self.training else self.observe(embedding, descriptors)
        )
        squares = (self.read(embedding) - target).square()
        quarters = squares.detach().mean(0).tensor_split(4)
        if self.floor is not None:
            squares = torch.log1p(squares / self.floor) / math.log1p(1 / self.floor)
        loss = (squares.mean(0) * self.weights).mean()
        return loss, {f"descriptors/quarter_{i}": part.mean() for i, part in enumerate(quarters, 1)}

    def read(self, embedding: Tensor) -> Tensor:
        """The components ``[B, components]`` as the linear map sees them."""
        if self.trained:
            found: Tensor = self.map(standardise(embedding))
            return found
        linear_map = self.solve().to(embedding.dtype)
        return embedding @ linear_map[:-1] + linear_map[-1]

    @torch.no_grad()
    def start_map(self) -> None:
        """Let the trained map begin as the solution for the moments so far, the embedding brought to unit scale."""
        solution = self.solve()
        mean = self.gram[-1, :-1]
        scale = (self.gram.diagonal()[:-1] - mean.square()).clamp_min(1e-12).sqrt()
        self.map.weight.copy_((solution[:-1] * scale[:, None]).T)
        self.map.bias.copy_(solution[-1] + mean @ solution[:-1])

    @torch.no_grad()
    def observe(self, embedding: Tensor, descriptors: Mapping[str, Tensor]) -> Tensor:
        """Add a batch to the running moments; returns its targets ``[B, components]``."""
        target = self.targets(descriptors)
        rows = F.pad(embedding.detach(), (0, 1), value=1.0).double()  # (B, d + 1)
        rate = max(1 - self.memory, 1 / (int(self.updates) + 1))
        self.gram.lerp_(rows.T @ rows / len(rows), rate)
        self.cross.lerp_(rows.T @ target.double() / len(rows), rate)
        self.updates += 1
        return target

    @torch.no_grad()
    def targets(self, descriptors: Mapping[str, Tensor]) -> Tensor:
        if not bool(self.weights.any()):
            raise RuntimeError("call calibrate() with descriptors of training signals first")
        return self._standardise(self._joined(descriptors)) @ self.basis.T

    @torch.no_grad()
    def solve(self) -> Tensor:
        """The ridge solution ``[d + 1, components]`` for the moments so far, each embedding dimension at unit scale."""
        scale = (self.gram.diagonal() - self.gram[-1].square()).clamp_min(1e-12).sqrt()
        scale[-1] = 1.0
        normal = self.gram / scale[:, None] / scale
        normal.diagonal().add_(self.ridge)
        solution = torch.linalg.solve(normal, self.cross / scale[:, None])
        return solution / scale[:, None]

    def _joined(self, descriptors: Mapping[str, Tensor]) -> Tensor:
        return join_groups(descriptors, self.groups)

    def _standardise(self, values: Tensor) -> Tensor:
        return in_deviations(values, self.mean, self.deviation, self.groups, self.group_weights)


def join_groups(descriptors: Mapping[str, Tensor], groups: Mapping[str, int]) -> Tensor:
    """All descriptors ``[B, k]`` in the order of ``groups``, which must be those that are there."""
    if set(descriptors) != set(groups):
        raise ValueError(f"descriptor groups {sorted(descriptors)} are not the configured {sorted(groups)}")
    return torch.cat([descriptors[name] for name in groups], dim=1)


def in_deviations(
    values: Tensor, mean: Tensor, deviation: Tensor, groups: Mapping[str, int], weights: Mapping[str, float]
) -> Tensor:
    """Deviations from the mean, clipped at five; each group's total power is the square of its weight."""
    sizes = torch.tensor(list(groups.values()), device=values.device)
    chosen = torch.tensor([weights[name] for name in groups], device=values.device)
    share = (chosen / sizes.float().sqrt()).repeat_interleave(sizes)
    return ((values - mean) / deviation).clamp(-5, 5) * share


def descriptor_sizes(length: int = 5120, groups: Iterable[str] | None = None) -> dict[str, int]:
    """Group name -> number of descriptors, for the head."""
    found = Descriptors(length, groups=groups)(torch.zeros(1, length, dtype=torch.complex64))
    return {name: value.shape[1] for name, value in found.items()}
