"""bs.fit: train a model; see docs/training.md."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Any

from .. import tree
from ..data import split
from ..distributed import place
from ..distributed.together import largest
from ..optim import Adam, Optimizer
from ..sharding.fitting import Devices
from .checkpoints import Checkpoints
from .feed import feed, tests
from .log import Log, Logger
from .objective import Objective, length_of, named_metrics
from .progress import Quiet, display
from .run import Fitted, Run, add_to, fitted, means_of
from .step import State, Steps


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during `fit`, after the step under way; `fitted` is what was reached (and checkpointed)."""

    def __init__(self, fitted: Fitted, message: str):
        super().__init__(message)
        self.fitted = fitted


def fit(
    model: Any,
    loss: Callable[..., Any],
    data: Any,
    *,
    optimizer: Optimizer | None = None,
    epochs: int = 1,
    batch_size: int = 32,
    shuffle: bool = True,
    seed: int = 0,
    validation: Any = None,
    metrics: Any = (),
    callbacks: Iterable[Any] = (),
    checkpoint: Any = None,
    resume: bool = True,
    best: str | None = None,
    log: Any = None,
    accumulate: int = 1,
    clip: float | None = None,
    ema: float | None = None,
    progress: bool | str = True,
    compile: bool = True,
    precision: str | None = None,
    dashboard: bool = False,
    mesh: Any = None,
    shard: Any = None,
) -> Fitted:
    """Train a model and return it with its history; the one that was given stays as it is.

    `loss` is a function of (output, target) or, with arguments so named, of (model, batch); so are `metrics`, a
    list or dict of functions or of names ("accuracy", "mae", "mse"). `data` are `bs.data.Batches`, arrays
    (input, target) and other sources, which are shuffled into batches, or an iterable of batches. `validation`
    is data likewise, or the share of `data` to set apart.

    With a folder as `checkpoint` a run that was killed goes on from its last checkpoint, to the same bits
    (`Checkpoints` says how often, and how many to keep). `best="val_loss"` returns the model of its best epoch.
    `log` is a folder for log.jsonl and TensorBoard's events (or a `Log`). `accumulate` batches make one step,
    `clip` bounds the norm of gradients, `ema` is the decay of averaged parameters, which are then measured and
    returned. `precision="bfloat16"` (through XLA) or "float16" computes the network in 16 bits, but keeps
    parameters, losses and statistics in float32; for float16 the loss is scaled; what overflows is left out.
    With compile=False steps run as written, for a debugger to step through. With dashboard=True a page follows
    the log while the run goes on; its address is told.

    With `mesh=bs.mesh(data=-1)` a step is one program of XLA's over many devices, batches split along "data".
    `shard` says how parameters lie there, and with them what the optimiser keeps: a rule such as
    `bs.sharding.fully()`, or a dict from patterns of their names to axes of the mesh; without it, whole. The
    mesh may be of several processes (`bs.distributed`): each reads its part of batches and saves its part of
    checkpoints, the first one shows and logs.

    >>> import numpy as np, backsolve as bs
    >>> x = np.linspace(-1, 1, 64)[:, None]
    >>> fitted = bs.fit(bs.nn.Linear(1, 1), bs.nn.functional.mse_loss, (x, 3 * x + 1),
    ...                 optimizer=bs.optim.SGD(lr=0.3), epochs=30)
    >>> bool(np.allclose(fitted.model.weight, 3, atol=1e-3))
    True
    """
    if epochs < 0:
        raise ValueError(f"epochs={epochs} must not be negative")
    if isinstance(optimizer, type) or not hasattr(optimizer or Adam(), "update"):
        raise TypeError(f"optimizer must be one such as bs.optim.Adam(1e-3), got {optimizer!r}")
    if isinstance(loss, type) or not callable(loss):
        raise TypeError(
            f"loss must be a function such as bs.nn.functional.mse_loss, or bs.nn.MSELoss(), got {loss!r}"
        )
    if isinstance(validation, float):
        data, validation = split(data, validation, seed)
    objective = Objective(loss, named_metrics(metrics))
    logs = _settings(log, Log)
    norms = logs is not None and logs.histograms
    if dashboard and logs is None:
        raise ValueError("dashboard=True shows a log: give fit a log=folder as well")
    batches = feed(data, batch_size, shuffle, seed)
    if mesh is None and shard is not None:
        raise ValueError("shard= splits arrays over a mesh: give mesh=bs.mesh(data=-1) as well")
    devices = None if mesh is None else Devices(mesh, shard, batches.full)
    shared = devices is not None and devices.mesh.is_shared
    if devices is not None and shared:
        batches.share_out(devices.of_batches)
        if norms:
            raise ValueError(
                "a run of several processes logs no histograms: take Log(…, histograms=False)"
            )
    rule = optimizer or Adam()
    steps = Steps(model, objective, rule, accumulate, clip, ema, compile, norms, devices, precision)
    run = Run(steps, batches, epochs, best)
    run.callbacks = list(callbacks)
    parts = 1 if devices is None else devices.parts
    tested = None if validation is None else tests(validation, max(batch_size, 256), parts)
    tells = not shared or place().is_first
    shows = display(progress if tells else False)
    checkpoints = _settings(checkpoint, Checkpoints)
    if checkpoints is not None:
        _begin(run, checkpoints, resume, shows)
    if run.epoch >= epochs or run.stopped:
        return fitted(run)
    logger = Logger(logs, run) if logs is not None and tells else None
    with ExitStack() as stack:
        if logger is not None:
            stack.enter_context(logger)
        interrupt = stack.enter_context(_Interrupt())
        if dashboard and tells:
            from .live import Live

            shows.say(f"dashboard: {stack.enter_context(Live([logs.folder])).url}")
        shows.start(run)
        stack.callback(shows.end, run)
        _Loop(run, tested, checkpoints, logger, shows, interrupt, shared).train()
    if checkpoints is not None:
        checkpoints.save_model(_arrays(fitted(run).model), "model")
    return fitted(run)


