"""Bad input to every function: NumPy's kind of exception, and who, which argument, where in the message.

Each function of NumPy that Tensors reach is called with an example that works (testing/coverage_examples.py),
of which one argument is then spoilt. NumPy is called with the same, and must fail in the same way.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import backsolve as bs
import backsolve.numpy as bnp
from backsolve.testing.coverage import ROOMS, _asks, public
from backsolve.testing.coverage_examples import COMMON, EXAMPLES, VALUES, WHOLE

# They write files, print, or are about dates.
LEFT_OUT = {
    *(
        "save",
        "savetxt",
        "savez",
        "savez_compressed",
        "test",
        "info",
        "show_config",
        "show_runtime",
    ),
    *("get_include", "busday_count", "busday_offset", "datetime_as_string", "is_busday", "isnat"),
    "can_cast",  # its first argument may be anything
}
# Tensors hold numbers: where NumPy makes something of text and objects, or stumbles, this is a TypeError.
NO_NUMBERS = {"text", "word", "nothing", "list of nothing"}
# NumPy fails by accident, deep inside; here the mistake itself is named.
ACCIDENTS = {
    ("copyto", "rank 0"): "NumPy takes its own scalars for no arrays",
    ("place", "rank 0"): "NumPy takes its own scalars for no arrays",
    ("putmask", "rank 0"): "NumPy takes its own scalars for no arrays",
    ("histogram2d", "rank 0"): "NumPy asks for len() of a number",
    ("histogram2d", "nothing"): "NumPy asks for len() of None",
    ("histogram2d", "text"): "NumPy compares a text with a number",
    ("cumulative_prod", "axis=(0, 0)"): "elsewhere several axes for one are a TypeError, as here",
    ("cumulative_sum", "axis=(0, 0)"): "elsewhere several axes for one are a TypeError, as here",
    ("linspace", "axis=(0, 0)"): "elsewhere several axes for one are a TypeError, as here",
    ("logspace", "axis=(0, 0)"): "elsewhere several axes for one are a TypeError, as here",
    ("unstack", "axis=(0, 0)"): "elsewhere several axes for one are a TypeError, as here",
    ("linalg.norm", "axis=1.5"): "NumPy rounds the axis, then looks for it",
    ("linalg.vector_norm", "axis=1.5"): "NumPy rounds the axis, then looks for it",
    ("take", "list of nothing"): "NumPy makes integers of the indices, whatever they are",
    ("piecewise", "empty list"): "NumPy indexes an empty list",
    ("piecewise", "ragged list"): "NumPy makes an array of the list",
    ("polydiv", "empty"): "NumPy indexes an empty array",
    ("polydiv", "empty matrix"): "NumPy indexes an empty array",
    ("tensordot", "shape"): "NumPy indexes a tuple beyond its end",
    ("tensordot", "empty"): "NumPy indexes a tuple beyond its end",
    ("tensordot", "axes=(99,)"): "NumPy unpacks the tuple",
    ("tensorsolve", "axes='no'"): "NumPy removes the axis from a list",
    **{(f"fft.{n}", "axes='no'"): "NumPy makes integers of the letters"
       for n in ("fft2", "fftn", "ifft2", "ifftn", "irfft2", "irfftn", "rfft2", "rfftn")},
}  # fmt: skip
# NumPy refuses, and there is a result here.
ACCEPTED = {
    ("clip", "booleans"): "the standard's clip takes all dtypes",
    ("polyder", "empty matrix"): "no coefficients have no derivative",
    ("linalg.tensorinv", "rank 0"): "NumPy reshapes to no axes",
    ("fft.fftshift", "rank 0"): "nothing is shifted",
    ("fft.ifftshift", "rank 0"): "nothing is shifted",
}
# NumPy has a result, and here is an error.
REFUSED = {
    "keepdims='no'": "some of NumPy's functions take any object for true",
    ("apply_over_axes", "rank 0"): "there is no such axis",
    ("bincount", "empty list"): "NumPy forgets the weights",
    ("cross", "rank 5"): "vectors of two entries have been deprecated",
    ("fill_diagonal", "complex"): "the imaginary part would be dropped",
    ("put", "complex"): "the imaginary part would be dropped",
    ("put_along_axis", "complex"): "the imaginary part would be dropped",
    ("polydiv", "rank 5"): "a polynomial has coefficients of rank 1",
    ("polydiv", "matrix"): "a polynomial has coefficients of rank 1",
    ("polyfit", "fraction"): "a degree is whole",
    ("polymul", "empty"): "a polynomial has coefficients",
    ("reshape", "below"): "-1 stands for a length to be found, no other number does",
}
BAD_ARRAYS: dict[str, Any] = {
    "rank 0": lambda x: np.float64(0.3),
    "rank 5": lambda x: np.full((1, 2, 1, 3, 2), 0.3),
    "matrix": lambda x: np.full((5, 7), 0.3),
    "shape": lambda x: np.full(7, 0.3),
    "empty": lambda x: np.zeros(0),
    "empty matrix": lambda x: np.zeros((0, 3)),
    "text": lambda x: np.array(["a", "b"]),
    "word": lambda x: "no",
    "nothing": lambda x: None,
    "complex": lambda x: np.full(np.shape(x), 1j),
    "booleans": lambda x: np.ones(np.shape(x), bool),
    "NaN": lambda x: np.full(np.shape(x), np.nan),
}
BAD_LISTS = {
    "empty list": [],
    "list of nothing": [None],
    "ragged list": [np.ones((2, 3)), np.ones(5)],
    "number": 3,
}
BAD_NUMBERS = {"text": "no", "beyond": 99, "below": -99, "fraction": 1.5, "nothing": None}
BAD_OPTIONS: dict[str, tuple[Any, ...]] = {
    "axis": (99, -99, "no", 1.5, (0, 0)),
    "axes": ((99,), "no"),
    "dtype": ("no",),
    "keepdims": ("no",),
    "mode": ("no",),
    "n": (-3, "no", 1.5),
    "ord": ("no", 99),
}


def example(name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with which NumPy's function works, on arrays and on Tensors."""
    f, found = FUNCTIONS[name], []
    for text in (EXAMPLES[f"numpy.{name}"],) if f"numpy.{name}" in EXAMPLES else COMMON:
        taken: list[Any] = []
        record = lambda *args, taken=taken, **options: taken.append((args, options))
        known = {"np": np, "f": record, "written": lambda f, a, *args: f(a, *args)}
        eval(text, {**known, **VALUES, **WHOLE})
        args, options = taken[0]
        if (
            failure(f, args, options) is None
            and failure(f, tensors(args), tensors(options)) is None
        ):
            found.append((args, options))
            break
    assert found, f"no example of `{name}` works"
    return found[0]


