#!/usr/bin/env bash
# Draws docs/pictures/*.svg from the texts next to them, with svgbob. They follow the reader's choice of light or dark.
set -euo pipefail
cd "$(dirname "$0")/.."
draw=target/tools/bin/svgbob_cli
[ -x "$draw" ] || cargo install --locked --root target/tools --version 0.7.6 svgbob_cli

read -r -d '' dark <<'END' || true
@media (prefers-color-scheme: dark) {
  .svgbob line, .svgbob path, .svgbob circle, .svgbob rect, .svgbob polygon { stroke: #d8dee9; }
  .svgbob text, .svgbob .filled { fill: #d8dee9; }
  .svgbob rect.backdrop { stroke: none; fill: #0d1117; }
  .svgbob .nofill, .svgbob .bg_filled { fill: #0d1117; }
  .svgbob marker polygon { fill: #d8dee9; }
}
END
for text in docs/pictures/*.bob; do
    "$draw" "$text" | awk -v dark="$dark" '/<\/style>/ { print dark } { print }' > "${text%.bob}.svg"
done
