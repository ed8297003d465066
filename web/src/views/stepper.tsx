// Forward and back substitution, row by row, with the rule of each step.

import type { Summary } from "../scene";
import { told } from "../summary";
import { go, isAsRun, isPlaying, moment, numbers, scene, seen, sent, speed, SPEEDS, step, steps } from "../state";
import { isOnlyTerm } from "./boxes";
import { Tex } from "./math";
import { isOutput, plural, readers, reads } from "./words";

export function StepperBar() {
  const at = step.value;
  return (
    <div class="stepper" role="group" aria-label="Stepper">
      <button type="button" aria-label="to the start" onClick={() => go(0)}>|◀</button>
      <button type="button" aria-label="step back" onClick={() => go(step.value - 1)}>◀</button>
      <button type="button" class="play" aria-label={isPlaying.value ? "pause" : "play"} onClick={play}>{isPlaying.value ? "❚❚" : "▶"}</button>
      <button type="button" aria-label="step" onClick={() => go(step.value + 1)}>▶|</button>
      <button type="button" aria-label="show everything" onClick={stop}>all</button>
      <div class="along">
        <input type="range" aria-label="step" min="-1" max={steps.value} value={at} onInput={(e) => go(Number(e.currentTarget.value))} />
        <select aria-label="speed" value={speed.value} onChange={(e) => { speed.value = Number(e.currentTarget.value); }}>
          {SPEEDS.map((s) => <option key={s} value={s}>{s}×</option>)}
        </select>
        <output>{at < 0 ? plural(steps.value, "step") : `${at} / ${steps.value}`}</output>
      </div>
      <p class="unseen" aria-live="polite">{aloud()}</p>
    </div>
  );
}

export function play(): void {
  if (!isPlaying.value && (step.value < 0 || step.value >= steps.value)) go(0);
  isPlaying.value = !isPlaying.value;
}

export function stop(): void {
  isPlaying.value = false;
  go(-1);
}

// A step in words.
function aloud(): string {
  const { phase, box } = moment.value;
  if (phase === "all") return "";
  if (box === null) return "Nothing is computed yet.";
  const which = `Step ${step.value} of ${steps.value}, ${phase}`;
  if (box >= scene.nodes.length) return `${which}: ${scene.groups[box - scene.nodes.length]!.name}`;
  const { name, text } = scene.nodes[box]!;
  const { value, adjoint } = numbers.value[box]!;
  if (phase === "ahead") return `${which}: ${name} ${text ? `= ${text} ` : ""}= ${value.text}`;
  const to = reads[box]!.map((k) => scene.nodes[scene.edges[k]!.from]!.name);
  return `${which}: gradient of ${name} = ${adjoint?.text ?? "0"}${to.length ? `, goes to ${to.join(" and ")}` : ""}`;
}

export function RuleView() {
  const { phase, box } = moment.value;
  if (phase === "all") return <Introduction />;
  if (box === null) return <p class="rule">Nothing is computed yet. Parameters are given; then each row is computed from those before it.</p>;
  if (box >= scene.nodes.length) return <GroupRule box={box} isAhead={phase === "ahead"} />;
  return phase === "ahead" ? <AheadRule node={box} /> : <BackRule node={box} />;
}

function Introduction() {
  return (
    <div class="rule">
      <p>
        The differentials of all rows solve one triangular system, <Tex of="(I - L)\,dx = D\,dp" />. Forward substitution goes
        through its rows from first to last, <Tex of="dx_i = \sum_j L_{ij}\,dx_j + \sum_k D_{ik}\,dp_k" />; back substitution
        solves the transposed system from last to first, <Tex of="\bar x_j = \sum_i L_{ij}^{\mathsf T}\,\bar x_i" />: that
        is backpropagation. Press <kbd>space</kbd> or ▶ to watch both, <kbd>?</kbd> for all keys.
      </p>
      <p class="answer">
        {[...new Set(scene.outputs)].slice(0, SHOWN).map((k) => <span key={k}>{scene.nodes[k]!.name} <span class="value">= {told(numbers.value[k]!.value)}</span></span>)}
        {parameters.slice(0, SHOWN).map((k) => <span key={k}><Tex of={scene.nodes[k]!.bar} /> <span class="adjoint">= {gradientOf(k)}</span></span>)}
        {parameters.length > SHOWN && <span>and {plural(parameters.length - SHOWN, "more gradient")}: see Trace</span>}
      </p>
    </div>
  );
}

