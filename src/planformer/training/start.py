"""Start or continue one run: the one function behind ``planformer pretrain`` and ``planformer ablate``."""

from __future__ import annotations

import sys
from pathlib import Path

from planformer.training.distributed import process_group
from planformer.training.recipe import Recipe
from planformer.training.run_folder import RunFolder, check_run
from planformer.training.sources import open_sources


def pretrain(recipe: Recipe, out: Path, *, max_steps: int | None = None, show: bool = True) -> RunFolder:
    """Train by the recipe in folder ``out``; an interrupted run there is continued where it was.

    >>> pretrain(load_recipe("recipes/smoke.yaml"), Path("runs/smoke"))  # doctest: +SKIP
    """
    from planformer.training.trainer import Trainer

    # Everything a user can get wrong is found before the first step.
    check_run(out, recipe)
    with process_group() as processes:

        def note(text: str) -> None:
            if show and processes.is_main:
                print(text, file=sys.stderr, flush=True)

        data, held_out = open_sources(recipe, out, processes, note)
        note(f"{len(data)} training sequences of {len(data.emitters)} emitters, {len(held_out or [])} held out")
        trainer = Trainer(recipe, data, held_out, out, processes=processes, show=show)
        trainer.run(max_steps=max_steps)
        return trainer.folder
