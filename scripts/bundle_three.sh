#!/bin/sh
# Make src/ordrank/web/static/three.module.min.js again: the part of three.js that draws points, and nothing else.
# Needs node, npm and a package index.
#
#   scripts/bundle_three.sh
#
# The page brings its own shaders (RawShaderMaterial), so the shaders of three.js, its shadows, its environment maps and
# its headsets are left out: the renderer only ever asks them whether they are wanted.
set -eu

three=0.187.0
esbuild=0.28.2
static=$(cd "$(dirname "$0")/.." && pwd)/src/ordrank/web/static
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

npm install --silent --no-audit --no-fund --no-save "three@$three" "esbuild@$esbuild"

cat >points.js <<'JS'
export { BufferAttribute } from "./node_modules/three/src/core/BufferAttribute.js";
export { BufferGeometry } from "./node_modules/three/src/core/BufferGeometry.js";
export { PerspectiveCamera } from "./node_modules/three/src/cameras/PerspectiveCamera.js";
export { Line } from "./node_modules/three/src/objects/Line.js";
export { Points } from "./node_modules/three/src/objects/Points.js";
export { RawShaderMaterial } from "./node_modules/three/src/materials/RawShaderMaterial.js";
export { Scene } from "./node_modules/three/src/scenes/Scene.js";
export { WebGLRenderer } from "./node_modules/three/src/renderers/WebGLRenderer.js";
JS

cat >bundle.mjs <<'JS'
import { build } from "esbuild";

const [version, outfile] = process.argv.slice(2);
const nothing = "() { return null; }";
const without = {
  "ShaderChunk.js": "export const ShaderChunk = {};",
  "ShaderLib.js": "export const ShaderLib = {};",
  "PMREMGenerator.js": "export class PMREMGenerator { dispose() {} }",
  "WebGLShadowMap.js": `export class WebGLShadowMap { enabled = false; render${nothing} }`,
  "WebXRManager.js": `export class WebXRManager {
    enabled = false; isPresenting = false;
    getEnvironmentBlendMode${nothing} addEventListener${nothing} removeEventListener${nothing} setAnimationLoop${nothing} dispose${nothing}
  }`,
};
const leaveOut = {
  name: "leave-out",
  setup({ onLoad }) {
    const filter = new RegExp(`/(${Object.keys(without).join("|").replaceAll(".", "\\.")})$`);
    onLoad({ filter }, ({ path }) => ({ contents: without[path.split("/").at(-1)], loader: "js" }));
  },
};
await build({
  entryPoints: ["points.js"], outfile, bundle: true, format: "esm", minify: true, target: "es2022",
  legalComments: "none", plugins: [leaveOut],
  banner: { js: `/* A part of three.js ${version}, MIT license: see three.LICENSE.txt; made by scripts/bundle_three.sh */` },
});
JS

node bundle.mjs "$three" "$static/three.module.min.js"
cp node_modules/three/LICENSE "$static/three.LICENSE.txt"
wc -c "$static/three.module.min.js"
