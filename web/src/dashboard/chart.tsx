// A chart of curves, with the numbers at the cursor in its legend and all of them in a table behind it.

import { signal } from "@preact/signals";
import { useEffect, useId, useState } from "preact/hooks";
import { axis, isLog, smoothing, type Point, type Series } from "./runs";
import { linear, logarithmic, nearest, shortly, smoothed, type Scale } from "./scale";

export const cursor = signal<number | null>(null); // a place on the axis, the same in all charts

interface Properties {
  title: string;
  series: Series[];
  log?: boolean; // whatever the page says
  unit?: string;
}

const HEIGHT = 250;
const UNITS = { step: "steps", epoch: "epochs", time: "seconds" };
const EDGE = { left: 58, right: 12, top: 10, bottom: 26 };

export function Chart({ title, series, log, unit }: Properties) {
  const [width, frame] = useWidth();
  const clip = useId();
  const [isFocused, focus] = useState(false);
  const isLogarithmic = log ?? isLog.value;
  const drawn = series.map((s) => ({ ...s, line: s.noisy && smoothing.value > 0 ? smoothed(s.points, smoothing.value) : s.points }));
  const xs = drawn.flatMap((s) => s.points.map((p) => p.x));
  const isShown = (y: number) => Number.isFinite(y) && (!isLogarithmic || y > 0);
  const ys = drawn.flatMap((s) => s.line.map((p) => p.y)).filter(isShown);
  if (!xs.length) return null;
  const x = linear(least(xs), most(xs), EDGE.left, width - EDGE.right, width / 80);
  const y = axisOf(ys, isLogarithmic);
  const at = cursor.value;
  const places = drawn.map((s) => (at === null ? s.points.length - 1 : isWithin(s.points, at) ? nearest(s.points, at) : null));
  const values = drawn.map((s, k) => (places[k] === null ? null : s.points[places[k]!]!)); // as logged, not smoothed
  const lost = drawn.flatMap((s) => s.points.filter((p) => !Number.isFinite(p.y)));

  const move = (to: number) => {
    const own = [...new Set(xs)].sort((a, b) => a - b);
    const now = cursor.value; // of all keys so far, drawn or not
    const k = now === null ? own.length : own.findIndex((v) => v >= now - 1e-9);
    cursor.value = own[Math.min(Math.max((k < 0 ? own.length : k) + to, 0), own.length - 1)]!;
  };
  const key = (e: KeyboardEvent) => {
    if (e.key === "ArrowLeft") move(-1);
    else if (e.key === "ArrowRight") move(1);
    else if (e.key === "Home") cursor.value = least(xs);
    else if (e.key === "End") cursor.value = most(xs);
    else if (e.key === "Escape") cursor.value = null;
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const point = (e: PointerEvent & { currentTarget: SVGSVGElement }) => {
    const share = (e.clientX - e.currentTarget.getBoundingClientRect().left - EDGE.left) / (width - EDGE.left - EDGE.right);
    const longest = drawn.reduce((a, b) => (a.points.length >= b.points.length ? a : b)).points;
    cursor.value = longest[nearest(longest, least(xs) + share * (most(xs) - least(xs)))]!.x;
  };
  const told = drawn.flatMap((s, k) => (values[k] ? [`${s.label} ${shortly(values[k].y)}`] : [])).join(", ");

  return (
    <figure class="chart">
      <figcaption>{title}{unit && <small> {unit}</small>}</figcaption>
      <div ref={frame}>
        <svg width={width} height={HEIGHT} role="img" tabIndex={0} aria-label={`${title}, ${at === null ? "latest" : `at ${axis.value} ${shortly(at)}`}: ${told}`}
          onKeyDown={key} onPointerMove={point} onPointerDown={point} onFocus={() => focus(true)} onBlur={() => focus(false)}
          onPointerLeave={() => { cursor.value = null; }}>
          <clipPath id={clip}><rect x={EDGE.left} y={EDGE.top} width={Math.max(width - EDGE.left - EDGE.right, 0)} height={HEIGHT - EDGE.top - EDGE.bottom} /></clipPath>
          {y.ticks.map((v) => (
            <g class="tick" key={v}>
              <line x1={EDGE.left} x2={width - EDGE.right} y1={y(v)} y2={y(v)} />
              <text x={EDGE.left - 6} y={y(v) + 4} text-anchor="end">{shortly(v)}</text>
            </g>
          ))}
          <text x={EDGE.left - 8} y={HEIGHT - 8} text-anchor="end">{UNITS[axis.value]}</text>
          {x.ticks.map((v) => <text class="place" key={v} x={x(v)} y={HEIGHT - 8} text-anchor="middle">{shortly(v)}</text>)}
          <g clip-path={`url(#${clip})`}>
            {drawn.map((s) => s.line !== s.points && <path key={`raw ${s.label}`} class="raw" d={path(s.points, x, y, isShown)} stroke={s.color} />)}
            {drawn.map((s) => (
              <path key={s.label} class="curve" data-label={s.label} data-points={s.points.length} d={path(s.line, x, y, isShown)} stroke={s.color} stroke-dasharray={s.dashed ? "6 4" : undefined} />
            ))}
            {drawn.map((s) => s.line.length === 1 && isShown(s.line[0]!.y) && <circle key={s.label} cx={x(s.line[0]!.x)} cy={y(s.line[0]!.y)} r="3" fill={s.color} />)}
          </g>
          {lost.map((p) => <text key={`${p.x}`} class="lost" x={x(p.x)} y={EDGE.top + 10} text-anchor="middle">✕<title>{`${p.y} at step ${p.step}`}</title></text>)}
          {at !== null && <line class="cursor" x1={x(at)} x2={x(at)} y1={EDGE.top} y2={HEIGHT - EDGE.bottom} />}
          {at !== null && drawn.map((s, k) => {
            const p = places[k] === null ? null : s.line[places[k]!]!;
            return p && isShown(p.y) && <circle key={s.label} cx={x(p.x)} cy={y(p.y)} r="3.5" fill={s.color} />;
          })}
        </svg>
      </div>
      <ul class="legend" aria-live={isFocused ? "polite" : "off"}>
        {drawn.map((s, k) => (
          <li key={s.label}><i style={{ backgroundColor: s.color }} class={s.dashed ? "dashed" : ""} />{s.label} <b>{values[k] ? shortly(values[k].y) : "–"}</b></li>
        ))}
        <li class="where">{at === null ? "latest" : `${axis.value} ${shortly(at)}`}</li>
      </ul>
      <Table title={title} series={series} />
    </figure>
  );
}

function axisOf(ys: number[], isLogarithmic: boolean): Scale {
  const [from, to] = [HEIGHT - EDGE.bottom, EDGE.top];
  if (!ys.length) return linear(0, 1, from, to);
  const [low, high] = [least(ys), most(ys)];
  if (isLogarithmic) return logarithmic(low, high, from, to);
  const margin = (high - low) * 0.04;
  return linear(low - margin, high + margin, from, to);
}

// A line through the points; it is broken where there is no number.
function path(points: Point[], x: Scale, y: Scale, isShown: (y: number) => boolean): string {
  let isDown = false;
  let text = "";
  for (const p of points) {
    if (isShown(p.y)) text += `${isDown ? "L" : "M"}${x(p.x).toFixed(1)} ${y(p.y).toFixed(1)}`;
    isDown = isShown(p.y);
  }
  return text;
}

function Table({ title, series }: { title: string; series: Series[] }) {
  const [isOpen, open] = useState(false);
  return (
    <details onToggle={(e) => open(e.currentTarget.open)}>
      <summary>table<span class="unseen"> of {title}</span></summary>
      {isOpen && <div class="scroll" tabIndex={0}><Rows series={series} title={title} /></div>}
    </details>
  );
}

function Rows({ series, title }: { series: Series[]; title: string }) {
  const steps = [...new Set(series.flatMap((s) => s.points.map((p) => p.step)))].sort((a, b) => a - b);
  const columns = series.map((s) => new Map(s.points.map((p) => [p.step, p.y])));
  const text = (y: number | undefined) => (y === undefined ? "" : shortly(y));
  return (
    <table>
      <caption>{title}, as logged</caption>
      <thead><tr><th scope="col">step</th>{series.map((s) => <th scope="col" key={s.label}>{s.label}</th>)}</tr></thead>
      <tbody>
        {steps.map((step) => <tr key={step}><th scope="row">{step}</th>{columns.map((c, k) => <td key={k}>{text(c.get(step))}</td>)}</tr>)}
      </tbody>
    </table>
  );
}

const isWithin = (points: Point[], x: number): boolean => points[0]!.x <= x + 1e-9 && x - 1e-9 <= points.at(-1)!.x;

// The width that there is, and what is told the element to measure it by, which may come later.
export function useWidth(): [number, (element: HTMLDivElement | null) => void] {
  const [element, measure] = useState<HTMLDivElement | null>(null);
  const [width, set] = useState(420);
  useEffect(() => {
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => set(Math.floor(entry!.contentRect.width)));
    observer.observe(element);
    return () => observer.disconnect();
  }, [element]);
  return [width, measure];
}

export const least = (values: number[]): number => values.reduce((a, b) => Math.min(a, b), Infinity);
export const most = (values: number[]): number => values.reduce((a, b) => Math.max(a, b), -Infinity);
