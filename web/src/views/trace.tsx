// The two-column trace: v_i ahead, v̄_i back.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { moment, numbers, scene, seen, select, selected } from "../state";
import { told } from "../summary";
import { isLit } from "./light";
import { Tex } from "./math";
import { isOutput, readers } from "./words";

const ROW = 26;
const MARGIN = 8; // lines above and below those in view: formulas take time to set

const top = signal(0);
const room = signal(260);

// Only the lines in view are in the document: a program may have thousands.
export function TraceView() {
  const frame = useRef<HTMLDivElement>(null);
  const n = scene.nodes.length;
  const first = Math.max(0, Math.floor(top.value / ROW) - MARGIN);
  const last = Math.min(n, first + 2 * MARGIN + Math.ceil(room.value / ROW));
  const { box } = moment.value;
  const looked = box === null ? selected.value : (seen.value.boxes.find((b) => b.id === box)?.first ?? null);
  useEffect(() => {
    const resized = new ResizeObserver(([e]) => { room.value = e!.contentRect.height; });
    resized.observe(frame.current!);
    return () => resized.disconnect();
  }, []);
  useEffect(() => {
    if (looked === null) return;
    const { scrollTop, clientHeight } = frame.current!;
    const at = (looked + 1) * ROW;
    if (at < scrollTop + ROW || at + ROW > scrollTop + clientHeight) frame.current!.scrollTop = at - clientHeight / 2;
  }, [looked]);
  return (
    <div class="trace" ref={frame} tabIndex={0} role="group" aria-label="Trace" onScroll={() => { top.value = frame.current!.scrollTop; }}>
      <table style={{ height: `${(n + 1) * ROW}px` }}>
        <thead><tr><th>v</th><th>ahead</th><th>value</th><th>v̄</th><th>back</th><th>gradient</th></tr></thead>
        <tbody>
          {first > 0 && <tr style={{ height: `${first * ROW}px` }} />}
          {scene.nodes.slice(first, last).map((node, k) => {
            const id = first + k;
            const now = numbers.value[id]!;
            const shown = isLit(seen.value.boxOf[id]!, moment.value);
            return (
              <tr key={id} data-node={id} class={`${shown.state} ${selected.value === id ? "selected" : ""}`} onClick={() => select(id)}>
                <td><button type="button" aria-pressed={selected.value === id} onClick={() => select(id)}>{node.name}</button></td>
                <td>{node.text ?? "given"}</td>
                <td class="value">{shown.value ? told(now.value) : ""}</td>
                <td><Tex of={node.bar} /></td>
                <td>{node.adjoint ? <Tex of={backwards(id)} /> : ""}</td>
                <td class="adjoint">{shown.adjoint && now.adjoint ? told(now.adjoint) : ""}</td>
              </tr>
            );
          })}
          {last < n && <tr style={{ height: `${(n - last) * ROW}px` }} />}
        </tbody>
      </table>
    </div>
  );
}

// The latest readers first: back substitution meets them in that order.
function backwards(id: number): string {
  const seed = isOutput.has(id) ? ["\\text{seed}"] : [];
  const terms = readers[id]!.slice(-3).reverse().map((k) => scene.edges[k]!.step);
  const more = readers[id]!.length > 3 ? ["\\dots"] : [];
  return [...seed, ...terms, ...more].join(" + ") || "0";
}
