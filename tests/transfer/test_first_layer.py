"""The first layer of a young network is drawn through the states; a trained one is left alone."""

import numpy as np
import pytest
import torch

from polaug.errors import StateError
from polaug.transfer.first_layer import FirstLayers

STATES = torch.from_numpy(np.random.default_rng(1).normal([100.0, -0.3], [20.0, 0.01], (400, 2)).astype(np.float32))


def young(seed=0):
    torch.manual_seed(seed)
    layer = torch.nn.Linear(2, 64)
    return layer, FirstLayers(lambda: [layer], untrained=True), np.random.default_rng(0)


def bends_inside(layer, states):
    """Share of the units that are off for some states and on for others."""
    on = layer(states) > 0
    return float((on.any(dim=0) & ~on.all(dim=0)).float().mean())


def test_units_bend_where_the_states_are_and_receive_every_input_alike():
    layer, first, rng = young()
    assert bends_inside(layer, STATES) < 0.2
    assert first.fit(STATES, rng)
    assert first.redrawn
    assert bends_inside(layer, STATES) == pytest.approx(1.0, abs=0.05)
    received = layer.weight.detach() * STATES.std(dim=0)
    assert float(received[:, 0].std() / received[:, 1].std()) == pytest.approx(1.0, abs=0.4)
    spread = layer(STATES).detach().std(dim=0).square().mean().sqrt()
    assert float(spread) == pytest.approx(1.5, rel=0.01)


def test_it_is_redrawn_only_when_the_states_spread_out():
    layer, first, rng = young()
    assert first.fit(STATES, rng)
    before = layer.weight.detach().clone()
    assert not first.fit(1.2 * STATES, rng)
    assert torch.equal(layer.weight, before)
    assert first.fit(2.0 * STATES, rng)
    assert not torch.equal(layer.weight, before)


def test_a_grown_network_keeps_what_it_has_learnt():
    layer, first, rng = young()
    assert sum(first.fit(STATES, rng) for _ in range(30)) == 1
    before = layer.weight.detach().clone()
    assert not first.fit(5.0 * STATES, rng)
    assert torch.equal(layer.weight, before)


def test_a_trained_network_is_never_touched():
    layer, _, rng = young()
    loaded = FirstLayers(lambda: [layer], untrained=False)
    assert not loaded.fit(STATES, rng)
    assert not loaded.redrawn
    layer, first, rng = young()
    with torch.no_grad():
        layer.weight.add_(0.5)  # somebody has put other weights in
    before = layer.weight.detach().clone()
    assert not first.fit(STATES, rng)
    assert torch.equal(layer.weight, before)


@pytest.mark.parametrize("inputs", [STATES[:10], STATES.reshape(100, 2, 4)])
def test_few_states_and_images_are_left_alone(inputs):
    _layer, first, rng = young()
    assert not first.fit(inputs, rng)


def test_a_constant_input_gets_finite_weights():
    layer, first, rng = young()
    states = STATES.clone()
    states[:, 1] = 5.0
    assert first.fit(states, rng)
    assert torch.isfinite(layer.weight).all()
    assert torch.isfinite(layer.bias).all()
    assert torch.isfinite(layer(states)).all()


def test_saved_before_the_first_fit_and_after():
    _layer, first, rng = young()
    _, other, _ = young()
    other.load_state_dict(first.state_dict())
    assert other.fit(STATES, np.random.default_rng(0))
    first.fit(STATES, rng)
    _, again, _ = young()
    again.load_state_dict(first.state_dict())
    assert again.redrawn
    assert not again.fit(1.2 * STATES, rng)
    wrong = first.state_dict() | {"born.0": np.zeros((3, 2), np.float32)}
    with pytest.raises(StateError, match="another network"):
        again.load_state_dict(wrong)


def test_an_input_that_seldom_or_never_varies_gets_no_huge_weights():
    """A contact that is first made long after the layer was fitted must not drown everything else."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 64)
    before = layer.weight.detach().clone()
    rng = np.random.default_rng(0)
    states = np.zeros((1000, 3), np.float32)
    states[:, 0] = rng.normal(size=1000)
    states[:3, 1] = 1.0  # made three times in a thousand steps; the third input never varies
    assert FirstLayers(lambda: [layer], untrained=True).fit(torch.from_numpy(states), rng)
    growth = layer.weight.detach().abs().mean(dim=0) / before.abs().mean(dim=0)
    assert growth[1] < 10 * growth[0]
    assert growth[2] < 2 * growth[0]
