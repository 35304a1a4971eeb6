"""Sound tasks (Appendix "Audio Tasks"): TinySOL, GTZAN, TidyVoice, and the Free Spoken Digit set."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from planformer.evaluation.tasks.base import Task, TaskData, as_labels, files_under

GENRES = ("blues", "classical", "country", "disco", "hiphop", "jazz", "metal", "pop", "reggae", "rock")


class TinySolInstrument(Task):
    name = "tinysol-instrument"
    official_items = 2_913
    title = "Individual instrument (TinySOL)"
    type = "mixed"
    domain = "1-D"
    folders = ("tinysol", "TinySOL")
    layout = "<Family>/<Instrument>/ordinario/*.wav and TinySOL_metadata.csv (the CSV may lie beside the folder)"
    source = "https://zenodo.org/record/3685331"
    licence = "CC BY 4.0"
    checks = "every file of the CSV exists, instrument and family columns under either header"
    columns: tuple[str, ...] = ("Instrument (in full)", "Instrument Name", "Instrument (abbr.)", "Instrument")

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        table = next(
            (p for p in (root / "TinySOL_metadata.csv", data_dir / "TinySOL_metadata.csv") if p.is_file()), None
        )
        if table is None:
            raise self.missing(data_dir, root / "TinySOL_metadata.csv")
        with table.open(newline="", encoding="utf-8-sig") as handle:
            rows = list(csv.DictReader(handle))
        if not rows or "Path" not in rows[0]:
            raise self.wrong(table, "no column Path")
        column = next((c for c in self.columns if c in rows[0]), None)
        if column is None:
            raise self.wrong(table, f"none of the columns {', '.join(self.columns)}")
        paths = [self._locate(root, row["Path"]) for row in rows]
        # The official folds: all notes of one pitch of one instrument are in one of them.
        groups = as_labels([f"fold {row['Fold']}" for row in rows]) if "Fold" in rows[0] else None
        return TaskData(
            paths, as_labels([row[column] for row in rows]), "audio", groups=groups, group_name="fold of pitches"
        )

    def _locate(self, root: Path, relative: str) -> Path:
        for base in (root, root / "TinySOL", root.parent):
            if (base / relative).is_file():
                return base / relative
        raise self.wrong(root / relative, "named in TinySOL_metadata.csv, but there is no such file")


class TinySolFamily(TinySolInstrument):
    name = "tinysol-family"
    title = "Instrument family (TinySOL)"
    type = "physical"
    columns = ("Family",)


class Gtzan(Task):
    name = "gtzan"
    official_items = 1_000
    title = "Genre (GTZAN)"
    type = "semantic"
    domain = "1-D"
    folders = (
        "gtzan/genres_original",
        "gtzan/genres",
        "GTZAN/genres_original",
        "GTZAN/genres",
        "genres_original",
        "genres",
    )
    layout = "genres/<genre>/<genre>.000NN.wav, ten genres"
    source = "http://marsyas.info/downloads/datasets.html"
    licence = "research and education only"
    checks = "ten genres; unreadable files (jazz.00054.wav in a common copy) are left out and named"

    def load(self, data_dir: Path) -> TaskData:
        import soundfile

        root = self.root(data_dir)
        absent = [genre for genre in GENRES if not (root / genre).is_dir()]
        if absent:
            raise self.wrong(root, f"no folder {', '.join(absent)}")
        paths, unreadable = list[Path](), list[str]()
        for path in [p for genre in GENRES for p in files_under(root / genre, ".wav", ".au")]:
            try:
                soundfile.info(path)
                paths.append(path)
            except (RuntimeError, OSError):
                unreadable.append(path.name)
        if not paths:
            raise self.wrong(root, "no readable .wav or .au files")
        notes = (f"left out, unreadable: {', '.join(unreadable)}",) if unreadable else ()
        return TaskData(paths, as_labels([p.parent.name for p in paths]), "audio", notes=notes)


class TidyVoiceSpeaker(Task):
    name = "tidyvoice-speaker"
    title = "Bilingual speaker (TidyVoice)"
    type = "physical"
    domain = "1-D"
    folders = ("TidyVoiceX_Dev", "tidyvoice", "TidyVoice")
    layout = "<speaker>/<language>/*.wav, or <language>/<speaker>/*.wav; 808 speakers, 40 languages"
    source = "https://mozilladatacollective.com/datasets/cmkv32i5e02tumg07j79d3c35"
    licence = "CC BY 4.0"
    checks = "two levels of folders; which of them is the speaker is inferred and stated"
    speakers = 50

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        paths = [p for p in files_under(root, ".wav", ".flac") if len(p.relative_to(root).parts) >= 3]
        if not paths:
            raise self.wrong(root, "no .wav files two folders deep")
        outer = np.array([p.relative_to(root).parts[-3] for p in paths])
        inner = np.array([p.relative_to(root).parts[-2] for p in paths])
        swapped = _looks_like_languages(outer, inner)
        speaker, language = (inner, outer) if swapped else (outer, inner)
        names = np.unique(speaker)
        rng = np.random.default_rng(0)
        drawn = rng.choice(names, self.speakers, replace=False) if len(names) > self.speakers else names
        rows = np.flatnonzero(np.isin(speaker, drawn))
        order = "<language>/<speaker>" if swapped else "<speaker>/<language>"
        notes = (f"folders read as {order}; {len(drawn)} of {len(names)} speakers drawn with seed 0",)
        return self._select([paths[i] for i in rows], speaker[rows], language[rows], notes)

    def _select(self, paths: list[Path], speaker: np.ndarray, language: np.ndarray, notes: tuple[str, ...]) -> TaskData:
        pairs = as_labels([f"{s}/{lang}" for s, lang in zip(speaker, language, strict=True)])
        return TaskData(
            paths, as_labels(speaker), "audio", groups=pairs, group_name="speaker and language", notes=notes
        )


class TidyVoiceLanguage(TidyVoiceSpeaker):
    name = "tidyvoice-language"
    title = "Language (TidyVoice)"
    type = "semantic"

    def _select(self, paths: list[Path], speaker: np.ndarray, language: np.ndarray, notes: tuple[str, ...]) -> TaskData:
        names, counts = np.unique(language, return_counts=True)
        rare = names[counts < 5]
        rows = np.flatnonzero(~np.isin(language, rare))
        if len(rare):
            notes += (f"left out, fewer than five files: {', '.join(rare)}",)
        return TaskData(
            [paths[i] for i in rows],
            as_labels(language[rows]),
            "audio",
            groups=as_labels(speaker[rows]),
            group_name="speaker",
            notes=notes,
        )


def _looks_like_languages(outer: np.ndarray, inner: np.ndarray) -> bool:
    """True when the outer folders are the languages: codes such as `en` or `pt-BR`, or simply the fewer names."""
    code = re.compile(r"^[a-z]{2,3}([-_][A-Za-z]{2,4})?$")
    outer_codes = np.mean([bool(code.match(name)) for name in np.unique(outer)])
    inner_codes = np.mean([bool(code.match(name)) for name in np.unique(inner)])
    if outer_codes != inner_codes:
        return bool(outer_codes > inner_codes)
    return len(np.unique(outer)) < len(np.unique(inner))


class FsddSpeaker(Task):
    name = "fsdd-speaker"
    title = "Speaker (Free Spoken Digits)"
    type = "physical"
    domain = "1-D"
    folders = ("fsdd/recordings", "free-spoken-digit-dataset/recordings", "fsdd")
    layout = "recordings/<digit>_<speaker>_<n>.wav"
    source = "https://github.com/Jakobovski/free-spoken-digit-dataset"
    licence = "CC BY-SA 4.0"
    checks = "file names; n below 5 is the source's own test part"

    def load(self, data_dir: Path) -> TaskData:
        root = self.root(data_dir)
        paths = files_under(root, ".wav")
        parts = [re.fullmatch(r"(\d)_([a-z]+)_(\d+)", p.stem) for p in paths]
        bad = [p.name for p, part in zip(paths, parts, strict=True) if part is None]
        if not paths or bad:
            raise self.wrong(root, f"unexpected file name {bad[0]}" if bad else "no .wav files")
        fields = np.array([part.groups() for part in parts if part is not None])
        return self._data(paths, fields)

    def _data(self, paths: list[Path], fields: np.ndarray) -> TaskData:
        test = fields[:, 2].astype(int) < 5
        return TaskData(
            paths, as_labels(fields[:, 1]), "audio", groups=as_labels(fields[:, 0]), group_name="digit", test=test
        )


class FsddDigit(FsddSpeaker):
    name = "fsdd-digit"
    title = "Spoken digit (Free Spoken Digits)"
    type = "semantic"

    def _data(self, paths: list[Path], fields: np.ndarray) -> TaskData:
        test = fields[:, 2].astype(int) < 5
        return TaskData(
            paths, as_labels(fields[:, 0]), "audio", groups=as_labels(fields[:, 1]), group_name="speaker", test=test
        )