const SHOWN = 6;
const parameters = scene.nodes.flatMap((n, k) => (n.kind === "parameter" ? [k] : []));

function gradientOf(k: number): string {
  const { adjoint } = numbers.value[k]!;
  return adjoint ? told(adjoint) : "0";
}

function AheadRule({ node: id }: { node: number }) {
  const node = scene.nodes[id]!;
  const { value } = numbers.value[id]!;
  const line = reads[id]!.map((k) => `${operatorTex(k)}\\,d${scene.nodes[scene.edges[k]!.from]!.tex}`);
  return (
    <div class="rule">
      <h2>Forward substitution</h2>
      {node.formula ? <Tex block of={`${node.tex} = ${node.formula}`} /> : <p>Parameter <Tex of={node.tex} /> is given.</p>}
      <p class="value">{node.name} = {told(value)}</p>
      {line.length > 0 && <p>Its row of the system: <Tex of={`d${node.tex} = ${line.join(" + ")}`} /></p>}
      {node.code && <p class="code">line {node.line}: <code>{node.code}</code></p>}
    </div>
  );
}

const LONG = 60; // letters of an operator's formula, beyond which its place stands for it

function operatorTex(edge: number): string {
  const { tex, from, to } = scene.edges[edge]!;
  return tex && tex.length <= LONG && (isAsRun.value || tex === "I") ? tex : `\\frac{\\partial ${scene.nodes[to]!.tex}}{\\partial ${scene.nodes[from]!.tex}}`;
}

function BackRule({ node: id }: { node: number }) {
  const node = scene.nodes[id]!;
  const { adjoint } = numbers.value[id]!;
  const terms = readers[id]!.length + (isOutput.has(id) ? 1 : 0);
  return (
    <div class="rule">
      <h2>Back substitution</h2>
      <p>
        <Tex of={node.bar} /> <span class="adjoint">= {adjoint ? told(adjoint) : "0"}</span> is complete
        {terms > 1 ? `: the sum of ${terms} terms (copy adds)` : isOutput.has(id) ? ": the seed" : ""}
        {reads[id]!.length ? ". It goes back along the blocks of its row:" : "."}
      </p>
      {reads[id]!.map((k) => <Term key={k} edge={k} />)}
      {node.gate && <p>{scene.gates[node.gate]}</p>}
    </div>
  );
}

function Term({ edge }: { edge: number }) {
  const e = scene.edges[edge]!;
  const what = sentAlong(edge);
  return (
    <p class="term">
      <Tex of={`${scene.nodes[e.from]!.bar} \\mathrel{+}= ${e.step}`} />
      {what && <span class="adjoint"> = {told(what)}</span>}
    </p>
  );
}

// What goes back along an edge; unknown where blocks alone do not tell.
export function sentAlong(edge: number): Summary | null {
  return sent.value[edge] ?? (isOnlyTerm(edge) ? numbers.value[scene.edges[edge]!.from]!.adjoint : null);
}

// Of a folded group, what leaves it: ahead its values, back the gradients of what it reads.
function GroupRule({ box, isAhead }: { box: number; isAhead: boolean }) {
  const { name } = scene.groups[box - scene.nodes.length]!;
  const { boxOf } = seen.value;
  const { count } = seen.value.boxes.find((b) => b.id === box)!;
  const ends = new Set<number>();
  for (const e of scene.edges) {
    if ((boxOf[e.from] === box) === (boxOf[e.to] === box)) continue;
    if (isAhead === (boxOf[e.from] === box)) ends.add(e.from);
  }
  for (const k of isAhead ? scene.outputs : []) if (boxOf[k] === box) ends.add(k);
  const listed = [...ends].slice(0, SHOWN);
  return (
    <div class="rule">
      <h2>{isAhead ? "Forward" : "Back"} substitution through {name}</h2>
      <p>{plural(count, "row")} at once; open the group to see them one by one. {isAhead ? "What others read of it:" : "It sends back to:"}</p>
      <ul>
        {listed.map((k) => <li key={k}>{scene.nodes[k]!.name} {isAhead && <span class="value">= {told(numbers.value[k]!.value)}</span>}</li>)}
        {ends.size > SHOWN && <li>and {ends.size - SHOWN} more</li>}
      </ul>
    </div>
  );
}