def evaluate(
    model: Any, loss: Callable[..., Any], data: Any, *, metrics: Any = (), batch_size: int = 256
) -> dict[str, float]:
    """Loss and metrics of a model on data, in evaluation mode, compiled."""
    steps = Steps(model, Objective(loss, named_metrics(metrics)), Adam())
    return _evaluated(steps, steps.first_state(), tests(data, batch_size, 1))


def _evaluated(steps: Steps, state: State, batches: Iterable[Any]) -> dict[str, float]:
    sums: dict[str, float] = {}
    examples = 0
    for batch in batches:
        loss, metrics = steps.test(state, batch)
        count = length_of(batch)
        add_to(sums, {k: float(v) for k, v in {"loss": loss, **metrics}.items()}, count)
        examples += count
    return means_of(sums, examples)


class _Loop:
    def __init__(
        self,
        run: Run,
        tested: Iterable[Any] | None,
        checkpoints: Checkpoints | None,
        logger: Logger | None,
        shows: Quiet,
        interrupt: _Interrupt,
        shared: bool = False,
    ):
        self.run, self.tested, self.checkpoints = run, tested, checkpoints
        self.logger, self.shows, self.interrupt = logger, shows, interrupt
        self.shared = shared
        self.looked = self.saved = time.perf_counter()
        self.latest: Any = None  # batch

    def train(self) -> None:
        run = self.run
        run.tell("on_start")
        while run.epoch < run.epochs and not run.stopped:
            self.one_epoch()
        self.save()
        if self.logger is not None:
            self.logger.end(run)
        run.tell("on_end")

    def one_epoch(self) -> None:
        run = self.run
        batches = iter(run.batches)
        for batch in batches:
            self.one_step(batch)
            if run.stopped:
                batches.close()
                return
        validated = {}
        if self.tested is not None:
            validated = _evaluated(run.steps, run.state, self.tested)
        self.look_at_the_clock()
        if not run.examples:
            once = (
                " `data` can be gone through once: give a list, not a generator"
                if run.epoch
                else ""
            )
            raise ValueError(
                "an epoch without batches:"
                + (once or " are there fewer examples than a batch has?")
            )
        run.end_epoch(validated)
        improved = run.notice_best()
        run.tell("on_epoch")
        if self.logger is not None:
            self.logger.epoch(run, self.latest)
        self.shows.epoch(run)
        self.save()
        if improved and self.checkpoints is not None and run.best_arrays is not None:
            self.checkpoints.save_model(run.best_arrays, "best")
        if self.agreed(self.interrupt.asked)[0]:
            self.end_by_interrupt()

    def one_step(self, batch: Any) -> None:
        run = self.run
        wanted = self.logger is not None and self.logger.wants_norms(run)
        run.state, loss, metrics, whole, run.norms = run.steps.step(
            run.state, batch, run.rate_factor, wanted
        )
        if not whole:
            when = f"step {run.step + 1}, in epoch {run.epoch + 1}"
            error = run.steps.explain(run.state, batch, when)
            if self.logger is not None:
                self.logger.nan(run, str(error))
            raise error
        self.latest = batch
        run.add(loss, metrics, length_of(batch))
        run.tell("on_step")
        if self.logger is not None:
            self.logger.step(run)
        self.shows.step(run)
        is_due, asked = self.agreed(self.is_save_due(), self.interrupt.asked)
        if is_due:
            self.save()
        if asked:
            self.end_by_interrupt()

    def agreed(self, *wishes: bool) -> tuple[int, ...]:
        """What any process of the run wishes, all do: clocks and Ctrl-C differ among them."""
        return largest(*wishes) if self.shared else wishes

    # ---- checkpoints

    def is_save_due(self) -> bool:
        if self.checkpoints is None:
            return False
        steps = self.checkpoints.every_steps
        late = time.perf_counter() - self.saved >= self.checkpoints.every_seconds
        return late or bool(steps and self.run.step % steps == 0)

    def save(self) -> None:
        self.look_at_the_clock()
        if self.checkpoints is None:
            return
        if self.logger is not None:
            self.logger.flush()
        self.checkpoints.save(self.run)
        self.saved = time.perf_counter()
        if self.logger is not None:
            self.logger.restart_clock()

    def look_at_the_clock(self) -> None:
        now = time.perf_counter()
        self.run.seconds += now - self.looked
        self.looked = now

    def end_by_interrupt(self) -> None:
        self.save()
        where = f"epoch {self.run.epoch + 1}, step {self.run.step}"
        kept = f"; saved in {self.checkpoints.folder}" if self.checkpoints else ""
        self.run.stopped = "Ctrl-C"
        if self.logger is not None:
            self.logger.end(self.run)
        raise Interrupted(fitted(self.run), f"stopped by Ctrl-C in {where}{kept}")


def _begin(run: Run, checkpoints: Checkpoints, resume: bool, shows: Quiet) -> None:
    if not resume:
        checkpoints.clear()
        return
    path = checkpoints.load(run)
    if path is not None:
        done = run.stopped or run.epoch >= run.epochs
        what = "the run was done already, see" if done else "the run goes on from"
        shows.say(f"{what} {path}: epoch {run.epoch}, step {run.step}")


def _settings(given: Any, kind: type) -> Any:
    return given if given is None or isinstance(given, kind) else kind(given)


def _arrays(model: Any) -> dict[str, Any]:
    if hasattr(model, "state_dict"):
        return dict(model.state_dict())
    return {str(k): a for k, a in enumerate(tree.flatten(model)[0])}


class _Interrupt:
    """Takes the first Ctrl-C as a wish to stop after the step under way; a second one stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> _Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
