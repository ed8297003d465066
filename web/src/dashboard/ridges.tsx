// Histograms over time, one behind the other: the oldest at the top, the latest in front.

import { useState } from "preact/hooks";
import { toNumber } from "../scene";
import { least, most, useWidth } from "./chart";
import type { Histogram, Spread } from "./runs";
import { linear, shortly } from "./scale";

const HEIGHT = 190;
const EDGE = { left: 10, right: 44, top: 44, bottom: 24 };

export function Ridges({ spread }: { spread: Spread }) {
  const [width, frame] = useWidth();
  const latest = spread.at.at(-1)!;
  const drawn = spread.at.filter(({ histogram }) => histogram.counts);
  const low = least(drawn.map(({ histogram }) => toNumber(histogram.low!)));
  const high = most(drawn.map(({ histogram }) => toNumber(histogram.high!)));
  const x = linear(low, high, EDGE.left, width - EDGE.right, 4);
  const floor = HEIGHT - EDGE.bottom;
  const between = drawn.length > 1 ? (floor - EDGE.top - 20) / (drawn.length - 1) : 0;
  return (
    <figure class="chart ridges">
      <figcaption>{spread.name} <small>{told(latest.histogram)}</small></figcaption>
      <div ref={frame}>
        {drawn.length > 0 && (
          <svg width={width} height={HEIGHT} role="img" aria-label={`${spread.name}, ${drawn.length} histograms; the latest: ${told(latest.histogram)}`}>
            {drawn.map(({ step, epoch, histogram }, k) => {
              const base = floor - (drawn.length - 1 - k) * between;
              const strength = drawn.length > 1 ? k / (drawn.length - 1) : 1;
              const isNamed = k === 0 || k === drawn.length - 1;
              return (
                <g key={step}>
                  <path class="ridge" d={outline(histogram, x, base, high - low)} style={{ "--strength": `${Math.round(12 + 55 * strength)}%` }}>
                    <title>{`epoch ${epoch}, step ${step}: ${told(histogram)}`}</title>
                  </path>
                  {isNamed && <text x={width - EDGE.right + 5} y={base + 3}>{epoch}</text>}
                </g>
              );
            })}
            {x.ticks.map((v) => <text class="place" key={v} x={x(v)} y={HEIGHT - 7} text-anchor="middle">{shortly(v)}</text>)}
          </svg>
        )}
      </div>
      <Table spread={spread} />
    </figure>
  );
}

// Each as tall as its fullest bin, heights as roots of counts: so few entries far out are seen beside many.
function outline(histogram: Histogram, x: (v: number) => number, base: number, range: number): string {
  const counts = histogram.counts!;
  const [low, high] = [toNumber(histogram.low!), toNumber(histogram.high!)];
  const bin = (high - low) / counts.length || range / 40 || 1;
  const begin = high > low ? low : low - bin / 2;
  const tall = (EDGE.top + 2) / Math.sqrt(most(counts));
  const tops = counts.map((c, k) => {
    const y = (base - tall * Math.sqrt(c)).toFixed(1);
    return `L${x(begin + k * bin).toFixed(1)} ${y}L${x(begin + (k + 1) * bin).toFixed(1)} ${y}`;
  });
  return `M${x(begin).toFixed(1)} ${base.toFixed(1)}${tops.join("")}L${x(begin + counts.length * bin).toFixed(1)} ${base.toFixed(1)}`;
}

function told(h: Histogram): string {
  const parts = h.mean === undefined ? [] : [`${shortly(toNumber(h.mean))} ± ${shortly(toNumber(h.std!))}`];
  if (h.zeros) parts.push(`${shortly((100 * h.zeros) / h.size)} % zero`);
  if (h.bad) parts.push(`${h.bad.toLocaleString("en")} not finite`);
  return parts.join(", ");
}

function Table({ spread }: { spread: Spread }) {
  const [isOpen, open] = useState(false);
  const text = (v: Histogram["low"]) => (v === undefined ? "" : shortly(toNumber(v)));
  return (
    <details onToggle={(e) => open(e.currentTarget.open)}>
      <summary>table<span class="unseen"> of {spread.name}</span></summary>
      {isOpen && (
        <div class="scroll" tabIndex={0}>
          <table>
            <caption>{spread.name}, {spread.at.at(-1)!.histogram.size.toLocaleString("en")} entries</caption>
            <thead><tr>{["epoch", "step", "least", "most", "mean", "deviation", "zero", "not finite"].map((h) => <th scope="col" key={h}>{h}</th>)}</tr></thead>
            <tbody>
              {spread.at.map(({ step, epoch, histogram: h }) => (
                <tr key={step}><th scope="row">{epoch}</th><td>{step}</td><td>{text(h.low)}</td><td>{text(h.high)}</td><td>{text(h.mean)}</td><td>{text(h.std)}</td><td>{h.zeros ?? ""}</td><td>{h.bad}</td></tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
