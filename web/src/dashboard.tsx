// The training dashboard: what stands where, and the keys.

import "./theme.css";
import "./dashboard/dashboard.css";
import { signal } from "@preact/signals";
import { render, type ComponentType } from "preact";
import { Chart } from "./dashboard/chart";
import { isConnected } from "./dashboard/live";
import { NotesView } from "./dashboard/notes";
import { Ridges } from "./dashboard/ridges";
import { axis, chosen, colorOf, epochSeconds, given, gradients, hidden, isLog, latest, measures, news, runs, smoothing, spreads, stepSeries, theme, type Axis } from "./dashboard/runs";
import { status } from "./dashboard/status";

const LOGGED = "log=Log(folder, histograms=True)";

function CurvesView() {
  const rates = stepSeries(/^learning_rate(\/|$)/);
  if (!measures.value.length) return <p>No line with a measure yet; the first step is compiled before it runs.</p>;
  return (
    <div class="charts">
      {measures.value.map((c) => <Chart key={c.title} {...c} />)}
      {rates.length > 0 && <Chart title="learning rate" series={rates} />}
    </div>
  );
}

function GradientsView() {
  if (!gradients.value.length) return <p>This run logged no norms of gradients; <code>{LOGGED}</code> does.</p>;
  return (
    <>
      <Chosen />
      <p>The norm of each parameter's gradient, before clipping, from the first layer (blue) to the last (red).</p>
      <div class="charts wide"><Chart title="norms of gradients" series={gradients.value} log={true} /></div>
      {spreads("slopes").length > 0 && <Spreads kind="slopes" about="How the entries of each gradient are spread, of the loss on 16 examples after an epoch." />}
    </>
  );
}

function spreadView(kind: "weights" | "activations", about: string): ComponentType {
  return () => {
    if (!spreads(kind).length) return <p>This run logged no histograms of {kind}; <code>{LOGGED}</code> does.</p>;
    return <><Chosen /><Spreads kind={kind} about={about} /></>;
  };
}

function Spreads({ kind, about }: { kind: "weights" | "activations" | "slopes"; about: string }) {
  return (
    <>
      <p>{about} The first in the back, the latest in front, epochs at the right; each as tall as its fullest bin, by roots of counts.</p>
      <div class="charts small">{spreads(kind).map((s) => <Ridges key={s.name} spread={s} />)}</div>
    </>
  );
}

function SpeedView() {
  const speed = stepSeries(/^examples_per_second$/);
  const steps = stepSeries(/^step_seconds$/, 1000, "milliseconds");
  if (!speed.length && !epochSeconds.value.length) return <p>This log has no times.</p>;
  return (
    <div class="charts">
      {speed.length > 0 && <Chart title="examples a second" series={speed} />}
      {steps.length > 0 && <Chart title="time of a step" unit="ms, without validation and checkpoints" series={steps} />}
      {epochSeconds.value.length > 0 && <Chart title="time of an epoch" unit="s, with all" series={epochSeconds.value} />}
    </div>
  );
}

// Of several runs, the one whose layers are shown.
function Chosen() {
  if (runs.value.length < 2) return null;
  return (
    <label class="chosen">run <select value={chosen.value} onChange={(e) => { chosen.value = Number(e.currentTarget.value); }}>
      {runs.value.map((run, k) => <option key={k} value={k}>{run.name}</option>)}
    </select></label>
  );
}

const PANELS: Record<string, ComponentType> = {
  Curves: CurvesView,
  Gradients: GradientsView,
  Weights: spreadView("weights", "How the entries of each parameter are spread."),
  Activations: spreadView("activations", "How the outputs of each module are spread, in evaluation mode, on 16 examples."),
  Speed: SpeedView,
  Notes: NotesView,
};
const panel = signal("Curves");
const NAMES = Object.keys(PANELS);

function Runs() {
  const toggle = (k: number) => {
    const now = new Set(hidden.value);
    if (!now.delete(k)) now.add(k);
    hidden.value = now;
  };
  return (
    <ul class="runs">
      {runs.value.map((run, k) => {
        const { text, kind } = status(run, news.value[k]!, !given.live ? "still" : isConnected.value ? "live" : "cut");
        return (
          <li key={k}>
            {runs.value.length > 1 && <input type="checkbox" id={`run-${k}`} checked={!hidden.value.has(k)} onChange={() => toggle(k)} />}
            <label for={`run-${k}`}>{runs.value.length > 1 && <i style={{ background: colorOf(k) }} />}<b>{run.name}</b></label>
            <span class={`status ${kind}`}>{text}</span>
          </li>
        );
      })}
    </ul>
  );
}

function Controls() {
  return (
    <div class="controls" role="group" aria-label="Curves">
      <label>smooth <input type="range" min="0" max="0.98" step="0.02" value={smoothing.value} onInput={(e) => { smoothing.value = Number(e.currentTarget.value); }} /></label>
      <label><input type="checkbox" checked={isLog.value} onChange={(e) => { isLog.value = e.currentTarget.checked; }} /> log scale</label>
      <label>over <select value={axis.value} onChange={(e) => { axis.value = e.currentTarget.value as Axis; }}>
        <option value="step">steps</option><option value="epoch">epochs</option><option value="time">seconds</option>
      </select></label>
      <button type="button" aria-label="dark or light" onClick={() => { theme.value = theme.value === "dark" ? "light" : "dark"; }}>◐</button>
    </div>
  );
}

function Page() {
  const Panel = PANELS[panel.value]!;
  const wrong = runs.value.flatMap((run) => (latest(run, "start", "end", "nan")?.kind === "nan" ? [{ run, row: latest(run, "nan")! }] : []));
  const turn = (e: KeyboardEvent) => {
    const by = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    panel.value = NAMES[(NAMES.indexOf(panel.value) + by + NAMES.length) % NAMES.length]!;
    document.getElementById(`tab-${panel.value}`)?.focus();
    e.preventDefault();
  };
  return (
    <>
      <header>
        <h1>{given.title}</h1>
        {given.live && <p class={isConnected.value ? "live" : "gone"} role="status">{isConnected.value ? "live" : "no longer live: its server has ended"}</p>}
        <Controls />
        <Runs />
      </header>
      {wrong.map(({ run, row }) => <div role="alert" key={run.name}><b>{run.name}</b> <pre>{row.text}</pre></div>)}
      <div role="tablist" aria-label="Views" onKeyDown={turn}>
        {NAMES.map((name) => (
          <button type="button" key={name} role="tab" id={`tab-${name}`} aria-controls="panel" aria-selected={panel.value === name} tabIndex={panel.value === name ? 0 : -1}
            onClick={() => { panel.value = name; }}>{name}</button>
        ))}
      </div>
      <main><div role="tabpanel" id="panel" aria-labelledby={`tab-${panel.value}`}><Panel /></div></main>
    </>
  );
}

render(<Page />, document.getElementById("page")!);

// For tests, and for the curious at the console.
Object.assign(globalThis, { backsolve: { runs, measures, gradients } });