def tensors(x: Any) -> Any:
    if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "biufc":
        return bs.tensor(x)
    if isinstance(x, dict):
        return {n: tensors(v) for n, v in x.items()}
    return type(x)(map(tensors, x)) if isinstance(x, list | tuple) else x


def called(f: Any, args: Any, options: Any) -> Any:
    return f(*args, **options)


LINE = f"test_bad_input.py:{called.__code__.co_firstlineno + 1}"


def failure(f: Any, args: Any, options: Any) -> Exception | None:
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            called(f, copies, options)
        except Exception as error:
            return error
    return None


def spoilt(f: Any, args: Any, options: Any) -> Iterator[tuple[str, str | int, Any, Any]]:
    """What was done, to which argument, and the arguments."""
    for k, x in enumerate(args):
        bad: dict[str, Any] = {}
        if isinstance(x, np.ndarray | np.generic):
            bad = {kind: make(x) for kind, make in BAD_ARRAYS.items()}
        elif isinstance(x, list):
            bad = BAD_LISTS
        elif isinstance(x, int | float | tuple):
            bad = BAD_NUMBERS
        for kind, value in bad.items():
            yield kind, k, (*args[:k], value, *args[k + 1 :]), options
    try:
        names = list(inspect.signature(f).parameters)
    except ValueError:
        names = []
    for option in BAD_OPTIONS.keys() & names[len(args) :]:
        for value in BAD_OPTIONS[option]:
            yield f"{option}={value!r}", option, args, {**options, option: value}


