"""`icm` pays where its model of the dynamics fails, and learns it as torch would."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

import polaug

BOX = spaces.Box(-np.inf, np.inf, (2,), np.float64)
MOVES = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


def make(actions=None, space=BOX, **options):
    return polaug.make_explorer("icm", space, actions or spaces.Discrete(3), seed=1, **options)


def steps(n=64, seed=0, centre=0.0):
    """Moves in the plane: the action decides where to."""
    rng = np.random.default_rng(seed)
    states, actions, none = rng.normal(size=(n, 2)) + centre, rng.integers(3, size=n), np.zeros(n, dtype=bool)
    return polaug.Transitions(states, actions, np.zeros(n), states + MOVES[actions], none, none)


def taught(explorer, updates=120):
    for k in range(updates):
        explorer.observe(steps(seed=k))
    return explorer


def test_familiar_dynamics_are_worth_less_than_broken_ones():
    explorer = make()
    explorer.observe(steps(128))
    early = explorer.bonus(steps(seed=999)).mean()
    taught(explorer)
    known = steps(seed=999)
    broken = polaug.Transitions(
        known.observations, known.actions, known.rewards, known.observations - 3 * MOVES[known.actions],
        known.terminated, known.truncated,
    )  # fmt: skip
    assert 0.0 < explorer.bonus(known).mean() < 0.3 * early
    assert explorer.bonus(broken).mean() > 5 * explorer.bonus(known).mean()


def test_the_inverse_model_learns_the_action():
    explorer = taught(make())
    rows = explorer._rows(explorer._read(steps(200, seed=999)))
    codes = explorer._networks["encoder"](explorer._inputs(np.concatenate([rows[:, :2], rows[:, 2:4]])))
    guess = explorer._networks["inverse"](np.concatenate([codes[:200], codes[200:]], axis=1)).argmax(axis=1)
    assert np.mean(guess == rows[:, 4:].argmax(axis=1)) > 0.95


def reference(explorer, rows):
    """The same losses in torch; gradients of encoder, inverse and forward model as flat arrays."""
    tensors = {
        name: [(torch.tensor(w.copy(), requires_grad=True), torch.tensor(b.copy(), requires_grad=True))
               for w, b in network._layers]
        for name, network in explorer._networks.items()
    }  # fmt: skip

    def run(name, x):
        for k, (weights, biases) in enumerate(tensors[name]):
            x = x @ weights + biases
            x = torch.nn.functional.leaky_relu(x, 0.01) if k < len(tensors[name]) - 1 else x
        return x

    d = explorer._flatten.size
    described = torch.tensor(rows[:, 2 * d :])
    now, then = (run("encoder", torch.tensor(explorer._inputs(part))) for part in (rows[:, :d], rows[:, d : 2 * d]))
    guess = run("inverse", torch.cat([now, then], dim=1))
    if explorer._choices is None:
        loss = torch.nn.functional.mse_loss(guess, described)
    else:
        sizes = np.diff([0, *explorer._choices, guess.shape[1]]).tolist()
        loss = sum(
            torch.nn.functional.cross_entropy(g, y)
            for g, y in zip(guess.split(sizes, 1), described.split(sizes, 1), strict=True)
        )
    predicted = run("forward", torch.cat([now.detach(), described], dim=1))
    loss = loss + 0.5 * (predicted - then.detach()).square().sum(dim=1).mean()
    loss.backward()
    return {
        name: torch.cat([p.grad.flatten() for layer in layers for p in layer]).numpy()
        for name, layers in tensors.items()
    }


@pytest.mark.parametrize(
    "actions",
    [spaces.Discrete(3), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2), spaces.Box(-2.0, 2.0, (2,), np.float32)],
    ids=lambda space: type(space).__name__,
)
def test_gradients_agree_with_torch_for_every_kind_of_action(actions):
    explorer = make(actions, hidden=7, outputs=5)
    rng, n = np.random.default_rng(0), 20
    actions.seed(0)
    states, none = rng.normal(size=(n, 2)), np.zeros(n, dtype=bool)
    taken = np.stack([actions.sample() for _ in range(n)])
    batch = explorer._read(polaug.Transitions(states, taken, np.zeros(n), states[::-1].copy(), none, none))
    explorer._inputs.observe(batch.next_flat)
    rows = explorer._rows(batch)
    wanted = reference(explorer, rows)
    explorer._train(rows)
    for name, optimizer in explorer._optimizers.items():  # after one step, Adam's mean is a tenth of the gradient
        np.testing.assert_allclose(10 * optimizer.moments[0], wanted[name], atol=1e-10)


def test_box_actions_are_told_apart_within_a_bin():
    """y(a) of the very action goes into the forward model, not that of the nearest listed one."""
    explorer = make(spaces.Box(-1.0, 1.0, (1,), np.float64))
    states, none = np.zeros((2, 2)), np.zeros(2, dtype=bool)
    explorer.observe(steps_with(np.linspace(-1, 1, 200)[:, None]))
    first, second = explorer.bonus(
        polaug.Transitions(states, np.array([[0.5], [0.5001]]), np.zeros(2), states, none, none)
    )
    assert first != second


def steps_with(actions):
    n, none = len(actions), np.zeros(len(actions), dtype=bool)
    states = np.random.default_rng(0).normal(size=(n, 2))
    return polaug.Transitions(states, actions, np.zeros(n), states + actions, none, none)


def test_it_pays_and_does_not_steer():
    explorer = make()
    assert explorer.pays
    assert not explorer.steers
    assert explorer.q_values(np.zeros((1, 2))) is None
    assert not make(beta=0.0).bonus(steps(4)).any()
