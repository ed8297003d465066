// The page: what stands where, and the keys.

import "katex/dist/katex.min.css";
import "./theme.css";
import "./page.css";
import { signal } from "@preact/signals";
import { render, type ComponentType } from "preact";
import { fromData } from "./run/array";
import { fadingFindings } from "./fading";
import { PRIMITIVES } from "./run/primitives";
import { run } from "./run/program";
import { findings, go, isEdited, numbers, panel, scene, sent, step, steps, theme } from "./state";
import { DetailsView } from "./views/details";
import { GraphView } from "./views/graph";
import { Help, isHelping } from "./views/help";
import { InputsView } from "./views/inputs";
import { MatrixView } from "./views/matrix";
import { tools } from "./views/pan";
import { SourceView } from "./views/source";
import { play, RuleView, StepperBar, stop } from "./views/stepper";
import { CodeView, CostView, FindingsView, PathsView } from "./views/tables";
import { TraceView } from "./views/trace";
import { plural } from "./views/words";

const PANELS: Record<string, ComponentType> = {
  Step: RuleView, Details: DetailsView, Trace: TraceView, Inputs: InputsView, Source: SourceView, Code: CodeView, Cost: CostView,
  Paths: PathsView, Findings: FindingsView,
};
const view = signal<"graph" | "matrix">("graph"); // on a narrow screen, which has room for one

function Page() {
  const Panel = PANELS[panel.value]!;
  const rows = scene.nodes.filter((n) => n.kind === "row").length;
  return (
    <>
      <header>
        <h1>{scene.title}</h1>
        <p>{plural(rows, "row")} · {plural(scene.nodes.length - rows, "parameter")} · {plural(scene.edges.length, "block")}{isEdited.value ? " · edited" : ""}</p>
        <StepperBar />
        <div class="corner">
          <button type="button" aria-label="dark or light" onClick={() => { theme.value = theme.value === "dark" ? "light" : "dark"; }}>◐</button>
          <button type="button" aria-label="help: keys" aria-haspopup="dialog" onClick={() => { isHelping.value = true; }}>?</button>
        </div>
      </header>
      <main data-view={view.value}>
        <div class="views" role="group" aria-label="Graph or matrix">
          {(["graph", "matrix"] as const).map((name) => (
            <button type="button" key={name} aria-pressed={view.value === name} onClick={() => { view.value = name; }}>{name}</button>
          ))}
        </div>
        <GraphView />
        <MatrixView />
        <section class="panel" aria-label="Panel">
          <Tabs />
          <div role="tabpanel" id="panel" tabIndex={0} aria-labelledby={`tab-${panel.value}`}><Panel /></div>
        </section>
      </main>
      <Help />
    </>
  );
}

// One stop of the tab key; left and right go from tab to tab.
function Tabs() {
  const names = Object.keys(PANELS);
  function onKeyDown(e: KeyboardEvent) {
    const way = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
    if (!way) return;
    panel.value = names[(names.indexOf(panel.value) + way + names.length) % names.length]!;
    document.getElementById(`tab-${panel.value}`)?.focus();
    e.preventDefault();
    e.stopPropagation();
  }
  return (
    <div role="tablist" aria-label="Views" onKeyDown={onKeyDown}>
      {names.map((name) => (
        <button type="button" key={name} role="tab" id={`tab-${name}`} aria-controls="panel" aria-selected={panel.value === name}
          tabIndex={panel.value === name ? 0 : -1} onClick={() => { panel.value = name; }}>
          {name}{name === "Findings" && findings.value.length ? ` ${findings.value.length}` : ""}
        </button>
      ))}
    </div>
  );
}

const ANYWHERE: Record<string, () => void> = {
  ArrowRight: () => go(step.value + 1),
  ArrowLeft: () => go(step.value - 1),
  Home: () => go(0),
  End: () => go(steps.value),
  Escape: stop,
  "+": () => tools.by(1.3),
  "-": () => tools.by(1 / 1.3),
  "0": () => tools.fit(true),
  "?": () => { isHelping.value = true; },
};

document.addEventListener("keydown", (e) => {
  const target = e.target as HTMLElement;
  if (target.closest("input, textarea, select, dialog[open]") || e.ctrlKey || e.metaKey || e.altKey) return;
  const act = e.key === " " && !target.closest("button, [role=button], [role=tab]") ? play : ANYWHERE[e.key];
  if (!act) return;
  act();
  e.preventDefault();
});

render(<Page />, document.getElementById("page")!);

// For tests, and for the curious at the console.
Object.assign(globalThis, { backsolve: { scene, run, fromData, numbers, sent, findings, fadingFindings, primitives: Object.keys(PRIMITIVES) } });
