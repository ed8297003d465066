// A formula, set by KaTeX; readers of the page hear its MathML.

import katex from "katex";

const made = new Map<string, string>();

export function Tex({ of, block = false }: { of: string; block?: boolean }) {
  const key = `${block}${of}`;
  let html = made.get(key);
  if (html === undefined) {
    html = katex.renderToString(of, { displayMode: block, throwOnError: false, strict: "ignore" });
    made.set(key, html);
  }
  return <span class="tex" dangerouslySetInnerHTML={{ __html: html }} />;
}