FUNCTIONS = {
    f"{room}.{name}".removeprefix("numpy."): f
    for room, module in ROOMS
    for name, f in public(module).items()
    if _asks(f) and name not in LEFT_OUT
}


def listed(table: dict[Any, str], name: str, kind: str) -> bool:
    short = name.removeprefix("linalg.")
    return kind in table or (name, kind) in table or (short, kind) in table


def kind_of(error: Exception) -> type[Exception]:
    """The class by which users know NumPy's exception."""
    public_ones = (np.exceptions.AxisError, np.linalg.LinAlgError)
    for kind in (*public_ones, IndexError, ZeroDivisionError, OverflowError, ValueError):
        if isinstance(error, kind):
            return kind
    # An object that lacks a method is of the wrong type.
    return TypeError if isinstance(error, TypeError | AttributeError) else type(error)


def is_ours(error: Exception) -> bool:
    """Whether our code has been asked at all: NumPy looks at signatures first, and iterates over arguments."""
    files, step = [], error.__traceback__
    while step is not None:
        files.append(step.tb_frame.f_code.co_filename.replace("\\", "/"))
        step = step.tb_next
    return any("/backsolve/" in f for f in files) and "over a tensor of rank 0" not in str(error)


def check_message(name: str, argument: str | int, error: Exception) -> None:
    said = "\n".join([str(error), *getattr(error, "__notes__", ())])
    assert LINE in said
    inside = next(line for line in said.splitlines() if line.startswith("    in "))
    if name == "full_like":  # NumPy does not ask Tensors: it is its `copyto` that does
        return
    assert f"{FUNCTIONS[name].__name__}(" in inside  # of `acos`, say, it is "arccos"
    blamed, _, _ = inside.partition(" of ")
    assert "argument" in blamed
    if isinstance(argument, str):
        assert f"`{argument}`" in blamed, f"{argument} is not blamed: {inside}"


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_bad_input(name: str) -> None:
    f = FUNCTIONS[name]
    for kind, argument, args, options in spoilt(f, *example(name)):
        theirs = failure(f, args, options)
        ours = failure(f, tensors(args), tensors(options))
        if ours is None:
            assert theirs is None or listed(ACCEPTED, name, kind), f"{kind}: {theirs!r}"
            continue
        if not is_ours(ours):
            assert type(ours) is type(theirs)
            continue
        expected = Exception if theirs is None else kind_of(theirs)
        if theirs is None:
            assert kind in NO_NUMBERS or listed(REFUSED, name, kind), f"{kind}: {ours!r}"
        elif not (kind in NO_NUMBERS and isinstance(ours, TypeError)):
            wrong = f"{kind}: {theirs!r} became {ours!r}"
            assert isinstance(ours, expected) or listed(ACCIDENTS, name, kind), wrong
        check_message(name, argument, ours)


# What compiled code does not notice: values are not known when it is made.
UNSEEN = {
    "NaN": "entries are not looked at",
    ("piecewise", "rank 0"): "a condition of rank 1 makes the result one",
    (
        "put_along_axis",
        "empty",
    ): "what is written into an argument is not seen outside, so nothing is written",
    ("unravel_index", "below"): "indices are not compared with the size",
}


def are_traced(args: Any) -> list[bool]:
    return [isinstance(a, np.ndarray | np.generic) and a.dtype.kind in "biufc" for a in args]


