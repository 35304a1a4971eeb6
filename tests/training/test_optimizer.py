"""Which parameters move, and how fast."""

import pytest
import torch
from torch import nn

from planformer.errors import ConfigError
from planformer.training.optimizer import build_optimizer, freeze_parameters, set_learning_rate
from planformer.training.recipe import OptimizerConfig


def network() -> nn.Module:
    return nn.ModuleDict({"encoder": nn.Linear(3, 3), "head": nn.Linear(3, 2)})


def test_decay_spares_biases():
    module = network()
    groups = build_optimizer(module, OptimizerConfig(weight_decay=0.1)).param_groups
    decay = {id(p): g["weight_decay"] for g in groups for p in g["params"]}
    assert decay[id(module["encoder"].weight)] == 0.1 and decay[id(module["encoder"].bias)] == 0


def test_rate_factors_and_schedule():
    module = network()
    config = OptimizerConfig(learning_rate=1e-2, rate_factors={"head.*": 10.0})
    optimizer = build_optimizer(module, config)
    set_learning_rate(optimizer, 0.5)
    rates = {id(p): g["lr"] for g in optimizer.param_groups for p in g["params"]}
    assert rates[id(module["encoder"].weight)] == pytest.approx(5e-3)
    assert rates[id(module["head"].weight)] == pytest.approx(5e-2)


@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize("pattern", ["encoder.*", "head.*"])
def test_the_rate_that_is_logged_is_the_recipes(name, pattern):
    config = OptimizerConfig(name=name, learning_rate=1e-2, rate_factors={pattern: 10.0})
    assert set_learning_rate(build_optimizer(network(), config), 0.5) == pytest.approx(5e-3)


def test_frozen_parameters_do_not_move():
    module = network()
    freeze_parameters(module, ("encoder.*",))
    optimizer = build_optimizer(module, OptimizerConfig(learning_rate=0.1))
    before = module["encoder"].weight.clone()
    module["head"](module["encoder"](torch.ones(1, 3))).sum().backward()
    optimizer.step()
    assert torch.equal(module["encoder"].weight, before)


def test_patterns_that_match_nothing_are_errors():
    with pytest.raises(ConfigError, match="decoder"):
        freeze_parameters(network(), ("decoder.*",))
    with pytest.raises(ConfigError, match="rate_factors"):
        build_optimizer(network(), OptimizerConfig(rate_factors={"x*": 1.0}))
    module = network()
    freeze_parameters(module, ("*",))
    with pytest.raises(ConfigError, match="no parameter to train"):
        build_optimizer(module, OptimizerConfig())
