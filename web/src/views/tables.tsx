// What the ways to a Jacobian cost, which paths carry the gradient, what is wrong, and flat gradient code.

import { gravity, toNumber } from "../scene";
import { findings, isAsRun, moment, scene, select, selected } from "../state";
import { shortly } from "../summary";

export function CostView() {
  if (!scene.costs) return <p>The ways to this Jacobian are not priced.</p>;
  const [head = [], ...ways] = scene.costs;
  return (
    <table class="costs">
      <caption>What the full Jacobian takes, way by way</caption>
      <thead><tr>{head.map((word) => <th key={word}>{word}</th>)}</tr></thead>
      <tbody>
        {ways.map(([way, ...cells], k) => (
          <tr key={way} class={k === 0 ? "chosen" : ""}>
            <th scope="row">{way}</th>{cells.map((cell, i) => <td key={i}>{cell}</td>)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function PathsView() {
  const found = scene.paths;
  if (found && !isAsRun.value) return <p>Paths are ranked for the inputs of the run, which were edited: run it again in Python.</p>;
  if (!found) return <p>Paths are ranked for functions with one number as their result.</p>;
  return (
    <div class="paths">
      <p>{found.count.toLocaleString("en")} paths; {found.proven ? "no other carries more than these" : "chosen by a bound"}.</p>
      <ol>
        {found.paths.map((p, k) => (
          <li key={k}>
            <meter min="0" max="1" value={toNumber(p.share)} aria-label={`share of path ${k + 1}`} />
            <b>{shortly(toNumber(p.carries))}</b>
            {p.nodes.map((id) => (
              <button type="button" key={id} onClick={() => select(id)}>{scene.nodes[id]?.name}</button>
            ))}
          </li>
        ))}
      </ol>
    </div>
  );
}

const KINDS: Record<string, string> = { nan: "NaN", inf: "infinity", zero: "no gradient" };

export function FindingsView() {
  if (!findings.value.length) return <p>Nothing is wrong: all values and gradients are finite, none vanishes or explodes.</p>;
  return (
    <ul class="findings">
      {findings.value.map((f, k) => {
        const node = scene.nodes[f.node]!;
        return (
          <li key={k} class={gravity(f)}>
            <button type="button" onClick={() => select(f.node)}>{node.name}</button> <b>{KINDS[f.kind] ?? f.kind}</b>: {f.text}
            {node.code && <code>line {node.line}: {node.code}</code>}
          </li>
        );
      })}
    </ul>
  );
}

export function CodeView() {
  const code = scene.code;
  const looked = moment.value.box ?? selected.value;
  if (!code) return <p>The gradient of this function has no flat code.</p>;
  return (
    <ol class="code" aria-label="Flat gradient code">
      {code.lines.map((line, k) => {
        const [about] = code.nodes[k]!;
        if (about === undefined) return <li key={k}><code>{line || " "}</code></li>;
        return (
          <li key={k} class={about === looked ? "now" : ""}>
            <button type="button" aria-pressed={about === selected.value} onClick={() => select(about)}><code>{line}</code></button>
          </li>
        );
      })}
    </ol>
  );
}
