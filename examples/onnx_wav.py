"""Embed a WAV with onnxruntime and NumPy only.   python onnx_wav.py planformer.onnx sound.wav

Equals ``PlanFormer.embed("sound.wav")`` for 16-bit files of up to 1,048,576 samples (longer: the same, but in blocks).
"""

import sys
import wave

import numpy as np
import onnxruntime

SEGMENT = 5120


def read_wav(path: str) -> np.ndarray:
    with wave.open(path) as file:
        raw = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
    return raw.mean(axis=1) / 32768  # channels mixed


def analytic(x: np.ndarray) -> np.ndarray:
    spectrum = np.fft.fft(x)
    spectrum[1 : (len(x) + 1) // 2] *= 2
    spectrum[len(x) // 2 + 1 :] = 0
    return np.fft.ifft(spectrum)


def prepare(part: np.ndarray) -> np.ndarray:
    part = part - part.mean()
    part = part / max(np.sqrt(np.mean(np.abs(part) ** 2)), 1e-30)
    return np.pad(part, (0, SEGMENT - len(part)))


def embed(model: str, path: str) -> np.ndarray:
    z = analytic(read_wav(path))
    segments = np.stack([prepare(z[i : i + SEGMENT]) for i in range(0, len(z), SEGMENT)]).astype(np.complex64)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(["signal_embedding"], {"iq": segments.view(np.float32)})[0]


if __name__ == "__main__":
    print(*embed(sys.argv[1], sys.argv[2]))
