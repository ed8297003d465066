// Panning and zooming of the graph, by hand and by the page itself.

import { select as pick } from "d3-selection";
import { zoom, zoomIdentity, zoomTransform, type ZoomBehavior } from "d3-zoom";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Layout, Place } from "../layout";

const READABLE = 0.58; // smaller, letters are hard to read
const LEAST = 0.5; // and lost; so far, all at once is worth more
const MARGIN = 30;

// What keys do: of the one graph on the page.
export const tools = { by: (_: number) => {}, fit: (_whole?: boolean) => {} };

function around(places: Place[]): Place {
  const ends = (middle: "x" | "y", extent: "width" | "height") =>
    [Math.min(...places.map((p) => p[middle] - p[extent] / 2)), Math.max(...places.map((p) => p[middle] + p[extent] / 2))] as const;
  const [left, right] = ends("x", "width");
  const [top, bottom] = ends("y", "height");
  return { x: (left + right) / 2, y: (top + bottom) / 2, width: right - left, height: bottom - top };
}

export function usePan(size: () => Layout) {
  const svg = useRef<SVGSVGElement>(null);
  const inner = useRef<SVGGElement>(null);
  const pan = useMemo(() => {
    const behaviour: ZoomBehavior<SVGSVGElement, unknown> = zoom<SVGSVGElement, unknown>()
      .scaleExtent([0.05, 4])
      .on("zoom", (event) => inner.current!.setAttribute("transform", String(event.transform)));
    const view = () => svg.current!.getBoundingClientRect();
    const move = (x: number, y: number, k: number) =>
      pick(svg.current!).call(behaviour.transform, zoomIdentity.translate(x, y).scale(k));
    return {
      behaviour,
      by: (factor: number) => pick(svg.current!).call(behaviour.scaleBy, factor),
      // All of it, or, if letters would become too small, its beginning; the whole on demand.
      fit(whole = false) {
        const { width, height, boxes } = size();
        const seen = view();
        if (!seen.width) return;
        const scale = Math.min(1.4, seen.width / width, seen.height / height);
        const k = whole || scale >= LEAST ? scale : Math.max(READABLE, Math.min(1, seen.height / height));
        const x = width * k > seen.width ? 0 : (seen.width - width * k) / 2;
        const start = [...boxes.values()].reduce((a, b) => (b.x < a.x ? b : a));
        const low = seen.height - height * k; // negative: too tall, and its beginning is in the middle
        move(x, low >= 0 ? low / 2 : Math.max(low, Math.min(0, seen.height / 2 - start.y * k)), k);
      },
      // The least way that shows a place, and others with it if there is room.
      show(first: Place, ...others: Place[]) {
        const t = zoomTransform(svg.current!);
        const seen = view();
        const all = around([first, ...others]);
        const hasRoom = all.width * t.k + 2 * MARGIN <= seen.width && all.height * t.k + 2 * MARGIN <= seen.height;
        const { x, y, width, height } = hasRoom ? all : first;
        const shift = (middle: number, extent: number, offset: number, room: number) => {
          const low = (middle - extent / 2) * t.k + offset - MARGIN;
          const high = (middle + extent / 2) * t.k + offset + MARGIN;
          if (high - low > room || low < 0) return -low;
          return high > room ? room - high : 0;
        };
        const dx = shift(x, width, t.x, seen.width);
        const dy = shift(y, height, t.y, seen.height);
        if (dx || dy) move(t.x + dx, t.y + dy, t.k);
      },
      // What stood at `before` stands at `after` now, and stays where it was.
      keep(before: Place, after: Place) {
        const t = zoomTransform(svg.current!);
        const left = before.x - before.width / 2 - (after.x - after.width / 2);
        move(t.x + left * t.k, t.y + (before.y - after.y) * t.k, t.k);
      },
    };
  }, []);
  useLayoutEffect(() => {
    pick(svg.current!).call(pan.behaviour).on("dblclick.zoom", null);
    Object.assign(tools, { by: pan.by, fit: pan.fit });
  }, []);
  return { svg, inner, pan };
}
