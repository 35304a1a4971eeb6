"""Draws docs/images/radio-gallery.png: one simulated recording of each kind. Run: python docs/make_gallery.py"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from planformer.data.collections import Recording, render
from planformer.data.emitters import EMITTERS

TARGET = Path(__file__).parent / "images" / "radio-gallery.png"
SHOWN = [
    ("ORACLE: WiFi frames, indoor, 14 ft", Recording(EMITTERS["oracle"][0], "WiFi", 1, 0, 61_440, "14ft")),
    ("POWDER: WiFi, outdoor", Recording(EMITTERS["powder"][1], "WiFi", 1, 0, 61_440, "s1")),
    ("POWDER: 4G, outdoor", Recording(EMITTERS["powder"][0], "4G", 1, 1, 61_440, "s1")),
    ("POWDER: 5G (held out)", Recording(EMITTERS["powder"][2], "5G", 2, 4, 61_440, "s1", held_out=True)),
    ("Modulation: 64QAM, wired", Recording(EMITTERS["modulation"][0], "64QAM", 1, 5, 122_880)),
    ("Modulation: CPFSK, wired", Recording(EMITTERS["modulation"][0], "CPFSK", 1, 6, 122_880)),
    ("Modulation: broadcast FM, sped up", Recording(EMITTERS["modulation"][0], "B-FM", 1, 10, 122_880)),
    ("Modulation: SSB-AM, sped up", Recording(EMITTERS["modulation"][0], "SSB-AM", 1, 8, 122_880)),
    ("Commodity: HackRF, CPM", Recording(EMITTERS["commodity"][3], "CPM", 1, 0, 61_440, "5ft")),
    ("Commodity: UBX160, CPM", Recording(EMITTERS["commodity"][6], "CPM", 1, 2, 61_440, "5ft")),
    ("FM station, outdoor (zoom)", Recording(EMITTERS["fm"][1], "FM", 1, 0, 614_400)),
    ("FM station, outdoor (zoom)", Recording(EMITTERS["fm"][4], "FM", 1, 0, 614_400)),
]


def main() -> None:
    figure, axes = plt.subplots(3, 4, figsize=(13, 7.6), layout="constrained")
    for axis, (title, recording) in zip(axes.flat, SHOWN, strict=True):
        x = render(recording, seed=0)[0]
        rate, unit = 7.69, "MHz"
        if recording.emitter.collection == "fm":  # keep the middle 385 kHz
            x = x.reshape(-1, 20).mean(1)
            rate = 7.69 / 20
        size = 256
        frames = np.lib.stride_tricks.sliding_window_view(x, size)[:: max(1, x.size // 600)] * np.hanning(size)
        power = np.fft.fftshift(np.abs(np.fft.fft(frames, axis=1)) ** 2, axes=1)
        level = 10 * np.log10(power.T + 1e-12)
        top = np.quantile(level, 0.995)
        extent = (0, x.size / rate / 1000, -rate / 2, rate / 2)
        axis.imshow(level, origin="lower", aspect="auto", extent=extent, vmin=top - 55, vmax=top, cmap="magma")
        axis.set_title(title, fontsize=9)
        axis.tick_params(labelsize=7)
        axis.set_xlabel("ms", fontsize=7)
        axis.set_ylabel(unit, fontsize=7)
    figure.savefig(TARGET, dpi=72, pil_kwargs={"optimize": True})
    from PIL import Image

    Image.open(TARGET).convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(TARGET, optimize=True)
    print(f"{TARGET}: {TARGET.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