def staged(f: Any, args: Any, options: Any) -> Exception | None:
    """How `f` fails inside `jit`, the arrays among its arguments traced."""
    numbers = are_traced(args)

    def body(*traced: Any) -> Any:
        rest = iter(traced)
        return called(
            f, [next(rest) if n else a for a, n in zip(args, numbers, strict=True)], options
        )

    return failure(bs.jit(body), [a for a, n in zip(args, numbers, strict=True) if n], {})


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_bad_input_inside_jit(name: str) -> None:
    """What is an error eagerly is one of the same kind here, or one about what can be staged."""
    f = FUNCTIONS[name]
    for kind, _, args, options in spoilt(f, *example(name)):
        eager = failure(f, tensors(args), tensors(options))
        if eager is None or not is_ours(eager) or not any(are_traced(args)):
            continue
        error = staged(f, args, options)
        if error is None:
            assert listed(UNSEEN, name, kind), f"{kind}: {eager!r}"
            continue
        cannot = isinstance(error, bs.errors.TracedValueError | bs.errors.UnsupportedError)
        other = kind in NO_NUMBERS and isinstance(error, TypeError)
        other |= name == "piecewise"  # it picks by `where`, not by indices, and so speaks of shapes
        assert cannot or other or isinstance(error, kind_of(eager)), f"{kind}: {error!r}"
        said = "\n".join([str(error), *getattr(error, "__notes__", ())])
        if kind != "NaN":  # LAPACK's complaint, at the line of the compiled function
            assert LINE in said, f"{kind}: {said}"
        is_of_the_run = "\n" not in said  # an index, a singular matrix
        assert is_of_the_run or "    in " in said or name == "full_like", f"{kind}: {said}"


X = np.ones((2, 3))
REACHED: dict[str, Any] = {
    "numpy": lambda x: np.sum(x, axis=5),
    "the namespace": lambda x: bnp.sum(x, axis=5),
    "a method": lambda x: x.sum(axis=5),
    "a method of its own": lambda x: x.reshape((4, 4)),
    "a ufunc": lambda x: np.add(x, np.ones(4)),
    "a ufunc's method": lambda x: np.add.reduce(x, axis=5),
    "linear algebra": lambda x: bnp.linalg.det(x),
    "Fourier transforms": lambda x: bnp.fft.fft(x, axis=5),
    "one of ours": lambda x: bnp.logsumexp(x, axis=5),
    "special functions": lambda x: bnp.special.softmax(x, axis=5),
    "SciPy's linear algebra": lambda x: bnp.linalg.expm(x),
    "what makes tensors": lambda x: bnp.full((2, 3), x, dtype="no"),
    "inner calls": lambda x: np.cov(x, np.ones(7)),
}


@pytest.mark.parametrize("how", ["eager", "varying", "jit", "vmap", "grad"])
@pytest.mark.parametrize("name", REACHED)
def test_every_way_to_a_function(name: str, how: str) -> None:
    f = REACHED[name]
    ways: dict[str, Any] = {
        "eager": lambda: f(bs.tensor(X)),
        "varying": lambda: f(bs.tensor(X, requires_grad=True)),
        "jit": lambda: bs.jit(f)(X),
        "vmap": lambda: bs.vmap(f)(X[None]),
        "grad": lambda: bs.grad(f)(X),
    }
    with pytest.raises((TypeError, ValueError)) as caught:
        ways[how]()
    said = str(caught.value)
    line = f.__code__.co_firstlineno
    assert f"test_bad_input.py:{line}" in said
    assert "    in the argument" in said


def test_blame() -> None:
    """The argument that was bad, and what was passed beside it."""
    x = bs.tensor(X)
    with pytest.raises(
        bs.errors.AxisError, match=r"the argument `axis` of sum\(a=float64\[2, 3\], axis=5\)"
    ):
        np.sum(x, axis=5)
    with pytest.raises(bs.errors.IndexingError, match="the argument `indices` of take"):
        np.take(x, 100)
    with pytest.raises(TypeError, match="the argument `a_min` of clip"):
        np.clip(x, "a", 1)
    with pytest.raises(
        ValueError, match=r"the arguments `x1` and `x2` of matmul\(x1=float64\[2, 3\]"
    ):
        np.matmul(x, x)
    with pytest.raises(ValueError, match=r"the argument `arrays` of concatenate\(arrays=\[float64"):
        np.concatenate([x, np.ones(5)])


def test_what_users_raise_is_theirs() -> None:
    def f(row: Any) -> Any:
        raise ValueError("not today")

    with pytest.raises(ValueError, match=r"^not today$"):
        np.apply_along_axis(f, 0, bs.tensor(X))


def test_a_message_is_written_once() -> None:
    """Functions of ours call each other; the one that the user called is named."""
    with pytest.raises(ValueError, match="cov") as caught:
        np.cov(bs.tensor(X), np.ones(7))
    assert str(caught.value).count("\n    in ") == 1
    assert str(caught.value).count("\n    at ") == 1


