"""First layers see standardised inputs; what a trained network says stays the same."""

import numpy as np
import pytest
import torch

from polaug.coach import Standardise
from polaug.coach.pupil import first_layers
from polaug.coach.standardise import FirstLayer, input_width


def network(d=4, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(Standardise(d), torch.nn.Linear(d, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))


def fitting(net, untrained=True):
    modules = [module for module in net if isinstance(module, Standardise)]
    return FirstLayer(lambda: modules, lambda: first_layers([net]), untrained)


def awkward(n=500, seed=0):
    """10³ x + 10⁴, x, a constant and a tiny number."""
    x = np.random.default_rng(seed).normal(size=(n, 4))
    return torch.as_tensor((x * [1e3, 1.0, 0.0, 1e-3] + [1e4, 0.0, 7.0, 0.0]).astype(np.float32))


def test_inputs_of_any_unit_become_alike():
    net = network()
    assert fitting(net).fit(awkward(), np.random.default_rng(0))
    seen = net[0](awkward())
    torch.testing.assert_close(seen.mean(0), torch.zeros(4), atol=1e-3, rtol=0)
    torch.testing.assert_close(seen[:, [0, 1, 3]].std(0), torch.ones(3), atol=0.15, rtol=0)
    assert (seen[:, 2] == 0).all()  # the constant
    received = net[1](seen)
    assert 1.0 < received.std() < 3.0  # units bend within the data
    assert (received.amin(0) < 0).float().mean() > 0.95
    assert (received.amax(0) > 0).float().mean() > 0.95


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_a_trained_network_says_what_it_said(scale):
    net, states = network(), awkward() * scale
    first = fitting(net, untrained=False)
    with torch.no_grad():
        net[1].weight /= states.abs().amax(0).clamp(min=1.0)
    for wider in (states, states * 3.0):
        with torch.no_grad():
            before = net(states)
        width = net[0].width.clone()
        assert not first.fit(wider, np.random.default_rng(0))
        assert not torch.equal(net[0].width, width)
        with torch.no_grad():
            torch.testing.assert_close(net(states), before, atol=1e-5, rtol=1e-5)


def test_it_is_the_identity_before_and_fitted_again_only_when_inputs_have_grown():
    net, states = network(), awkward()
    assert torch.equal(net[0](states), states)
    first = fitting(net)
    assert first.fit(states, np.random.default_rng(0))
    width, mean = net[0].width.clone(), net[0].mean.clone()
    first.fit(states * 1.2, np.random.default_rng(0))
    assert torch.equal(net[0].width, width)
    assert torch.equal(net[0].mean, mean)
    first.fit(states * 3.0, np.random.default_rng(0))
    assert net[0].width[0] > 2.0 * width[0]
    grown = net[0].width.clone()
    first.fit(states * 0.1, np.random.default_rng(0))
    assert torch.equal(net[0].width, grown)  # it only grows


def test_a_network_that_has_been_trained_is_not_redrawn():
    net = network()
    first = fitting(net)
    with torch.no_grad():
        net[1].weight[0, 0] += 0.5
    assert not first.fit(awkward(), np.random.default_rng(0))


def test_a_contact_that_is_seldom_made_is_not_blown_up():
    inputs = torch.zeros(1000, 1)
    inputs[0] = 1.0
    assert float(input_width(inputs)[0]) == pytest.approx(1 / 6)


def test_a_critic_that_also_sees_actions_keeps_what_it_says_about_them():
    torch.manual_seed(0)
    standardise, layer = Standardise(4), torch.nn.Linear(6, 16)
    first = FirstLayer(lambda: [standardise], lambda: [layer], untrained=False)
    states, actions = awkward() / 1e3, torch.randn(500, 2)

    def output():
        with torch.no_grad():
            return layer(torch.cat([standardise(states), actions], 1))

    before = output()
    first.fit(states, np.random.default_rng(0))
    torch.testing.assert_close(output(), before, atol=1e-4, rtol=1e-4)
