"""What the page finds again in edited runs is what Python finds in them."""

import json

import numpy as np
import pytest

from backsolve import nn
from backsolve.show import show
from backsolve.show.data import page_data
from backsolve.show.scene import scene_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 8))

_AGAIN = """asked => JSON.stringify(JSON.parse(asked).map(scene => {
  const { run, fromData, fadingFindings } = backsolve;
  const { program } = scene.recompute;
  const inputs = program.inputs.map(fromData);
  const { values, adjoints } = run(program, inputs);
  return fadingFindings(scene, values, adjoints, inputs.slice(inputs.length - program.seeded.length));
}))"""


def network(activation, bias=0.0):
    def loss(layers, x):
        for w in layers:
            x = activation(x @ w + bias)
        return (x * x).mean()

    return loss


def weights(gain, depth=6):
    return [gain * RNG.normal(size=(8, 8)) / np.sqrt(8) for _ in range(depth)]


def recurrence(w, u, xs):
    h = np.zeros(4)
    for x in xs:
        h = np.tanh(h @ w + x @ u)
    return (h * h).sum()


def normalised(w, b, unused):
    y = X @ w + b
    y = y - y.mean(axis=0)
    return (y / np.sqrt((y * y).mean(axis=0) + 1e-5))[:3].sum()


def forgets(x):
    for _ in range(30):
        x = 0.1 * np.sin(x)
    return x


def grows(x):
    for _ in range(30):
        x = 10.0 * np.sinh(x * 1e-12) * 1e12
    return x


CASES = {
    "in order": (network(np.tanh), weights(1.0), X),
    "fades": (network(np.tanh), weights(0.1), X),
    "explodes": (network(lambda x: x), [w * 36.0**k for k, w in enumerate(weights(1.0, 8))], X),
    "saturated": (network(np.tanh), weights(60.0, 2), X),
    "dead": (network(nn.functional.relu, -4.0), weights(0.5, 3), X),
    "rounds": (recurrence, 0.2 * RNG.normal(size=(4, 4)), RNG.normal(size=(3, 4)), RNG.normal(size=(12, 3))),
    "cancels": (normalised, RNG.normal(size=(8, 3)), np.ones(3), 1.0),
    "forgets": (forgets, 0.3),
    "grows": (grows, 1e-30),
}  # fmt: skip


def test_the_page_finds_what_python_finds(in_page):
    scenes = {name: page_data(scene_of(f, args)) for name, (f, *args) in CASES.items()}
    found = json.loads(in_page.tab.evaluate(_AGAIN, json.dumps(list(scenes.values()))))
    kinds = set()
    for (name, scene), again in zip(scenes.items(), found, strict=True):
        assert again == scene["findings"], name
        kinds |= {f["kind"] for f in again}
    assert kinds == {"vanishing", "exploding", "saturated", "dead", "zero", "unused"}


def test_an_edit_that_saturates_is_found(open_page):
    expect = pytest.importorskip("playwright.sync_api").expect
    tab = open_page(show(lambda x: np.tanh(x), 0.5))
    tab.get_by_role("tab", name="Inputs").click()
    tab.get_by_role("spinbutton", name="x").fill("9")
    tab.get_by_role("tab", name="Findings").click()
    expect(tab.get_by_role("tabpanel")).to_contain_text(
        "saturated: 100% of its one entry is saturated"
    )
    tab.get_by_role("tab", name="Inputs").click()
    tab.get_by_role("button", name="as they were").click()
    tab.get_by_role("tab", name="Findings").click()
    expect(tab.get_by_role("tabpanel")).to_contain_text("Nothing is wrong")
