"""The NumPy networks agree with finite differences, with torch, and with running moments computed at once."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from polaug.explorers.network import Adam, Network
from polaug.explorers.whitening import Moments, Whitening
from polaug.features.spaces import Flattener

SIZES = (3, 7, 5, 2)


def problem(seed=0):
    rng = np.random.default_rng(seed)
    return Network(SIZES, rng), rng.standard_normal((6, 3)), rng.standard_normal((6, 2))


def in_torch(network):
    """The same layers in torch, with their parameters in the order of the flat array."""
    layers, parameters = [], []
    for weights, biases in network._layers:
        weights, biases = (torch.tensor(part.copy(), requires_grad=True) for part in (weights, biases))
        parameters += [weights, biases]
        layers.append((weights, biases))

    def forward(x):
        for k, (weights, biases) in enumerate(layers):
            x = x @ weights + biases
            if k < len(layers) - 1:
                x = torch.nn.functional.leaky_relu(x, 0.01)
        return x

    return forward, parameters


def test_gradients_agree_with_finite_differences():
    network, x, goal = problem()

    def loss():
        return np.square(network(x) - goal).mean()

    values = network.forward(x)
    gradient, by_input = network.backward(values, 2 / goal.size * (values[-1] - goal))
    for array, slopes in ((network.parameters, gradient), (x, by_input)):
        for at in np.ndindex(array.shape):
            kept, step = array[at], 1e-6
            array[at] = kept + step
            above = loss()
            array[at] = kept - step
            below = loss()
            array[at] = kept
            assert slopes[at] == pytest.approx((above - below) / (2 * step), abs=1e-8)


def test_training_is_torchs_training():
    network, x, goal = problem()
    forward, parameters = in_torch(network)
    ours, theirs = Adam(network, 1e-2), torch.optim.Adam(parameters, lr=1e-2)
    np.testing.assert_allclose(network(x), forward(torch.tensor(x)).detach().numpy(), atol=1e-12)
    first = np.square(network(x) - goal).mean()
    for _ in range(100):
        values = network.forward(x)
        ours.step(network.backward(values, 2 / goal.size * (values[-1] - goal))[0])
        theirs.zero_grad()
        torch.nn.functional.mse_loss(forward(torch.tensor(x)), torch.tensor(goal)).backward()
        theirs.step()
    flat = torch.cat([parameter.detach().flatten() for parameter in parameters]).numpy()
    np.testing.assert_allclose(network.parameters, flat, atol=1e-9)
    assert np.square(network(x) - goal).mean() < 0.1 * first


def test_layers_start_orthogonal_and_seeded():
    network, again, other = (Network(SIZES, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(network.parameters, again.parameters)
    assert not np.array_equal(network.parameters, other.parameters)
    for weights, biases in network._layers:
        short = weights @ weights.T if weights.shape[0] < weights.shape[1] else weights.T @ weights
        np.testing.assert_allclose(short, 2 * np.eye(len(short)), atol=1e-12)
        assert not biases.any()


def test_moments_do_not_depend_on_the_batches():
    x = np.random.default_rng(0).normal(size=(50, 3)) * [1e-6, 1.0, 1e6] + 1e5
    moments = Moments(3)
    for part in np.split(x, [1, 2, 20]):
        moments.observe(part)
    np.testing.assert_allclose(moments.mean, x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.deviation, x.std(axis=0), rtol=1e-4)
    assert moments.count == 50


def test_inputs_are_whitened_numbers_and_one_hot_categories():
    space = spaces.Tuple((spaces.Discrete(3, start=5), spaces.Box(-9.0, 9.0, (2,), np.float64)))
    flatten = Flattener(space)
    inputs = Whitening(flatten, 5.0)
    rng = np.random.default_rng(0)
    flat = flatten((rng.integers(5, 8, 200), np.stack([rng.normal(3, 2, 200), np.full(200, 0.1)], axis=1)))
    inputs.observe(flat)
    z = inputs(flat)
    assert z.shape == (200, inputs.size) == (200, 5)
    np.testing.assert_allclose([z[:, 0].mean(), z[:, 0].std()], [0.0, 1.0], atol=0.02)
    assert not z[:, 1].any()  # constant so far
    assert np.array_equal(z[:, 2:], np.eye(3)[(flat[:, 0] - 5).astype(int)])
    assert inputs(flatten((np.array([5]), np.array([[9e90, 0.1]]))))[0, 0] == 5.0
