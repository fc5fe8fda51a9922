"""The default explorer's settings: few, each documented, and no number that changes what it does hides in a module."""

import ast
from dataclasses import fields
from pathlib import Path

import gymnasium as gym
import pytest
from benchmarks.sensitivity import OPTIONS

import polaug
from polaug.explorers import option_names
from polaug.explorers.portfolio import PortfolioExplorer

SOURCE = Path(polaug.__file__).parent

# What plays by default imports these. Numbers at their top bound time or memory, guard against rounding,
COSTS = {
    "aggregation": {"_AT_ONCE"},
    "buffer": {"_LOOKED_AT", "_SMALLEST"},
    "deep_q": {"_TINY", "_LONGEST", "_NUMBERS"},
    "dynamics": {"_CHUNK", "_MOST_FOURIER", "_NEWTON", "_NEWTON_ROWS", "_NEWTON_WORK"},
    "experience": {"_UNBOUNDED"},
    "memoryless": {"_MOST", "_SWEEPS"},
    "network": {"_SLOPE"},  # of rnd and icm: the default path takes only Adam from there
    "novelty": {"_JITTER"},
    "places": {"START", "_EFFECTS", "_LONGEST", "_JOINTLY", "_SIZE"},
    "planning": {"NEVER", "_WALKED"},
    "policy_search": {"_AT_ONCE", "_MOST_WORK"},
    "portfolio": {"_ROLLOUTS", "_LONGEST"},
    "record": {"_STARTS", "_ALIKE"},
    "replay": {"LONGEST"},
    "returns": {"_LONGEST"},
    "revisits": {"_KEPT"},
    "rollout": {"_FARTHEST", "_OVER"},
    "table": {"EXPLOITING", "EXPLORING", "_TOLERANCE", "_EPISODE_END"},
    "tabular": {"REPLAYING"},
    "translations": {"MOST_ACTIONS", "_MOST_SUMS"},
    "value_iteration": {"_SOLVED", "_JITTER", "_CANDIDATES"},
    "whitening": {"_MOST_CHOICES", "_SMALLEST"},
}
# or belong to a rule that nobody needs to tune. This list may only become shorter.
RULES = {
    "aggregation": {"_MOST_DIMENSIONS", "_MOST_ACTIONS"},
    "buffer": {"_ENOUGH", "_RARE", "_FAR"},
    "dynamics": {"_TRIED"},
    "model": {"_HOLD"},
    "model_step": {"BEYOND"},
    "places": {"_ENOUGH", "_UNEXPLAINED", "_CHANCE"},
    "portfolio": {"_SEGMENT"},
    "replay": {"_MOST_REPLAYS"},
    "returns": {"_RARE"},
    "table": {"_FORBIDDEN"},
    "tabular": {"_LEAD"},
    "translations": {"_LOOPS"},
    "value_iteration": {"_SHORTEST", "_UNSEEN"},
}
MODULES = [
    "aggregation", "bandit", "buffer", "deep_q", "dynamics", "experience", "interpolation", "memoryless", "model",
    "model_step", "network", "novelty", "places", "plan", "planning", "policy_search", "portfolio", "record", "replay",
    "returns", "revisits", "rollout", "table", "tabular", "translations", "value_iteration", "whitening",
]  # fmt: skip


def test_there_are_at_most_sixty():
    names = {f"{component}.{field.name}" for component, kind in OPTIONS.items() for field in fields(kind)}
    names -= {"tabular.gamma"}  # the portfolio's own
    assert len(names | {"gamma", "capacity"}) <= 60


def test_the_portfolio_takes_them_all():
    assert set(OPTIONS) <= option_names(PortfolioExplorer)
    env = gym.make("CartPole-v1")
    halved = {name: {field.name: field.default for field in fields(kind)} for name, kind in OPTIONS.items()}
    polaug.make_explorer("portfolio", env.observation_space, env.action_space, gamma=0.9, capacity=500, **halved)


def test_options_of_the_table_reach_it():
    env = gym.make("FrozenLake-v1")
    made = polaug.make_explorer(
        "portfolio", env.observation_space, env.action_space, gamma=0.9, tabular={"patience": 7}
    )
    assert (made._table._table._options.patience, made._table._table._options.gamma) == (7, 0.9)


@pytest.mark.parametrize("kind", OPTIONS.values(), ids=lambda kind: kind.__name__)
def test_each_is_documented(kind):
    path = SOURCE / "explorers" / f"{kind.__module__.rsplit('.', 1)[1]}.py"
    tree = ast.parse(path.read_text())
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    for at, node in enumerate(body):
        if isinstance(node, ast.AnnAssign):
            after = body[at + 1] if at + 1 < len(body) else None
            documented = isinstance(after, ast.Expr) and isinstance(getattr(after.value, "value", None), str)
            assert documented, f"{kind.__name__}.{node.target.id} has no docstring"


@pytest.mark.parametrize("module", MODULES)
def test_no_number_hides_in_a_module(module):
    tree = ast.parse((SOURCE / "explorers" / f"{module}.py").read_text())
    found = set()
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            constants = [each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)]
            if any(isinstance(each, (int, float)) and not isinstance(each, bool) for each in constants):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    assert found == COSTS.get(module, set()) | RULES.get(module, set())


def test_modules_of_the_list_are_the_portfolio_s():
    """A module of the default path that is new must be listed above."""
    seen, queue = set(), ["portfolio"]
    while queue:
        name = queue.pop()
        if name in seen or not (SOURCE / "explorers" / f"{name}.py").exists():
            continue
        seen.add(name)
        for node in ast.walk(ast.parse((SOURCE / "explorers" / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("polaug.explorers."):
                queue.append(node.module.rsplit(".", 1)[1])
    assert seen - {"base", "threads"} == set(MODULES)