@pytest.mark.parametrize("run", [lambda f: bs.vmap(f)(X), lambda f: bs.jit(f)(X[0])])
def test_a_place_is_told_once(run: Any) -> None:
    """The innermost: here the solver's, not the line that called it."""

    def solver(p: Any) -> Any:
        return bs.grad(lambda a: np.linalg.inv(a).sum())(np.zeros((2, 2)))

    cube_root = bs.implicit(lambda x, p: x**3 - p, solver, like=1.0)
    with pytest.raises(np.linalg.LinAlgError, match="Singular") as caught:
        run(lambda x: cube_root(x[0]))
    assert str(caught.value).count(__file__) == 1
    assert str(caught.value).count("np.linalg.inv(a)") == 1


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacobian", "linearize", "show"])
def test_what_a_function_gives_is_no_function(name):
    """Said at once, at the line that passed it."""
    with pytest.raises(
        TypeError, match=rf"`{name}` takes a function, got .*5.*\n    at .*test_bad_input"
    ):
        getattr(bs, name)(np.float64(5.0))


@pytest.mark.parametrize("x", ["abc", None, b"abc", {"a": "b"}, ["a", "b"]], ids=repr)
@pytest.mark.parametrize(
    "ask",
    [
        bs.grad,
        bs.jacobian,
        lambda f: bs.jacobian(f, sparse=True),
        lambda f: lambda x: bs.vjp(f, x),
        lambda f: lambda x: bs.jvp(f, (x,), (x,)),
        lambda f: lambda x: bs.hvp(f)(x, x),
        bs.laplacian,
        bs.linearize,
        lambda f: bs.jit(bs.grad(f)),
    ],
    ids=["grad", "jacobian", "sparse", "vjp", "jvp", "hvp", "laplacian", "linearize", "jit"],
)
def test_texts_do_not_vary(ask, x):
    with pytest.raises(
        bs.errors.NotDifferentiableError,
        match=rf"needs numbers that vary, got the argument {re.escape(repr(x))}.*\n    at .*test_bad_input",
    ):
        ask(np.sin)(x)


def test_texts_beside_numbers_stand_for_themselves():
    assert bs.grad(lambda d: d["x"] ** 2)({"a": "b", "x": 3.0}) == {"a": "b", "x": 6.0}
    assert bs.grad(lambda x, mode: x**2, argnums=(0, 1))(3.0, None) == (6.0, None)
    assert isinstance(bs.grad(lambda model, x: model(x))(bs.nn.ReLU(), 1.0), bs.nn.ReLU)


@pytest.mark.parametrize("name", ["laplacian", "hessian_diagonal", "hessian_trace"])
def test_what_is_wrong_with_second_derivatives_names_them(name):
    f = lambda x, y: np.sum(x * y)
    x = np.ones(3)
    with pytest.raises(TypeError, match=rf"`{name}` takes a function, got"):
        getattr(bs, name)(5.0)
    own = "laplacian" if name == "hessian_trace" else name
    for argnums, message in (((0, 0), "an argument twice"), (2, "argument 2 of a call with 2")):
        with pytest.raises(
            bs.errors.NotDifferentiableError, match=rf"`{own}` was asked for {message}"
        ):
            getattr(bs, name)(f, argnums=argnums)(x, x)


def test_numbers_where_jet_takes_lists():
    with pytest.raises(bs.errors.StructureError, match="a list of derivatives for each"):
        bs.jet(np.sin, (1.0,), [1.0])


def test_norms_by_parameters_that_do_not_vary():
    with pytest.raises(bs.errors.NotDifferentiableError, match=r"`per_sample_norms` .* got int64"):
        bs.per_sample_norms(lambda w, x: np.sum(w * x))(np.arange(3), np.ones((4, 3)))


@pytest.mark.parametrize("rule", ["RiemannianSGD", "RiemannianAdam", "RiemannianCG"])
@pytest.mark.parametrize("given", [0.05, bs.manifolds.Sphere])
def test_a_rate_is_no_manifold(rule, given):
    with pytest.raises(bs.errors.StructureError, match=rf"{rule} takes a manifold .* first, got"):
        getattr(bs.optim, rule)(given)
