// All about one box: its numbers, its rule, the blocks it reads along and those who read it, its line.

import type { Summary } from "../scene";
import { gravity, toNumber } from "../scene";
import { inspect, isAsRun, numbers, panel, scene, selected, troubles } from "../state";
import { shortly } from "../summary";
import { Tex } from "./math";
import { sentAlong } from "./stepper";
import { isOutput, many, readers, reads } from "./words";

const SHOWN = 12; // blocks, and readers

export function DetailsView() {
  const id = selected.value;
  if (id === null || id >= scene.nodes.length) return <p>Choose a box of the graph, a row of the matrix or a line of the trace.</p>;
  const node = scene.nodes[id]!;
  const { value, adjoint } = numbers.value[id]!;
  const trouble = troubles.value.get(id);
  return (
    <div class="details">
      <section>
        <h2 aria-label={node.text ? `${node.name} = ${node.text}` : `parameter ${node.name}`}>{node.formula ? <Tex of={`${node.tex} = ${node.formula}`} /> : <>Parameter <Tex of={node.tex} /></>}</h2>
        {trouble && <p class={`trouble ${gravity(trouble)}`}>{trouble.text}</p>}
        {node.gate && <p>{scene.gates[node.gate]}</p>}
        {node.code && (
          <p class="code"><button type="button" onClick={() => { panel.value = "Source"; }}>line {node.line}</button> <code>{node.code}</code></p>
        )}
      </section>
      <Numbers what="value" of={value} />
      {adjoint ? <Numbers what="adjoint" of={adjoint} /> : <section><h3>gradient</h3><p>none: the result does not depend on it</p></section>}
      <Edges title="reads" edges={reads[id]!} end="from" isSent={false} />
      <Edges title={readers[id]!.length > 1 ? "is read by: what comes back is added" : "is read by"} edges={readers[id]!} end="to" isSent />
      {isOutput.has(id) && <section><h3>result</h3><p>It is a result: its own seed is added to its gradient.</p></section>}
    </div>
  );
}

function Numbers({ what, of: a }: { what: "value" | "adjoint"; of: Summary }) {
  const columns = a.shape.at(-1) ?? 1;
  return (
    <section>
      <h3 class={what}>{what === "value" ? "value" : "gradient"}</h3>
      <p class="kind">{a.dtype} {a.shape.length ? `(${a.shape.join(" × ")})` : "number"}{a.shape.length && a.norm !== undefined ? `, norm ${shortly(toNumber(a.norm))}` : ""}</p>
      {a.data ? (
        <div class={`numbers ${what}`} style={{ gridTemplateColumns: `repeat(${Math.min(columns, 16) || 1}, max-content)` }}>
          {a.data.map((x, k) => <span key={k}>{typeof x === "boolean" ? String(x) : shortly(toNumber(x))}</span>)}
        </div>
      ) : <Histogram of={a} what={what} />}
    </section>
  );
}

function Histogram({ of: a, what }: { of: Summary; what: string }) {
  const counts = a.histogram ?? [];
  const most = Math.max(1, ...counts);
  const words = a.least === undefined
    ? `none of ${many(a.bad ?? 0)} entries is finite`
    : `from ${shortly(toNumber(a.least))} to ${shortly(toNumber(a.most!))}, mean ${shortly(toNumber(a.mean!))}${a.bad ? `; ${many(a.bad)} not finite` : ""}`;
  return (
    <>
      {counts.length > 0 && (
        <svg class={`histogram ${what}`} role="img" aria-label={`histogram, ${words}`} viewBox={`0 0 ${counts.length * 9} 60`}>
          {counts.map((c, k) => <rect key={k} x={k * 9} y={60 - (58 * c) / most} width="8" height={(58 * c) / most}><title>{many(c)}</title></rect>)}
        </svg>
      )}
      <p class="kind">{words}</p>
    </>
  );
}

function Edges({ title, edges, end, isSent }: { title: string; edges: number[]; end: "from" | "to"; isSent: boolean }) {
  if (!edges.length) return null;
  return (
    <section>
      <h3>{title}</h3>
      <table>
        <thead><tr><th>{end === "from" ? "of" : "by"}</th><th>block</th><th>back along it</th><th>multiplications</th>{isSent && <th>sends back</th>}</tr></thead>
        <tbody>
          {edges.slice(0, SHOWN).map((k) => {
            const e = scene.edges[k]!;
            return (
              <tr key={k}>
                <td><button type="button" onClick={() => inspect(e[end])}>{scene.nodes[e[end]]!.name}</button></td>
                <td title={isAsRun.value ? e.operator : undefined}><i class={e.family} />{e.kind}</td>
                <td><Tex of={e.step} /></td>
                <td>{many(e.multiplications)}</td>
                {isSent && <td class="adjoint">{sentAlong(k)?.text ?? "–"}</td>}
              </tr>
            );
          })}
        </tbody>
      </table>
      {edges.length > SHOWN && <p>and {edges.length - SHOWN} more</p>}
    </section>
  );
}
