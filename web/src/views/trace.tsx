// The two-column trace: v_i ahead, v̄_i back.

import { moment, numbers, scene, seen, select, selected } from "../state";
import { Tex } from "./math";

const ROW = 26;
const MARGIN = 30;

import { useRef } from "preact/hooks";
import { signal } from "@preact/signals";

const top = signal(0);

// Only the lines in view are in the document: a program may have thousands.
export function TraceView() {
  const frame = useRef<HTMLDivElement>(null);
  const n = scene.nodes.length;
  const first = Math.max(0, Math.floor(top.value / ROW) - MARGIN);
  const last = Math.min(n, first + 2 * MARGIN + 40);
  const back = backwards();
  return (
    <div class="trace" ref={frame} tabIndex={0} aria-label="Trace" onScroll={() => { top.value = frame.current!.scrollTop; }}>
      <table style={{ height: `${(n + 1) * ROW}px` }}>
        <thead><tr><th>v</th><th>ahead</th><th>value</th><th>v̄</th><th>back</th><th>gradient</th></tr></thead>
        <tbody>
          {first > 0 && <tr style={{ height: `${first * ROW}px` }} />}
          {scene.nodes.slice(first, last).map((node, k) => {
            const id = first + k;
            const now = numbers.value[id]!;
            const isNow = moment.value.box === seen.value.boxOf[id];
            return (
              <tr key={id} data-node={id} class={`${isNow ? "now" : ""} ${selected.value === id ? "selected" : ""}`} onClick={() => select(id)}>
                <td>{node.name}</td>
                <td>{node.text ?? "given"}</td>
                <td class="value">{now.value.text}</td>
                <td><Tex of={node.bar} /></td>
                <td>{node.adjoint ? <Tex of={back(id)} /> : ""}</td>
                <td class="adjoint">{now.adjoint?.text ?? ""}</td>
              </tr>
            );
          })}
          {last < n && <tr style={{ height: `${(n - last) * ROW}px` }} />}
        </tbody>
      </table>
    </div>
  );
}

const readers = new Map<number, number[]>();
scene.edges.forEach((e, k) => readers.set(e.from, [...(readers.get(e.from) ?? []), k]));

function backwards(): (id: number) => string {
  return (id) => {
    const terms = (readers.get(id) ?? []).slice(-3).reverse().map((k) => scene.edges[k]!.step);
    const more = (readers.get(id)?.length ?? 0) > 3 ? ["\\dots"] : [];
    const seed = scene.outputs.includes(id) ? ["1"] : [];
    return [...seed, ...terms, ...more].join(" + ") || "0";
  };
}
