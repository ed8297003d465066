"""Weights in safetensors files, both ways: modules, states of optimisers, bfloat16, several files, PyTorch."""

import json

import numpy as np
import pytest

import backsolve as bs
from backsolve import nn, optim, tree
from backsolve.errors import StructureError
from backsolve.interop.safetensors import load, metadata, save


def same(a, b):
    for x, y in zip(tree.flatten(a)[0], tree.flatten(b)[0], strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_array_equal(x, y)


def network():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))


def test_modules_and_states_of_optimisers(tmp_path):
    nn.manual_seed(0)
    net = network()
    save(net, tmp_path / "net.safetensors", {"epoch": "3"})
    assert set(load(tmp_path / "net.safetensors")) == set(net.state_dict())
    assert metadata(tmp_path / "net.safetensors") == {"epoch": "3"}
    other = network()
    same(load(tmp_path / "net.safetensors", like=other), net)
    assert not np.array_equal(other[0].weight, net[0].weight)  # which stays as it is
    params = {"w": np.ones((2, 3)), "b": [np.zeros(2), np.ones(1, np.float32)]}
    adam = optim.Adam(lr=0.1)
    state = adam.init(params)
    _, state = adam.update(params, tree.map(np.ones_like, params), state)
    save(state, tmp_path / "adam.safetensors")
    same(load(tmp_path / "adam.safetensors", like=state), state)
    with pytest.raises(StructureError, match=r"(?s)holds another tree.*- w.*\+ "):
        load(tmp_path / "adam.safetensors", like=params)


def test_bfloat16_is_rounded_to_the_nearest(tmp_path):
    path = tmp_path / "half.safetensors"
    bits = np.random.default_rng(0).integers(0, 2**32, 5000, np.uint64).astype(np.uint32)
    x = np.concatenate([bits.view(np.float32), np.float32([1.00390625, 1.01171875, np.inf, -0.0])])
    save({"x": x, "n": np.arange(3)}, path, dtype="bfloat16")
    jnp = pytest.importorskip("jax.numpy")
    with np.errstate(all="ignore"):
        expected = np.asarray(jnp.asarray(x).astype(jnp.bfloat16).astype(np.float32))
    np.testing.assert_array_equal(load(path)["x"], expected)
    same(load(path)["n"], np.arange(3))
    save({"y": jnp.asarray(x).astype(jnp.bfloat16)}, path)
    np.testing.assert_array_equal(load(path)["y"], expected)
    save({"x": np.float64([1 / 3])}, path, dtype="float32")
    same(load(path)["x"], np.float32([1 / 3]))


def test_several_files_with_an_index(tmp_path):
    arrays = {f"layer.{k}": np.full((10, 10), k, np.float32) for k in range(7)}
    save(arrays, tmp_path / "model.safetensors", {"by": "us"}, largest=1000)
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names[0] == "model-00001-of-00004.safetensors"
    assert names[-1] == "model.safetensors.index.json"
    index = json.loads((tmp_path / names[-1]).read_text())
    assert index["metadata"]["total_size"] == 2800
    assert index["weight_map"]["layer.2"] == "model-00002-of-00004.safetensors"
    for path in (tmp_path, tmp_path / names[-1], tmp_path / "model.safetensors"):
        same(dict(sorted(load(path).items())), arrays)
    assert metadata(tmp_path) == {"by": "us"}
    (tmp_path / names[1]).unlink()
    with pytest.raises(FileNotFoundError, match="model-00002-of-00004"):
        load(tmp_path)
    (tmp_path / names[-1]).write_text("{}")
    with pytest.raises(ValueError, match="no weight_map"):
        load(tmp_path)


def test_to_pytorch_and_back(tmp_path):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("safetensors.torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(8, 3)
    ).eval()
    ours, x = network(), np.random.default_rng(0).normal(size=(2, 1, 4, 4)).astype(np.float32)
    theirs.save_file(net.state_dict(), tmp_path / "theirs.safetensors")
    ours = bs.interop.torch.load_state_dict(ours, tmp_path / "theirs.safetensors")
    ours.eval()
    expected = net(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(ours(x), expected, rtol=1e-5, atol=1e-6)
    save(ours, tmp_path / "ours.safetensors", largest=100)
    bs.interop.torch.load_state_dict(network(), tmp_path / "ours.safetensors.index.json")
    save(ours, tmp_path / "ours.safetensors")
    again = theirs.load_file(tmp_path / "ours.safetensors")
    for name, value in net.state_dict().items():
        assert torch.equal(again[name], value)
    theirs.save_file(
        {"h": torch.full((3,), 1 / 3, dtype=torch.bfloat16)}, tmp_path / "h.safetensors"
    )
    half = load(tmp_path / "h.safetensors")["h"]
    np.testing.assert_array_equal(half, torch.full((3,), 1 / 3, dtype=torch.bfloat16).float())
    save({"h": half}, tmp_path / "h.safetensors", dtype="bfloat16")
    assert theirs.load_file(tmp_path / "h.safetensors")["h"].dtype is torch.bfloat16


def test_no_array_is_lost_in_silence(tmp_path):
    path = tmp_path / "m.safetensors"
    with pytest.raises(StructureError, match=r"two arrays would be called a.b.c"):
        save({"a": {"b.c": np.ones(1)}, "a.b": {"c": np.zeros(1)}}, path)
    with pytest.raises(TypeError, match=r"not z .complex128., l"):
        save({"z": np.ones(2, complex), "l": np.ones(2, np.longdouble)}, path)
    with pytest.raises(ValueError, match="under the name __metadata__"):
        save({"__metadata__": np.ones(2)}, path)
    save({"a": np.ones(4), "b": np.zeros(4)}, path, largest=40)
    index = tmp_path / "m.safetensors.index.json"
    said = json.loads(index.read_text())
    said["weight_map"]["c"] = said["weight_map"]["a"]
    index.write_text(json.dumps(said))
    with pytest.raises(ValueError, match="names arrays that no file holds: c"):
        load(path)


@pytest.mark.parametrize("places", [{"a": 3}, {"a": "../a.safetensors"}, {}, ["a"], None])
def test_an_index_that_is_none(tmp_path, places):
    index = tmp_path / "m.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ValueError, match="names files beside it"):
        load(index)


def test_folders_and_files_that_are_not_whole(tmp_path):
    for name in ("a", "b"):
        save({"x": np.ones(2)}, tmp_path / f"{name}.safetensors")
    with pytest.raises(ValueError, match=r"several, a.safetensors, b.safetensors: name one"):
        load(tmp_path)
    first = tmp_path / "a.safetensors"
    first.write_bytes(first.read_bytes()[:-3])
    for read in (load, metadata):
        with pytest.raises(ValueError, match=r"a.safetensors is no whole safetensors file"):
            read(first)
