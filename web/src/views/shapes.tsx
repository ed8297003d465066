// The outlines by which gates are told apart: what a row does to a gradient that comes back.

import type { Gate } from "../scene";

export type Kind = Gate | "parameter" | "group";

export const BRIEFLY: Record<Gate, string> = {
  add: "add distributes", multiply: "multiply swaps", max: "max routes", move: "moves entries", function: "times the slope",
  other: "a rule of its own",
};

export function Shape({ kind, width: w, height: h }: { kind: Kind; width: number; height: number }) {
  if (kind === "add") return <ellipse class="shape" rx={w / 2} ry={h / 2} />;
  const x = w / 2;
  const y = h / 2;
  const corners: Partial<Record<Kind, string>> = {
    multiply: `M0 ${-y - 3}L${x + 3} 0L0 ${y + 3}L${-x - 3} 0Z`, // two swap across it
    max: `M${-x} ${-y}H${x - 9}L${x} 0L${x - 9} ${y}H${-x}L${-x + 6} 0Z`, // a switch that points on
    move: `M${-x + 7} ${-y}H${x}L${x - 7} ${y}H${-x}Z`,
    other: `M${-x + 8} ${-y}H${x - 8}L${x} ${-y + 8}V${y - 8}L${x - 8} ${y}H${-x + 8}L${-x} ${y - 8}V${-y + 8}Z`,
  };
  const path = corners[kind];
  if (path) return <path class="shape" d={path} />;
  const round = kind === "function" ? 7 : kind === "parameter" ? y : 3;
  return <rect class="shape" x={-x} y={-y} width={w} height={h} rx={round} />;
}

export function GateLegend({ kinds, says, hasCopies, marks }: { kinds: Gate[]; says: Record<Gate, string>; hasCopies: boolean; marks: string[] }) {
  return (
    <ul class="legend" aria-label="Gates">
      {kinds.map((kind) => (
        <li key={kind} title={says[kind]}>
          <svg viewBox="-14 -10 28 20" aria-hidden="true"><g class={kind}><Shape kind={kind} width={kind === "add" ? 15 : kind === "multiply" ? 14 : 24} height={kind === "multiply" ? 12 : 15} /></g></svg>
          {BRIEFLY[kind]}
        </li>
      ))}
      {hasCopies && <li title="what comes back from the rows that read it is added"><svg viewBox="-14 -10 28 20" aria-hidden="true"><circle class="copy" r="4" /></svg>copy adds</li>}
      {marks.map((mark) => (
        <li key={mark}><svg viewBox="-14 -10 28 20" aria-hidden="true"><rect class={mark} x="-11" y="-7" width="22" height="14" rx="5" /></svg>{mark === "bad" ? "something is wrong" : "worth a look"}: see Findings</li>
      ))}
    </ul>
  );
}
