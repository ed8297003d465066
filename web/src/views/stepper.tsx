// Forward and back substitution, row by row, with the rule of each step.

import { go, isPlaying, moment, numbers, scene, step, steps } from "../state";
import { Tex } from "./math";

export function StepperBar() {
  const at = step.value;
  return (
    <div class="stepper" role="group" aria-label="Stepper">
      <button type="button" aria-label="to the start" onClick={() => go(0)}>|◀</button>
      <button type="button" aria-label="step back" onClick={() => go(at - 1)}>◀</button>
      <button type="button" class="play" aria-label={isPlaying.value ? "pause" : "play"} onClick={play}>{isPlaying.value ? "❚❚" : "▶"}</button>
      <button type="button" aria-label="step" onClick={() => go(at + 1)}>▶|</button>
      <button type="button" aria-label="show everything" onClick={() => { isPlaying.value = false; go(-1); }}>all</button>
      <input type="range" aria-label="step" min="-1" max={steps.value} value={at} onInput={(e) => go(Number(e.currentTarget.value))} />
      <output aria-live="polite">{at < 0 ? `${steps.value} steps` : `${at} / ${steps.value}`}</output>
    </div>
  );
}

export function play(): void {
  if (!isPlaying.value && (step.value < 0 || step.value >= steps.value)) go(0);
  isPlaying.value = !isPlaying.value;
}

export function RuleView() {
  const { phase, box } = moment.value;
  if (box === null || box >= scene.nodes.length) {
    return <p class="rule">{phase === "all" ? "Forward substitution computes the rows from left to right, back substitution their gradients from right to left. Press ▶ or the space bar." : box === null ? "Nothing is computed yet." : `The rows of ${scene.groups[box - scene.nodes.length]!.name}.`}</p>;
  }
  const node = scene.nodes[box]!;
  const now = numbers.value[box]!;
  if (phase === "ahead") {
    return (
      <div class="rule" aria-live="polite">
        {node.formula ? <Tex block of={`${node.tex} = ${node.formula}`} /> : <p>Parameter <Tex of={node.tex} /> is given.</p>}
        <p class="value">{node.name} = {now.value.text}</p>
        {node.code && <p class="code">line {node.line}: <code>{node.code}</code></p>}
      </div>
    );
  }
  const out = scene.edges.filter((e) => e.to === box);
  return (
    <div class="rule" aria-live="polite">
      <p class="adjoint"><Tex of={node.bar} /> = {now.adjoint?.text ?? "0"} is complete{out.length ? " and goes back:" : "."}</p>
      {out.map((e) => <Tex key={e.from} block of={`${scene.nodes[e.from]!.bar} \\mathrel{+}= ${e.step}`} />)}
      {node.gate && <p>{scene.gates[node.gate]}</p>}
    </div>
  );
}
