// Builds the page's code and style into the Python package, with the list of primitives that it can compute and
// the licences of the libraries inside. Nothing is fetched when a page is opened: fonts are part of the style.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../src/backsolve/show/static");
const FONTS = /KaTeX_(Main-Regular|Main-Bold|Math-Italic|AMS-Regular|SansSerif-Regular|Typewriter-Regular|Size\d-Regular)\.woff2$/;

const onlyNeededFonts = {
  name: "only-needed-fonts",
  setup(b) {
    b.onLoad({ filter: /\.(woff2?|ttf)$/ }, ({ path }) =>
      FONTS.test(path)
        ? { contents: readFileSync(path), loader: "dataurl" }
        : { contents: "", loader: "empty" },
    );
  },
};

const shared = {
  bundle: true,
  minify: true,
  target: "es2022",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
  absWorkingDir: here,
};
await build({
  ...shared,
  entryPoints: { explorer: "src/main.tsx", dashboard: "src/dashboard.tsx" },
  outdir: out,
  format: "iife",
  plugins: [onlyNeededFonts],
});

const listed = join(here, "node_modules/.primitives.mjs");
await build({ ...shared, entryPoints: ["src/run/primitives.ts"], outfile: listed, format: "esm" });
const { PRIMITIVES } = await import(listed);
rmSync(listed);
writeFileSync(join(out, "primitives.json"), JSON.stringify(Object.keys(PRIMITIVES).sort()) + "\n");

const libraries = ["preact", "@preact/signals", "@preact/signals-core", "@dagrejs/dagre", "d3-zoom", "d3-selection", "katex"];
const licences = libraries.map((name) => {
  const folder = join(here, "node_modules", name);
  const file = readdirSync(folder).find((f) => /^licen[cs]e/i.test(f));
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return `${name} ${version}\n\n${file ? readFileSync(join(folder, file), "utf8").trim() : "see its package"}\n`;
});
writeFileSync(join(out, "LICENSES.txt"), licences.join(`\n${"-".repeat(72)}\n\n`));
writeFileSync(join(out, "sources.sha256"), sources() + "\n");

// A test compares this with the sources, so that the page in the package is the one they make.
function sources() {
  const hash = createHash("sha256");
  for (const file of ["build.mjs", "package.json", "package-lock.json", "tsconfig.json", ...walk("src")]) {
    hash.update(file + "\0").update(readFileSync(join(here, file))).update("\0");
  }
  return hash.digest("hex");
}

function walk(folder) {
  return readdirSync(join(here, folder), { withFileTypes: true })
    .flatMap((e) => (e.isDirectory() ? walk(`${folder}/${e.name}`) : [`${folder}/${e.name}`]))
    .sort();
}
