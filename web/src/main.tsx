// The page: what stands where, and the keys.

import "katex/dist/katex.min.css";
import "./page.css";
import { signal } from "@preact/signals";
import { render, type ComponentType } from "preact";
import { fromData } from "./run/array";
import { PRIMITIVES } from "./run/primitives";
import { run } from "./run/program";
import { findings, go, isEdited, isPlaying, numbers, scene, step, theme } from "./state";
import { GraphView } from "./views/graph";
import { InputsView } from "./views/inputs";
import { MatrixView } from "./views/matrix";
import { play, RuleView, StepperBar } from "./views/stepper";
import { CodeView, CostView, FindingsView, PathsView } from "./views/tables";
import { TraceView } from "./views/trace";

const PANELS: Record<string, ComponentType> = {
  Step: RuleView, Trace: TraceView, Inputs: InputsView, Code: CodeView, Cost: CostView, Paths: PathsView, Findings: FindingsView,
};
const panel = signal(scene.findings.some((f) => f.kind === "nan" || f.kind === "inf") ? "Findings" : "Step");

function Page() {
  const Panel = PANELS[panel.value]!;
  const rows = scene.nodes.filter((n) => n.kind === "row").length;
  return (
    <>
      <header>
        <h1>{scene.title}</h1>
        <p>{rows} rows · {scene.nodes.length - rows} parameters · {scene.edges.length} blocks{isEdited.value ? " · edited" : ""}</p>
        <StepperBar />
        <button type="button" aria-label="dark or light" onClick={() => { theme.value = theme.value === "dark" ? "light" : "dark"; }}>◐</button>
      </header>
      <main>
        <GraphView />
        <MatrixView />
        <section class="panel">
          <div role="tablist" aria-label="Views">
            {Object.keys(PANELS).map((name) => (
              <button type="button" key={name} role="tab" id={`tab-${name}`} aria-controls="panel" aria-selected={panel.value === name}
                onClick={() => { panel.value = name; }}>
                {name}{name === "Findings" && findings.value.length ? ` ${findings.value.length}` : ""}
              </button>
            ))}
          </div>
          <div role="tabpanel" id="panel" aria-labelledby={`tab-${panel.value}`}><Panel /></div>
        </section>
      </main>
    </>
  );
}

document.addEventListener("keydown", (e) => {
  const target = e.target as HTMLElement;
  if (target.closest("input, textarea, select") || e.ctrlKey || e.metaKey || e.altKey) return;
  const onButton = target.closest("button, [role=button], [role=tab]");
  if (e.key === " " && !onButton) play();
  else if (e.key === "ArrowRight" && !target.closest("[role=tab]")) go(step.value + 1);
  else if (e.key === "ArrowLeft" && !target.closest("[role=tab]")) go(step.value - 1);
  else if (e.key === "Home") go(0);
  else if (e.key === "Escape") { isPlaying.value = false; go(-1); }
  else return;
  e.preventDefault();
});

render(<Page />, document.getElementById("page")!);

// For tests, and for the curious at the console.
Object.assign(globalThis, { backsolve: { scene, run, fromData, numbers, primitives: Object.keys(PRIMITIVES) } });
