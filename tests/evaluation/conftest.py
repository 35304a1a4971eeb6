from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The real public sets: PLANFORMER_DATA, or ``../shared/data`` beside the project."""
    project = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("PLANFORMER_DATA", project.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data sets at {folder}; set PLANFORMER_DATA")
    return folder
