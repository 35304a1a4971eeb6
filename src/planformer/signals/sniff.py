"""Which reader a file needs: by its first bytes, then by its name. Bytes that nothing claims are text."""

from __future__ import annotations

import re
from pathlib import Path

HEAD = 4096

RAW_SUFFIXES = {
    ".cf32": "cf32_le", ".fc32": "cf32_le", ".cfile": "cf32_le", ".cf64": "cf64_le", ".fc64": "cf64_le",
    ".cs32": "ci32_le", ".ci32": "ci32_le", ".cs16": "ci16_le", ".sc16": "ci16_le", ".ci16": "ci16_le",
    ".cs8": "ci8", ".sc8": "ci8", ".ci8": "ci8", ".cu8": "cu8", ".cu16": "cu16_le", ".iq": "",
}  # fmt: skip
"""Suffix -> SigMF datatype of a headerless recording; "" has to be found from the values."""

SUFFIXES = {
    "audio": (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au", ".caf", ".w64", ".rf64"),
    "miniseed": (".mseed", ".miniseed", ".ms3"),
    "npy": (".npy",),
    "npz": (".npz",),
    "csv": (".csv", ".tsv"),
    "hdf5": (".h5", ".hdf5", ".hdf", ".he5"),
    "video": (".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v", ".mpg", ".mpeg", ".flv", ".wmv"),
    "image": (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm", ".pbm", ".pnm",
              ".avif", ".jp2", ".ico", ".tga", ".psd", ".dds", ".pcx", ".sgi", ".xbm", ".xpm", ".qoi"),
    "sigmf": (".sigmf-meta", ".sigmf-data", ".sigmf"),
}  # fmt: skip

_STARTS: tuple[tuple[bytes, str], ...] = (
    (b"fLaC", "audio"), (b"OggS", "audio"), (b"ID3", "audio"), (b"caff\x00\x01", "audio"), (b".snd\x00", "audio"),
    (b"RF64", "audio"), (b"riff\x2e\x91\xcf\x11", "audio"),
    (b"\x93NUMPY", "npy"), (b"\x89HDF\r\n\x1a\n", "hdf5"), (b"MS\x03", "miniseed"),
    (b"\x89PNG\r\n\x1a\n", "image"), (b"\xff\xd8\xff", "image"), (b"GIF87a", "image"), (b"GIF89a", "image"),
    (b"II*\x00", "image"), (b"MM\x00*", "image"), (b"8BPS\x00\x01", "image"), (b"qoif", "image"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "image"), (b"\xff\x4f\xff\x51", "image"),
    (b"\x1a\x45\xdf\xa3", "video"), (b"\x00\x00\x01\xba", "video"), (b"FLV\x01", "video"),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "video"),
)  # fmt: skip
_RIFF = {b"WAVE": "audio", b"WEBP": "image", b"AVI ": "video"}
_MINISEED2 = re.compile(rb"[0-9 \x00]{6}[DRQM][ \x00][A-Z0-9 ]{12}")
_PNM = re.compile(rb"P[1-7]\s+(#[^\n]*\n\s*)*\d+\s+\d+\s")
_SIGMF = re.compile(rb'\s*\{.*"(core:datatype|core:version|core:sample_rate|_metadata)"', re.DOTALL)
_STILL_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"mif1")


def by_content(head: bytes, suffix: str) -> str | None:
    """The format that the first bytes show, or None. The suffix only settles what several formats share."""
    for start, name in _STARTS:
        if head.startswith(start):
            return name
    if head[:4] in (b"RIFF", b"RIFX"):
        return _RIFF.get(head[8:12])
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return "audio"
    if head[4:8] == b"ftyp":
        return "image" if head[8:12] in _STILL_BRANDS else "video"
    if head[:4] == b"PK\x03\x04" and b".npy" in head[30:300]:
        return "npz"
    if head[257:262] == b"ustar" and suffix in (".sigmf", ".tar"):
        return "sigmf"
    if _MINISEED2.match(head):
        return "miniseed"
    return _by_weak_content(head, suffix)


def _by_weak_content(head: bytes, suffix: str) -> str | None:
    """Two or three bytes can stand at the start of a text or a raw recording too, so more has to agree."""
    if head[:2] == b"BM" and head[6:10] == bytes(4) and len(head) > 26:
        return "image"
    if _PNM.match(head):
        return "image"
    if suffix in RAW_SUFFIXES:
        return None
    if len(head) > 3 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2 and head[2] & 0xF0 not in (0, 0xF0):
        return "audio"  # an MPEG audio frame (layer III) without an ID3 tag
    if head[:1] == b"\x47" and head[188:189] == b"\x47" and head[376:377] == b"\x47":
        return "video"  # MPEG transport stream packets
    if head.lstrip()[:1] == b"{" and suffix in ("", ".json", ".sigmf-meta") and _SIGMF.match(head):
        return "sigmf"
    return None


def by_suffix(suffix: str) -> str | None:
    """The format that a file's name claims, or None."""
    if suffix in RAW_SUFFIXES:
        return "raw"
    return next((name for name, suffixes in SUFFIXES.items() if suffix in suffixes), None)


def suffix_of(path: Path) -> str:
    return path.suffix.lower()
